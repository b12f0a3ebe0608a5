"""In which order things reach the disk: content before its name, a record before the checkpoint that counts it."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from edge_lightning.collective import ALONE
from edge_lightning.training import checkpoint_files
from edge_lightning.training.record_callback import RecordCallback
from edge_lightning.whole import whole


@pytest.fixture
def order(monkeypatch):
    """What is brought to disk and what is renamed, as it happens; names without their folder."""
    seen = []
    fsync, replace = os.fsync, os.replace

    def brought(handle):
        seen.append(("disk", Path(os.readlink(f"/proc/self/fd/{handle}")).name))
        fsync(handle)

    def renamed(source, target):
        seen.append(("name", Path(target).name))
        replace(source, target)

    monkeypatch.setattr(os, "fsync", brought)
    monkeypatch.setattr(os, "replace", renamed)
    return seen


def test_a_file_gets_its_name_when_its_content_is_on_disk(tmp_path, order):
    with whole(tmp_path / "a") as part:
        part.write_text("new")
        assert order == []
    assert order == [("disk", "a.part"), ("name", "a"), ("disk", tmp_path.name)]


def test_the_last_checkpoint_gives_way_to_one_that_is_on_disk(tmp_path, order):
    path = tmp_path / "last.ckpt"
    path.write_text("old")
    checkpoint_files.write(path, lambda part: part.write_text("new"), keep_previous=True)
    assert order[0] == ("disk", "last.ckpt.part")
    assert [name for what, name in order if what == "name"] == ["previous.ckpt", "last.ckpt"]
    assert order[-1] == ("disk", tmp_path.name)


def test_the_figures_of_a_step_are_on_disk_before_a_checkpoint_counts_it(tmp_path, order):
    record = RecordCallback(folder=tmp_path)
    trainer = SimpleNamespace(is_global_zero=True, loggers=[])
    module = SimpleNamespace(ranks=ALONE)
    record.on_save_checkpoint(trainer, module, {})  # before the first step there is none
    record.metrics_file.append(0, {"loss": 1.0})
    order.clear()
    record.metrics_file.append(1, {"loss": 2.0})
    assert order == []  # a step by itself does not wait
    record.on_save_checkpoint(trainer, module, {})
    assert order == [("disk", "metrics.csv")]
