"""A step in shards over two processes has the gradient, the norm, the shares and the figures of one."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from edge_lightning.policy import Policy
from tests.rank_step import ASSET, ROWS, a_step, step_of

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    command = [sys.executable, "-m", "tests.rank_step"]
    started = [
        subprocess.Popen([*command, str(rank), "2", str(folder)], stderr=subprocess.PIPE, text=True) for rank in range(2)
    ]
    for process in started:
        _, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
    return torch.load(folder / "found.pt", weights_only=True)


def test_shards_of_two_processes_are_the_policy(found):
    weights = dict(Policy.load(ASSET).merged_parameters())
    assert found["same"]
    assert found["merged"].keys() == weights.keys()
    assert all(torch.equal(found["merged"][name], weight) for name, weight in weights.items())


@pytest.mark.parametrize("number", range(len(ROWS)))
def test_a_step_over_two_processes_is_that_of_one(found, number):
    """Three responses each, of which the second process trains one: it makes passes over nothing beside it."""
    grads, figures = step_of(Policy.load(ASSET), a_step(), ROWS[number])
    assert found["agree"]
    other_grads, others = found["steps"][number]
    assert figures["gradient/norm"] > 0.1  # so that 0.01 clips it
    for name, gradient in grads.items():
        torch.testing.assert_close(other_grads[name], gradient, rtol=1e-4, atol=1e-8)
    assert any(name.startswith("gradient/share/") for name in figures)
    for name in figures.keys() | others.keys():
        if not name.startswith("seconds/"):
            assert others[name] == pytest.approx(figures[name], rel=1e-4, abs=1e-6), name


def test_an_update_that_must_not_be_made_is_made_on_no_process_and_its_problem_is_named_on_all(found):
    """The first response's gradient is no number in one row of the embeddings, which lies in the second process's shard."""
    first, second = found["unusable"]
    assert a_step().responses[0].completion_ids[1:]  # a token behind the spoiled one, which is predicted from it
    said, gone = "step 0, update 1: gradient norm nan, from problem 'first'; this update was not made", True
    assert (first["gradient"][0].split(";")[0] + ";" + first["gradient"][0].split(";")[1]) == said
    assert first["gradient"] == (second["gradient"][0], True, 0, gone)
    assert second["gradient"][1:] == (False, 0, gone)
    assert first["skipped"] == ("", True, 1, gone)
    assert second["skipped"] == ("", False, 1, gone)
    for ranks in (first, second):
        assert ranks["advantage"][0].startswith("step 0, update 1: advantage that is no finite number for problem 'first'; ")
        assert "at most module.largest_gradient_norm=0.001 expected" in ranks["norm"][0]
        assert ranks["none"] == ("", True, 0, False)
