"""What is told of an evaluation: figures of each benchmark, and over all of them.

docs/metrics.md says what each means.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from edge_lightning.evaluation.benchmark import AVERAGE
from edge_lightning.evaluation.diversity import answer_entropy, answer_key, collision_rate
from edge_lightning.evaluation.scores import mean_with_interval, pass_at_k

NOT_AVERAGED = ("accuracy", "accuracy_low", "accuracy_high", "problems", "samples")
RARE = "_rarely_solved"  # ends the names of figures over the problems that a base policy rarely solves


def summarize(
    rows: Sequence[dict], *, samples: int, k: Sequence[int], rarely_solved: Collection[str] | None = None
) -> dict[str, float]:
    """Figures of one benchmark; each is a mean over problems.

    Args:
        rows: one a response, `samples` of each problem.
        rarely_solved: ids of problems for which accuracy and diversity are told once more; None for none. Where these are
            no problems of the benchmark, only their number, 0, is.
    """
    right = right_by_problem(rows)
    accuracy, low, high = mean_with_interval([sum(flags) / len(flags) for flags in right.values()])
    metrics = {"accuracy": accuracy, "accuracy_low": low, "accuracy_high": high}
    if samples > 1:
        metrics[f"avg@{samples}"] = accuracy
    for each in k:
        metrics[f"pass@{each}"] = _mean([pass_at_k(len(flags), sum(flags), each) for flags in right.values()])
    metrics["formatted"] = _mean([row["formatted"] for row in rows])
    metrics["truncated"] = _mean([row["finish_reason"] == "length" for row in rows])
    metrics["tokens"] = _mean([row["tokens"] for row in rows])
    if samples > 1:
        metrics |= diversity(rows)
    metrics["problems"] = len(right)
    metrics["samples"] = samples
    if rarely_solved is not None:
        rare = [row for row in rows if row["problem_id"] in rarely_solved]
        metrics[f"problems{RARE}"] = len(right_by_problem(rare))
        if rare:
            rates = [sum(flags) / len(flags) for flags in right_by_problem(rare).values()]
            found = {"accuracy": _mean(rates), **(diversity(rare) if samples > 1 else {})}
            metrics |= {f"{name}{RARE}": value for name, value in found.items()}
    return metrics


def diversity(rows: Sequence[dict]) -> dict[str, float]:
    """Normalised answer entropy and collision rate, means over problems with at least two responses each."""
    answers: dict[str, list[tuple[str, str]]] = {}
    for row in rows:
        answers.setdefault(row["problem_id"], []).append(answer_key(row["answer"], right=row["correct"]))
    return {
        "answer_entropy": _mean([answer_entropy(given) for given in answers.values()]),
        "collision_rate": _mean([collision_rate(given) for given in answers.values()]),
    }


def averages(rows: Mapping[str, Sequence[dict]], metrics: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Figures over all benchmarks; none for fewer than two.

    `accuracy` is that of all problems pooled, right / problems, so a large benchmark weighs more; the interval draws from
    the pooled problems. `accuracy_of_benchmarks` is the plain mean of the benchmarks' accuracies. Every other figure that
    all benchmarks have is weighted by problems too; those over rarely solved problems by the number of these.

    Args:
        rows, metrics: by benchmark.
    """
    if len(metrics) < 2:
        return {}
    rates = [sum(flags) / len(flags) for name in metrics for flags in right_by_problem(rows[name]).values()]
    accuracy, low, high = mean_with_interval(rates)
    found = {
        "accuracy": accuracy,
        "accuracy_low": low,
        "accuracy_high": high,
        "accuracy_of_benchmarks": _mean([figures["accuracy"] for figures in metrics.values()]),
    }
    first, *others = metrics.values()
    for key in first:
        if key not in NOT_AVERAGED and not key.endswith(RARE) and all(key in figures for figures in others):
            found[key] = sum(figures[key] * figures["problems"] for figures in metrics.values()) / len(rates)
    found |= _over_rarely_solved(list(metrics.values()))
    found["problems"] = len(rates)
    if len({figures["samples"] for figures in metrics.values()}) == 1:
        found["samples"] = first["samples"]
    return found


def _over_rarely_solved(metrics: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Figures over the rarely solved problems of all benchmarks pooled; none where one does not tell their number."""
    count = f"problems{RARE}"
    if not all(count in figures for figures in metrics):
        return {}
    with_some = [figures for figures in metrics if figures[count]]
    total = sum(figures[count] for figures in with_some)
    found = {count: total}
    for key in with_some[0] if with_some else ():
        if key.endswith(RARE) and key != count and all(key in figures for figures in with_some):
            found[key] = sum(figures[key] * figures[count] for figures in with_some) / total
    return found


def named(rows: Mapping[str, Sequence[dict]], metrics: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """All figures as <benchmark>/<figure>, those over all benchmarks as average/<figure>."""
    over_all = averages(rows, metrics)
    everything = {**metrics, **({AVERAGE: over_all} if over_all else {})}
    return {f"{name}/{key}": value for name, figures in everything.items() for key, value in figures.items()}


def right_by_problem(rows: Sequence[dict], key: str = "correct") -> dict[str, list[bool]]:
    """Whether each response is right, problem by problem; `key` is the column that tells."""
    right: dict[str, list[bool]] = {}
    for row in rows:
        right.setdefault(row["problem_id"], []).append(row[key])
    return right


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
