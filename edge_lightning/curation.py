"""What is checked about problems before a run may use them: rows, golds, lengths, contamination, reference solutions.

Everything found is in the record that a run keeps as data.json, whether it was dropped or not.
Left out: mending; a problem is taken as it is, or left out.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, replace
from typing import Literal

from edge_lightning.data.base import ProblemSet
from edge_lightning.data.corruption import corrupt_solutions
from edge_lightning.data.overlap import Overlap, OverlapIndex, duplicates
from edge_lightning.data.report import BadRow
from edge_lightning.data.sources import shown
from edge_lightning.errors import UserError
from edge_lightning.policy import Policy
from edge_lightning.prompts import Prompt
from edge_lightning.rewards.base import Reward
from edge_lightning.types import Problem, Verdict


@dataclass(frozen=True)
class Limits:
    """Lengths in tokens.

    Attributes:
        prompt: the longest prompt.
        model: prompt and response together; a longer reference solution can't stand in a group.
        required_solution: set where every training problem must have a solution of at most so many tokens, its end of
            sequence included, because the engine copies it; None where solutions are optional.
    """

    prompt: int
    model: int
    required_solution: int | None = None


@dataclass(frozen=True)
class Curated:
    """The problems that a run uses, and what is known about those that it does not."""

    train: list[Problem]
    held_out: list[Problem]
    record: dict


def curate(
    problem_set: ProblemSet,
    *,
    on_bad_row: Literal["drop", "refuse"],
    drop_contaminated: bool,
    prompt: Prompt,
    policy: Policy,
    reward: Reward,
    limits: Limits,
    benchmarks: Mapping[str, Sequence[Problem]],
    corrupted_solutions: float = 0.0,
) -> Curated:
    """Check a problem set, leave out what can't be used, and grade its reference solutions.

    Args:
        on_bad_row: what becomes of a run with rows that can't be used: they are left out, or nothing runs.
        drop_contaminated: leave out the training problems that overlap with a benchmark; see data/overlap.py.
        benchmarks: name -> problems of their own, against which the training problems are held.
        corrupted_solutions: share of the training problems that get another problem's solution; see data/corruption.py.
    Raises:
        UserError: there are bad rows and they are to be refused, no training problem is left, or solutions can't be
            corrupted so.
    """
    source = problem_set.report.source

    def measure(problem: Problem) -> int:
        return len(prompt(problem, policy.tokenizer))

    held_out, bad_held_out, _ = usable(problem_set.held_out(), source, reward, measure, limits.prompt)
    train, bad_train, prompt_tokens = usable(problem_set.train(), source, reward, measure, limits.prompt)
    bad = problem_set.report.bad + bad_train + bad_held_out
    if limits.required_solution is not None:
        train, without = _with_solution(train, source, policy, limits.required_solution)
        bad += without
    if on_bad_row == "refuse":
        refuse(bad, problem_set.report.rows)
    contamination = _contamination(train, benchmarks)
    overlapping = {overlap.problem for found in contamination.values() for overlap in found}
    if drop_contaminated:
        train = [problem for problem in train if problem.id not in overlapping]
    if not train:
        raise UserError(
            f"{source}: no training problem is left of {problem_set.report.rows} rows "
            f"({_counts(bad)}, {len(overlapping)} contaminated); change data.problem_set or rollout.prompt_limit"
        )
    train, references = _references(train, prompt_tokens, policy, reward, limits.model)
    train, solution_of = corrupt_solutions(train, corrupted_solutions, reward.judge)
    if solution_of:
        train, references = _references(train, prompt_tokens, policy, reward, limits.model)
    repeated = duplicates([*train, *held_out])
    record = {
        "source": source,
        "fingerprint": _fingerprint(train, held_out),
        "counts": {
            "rows": problem_set.report.rows,
            "filtered": problem_set.report.filtered,
            "bad_rows": dict(Counter(row.kind for row in bad)),
            "train": len(train),
            "held_out": len(held_out),
            "duplicates": sum(len(ids) - 1 for ids in repeated),
            "contamination": _contaminated(contamination, benchmarks),
            "contaminated_dropped": drop_contaminated,
            "references": {key: references[key] for key in ("solutions", "right", "usable")},
            "corrupted_solutions": len(solution_of),
        },
        "bad_rows": [asdict(row) for row in bad],
        "duplicates": repeated,
        "contamination": [
            {"benchmark": name, **asdict(overlap)} for name, found in contamination.items() for overlap in found
        ],
        "references": references,
        "corrupted_solutions": [{"problem": name, "solution_of": other} for name, other in solution_of.items()],
    }
    return Curated(train, held_out, record)


def usable_held_out(
    problem_set: ProblemSet,
    *,
    on_bad_row: Literal["drop", "refuse"],
    prompt: Prompt,
    policy: Policy,
    reward: Reward,
    prompt_limit: int,
) -> tuple[list[Problem], str]:
    """The held-out problems that `curate` would leave, and how many were left out for what reason, as text.

    Raises:
        UserError: some can't be used, and they are to be refused.
    """
    source = problem_set.report.source
    kept, bad, _ = usable(problem_set.held_out(), source, reward, lambda p: len(prompt(p, policy.tokenizer)), prompt_limit)
    bad = problem_set.report.bad + bad
    if on_bad_row == "refuse":
        refuse(bad, problem_set.report.rows)
    return kept, _listed(Counter(row.kind for row in bad))


def usable(
    problems: Sequence[Problem],
    source: str,
    reward: Reward,
    measure: Callable[[Problem], int],
    prompt_limit: int,
    key: str = "rollout.prompt_limit",
) -> tuple[list[Problem], list[BadRow], dict[str, int]]:
    """The problems with a gold that can be read and a prompt within the limit, the others as bad rows, prompt lengths.

    Args:
        measure: the tokens of a problem's prompt.
        key: of the limit, for the message.
    """
    readable = iter(reward.readable([gold for problem in problems for gold in problem.answers]))
    kept, bad, lengths = [], [], {}
    for problem in problems:
        golds_readable = [next(readable) for _ in problem.answers]
        tokens = lengths[problem.id] = measure(problem)
        if not any(golds_readable):
            reason = f"an answer that can be read expected, {' or '.join(map(shown, problem.answers))} came"
            bad.append(BadRow(source, f"problem {problem.id!r}", reason, "unparsable gold"))
        elif tokens > prompt_limit:
            reason = f"prompt of {tokens} tokens, at most {key}={prompt_limit} expected"
            bad.append(BadRow(source, f"problem {problem.id!r}", reason, "long prompt"))
        else:
            kept.append(problem)
    return kept, bad, lengths


def refuse(bad: Sequence[BadRow], rows: int) -> None:
    """Raise UserError where there are bad rows."""
    if bad:
        raise UserError(
            f"{bad[0]} ({_counts(bad)}; {rows} rows in all); mend it, or leave such rows out with data.on_bad_row=drop"
        )


def describe(counts: Mapping) -> str:
    """One line on a run's data, from `record["counts"]`."""
    parts = [f"{counts['train']} training and {counts['held_out']} held-out problems of {counts['rows']} rows"]
    if counts["bad_rows"]:
        parts.append(f"left out: {_listed(counts['bad_rows'])}")
    if counts["filtered"]:
        parts.append(f"filtered: {_listed(counts['filtered'])}")
    if counts["duplicates"]:
        parts.append(f"{counts['duplicates']} duplicate{'s' * (counts['duplicates'] > 1)}")
    found = counts["contamination"].values()
    if found:
        exact, near, total = (sum(benchmark[key] for benchmark in found) for key in ("exact", "near", "problems"))
        fate = "left out of training" if counts["contaminated_dropped"] else "trained on all the same"
        parts.append(f"{exact} exact and {near} near of {total} benchmark problems{f', {fate}' if exact + near else ''}")
    if counts["corrupted_solutions"]:
        parts.append(f"{counts['corrupted_solutions']} solutions replaced by those of other problems")
    references = counts["references"]
    if references["solutions"]:
        parts.append(f"{references['usable']} of {references['solutions']} reference solutions grade right and fit")
    return "; ".join(parts)


