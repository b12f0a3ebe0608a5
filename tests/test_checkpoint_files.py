"""Checkpoint files: the one before stays until the next is whole, and what is damaged or foreign is refused by name."""

import os
import pickle
import resource
import signal

import pytest
import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict_loader import _load_state_dict_from_keys

from edge_lightning.cli.process import prepare
from edge_lightning.cli.resume import last_checkpoint
from edge_lightning.errors import UserError
from edge_lightning.training.checkpoint_files import (
    IN_SHARDS,
    PARTS,
    STAMP,
    dump,
    free_folder,
    read,
    stamp,
    unused_folders,
    weights,
    write,
)
from edge_lightning.training.plain import refuse_code


class Exploit:
    """Unpickling it makes a folder."""

    def __init__(self, folder):
        self.folder = str(folder)

    def __reduce__(self):
        return os.mkdir, (self.folder,)


@pytest.fixture
def run(tmp_path):
    """The folder of a run, without checkpoints."""
    (tmp_path / "config.yaml").write_text("seed: 0\n")
    (tmp_path / "checkpoints").mkdir()
    return tmp_path


def content(run, step=1, **changed):
    return {
        **{part: {} for part in PARTS},
        "global_step": step,
        "state_dict": {"a": torch.ones(3)},
        STAMP: stamp(run),
    } | changed


def saved(run, step=1, name="last.ckpt", **changed):
    path = run / "checkpoints" / name
    torch.save(content(run, step, **changed), path)
    return path


def test_the_one_before_is_there_until_the_next_is_whole_and_stays_if_wanted(run):
    path = run / "checkpoints" / "last.ckpt"
    seen = []

    def save(step):
        def to(part):
            seen.append([p.name for p in sorted(path.parent.iterdir())])
            torch.save(content(run, step), part)

        return to

    write(path, save(1), keep_previous=True)
    write(path, save(2), keep_previous=True)
    assert seen == [[], ["last.ckpt"]]
    assert [read(path.with_name(f"{n}.ckpt"), run)["global_step"] for n in ("previous", "last")] == [1, 2]
    write(path, save(3))
    assert [read(path.with_name(f"{n}.ckpt"), run)["global_step"] for n in ("previous", "last")] == [1, 3]


def test_a_failed_write_leaves_both_as_they_were_and_no_part(run):
    saved(run, 1, "previous.ckpt")
    path = saved(run, 2)

    def full(part):
        part.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        write(path, full, keep_previous=True)
    assert sorted(p.name for p in path.parent.iterdir()) == ["last.ckpt", "previous.ckpt"]
    assert read(path, run)["global_step"] == 2


@pytest.mark.parametrize("room", [100, 2000, 9000])
def test_a_file_that_finds_no_room_is_an_error_of_the_system(run, room):
    content = {"a": torch.ones(300), "b": torch.ones(2000)}
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    deaf = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
        with pytest.raises(OSError, match="File too large"):
            dump(content, run / "a")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, deaf)


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("keep", [0, 10, 500, -1])
def test_a_truncated_one_is_refused_by_name_and_the_one_before_offered(run, keep, before):
    if before:
        saved(run, 1, "previous.ckpt")
    path = saved(run, 2)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(UserError) as refused:
        read(path, run)
    offered = "remove it, and the run goes on from previous.ckpt beside it"
    assert str(refused.value).startswith(f"{path}: a checkpoint of this program expected, ")
    assert str(refused.value).endswith(offered if before else "put a whole one back, or start a new run")
    path.unlink()
    assert last_checkpoint(run).name == ("previous.ckpt" if before else "last.ckpt")


def test_no_code_of_a_checkpoint_is_run(run, tmp_path, monkeypatch):
    monkeypatch.delenv("TORCH_FORCE_WEIGHTS_ONLY_LOAD", raising=False)  # which a command sets for its process
    path = saved(run, callbacks={"record": Exploit(tmp_path / "made by the checkpoint")})
    with pytest.raises(UserError, match="values that only running its code would make came"):
        read(path, run)
    path.write_bytes(pickle.dumps(Exploit(tmp_path / "made by the checkpoint")))
    with pytest.raises(UserError, match="a checkpoint of this program expected"):
        read(path, run)
    assert not (tmp_path / "made by the checkpoint").exists()
    torch.load(saved(run, callbacks=Exploit(tmp_path / "made by the checkpoint")), weights_only=False)
    assert (tmp_path / "made by the checkpoint").exists()  # so the file was able to


def shards(run, **values):
    """A checkpoint in shards, as Lightning writes one, and a link to it."""
    folder = run / "checkpoints" / "last_shards_0"
    dcp.save({"state_dict": {"policy.a": torch.ones(3), **values}}, checkpoint_id=folder, no_dist=True)
    torch.save({k: v for k, v in content(run).items() if k not in IN_SHARDS}, folder / "meta.pt")
    path = run / "checkpoints" / "last.ckpt"
    path.symlink_to(folder.name)
    return path


