"""resume=DIR: go on with a run in its own folder, under its own configuration.

The run's overrides are read back from its record; what stands beside resume=DIR on the command line comes on top, and may
change only what does not change what was done so far.
"""

from __future__ import annotations

from pathlib import Path

import yaml
from omegaconf import DictConfig, OmegaConf

from edge_lightning.errors import UserError

MAY_CHANGE = ("resume", "cpu_threads", "callbacks", "logger", "evaluation", "optimizer.lr")


def resume_overrides(overrides: list[str]) -> list[str]:
    """The overrides of the run to go on with, then these; unchanged without a resume.

    Raises:
        UserError: the folder is no run with a checkpoint.
    """
    given = [o.split("=", 1)[1] for o in overrides if o.startswith("resume=")]
    if not given or given[-1] in ("null", ""):
        return overrides
    folder = Path(given[-1])
    recorded = folder / ".hydra" / "overrides.yaml"
    if not recorded.exists() or not last_checkpoint(folder).exists():
        raise UserError(
            f"resume={folder}: the folder of a run with checkpoints/last.ckpt expected; give a folder under outputs/fit/"
        )
    earlier = [o for o in yaml.safe_load(recorded.read_text()) or [] if not o.startswith("resume=")]
    return [*earlier, *overrides, f"hydra.run.dir={_quoted(folder)}"]


def last_checkpoint(folder: Path) -> Path:
    return folder / "checkpoints" / "last.ckpt"


def refuse_changes(cfg: DictConfig, folder: Path) -> None:
    """Raise UserError where the configuration differs from the run's own in a key that may not change."""
    before = _flat(OmegaConf.to_container(OmegaConf.load(folder / "config.yaml")))
    now = _flat(OmegaConf.to_container(cfg, resolve=True))
    for key in sorted(before.keys() | now.keys()):
        free = any(key == k or key.startswith(f"{k}.") for k in MAY_CHANGE)
        if not free and before.get(key) != now.get(key):
            raise UserError(
                f"resume={folder}: {key} was {before.get(key)!r} in that run, {now.get(key)!r} came; "
                "leave it as it was, or start a new run"
            )


def _quoted(folder: Path) -> str:
    return "'" + str(folder).replace("'", "\\'") + "'"


def _flat(node, prefix: str = "") -> dict:
    if not isinstance(node, dict):
        return {prefix[:-1]: node}
    return {k: v for key, value in node.items() for k, v in _flat(value, f"{prefix}{key}.").items()}
