"""What a run has left of its configuration, damaged: each command that reads it says so in one line."""

import pytest
import yaml

from edge_lightning.cli import hydra_app
from edge_lightning.cli.fit import fit

CONFIGURATIONS = ["", "7", "[]", "[1]", "a: b", "{no", '"x"']
OVERRIDES = ["7", "[1]", "a: b", "- [steps=1]", "{no", '"x"']


@pytest.fixture
def folder(tmp_path):
    """As far as it is read: a training that was killed behind a checkpoint."""
    for place in (".hydra", "checkpoints"):
        (tmp_path / "run" / place).mkdir(parents=True)
    folder = tmp_path / "run"
    (folder / ".hydra" / "overrides.yaml").write_text(yaml.safe_dump(["seed=1"]))
    (folder / "config.yaml").write_text(yaml.safe_dump({"command": "fit", "seed": 1}))
    (folder / "checkpoints" / "last.ckpt").touch()
    (folder / "metrics.csv").touch()
    return folder


def said(capfd, *line: str) -> str:
    """The one line of a command that is refused."""
    assert hydra_app.run("fit", list(line), fit) == 1
    err = capfd.readouterr().err
    assert err.count("\n") == 1 + err.count("resume=auto: ")
    return err


@pytest.mark.parametrize("content", CONFIGURATIONS)
def test_a_configuration_is_named_on_resume(folder, content, capfd):
    (folder / "config.yaml").write_text(content)
    assert said(capfd, f"resume={folder}").startswith(f"edge-lightning fit: {folder}/config.yaml: ")


@pytest.mark.parametrize("content", CONFIGURATIONS)
@pytest.mark.parametrize("more", [[], ["resume=auto"], ["resume=null"]], ids=" ".join)
def test_another_run_is_refused_beside_it(folder, content, more, capfd):
    (folder / "config.yaml").write_text(content)
    told = said(capfd, f"hydra.run.dir={folder}", *more)
    assert "record of a run is there already; move it away" in told or f"{folder}/config.yaml: readable YAML" in told
    assert (folder / "config.yaml").read_text() == content
    assert (folder / ".hydra" / "overrides.yaml").read_text() == "- seed=1\n"


@pytest.mark.parametrize("content", OVERRIDES)
@pytest.mark.parametrize("name", ["overrides.yaml", "resumed.yaml"])
def test_overrides_are_named_on_resume(folder, name, content, capfd):
    (folder / ".hydra" / name).write_text(content)
    assert said(capfd, f"resume={folder}").startswith(f"edge-lightning fit: {folder}/.hydra/{name}: ")