def data_metrics(counts: Mapping) -> dict[str, float]:
    """What loggers are told of a run's data: problems, and the share of reference solutions that correction may use."""
    solutions = counts["references"]["solutions"]
    share = {"data/references_usable": counts["references"]["usable"] / solutions} if solutions else {}
    return {"data/problems": float(counts["train"]), **share}


def _with_solution(
    problems: Sequence[Problem], source: str, policy: Policy, limit: int
) -> tuple[list[Problem], list[BadRow]]:
    kept, bad = [], []
    for problem in problems:
        tokens = None if problem.solution is None else len(policy.encode(problem.solution)) + 1
        if tokens is None:
            reason = "a reference solution expected, since the engine copies it; choose data with solutions, or engine=vllm"
        elif tokens > limit:
            reason = f"reference solution of {tokens} tokens with its end, rollout.response_limit is {limit}; raise it"
        else:
            kept.append(problem)
            continue
        bad.append(BadRow(source, f"problem {problem.id!r}", reason, "no usable solution"))
    return kept, bad


def _contamination(train: Sequence[Problem], benchmarks: Mapping[str, Sequence[Problem]]) -> dict[str, list[Overlap]]:
    index = OverlapIndex(train if benchmarks else ())
    return {name: [found for p in problems for found in index.overlaps(p)] for name, problems in benchmarks.items()}