def test_one_in_shards_is_read_without_running_code(run, tmp_path, monkeypatch):
    """In what says where the shards lie, in what stands beside them, and in a shard itself."""
    monkeypatch.setenv("TORCH_FORCE_WEIGHTS_ONLY_LOAD", "0")
    prepare(None)
    made = tmp_path / "made by the checkpoint"
    path = shards(run)
    assert read(path, run)["global_step"] == 1
    assert weights(path)["policy.a"].tolist() == [1.0, 1.0, 1.0]
    for name in (".metadata", "meta.pt"):
        plain = (path / name).read_bytes()
        (path / name).write_bytes(pickle.dumps(Exploit(made)))
        with pytest.raises(UserError, match="a checkpoint of this program expected"):
            weights(path)
        (path / name).write_bytes(plain)
    torch.save({"global_step": 1, "callbacks": Exploit(made)}, path / "meta.pt")
    with pytest.raises(UserError, match="values that only running its code would make came"):
        read(path, run)
    assert not made.exists()


@pytest.mark.parametrize(
    "name", ["torch load", "torch hub.load", "pathlib Path.home", "builtins eval", "torch.serialization load", "os system"]
)
def test_no_name_is_taken_but_those_of_values(tmp_path, name):
    module, attribute = name.split()
    words = b"".join(pickle.SHORT_BINUNICODE + bytes([len(word)]) + word.encode() for word in (module, attribute))
    path = tmp_path / ".metadata"
    path.write_bytes(pickle.PROTO + b"\x04" + words + pickle.STACK_GLOBAL + pickle.STOP)
    with pytest.raises(pickle.UnpicklingError, match=f"^{module}.{attribute}$"):
        refuse_code(path)


def test_a_shard_that_holds_code_is_refused(run, tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_FORCE_WEIGHTS_ONLY_LOAD", "0")
    made = tmp_path / "made by the checkpoint"
    path = shards(run, **{"policy.b": Exploit(made)})
    prepare(None)
    with pytest.raises(UserError, match="values that only running its code would make came"):
        weights(path)
    assert not made.exists()
    monkeypatch.setenv("TORCH_FORCE_WEIGHTS_ONLY_LOAD", "0")
    _load_state_dict_from_keys({"state_dict"}, checkpoint_id=path)
    assert made.exists()  # so the file was able to


@pytest.mark.parametrize("lost", [".metadata", "meta.pt", "__0_0.distcp"])
def test_one_in_shards_that_misses_a_part_is_refused_by_name(run, lost):
    path = shards(run)
    (path / lost).unlink()
    with pytest.raises(UserError, match=f"^{path}: a .*checkpoint.* expected, .*put a whole one back"):
        weights(path)


def test_the_next_one_in_shards_goes_where_neither_of_the_last_two_is(run):
    path = shards(run)
    assert free_folder(path).name == "last_shards_1"
    path.with_name("previous.ckpt").symlink_to("last_shards_1")
    assert free_folder(path).name == "last_shards_2"
    for number in (1, 2):
        path.with_name(f"last_shards_{number}").mkdir()
    assert [folder.name for folder in unused_folders(path)] == ["last_shards_2"]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({STAMP: {"run": "another"}}, "a checkpoint of the run in .* expected, one of another run came"),
        ({STAMP: None}, "one of another run came"),
    ],
)
def test_one_of_another_run_is_refused(run, changed, message):
    path = saved(run, **changed)
    with pytest.raises(UserError, match=message):
        read(path, run)
    assert read(path)["global_step"] == 1  # of any run


@pytest.mark.parametrize("found", [{"model": {}}, [1, 2], torch.ones(2)])
def test_one_of_another_program_is_refused(run, found):
    path = run / "checkpoints" / "last.ckpt"
    torch.save(found, path)
    with pytest.raises(UserError, match="one without .*state_dict.* came; put a whole one back, or start a new run"):
        read(path, run)


def test_weights_of_a_model_are_read_from_safetensors_alone(tmp_path, asset):
    import shutil

    from edge_lightning.policy import Policy

    folder = shutil.copytree(asset, tmp_path / "model")
    (folder / "model.safetensors").unlink()
    torch.save(Exploit(tmp_path / "made by the model"), folder / "pytorch_model.bin")
    with pytest.raises(UserError, match=f"model.path={folder}: a transformers folder or hub id expected"):
        Policy.load(folder)
    assert not (tmp_path / "made by the model").exists()


def test_code_that_comes_with_a_model_is_run_only_if_asked_for(tmp_path, asset):
    import json
    import shutil

    from edge_lightning.policy import Policy

    folder = shutil.copytree(asset, tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    auto = {"AutoConfig": "own.OwnConfig", "AutoModelForCausalLM": "own.OwnModel"}
    (folder / "config.json").write_text(json.dumps({**config, "model_type": "own", "auto_map": auto}))
    made = tmp_path / "made by the model"
    (folder / "own.py").write_text(f"import os\nos.mkdir({str(made)!r})\n")
    with pytest.raises(UserError, match=r"brings code of its own, which is not run unless asked for; .*trust_remote_code"):
        Policy.load(folder)
    assert not made.exists()
    with pytest.raises((UserError, AttributeError)):  # there is nothing else in that code
        Policy.load(folder, trust_remote_code=True)
    assert made.exists()
