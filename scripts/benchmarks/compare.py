"""Runs every measurement of scripts/bench, each a process of its own, and writes docs/bench/README.md from their files.

Rounds alternate: each round measures every setting once, so that a machine that slows down slows all of them. Ratios are
made within a step (bare work) or within a round (TRL) before they are averaged.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
OUT = ROOT / "outputs" / "bench"
OURS, TRL = ROOT / ".venv/bin/python", ROOT / ".venv-trl/bin/python"
TINY = ROOT / "edge_lightning/assets/tiny_hard"
SMOL = [
    "model=local",
    "prompt=plain",
    "data=arithmetic_moderate",
    "rollout.problems_per_step=4",
    "rollout.prompt_limit=256",
    "rollout.response_limit=128",
    "rollout.reflection_limit=128",
]
UNPRUNED = ["module.leave_out_zero_advantage=false"]
ALIKE = ["module.gradient_shares_every_n_steps=null", "optimizer.lr=1e-6"]  # as TRL's twin: the policy stays what it is


@dataclass(frozen=True)
class Setting:
    """A setting of step.py; where `response_limit` is given, TRL is run on its prompts in the same round."""

    name: str
    overrides: tuple[str, ...]
    threads: int
    model: Path | None = None
    response_limit: int | None = None


def settings(model: Path) -> list[Setting]:
    def of(name, policy, ablation, *more, **kw):
        base = [*SMOL, f"model.path={model}"] if policy == "smollm2" else []
        path = model if policy == "smollm2" else TINY
        threads = 2 if policy == "smollm2" else 1
        overrides = (*base, *ALIKE, f"ablation={ablation}", f"cpu_threads={threads}", *more)
        return Setting(f"{policy}-{name}", overrides, threads, path, **kw)

    found = []
    for policy, limit in (("smollm2", 128), ("tiny", 48)):
        found += [
            of("grpo-all", policy, "grpo", *UNPRUNED, response_limit=limit),
            of("grpo-left-out", policy, "grpo"),
            of("full-all", policy, "full", *UNPRUNED),
            of("full-left-out", policy, "full"),
        ]
    found.append(of("grpo-all-hf-engine", "tiny", "grpo", *UNPRUNED, "engine=hf"))
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=3)
    arguments = parser.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    measure(arguments)
    subprocess.run([OURS, HERE / "page.py", OUT, ROOT / "docs/bench/README.md"], check=True)


def measure(arguments) -> None:
    for number in range(arguments.rounds):
        for setting in settings(arguments.model):
            steps = arguments.steps * (4 if setting.name.startswith("tiny") else 1)
            file = OUT / f"step-{setting.name}-{number}.json"
            run(file, OURS, "step.py", "--steps", steps, *setting.overrides)
            if setting.response_limit:
                limit = ["--response-limit", setting.response_limit, "--threads", setting.threads]
                if setting.name.startswith("smollm2"):
                    limit += ["--at-once", 8]  # a fifth faster than all 32, whose activations are ever new memory
                trl = OUT / f"trl-{setting.name.partition('-')[0]}-{number}.json"
                run(trl, TRL, "trl_step.py", "--model", setting.model, "--prompts", file, *limit)
    for setting in settings(arguments.model):
        if setting.name.endswith("full-all"):
            table = OUT / f"profile-{setting.name}.txt"
            if not table.exists():
                run(
                    OUT / f"profiled-{setting.name}.json",
                    OURS,
                    "step.py",
                    "--steps",
                    1,
                    "--profile",
                    table,
                    *setting.overrides,
                )
    for name, who, more in (
        ("as-it-is", OURS, []),
        ("as-it-is", TRL, []),
        ("half-at-once", TRL, ["--at-once", 4]),
        ("large-vocabulary", OURS, ["--vocabulary", 151_936]),
        ("checkpointed", OURS, ["--gradient-checkpointing"]),
        ("checkpointed", TRL, ["--gradient-checkpointing"]),
        ("compiled", OURS, ["--compile"]),
        ("adapters", OURS, ["--lora-rank", 32]),
        ("mapped", OURS, []),
        ("mapped-large-vocabulary", OURS, ["--vocabulary", 151_936]),
    ):
        environment = {"MALLOC_MMAP_THRESHOLD_": str(2**20)} if name.startswith("mapped") else {}
        options = ["--who", "ours" if who is OURS else "trl", "--model", arguments.model, "--threads", 2, *more]
        run(OUT / f"memory-{name}-{options[1]}.json", who, "memory.py", *options, **environment)
    for group, limit in ((4, 128), (8, 128), (16, 128), (8, 512), (8, 1024)):
        for policy, path in (("tiny", TINY), ("smollm2", arguments.model)):
            size = ["--group-size", group, "--response-limit", limit, "--threads", 2]
            run(OUT / f"scaling-{policy}-{group}-{limit}.json", OURS, "memory.py", "--who", "ours", "--model", path, *size)


def run(out: Path, python: Path, script: str, *arguments: object, **environment: str) -> None:
    """Make a measurement unless its file is there; a failed one is named and the rest go on."""
    if out.exists():
        return
    print(f"bench: {out.stem}", file=sys.stderr, flush=True)
    done = subprocess.run(
        [python, HERE / script, out, *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        last = done.stdout.strip().splitlines()[-1:] or ["no output"]
        print(f"bench: {out.stem} failed: {last[0]}", file=sys.stderr)
    else:
        json.loads(out.read_text())


if __name__ == "__main__":
    main()