def _contaminated(found: Mapping[str, Sequence[Overlap]], benchmarks: Mapping[str, Sequence[Problem]]) -> dict:
    """Per benchmark: its problems, and how many of them have an exact and how many only a near double in training."""
    counts = {}
    for name, overlaps in found.items():
        exact = {overlap.other for overlap in overlaps if overlap.exact}
        near = {overlap.other for overlap in overlaps} - exact
        counts[name] = {"problems": len(benchmarks[name]), "exact": len(exact), "near": len(near)}
    return counts


def _references(
    problems: Sequence[Problem], prompt_tokens: Mapping[str, int], policy: Policy, reward: Reward, model_limit: int
) -> tuple[list[Problem], dict]:
    """The problems with their solutions graded, and the figures: how many grade right, fit, and can so be used."""
    solved = [problem for problem in problems if problem.solution is not None]
    verdicts = dict(zip((p.id for p in solved), reward.judge([(p.answers, p.solution) for p in solved])))
    right = {name for name, verdict in verdicts.items() if verdict is Verdict.MATCHED}
    long = {p.id for p in solved if prompt_tokens[p.id] + len(policy.encode(p.solution)) + 1 > model_limit}
    figures = {
        "solutions": len(solved),
        "right": len(right),
        "usable": len(right - long),
        "rejected": [{"problem": name, "verdict": str(v)} for name, v in verdicts.items() if v is not Verdict.MATCHED],
        "too_long": sorted(long),
    }
    return [replace(p, solution_right=p.id in right) if p.id in verdicts else p for p in problems], figures


def _fingerprint(train: Sequence[Problem], held_out: Sequence[Problem]) -> str:
    """A hash of everything that a run sees of its problems but the verdicts on solutions, which a slow grader may miss."""
    seen = [[astuple(replace(problem, solution_right=None)) for problem in problems] for problems in (train, held_out)]
    return hashlib.blake2b(json.dumps(seen).encode(), digest_size=16).hexdigest()


def _counts(bad: Sequence[BadRow]) -> str:
    return _listed(Counter(row.kind for row in bad)) or "no bad row"


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{n} {kind}" for kind, n in counts.items())
