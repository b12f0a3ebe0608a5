"""Problems, their order, and the packing of sampled groups into micro-batches.

One Lightning batch is one rollout. The loader hands out a step's problems in an empty Rollout; the rollout callback fills
it before `training_step` sees it. The loader has a length, so Lightning does not fetch ahead and no step is stale, and a
state, so a resumed run goes on where it stood.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import lightning as L

from edge_lightning.errors import UserError, require_at_least_one
from edge_lightning.experience import Rollout
from edge_lightning.packing import pack, plan_micro_batches
from edge_lightning.seeds import counter_seed
from edge_lightning.tokens import TokenBatch
from edge_lightning.types import Problem, Response


class ProblemLoader:
    """Each step's problems. Every pass over the set has an order of its own; what does not fill a step is left out.

    A step never holds a problem twice, so (run seed, step, problem, response) names every draw of a run.
    """

    def __init__(self, problems: Sequence[Problem], *, problems_per_step: int, steps: int, seed: int):
        self.problems = problems
        self.problems_per_step = problems_per_step
        self.steps = steps
        self.seed = seed
        self.next_step = 0

    def __len__(self) -> int:
        return self.steps

    def __iter__(self) -> Iterator[Rollout]:
        start = self.next_step
        for step in range(start, self.steps):
            self.next_step = step + 1
            yield Rollout(self.problems_of(step), step)

    def problems_of(self, step: int) -> list[Problem]:
        steps_per_pass = len(self.problems) // self.problems_per_step
        sweep, place = divmod(step, steps_per_pass)
        order = list(range(len(self.problems)))
        random.Random(counter_seed(self.seed, "order", sweep)).shuffle(order)
        start = place * self.problems_per_step
        return [self.problems[i] for i in order[start : start + self.problems_per_step]]

    def state_dict(self) -> dict[str, int]:
        return {"next_step": self.next_step}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.next_step = state["next_step"]


class ProblemDataModule(L.LightningDataModule):
    """Owns the problems of a run and how a step's responses are packed.

    Args:
        train_problems, held_out_problems: as curation.py left them.
        problems_per_step: over all ranks.
        steps: rollouts of the run; None for one pass over the problems, 0 for none: the policy is evaluated alone.
        micro_batch_tokens: prompt and response tokens of a forward pass; bounds memory, changes no gradient.
        seed: of the run; orders the problems.
    Raises:
        UserError: there are fewer problems than a step takes, or a count is too small.
    """

    def __init__(
        self,
        *,
        train_problems: Sequence[Problem],
        held_out_problems: Sequence[Problem],
        problems_per_step: int,
        steps: int | None,
        micro_batch_tokens: int,
        seed: int,
    ):
        super().__init__()
        self.train_problems = list(train_problems)
        self.held_out_problems = list(held_out_problems)
        for key, value in (
            ("rollout.problems_per_step", problems_per_step),
            ("datamodule.micro_batch_tokens", micro_batch_tokens),
        ):
            require_at_least_one(key, value)
        if steps is not None and steps < 0:
            raise UserError(f"steps={steps}: at least 1 expected, 0 for an evaluation alone, null for one pass")
        if len(self.train_problems) < problems_per_step:
            raise UserError(
                f"rollout.problems_per_step={problems_per_step}: the data hold {len(self.train_problems)} training "
                "problems; lower rollout.problems_per_step or give more data"
            )
        self.problems_per_step = problems_per_step
        self.steps = steps if steps is not None else len(self.train_problems) // problems_per_step
        self.micro_batch_tokens = micro_batch_tokens
        self.seed = seed

    def train_dataloader(self) -> ProblemLoader:
        return ProblemLoader(self.train_problems, problems_per_step=self.problems_per_step, steps=self.steps, seed=self.seed)

    def micro_batches(self, responses: Sequence[Response], chosen: Sequence[int]) -> list[TokenBatch]:
        """The chosen responses of a step, packed. Every one of them stands in one micro-batch, whole."""
        plan = plan_micro_batches(responses, chosen, token_budget=self.micro_batch_tokens)
        return [pack(responses, members) for members in plan]
