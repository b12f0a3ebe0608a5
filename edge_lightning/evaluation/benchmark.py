"""What a benchmark is: problems, the prompt they are put with, how responses are drawn, and what is counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edge_lightning.data.base import ProblemSet
from edge_lightning.errors import UserError, require_at_least_one, require_file_name
from edge_lightning.evaluation.rarely_solved import rarely_solved
from edge_lightning.prompts import Prompt
from edge_lightning.types import Problem, Sampling

AVERAGE = "average"  # what the figures over all benchmarks are called


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """How problems are put to a policy.

    Attributes:
        name: of the benchmark, in metrics and files.
        problem_set: whose held-out problems they are; None for those of the run's own data.
        problems: how many of them, the first ones; None for all.
        prompt: the text around a problem; None for the run's own.
        prompt_limit: tokens of a prompt; a longer one is refused, since every problem is to be scored.
        samples: responses per problem (n).
        temperature, top_p, top_k: of sampling; top_k None: from all tokens.
        response_limit: new tokens of a response.
        k: the k of pass@k, each at most n; None: 1, 2, 4, ... up to n.
        rarely_solved_by: folder of an evaluation of the base policy on the same problems; accuracy and diversity are told
            once more then, for those that it rarely solves. None: they are not.
        rarely_solved_at_most: its share of right responses up to which a problem is one of these.
        seed: of sampling, the same for every run and step, so that two evaluations differ by their policies alone.
        responses_at_a_time: asked of the engine together, and the most that a killed evaluation does again.
        keys: in front of the names of these, for messages; None: evaluation.benchmarks.<name>.
    """

    name: str
    problem_set: ProblemSet | None = None
    problems: int | None
    prompt: Prompt | None = None
    prompt_limit: int
    samples: int
    temperature: float
    top_p: float
    response_limit: int
    k: tuple[int, ...] | None = (1,)
    top_k: int | None = None
    rarely_solved_by: str | None = None
    rarely_solved_at_most: float = 0.25
    seed: int = 0
    responses_at_a_time: int = 256
    keys: str | None = None

    def __post_init__(self) -> None:
        require_file_name("evaluation.benchmarks: name", self.name)
        if self.name == AVERAGE:
            raise UserError(
                f"evaluation.benchmarks: name={self.name!r}: another name expected, since the figures over all have this one"
            )
        for name in ("prompt_limit", "samples", "response_limit", "responses_at_a_time", "top_k"):
            require_at_least_one(self.key(name), getattr(self, name))
        if not 0 <= self.temperature <= 100 or not 0 < self.top_p <= 1:
            raise UserError(
                f"{self.key('temperature')}={self.temperature}, top_p={self.top_p}: a temperature from 0 (greedy) to 100 "
                "and 0 < top_p <= 1 expected"
            )
        if any(not 1 <= k <= self.samples for k in self.ks):
            raise UserError(f"evaluation {self.name}: k={list(self.ks)}, each between 1 and samples={self.samples} expected")

        if not 0 <= self.rarely_solved_at_most <= 1:
            raise UserError(
                f"{self.key('rarely_solved_at_most')}={self.rarely_solved_at_most}: a share from 0 to 1 expected"
            )

    @property
    def ks(self) -> tuple[int, ...]:
        """The k of pass@k."""
        return tuple(2**i for i in range(self.samples.bit_length())) if self.k is None else tuple(self.k)

    def key(self, name: str) -> str:
        """What sets an attribute."""
        return f"evaluation.benchmarks.{self.name}.{name}" if self.keys is None else f"{self.keys}{name}"

    @property
    def sampling(self) -> Sampling:
        return Sampling(self.temperature, self.top_p, self.top_k)

    def exam(self, held_out: Sequence[Problem], prompt: Prompt) -> Exam:
        """The benchmark with its problems.

        Args:
            held_out: of the run's own data, for a benchmark that has no problems of its own.
            prompt: the run's own, for a benchmark that has none.
        Raises:
            UserError: there are fewer problems than asked for, or some that can't be read, or the base policy was not
                evaluated on them.
        """
        if self.problem_set is not None:
            held_out = self.problem_set.held_out()
            bad = self.problem_set.report.bad
            if bad:
                raise UserError(
                    f"evaluation {self.name}: {len(bad)} of its rows can't be used, and each is to be scored: {bad[0]}"
                )
        if not held_out:
            raise UserError(
                f"evaluation {self.name}: held-out problems expected, the data hold none out; set "
                "data.problem_set.held_out_share, or evaluation=none or paper_suite"
            )
        wanted = len(held_out) if self.problems is None else self.problems
        if not 1 <= wanted <= len(held_out):
            raise UserError(
                f"evaluation {self.name}: {wanted} problems asked for, the data hold {len(held_out)} held-out ones; "
                f"set evaluation.benchmarks.{self.name}.problems=null for all of them, or hold out more of the data"
            )
        problems = list(held_out[:wanted])
        rare = None
        if self.rarely_solved_by is not None:
            key, at_most = self.key("rarely_solved_by"), self.rarely_solved_at_most
            rare = rarely_solved(self.rarely_solved_by, self.name, problems, at_most=at_most, key=key)
        return Exam(self, problems, self.prompt or prompt, rare)


@dataclass(frozen=True)
class Exam:
    """A benchmark, ready to be put: its problems, each with an id of its own, and the prompt around them.

    Attributes:
        rarely_solved: ids of those that the base policy rarely solves; None where nobody asked.
    """

    benchmark: Benchmark
    problems: list[Problem]
    prompt: Prompt
    rarely_solved: frozenset[str] | None = None
