"""Every benchmark of an evaluation, one after the other; what is on disk already is read back and not sampled again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from edge_lightning.collective import ALONE, Ranks
from edge_lightning.engine.base import Engine
from edge_lightning.evaluation.benchmark import Exam
from edge_lightning.evaluation.metrics import named, summarize
from edge_lightning.evaluation.record import EvaluationFile, fingerprint, step_folder
from edge_lightning.evaluation.sampling import graded_rows
from edge_lightning.evaluation.shares import merge, share
from edge_lightning.policy import Policy
from edge_lightning.rewards.base import Reward
from edge_lightning.stopwatch import Stopwatch

Advance = Callable[[int], None]  # told the problems done
Show = Callable[[Exam, int], AbstractContextManager[Advance]]  # told the step, too


@contextmanager
def unseen(exam: Exam, step: int):
    """Shows nothing."""
    yield lambda done: None


def evaluate_suite(
    exams: Sequence[Exam],
    *,
    policy: Policy,
    engine: Engine,
    reward: Reward,
    folder: Path,
    step: int,
    weights_version: int,
    ranks: Ranks = ALONE,
    show: Show = unseen,
    report: Callable[[str, dict[str, float]], None] = lambda name, metrics: None,
    clock: Stopwatch | None = None,
) -> dict[str, float]:
    """Put every benchmark to the policy; its figures as <benchmark>/<figure>, those over all as average/<figure>.

    Args:
        folder: of the run, one that all ranks see; rows go to evaluation/step_*/.
        ranks: that share the problems of each benchmark; all of them get all of its rows.
        show, report: told of the progress of a benchmark, and of what came of it.
        clock: seconds by benchmark.
    """
    clock = clock or Stopwatch()
    rows, metrics = {}, {}
    for exam in exams:
        name = exam.benchmark.name
        with clock(name), show(exam, step) as advance:
            rows[name] = evaluate(
                exam,
                policy=policy,
                engine=engine,
                reward=reward,
                folder=folder,
                step=step,
                weights_version=weights_version,
                advance=advance,
                rank=ranks.rank,
                world_size=ranks.size,
                barrier=ranks.barrier,
            )
        metrics[name] = summarize(
            rows[name], samples=exam.benchmark.samples, k=exam.benchmark.ks, rarely_solved=exam.rarely_solved
        )
        report(name, metrics[name])
    return named(rows, metrics)


def evaluate(
    exam: Exam,
    *,
    policy: Policy,
    engine: Engine,
    reward: Reward,
    folder: Path,
    step: int,
    weights_version: int,
    advance: Advance = lambda done: None,
    rank: int = 0,
    world_size: int = 1,
    barrier: Callable[[], None] = lambda: None,
) -> list[dict]:
    """The rows of one benchmark, every problem once for each sample index, on every rank alike.

    A chunk is on disk before the next is sampled, so a killed evaluation goes on with the first problem that is not.

    Args:
        rank, world_size: which share of the problems this process samples; the folder is one that all ranks see.
        barrier: returns when all ranks have called it.
    """
    benchmark = exam.benchmark
    mark = fingerprint(exam, engine=engine, policy=policy, weights_version=weights_version)
    file = EvaluationFile(step_folder(folder, step), benchmark.name, mark)
    finished = file.finished()
    if finished is not None:
        advance(len(exam.problems))
        return merge([finished], exam.problems, benchmark.samples)
    done = {row["problem_id"] for rows in file.chunks() for row in rows}
    barrier()  # all ranks have seen the same chunks, so their shares of the rest fit together
    places = {problem.id: place for place, problem in enumerate(exam.problems)}
    to_do = share([problem for problem in exam.problems if problem.id not in done], rank=rank, world_size=world_size)
    count = len(done)
    advance(count)
    for rows in graded_rows(
        to_do,
        policy=policy,
        engine=engine,
        prompt=exam.prompt,
        reward=reward,
        sampling=benchmark.sampling,
        samples=benchmark.samples,
        response_limit=benchmark.response_limit,
        seed_name=benchmark.name,
        seed=benchmark.seed,
        weights_version=weights_version,
        responses_at_a_time=benchmark.responses_at_a_time,
    ):
        named_rows = [{"step": step, "benchmark": benchmark.name, **row} for row in rows]
        file.write_chunk(named_rows, places[rows[0]["problem_id"]])
        count += len(rows) // benchmark.samples
        advance(count)
    barrier()
    complete = merge(file.chunks(), exam.problems, benchmark.samples)
    barrier()
    if rank == 0:
        file.finish(complete)
    barrier()
    return complete
