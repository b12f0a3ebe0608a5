"""What is installed from a wheel works far from the checkout."""

import os
import subprocess
import sys
import zipfile

import pytest
import yaml

from tests.conftest import ROOT

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel, built without the network."""
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    [path] = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """A folder with the package and nothing else in it."""
    folder = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target", str(folder), str(wheel)]
    subprocess.run(pip, check=True, capture_output=True)
    return folder


def run(installed, empty, *arguments):
    """`python -m edge_lightning` in an empty folder, the checkout taken off the path."""
    code = f"import sys; sys.path.remove({str(ROOT)!r}); from edge_lightning.cli import main; main()"
    line = [sys.executable, "-c", code, *arguments]
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    done = subprocess.run(line, cwd=empty, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_holds_every_option_and_asset(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    options = {f"edge_lightning/{path.relative_to(ROOT)}" for path in (ROOT / "conf").rglob("*.yaml")}
    assets = {str(path.relative_to(ROOT)) for path in (ROOT / "edge_lightning" / "assets").rglob("*") if path.is_file()}
    assert len(options) > 40
    assert options | assets <= names
    assert not [name for name in names if name.startswith(("tests", "docs", "outputs"))]


def test_an_installed_package_prints_its_configuration_from_an_empty_folder(installed, tmp_path):
    printed = run(installed, tmp_path, "fit", "--cfg", "job")
    cfg = yaml.safe_load(printed)
    assert "${" not in printed
    assert cfg["ablation"]["name"] == "full"
    assert cfg["model"]["path"] == str(installed / "edge_lightning" / "assets" / "tiny_hard")
    assert os.path.exists(os.path.join(cfg["model"]["path"], "model.safetensors"))
    assert list(tmp_path.iterdir()) == []


def test_an_installed_package_trains(installed, tmp_path):
    line = ["fit", "engine=hf", "steps=1", "evaluation=none", "rollout.problems_per_step=1", "rollout.group_size=2"]
    run(installed, tmp_path, *line, "hydra.run.dir=run")
    assert (tmp_path / "run" / "checkpoints" / "hf" / "model.safetensors").exists()
