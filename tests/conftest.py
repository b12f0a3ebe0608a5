"""What the tests share: where public data lie, small policies, responses by hand."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("anywhere", deadline=None)  # a busy machine is no fault of the code
settings.load_profile("anywhere")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # no test needs a hub; a look-up would only wait

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def edge_data():
    """A path inside the public data (EDGE_DATA, else ../shared/data); the test is skipped where it is absent."""
    folder = Path(os.environ.get("EDGE_DATA", ROOT / "../shared/data")).resolve()

    def path(name: str) -> Path:
        if not (folder / name).exists():
            pytest.skip(f"{folder / name} is absent; set EDGE_DATA")
        return folder / name

    return path


@pytest.fixture(scope="session")
def asset() -> Path:
    """The shipped warm start of the hard regime."""
    return ROOT / "edge_lightning" / "assets" / "tiny_hard"


@pytest.fixture(scope="session")
def tiny_policy(asset):
    """The warm-started tiny policy. Tests that change its weights load one of their own."""
    from edge_lightning.policy import Policy

    return Policy.load(asset)
