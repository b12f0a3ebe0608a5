"""Chains of small sums: problems without end, whose difficulty is the number of steps.

    Start with 8. Subtract 3. Add 8. What is the result?
    8 - 3 = 5, 5 + 8 = 13. The answer is \\boxed{13}.

Every value of a chain lies in 0..largest. A wrong working can hit the right answer by luck, the more often the smaller
`largest` is, since only the box is graded.
Left out: division, negative numbers, several operations in one step.
"""

from __future__ import annotations

import math
import operator
import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from edge_lightning.data.report import SetReport
from edge_lightning.errors import UserError
from edge_lightning.seeds import counter_seed, counter_uniform
from edge_lightning.types import Problem

CUE = " Wait! Something is wrong here."

_HELD_OUT_SHARE = 0.2  # of all texts: a training set of short chains keeps most of them
_PATIENCE = 20_000  # draws without a new problem (about a third of a second) after which there are taken to be none
_VERBS = {"+": "Add", "-": "Subtract", "*": "Multiply by"}
_APPLY = {"+": operator.add, "-": operator.sub, "*": operator.mul}


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

    Drawn evenly from the slips that keep every value in 0..largest; some slip of the last step does. None ends at the
    right answer, for no later sum, difference or multiplication by 2 or more makes a slip good.
    """
    wrong = []
    for slipped in range(len(chain.operations)):
        for slip in (-3, -2, -1, 1, 2, 3):
            values = [*chain.values[: slipped + 1], chain.values[slipped + 1] + slip]
            for sign, operand in chain.operations[slipped + 1 :]:
                values.append(_APPLY[sign](values[-1], operand))
            if all(0 <= value <= largest for value in values):
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
        self.chain_lengths, self.weights = tuple(chain_lengths), None if weights is None else tuple(weights)
        self.train_size, self.held_out_size, self.seed = train_size, held_out_size, seed
        self.report = SetReport("generated", rows=train_size + held_out_size)
        self.corrupted_share, self.cue, self.largest = corrupted_share, cue, largest
        self.operand_max, self.multiply_share, self.multiplier_max = operand_max, multiply_share, multiplier_max
        lengths = list(chain_lengths)
        chances = list(weights) if weights is not None else [1.0] * len(lengths)
        _require(lengths and min(lengths) >= 1, "chain_lengths", lengths, "at least one length, and none below 1,")
        _require(len(chances) == len(lengths), "weights", chances, f"one for each of chain_lengths={lengths}")
        usable = all(chance >= 0 for chance in chances) and 0 < sum(chances) < math.inf
        _require(usable, "weights", chances, "finite numbers of 0 or more, at least one above 0,")
        least = {"train_size": 0, "held_out_size": 0, "largest": 2, "operand_max": 1, "multiplier_max": 2}
        for key in least:
            _require(getattr(self, key) >= least[key], key, getattr(self, key), f"{least[key]} or more")
        _require(0 <= corrupted_share <= 1, "corrupted_share", corrupted_share, "a share from 0 to 1")
        _require(0 <= multiply_share < 1, "multiply_share", multiply_share, "a share of 0 or more and below 1")

    def train(self) -> list[Problem]:
        """`train_size` problems: train-000000, train-000001, ..."""
        problems = []
        for number in range(self.train_size):
            rng = random.Random(counter_seed(self.seed, "arithmetic", "train", number))
            chain = self._draw(rng, "train_size", taken=())
            problem = Problem(f"train-{number:06d}", chain.text, (chain.answer,), chain.solution)
            if round((number + 1) * self.corrupted_share) > round(number * self.corrupted_share):
                prefix = draw_wrong_working(rng, chain, largest=self.largest) + self.cue
                problem = replace(problem, prefix=prefix, solution=f" {chain.solution}")
            problems.append(problem)
        return problems

    def held_out(self) -> list[Problem]:
        """`held_out_size` problems of different texts: held_out-0000, held_out-0001, ..."""
        rng = random.Random(counter_seed(self.seed, "arithmetic", "held_out"))
        found: dict[str, Problem] = {}
        while len(found) < self.held_out_size:
            chain = self._draw(rng, "held_out_size", taken=found)
            found[chain.text] = Problem(f"held_out-{len(found):04d}", chain.text, (chain.answer,), chain.solution)
        return list(found.values())

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
            held_out = counter_uniform("arithmetic side", chain.text) < _HELD_OUT_SHARE
            if held_out == (size == "held_out_size") and chain.text not in taken:
                return chain
        raise UserError(
            f"data.problem_set.{size}={getattr(self, size)}: chains of chain_lengths={list(self.chain_lengths)} gave "
            f"{len(taken)} different problems; lower {size} or add a longer length"
        )


def _require(holds: object, key: str, value: object, expected: str) -> None:
    if not holds:
        raise UserError(f"data.problem_set.{key}={value}: {expected} expected")
