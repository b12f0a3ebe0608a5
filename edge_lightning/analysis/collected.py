"""What runs have left, read for analyses that generate nothing: responses as the policy sampled them, and curves.

A run is any folder with a config.yaml of this program and rollouts, evaluations or responses of an analysis in it. Runs that
are under way are read as far as they are.
"""

from __future__ import annotations

import csv
import gzip
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from edge_lightning.errors import UserError
from edge_lightning.inspection.rollouts import read_rows, read_table, recorded_steps

TRAINING = "training"
COLUMNS = (
    *("step", "problem_id", "response_index", "provenance", "text", "sampled_text", "sampled_right", "right", "gold"),
    *("sampled_reward", "reward", "reward_parts", "advantage", "entropy", "relative_entropy", "token_entropies"),
    *("token_advantages", "sampled_mask"),
)


@dataclass(frozen=True, slots=True)
class Answer:
    """A response as the policy sampled it, before any correction.

    Attributes:
        source: `training`, the name of a benchmark, or `analysis`.
        text: None where it was not kept, as in records that were made small.
        step: of the training that it was sampled in; of an evaluation, the steps before it.
        entropy: mean over what was sampled first, nats; None where it is not known, or a pass left out part of its step.
    """

    source: str
    step: int
    problem_id: str
    text: str | None
    right: bool
    entropy: float | None


@dataclass(frozen=True)
class Source:
    """A run's folder.

    Attributes:
        label: what it is called: its ablation, where runs differ in seeds alone, else its place.
    """

    folder: Path
    place: str
    label: str
    config: dict

    @property
    def model(self) -> str:
        return str((self.config.get("model") or {}).get("name", "?"))

    @property
    def seed(self) -> int:
        return int(self.config.get("seed", 0))

    @property
    def compares(self) -> bool:
        """Whether its groups have several responses: of one alone all rewards are equal, and A is 0."""
        return (self.config.get("rollout") or {}).get("group_size", 2) > 1

    def temperature(self, source: str) -> float | None:
        """Of sampling, in training or of a benchmark."""
        node = self.config.get("rollout") or {}
        if source not in (TRAINING, "analysis"):
            node = ((self.config.get("evaluation") or {}).get("benchmarks") or {}).get(source) or {}
        return node.get("temperature")

    def metrics(self) -> list[dict[str, str]]:
        """Rows of metrics.csv; none where there is no such file."""
        for path, opener in ((self.folder / "metrics.csv", open), (self.folder / "metrics.csv.gz", gzip.open)):
            if path.exists():
                with opener(path, "rt", newline="") as file:
                    return list(csv.DictReader(file))
        return []

    def rollout_rows(self) -> Iterator[list[dict]]:
        """The rows of each step that is on disk."""
        folder = self.folder / "rollouts"
        for step in recorded_steps(folder):
            yield read_rows(folder, step, COLUMNS)

    def answers(self) -> Iterator[Answer]:
        """All that the policy sampled in training, in evaluations and for analyses."""
        for rows in self.rollout_rows():
            scored = all(row["token_entropies"] is not None for row in rows)
            for row in rows:
                entropy = first_entropy(row) if scored else None
                text, right = row["sampled_text"], row["sampled_right"]
                yield Answer(TRAINING, row["step"], row["problem_id"], text, right, entropy)
        for path in sorted((self.folder / "evaluation").glob("step_*/*.parquet")):
            for row in read_table(path).to_pylist():
                step, right = row.get("step") or 0, row["correct"]
                yield Answer(path.stem, step, row["problem_id"], row.get("text"), right, row.get("entropy"))
        path = self.folder / "responses.parquet"
        for row in read_table(path).to_pylist() if path.exists() else ():
            yield Answer("analysis", 0, row["problem_id"], row["text"], row["correct"], row["entropy"])


def first_entropy(row: dict) -> float | None:
    """Mean entropy of what the policy sampled before anything was put in, nats.

    None where a reference solution took its place. A closing end of sequence that made way for a cue is not in it.
    """
    mask, entropies = row["sampled_mask"], row["token_entropies"]
    length = mask.index(False) if False in mask else len(mask)
    return sum(entropies[:length]) / length if length else None


def sources(folder: Path) -> list[Source]:
    """Every run in a folder or below it, in the order of their paths.

    Raises:
        UserError: there is none.
    """
    found = []
    for place, inside, files in os.walk(folder):
        here = Path(place)
        inside.sort()
        if "config.yaml" in files and (
            any((here / name).is_dir() for name in ("rollouts", "evaluation")) or "responses.parquet" in files
        ):
            config = _config(here / "config.yaml")
            found.append((here, here.relative_to(folder).as_posix(), config if isinstance(config, dict) else {}))
            inside.clear()
    if not found:
        raise UserError(
            f"folder={folder}: a run, a sweep or an analysis expected (config.yaml beside rollouts/, evaluation/ or "
            "responses.parquet), none is in it; give a folder under outputs/"
        )

    def name(config: dict) -> str:
        return str((config.get("ablation") or {}).get("name") or config.get("name") or config.get("command"))

    times = Counter((name(config), config.get("seed", 0)) for _, _, config in found)
    alike = all(count == 1 for count in times.values())
    return [Source(here, place, name(c) if alike or place == "." else place, c) for here, place, c in found]


def _config(path: Path) -> object:
    try:
        return yaml.safe_load(path.read_text())
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: readable YAML expected, {' '.join(str(error).split())}; move the run away") from error
