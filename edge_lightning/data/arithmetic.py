"""Chains of small sums: problems without end, whose difficulty is the number of steps.

    Start with 8. Subtract 3. Add 8. What is the result?
    8 - 3 = 5, 5 + 8 = 13. The answer is \\boxed{13}.

Every value of a chain lies in 0..largest. A wrong working can hit the right answer by luck, the more often the smaller
`largest` is, since only the box is graded.
Left out: division, negative numbers, several operations in one step.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from edge_lightning.errors import UserError
from edge_lightning.seeds import counter_seed, counter_uniform
from edge_lightning.types import Problem

CUE = " Wait! Something is wrong here."

_HELD_OUT_SHARE = 0.2  # of all texts, so that a training set of short chains keeps most of them
_PATIENCE = 20_000  # draws without a new problem (about a third of a second) after which there are taken to be none
_SLIPS = (-3, -2, -1, 1, 2, 3)
_VERBS = {"+": "Add", "-": "Subtract", "*": "Multiply by"}
_APPLY: dict[str, Callable[[int, int], int]] = {
    "+": lambda value, operand: value + operand,
    "-": lambda value, operand: value - operand,
    "*": lambda value, operand: value * operand,
}


@dataclass(frozen=True, slots=True)
class Chain:
    """Operations on a running value: values[0] is the start, values[i + 1] is values[i] after operations[i]."""

    operations: tuple[tuple[str, int], ...]
    values: tuple[int, ...]

    @property
    def text(self) -> str:
        """The problem."""
        orders = " ".join(f"{_VERBS[sign]} {operand}." for sign, operand in self.operations)
        return f"Start with {self.values[0]}. {orders} What is the result?"

    @property
    def solution(self) -> str:
        """The working, step by step, with the boxed answer."""
        steps = zip(self.values, self.operations, self.values[1:])
        working = ", ".join(f"{before} {sign} {operand} = {after}" for before, (sign, operand), after in steps)
        return f"{working}. The answer is \\boxed{{{self.answer}}}."

    @property
    def answer(self) -> str:
        """The last value."""
        return str(self.values[-1])


def draw_chain(
    rng: random.Random,
    length: int,
    *,
    largest: int = 30,
    operand_max: int = 9,
    multiply_share: float = 0.1,
    multiplier_max: int = 3,
) -> Chain:
    """A chain of `length` steps; a step that would leave 0..largest is drawn again.

    Args:
        largest: at least 2.
        operand_max: of sums and differences, which are equally likely; at least 1.
        multiply_share: probability that a drawn step multiplies, below 1.
        multiplier_max: multipliers are 2..multiplier_max.
    """
    values = [rng.randint(1, largest - 1)]
    operations = []
    while len(operations) < length:
        u = rng.random()
        if u < multiply_share:
            sign, operand = "*", rng.randint(2, multiplier_max)
        else:
            sign, operand = "+" if u < (1 + multiply_share) / 2 else "-", rng.randint(1, operand_max)
        after = _APPLY[sign](values[-1], operand)
        if 0 <= after <= largest:
            operations.append((sign, operand))
            values.append(after)
    return Chain(tuple(operations), tuple(values))


def draw_wrong_working(rng: random.Random, chain: Chain, *, largest: int = 30) -> str:
    """A working of the same problem in which one step's result is off by up to 3 and the rest carries the slip through.

    Drawn evenly from the slips that keep every value in 0..largest and do not end at the right answer. A slip in the
    last step always does, so there is one.
    """
    wrong = []
    for slipped in range(len(chain.operations)):
        for slip in _SLIPS:
            values = [*chain.values[: slipped + 1], chain.values[slipped + 1] + slip]
            for sign, operand in chain.operations[slipped + 1 :]:
                values.append(_APPLY[sign](values[-1], operand))
            if values[-1] != chain.values[-1] and all(0 <= value <= largest for value in values):
                wrong.append(tuple(values))
    return replace(chain, values=rng.choice(wrong)).solution


class Arithmetic:
    """Chains of the given lengths, as many as asked for.

    A hash of a problem's text alone decides whether it may be trained on or is held out. So no text is on both sides,
    whatever the seeds and sizes, and a policy warmed up on one set has never seen the held-out problems of another.
    A training problem is a function of (seed, its number): a longer set begins with the shorter one. Training texts
    may repeat, since there are few short chains; held-out texts do not.

    Args:
        chain_lengths, weights: steps of a problem, and how likely each is, relative to the others (None: equally).
        corrupted_share: of the training problems, evenly spread, are corrections: `prefix` is a wrong working and the
            cue, `solution` goes on with the right one. With a loss on the solution alone they teach to correct.
        cue: what stands between the two.
        largest, operand_max, multiply_share, multiplier_max: as in `draw_chain`.

    Raises:
        UserError: an argument is out of its range; or, from `train` and `held_out`, there are too few problems.
    """

    def __init__(
        self,
        *,
        chain_lengths: Sequence[int],
        weights: Sequence[float] | None = None,
        train_size: int,
        held_out_size: int,
        seed: int,
        corrupted_share: float = 0.0,
        cue: str = CUE,
        largest: int = 30,
        operand_max: int = 9,
        multiply_share: float = 0.1,
        multiplier_max: int = 3,
    ):
        self.chain_lengths = tuple(chain_lengths)
        self.weights = None if weights is None else tuple(weights)
        self.train_size, self.held_out_size, self.seed = train_size, held_out_size, seed
        self.corrupted_share, self.cue = corrupted_share, cue
        self.largest, self.operand_max = largest, operand_max
        self.multiply_share, self.multiplier_max = multiply_share, multiplier_max
        _require_lengths(self.chain_lengths, self.weights)
        _require_at_least(0, train_size=train_size, held_out_size=held_out_size)
        _require_at_least(1, operand_max=operand_max)
        _require_at_least(2, largest=largest, multiplier_max=multiplier_max)
        if not 0 <= multiply_share < 1:
            raise UserError(f"data.multiply_share={multiply_share}: a share of 0 or more and below 1 expected")
        if not 0 <= corrupted_share <= 1:
            raise UserError(f"data.corrupted_share={corrupted_share}: a share from 0 to 1 expected")

    def train(self) -> list[Problem]:
        """`train_size` problems: train-000000, train-000001, ..."""
        problems = []
        for number in range(self.train_size):
            rng = random.Random(counter_seed(self.seed, "arithmetic", "train", number))
            chain = self._draw(rng, "train_size", taken=())
            problem = Problem(f"train-{number:06d}", chain.text, (chain.answer,), chain.solution)
            if round((number + 1) * self.corrupted_share) > round(number * self.corrupted_share):
                wrong = draw_wrong_working(rng, chain, largest=self.largest)
                problem = replace(problem, prefix=wrong + self.cue, solution=f" {chain.solution}")
            problems.append(problem)
        return problems

    def held_out(self) -> list[Problem]:
        """`held_out_size` problems of different texts: held_out-0000, held_out-0001, ..."""
        rng = random.Random(counter_seed(self.seed, "arithmetic", "held_out"))
        problems: dict[str, Problem] = {}
        while len(problems) < self.held_out_size:
            chain = self._draw(rng, "held_out_size", taken=problems)
            problem = Problem(f"held_out-{len(problems):04d}", chain.text, (chain.answer,), chain.solution)
            problems[problem.text] = problem
        return list(problems.values())

    def _draw(self, rng: random.Random, size: str, *, taken: Collection[str]) -> Chain:
        """A chain on the side that `size` names, whose text is not taken yet."""
        for _ in range(_PATIENCE):
            chain = draw_chain(
                rng,
                rng.choices(self.chain_lengths, self.weights)[0],
                largest=self.largest,
                operand_max=self.operand_max,
                multiply_share=self.multiply_share,
                multiplier_max=self.multiplier_max,
            )
            if is_held_out(chain.text) == (size == "held_out_size") and chain.text not in taken:
                return chain
        raise UserError(
            f"data.{size}={getattr(self, size)}: chains of chain_lengths={list(self.chain_lengths)} gave "
            f"{len(taken)} different problems; lower data.{size} or add a longer length"
        )


def is_held_out(text: str) -> bool:
    """The side of a problem, for every arithmetic set alike."""
    return counter_uniform("arithmetic side", text) < _HELD_OUT_SHARE


def _require_lengths(lengths: tuple[int, ...], weights: tuple[float, ...] | None) -> None:
    if not lengths or min(lengths) < 1:
        raise UserError(f"data.chain_lengths={list(lengths)}: at least one length expected, and none below 1")
    if weights is None:
        return
    if len(weights) != len(lengths):
        raise UserError(
            f"data.weights={list(weights)}: {len(lengths)} expected, one for each of "
            f"data.chain_lengths={list(lengths)}, {len(weights)} came"
        )
    if not all(weight >= 0 for weight in weights) or not 0 < sum(weights) < math.inf:
        raise UserError(f"data.weights={list(weights)}: finite numbers of 0 or more expected, at least one above 0")


def _require_at_least(least: int, **values: int) -> None:
    for name, value in values.items():
        if value < least:
            raise UserError(f"data.{name}={value}: at least {least} expected")
