"""Throughput of the grader against math-verify alone, one process, on responses of about 300 tokens.

    python scripts/bench_grader.py GOLDS.jsonl [--responses 5000] [--baseline 300]

GOLDS.jsonl has an answer a row (column `answer`: text, a number or a list), for example from the benchmarks. Right
responses box the gold, every third in another spelling; wrong ones box the answer of another row. Both graders judge the
same responses; math-verify, which is slow, the first `--baseline` of them, and its time is scaled.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import random
import time

os.environ["SYMPY_GROUND_TYPES"] = "python"

from math_verify import LatexExtractionConfig, parse, verify

from edge_lightning.data.answers import as_text
from edge_lightning.rewards.accuracy import BoxedAccuracy
from edge_lightning.types import Verdict

Pair = tuple[tuple[str, ...], str]


def responses(golds: list[tuple[str, ...]], count: int, right: bool) -> list[Pair]:
    """Golds and whole texts, each text another."""
    draw = random.Random(0)
    pairs = []
    for index in range(count):
        gold = draw.choice(golds)
        answer = gold[0] if right else draw.choice(golds)[0]
        answer = answer.strip().strip("$")
        if index % 3 == 0:
            answer = answer.replace("\\frac", "\\dfrac").replace("+", " + ")
        working = " ".join(f"step {draw.randrange(1000)} gives {draw.randrange(1000)}," for _ in range(50))
        pairs.append((gold, f"{index}: {working} so the answer is $\\boxed{{{answer}}}$."))
    return pairs


def math_verify_s(pairs: list[Pair]) -> tuple[float, float]:
    """Seconds, and the share that matches."""
    latex = [LatexExtractionConfig()]
    start, matched = time.perf_counter(), 0
    for golds, text in pairs:
        found = parse(text, latex)
        matched += any(verify(parse(f"${gold.strip().strip('$')}$", latex), found) for gold in golds)
    return time.perf_counter() - start, matched / len(pairs)


def ours_s(pairs: list[Pair], workers: int) -> tuple[float, float]:
    """Seconds with the start of the processes, and the share that matches."""
    accuracy = BoxedAccuracy(workers=workers)
    start = time.perf_counter()
    verdicts = accuracy.judge(pairs)
    seconds = time.perf_counter() - start
    accuracy.close()
    return seconds, sum(verdict is Verdict.MATCHED for verdict in verdicts) / len(pairs)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("golds")
    arguments.add_argument("--responses", type=int, default=5000)
    arguments.add_argument("--baseline", type=int, default=300)
    arguments.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    given = arguments.parse_args()
    logging.disable()
    with open(given.golds, encoding="utf-8") as lines:
        cells = [json.loads(line)["answer"] for line in lines if line.strip()]
    golds = [tuple(map(as_text, cell if isinstance(cell, list) else [cell])) for cell in cells]
    for name, right in (("right", True), ("wrong", False)):
        pairs = responses(golds, given.responses, right)
        math_verify_s(pairs[:5])  # what loads with the first takes none of its time
        seconds, matched = math_verify_s(pairs[: given.baseline])
        alone = seconds / min(given.baseline, len(pairs)) * len(pairs)
        print(f"{name}: math-verify, one process   {alone:7.1f} s  (of {given.baseline}, scaled)  matched {matched:.3f}")
        for workers in given.workers:
            seconds, matched = ours_s(pairs, workers)
            print(
                f"{name}: this grader, {workers} workers  {seconds:7.1f} s  {alone / seconds:6.1f} x  matched {matched:.3f}"
            )


if __name__ == "__main__":
    main()
