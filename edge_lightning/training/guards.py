"""What is looked at before an optimizer step that could ruin the weights, and who is to blame.

A value that is no number (loss, entropy, log-probability, advantage, gradient) or a gradient beyond a bound stops the run in
front of the step, or, by configuration, lets that one step pass without an update. The problems are named either way.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn

from edge_lightning.collective import Ranks
from edge_lightning.errors import UserError, named
from edge_lightning.experience import Rollout
from edge_lightning.sharding import shard_of
from edge_lightning.training.update import Update


class UnusableStepError(UserError):
    """An update would have been made with what is no number, or with a gradient beyond its bound."""


def refuse_rewards(rollout: Rollout) -> None:
    """Raise UnusableStepError for rewards or advantages that are no numbers, before a gradient is taken."""
    rewards_B = torch.tensor([r.grade.reward for r in rollout.responses])
    for what, values_B in (("reward", rewards_B), ("advantage", rollout.advantages_B)):
        bad = (~torch.isfinite(values_B)).nonzero().flatten().tolist()
        if bad:
            who = named(_problems(rollout, bad))
            raise UnusableStepError(
                f"step {rollout.step}: {what} {float(values_B[bad[0]]):g} for {who}, a finite one expected; "
                "look at reward.* and advantage.*"
            )


@dataclass(frozen=True)
class UpdateGuard:
    """Stands in front of each optimizer step.

    Attributes:
        largest_norm: bound on the gradient's norm before clipping; None: none is too large.
        on_unusable: what becomes of the run after an update that must not be made.
    """

    largest_norm: float | None = None
    on_unusable: Literal["stop", "skip"] = "stop"

    def __post_init__(self) -> None:
        if self.largest_norm is not None and not self.largest_norm > 0:
            raise UserError(f"module.largest_gradient_norm={self.largest_norm}: above 0 expected, null for no bound")

    def __call__(
        self,
        rollout: Rollout,
        update: Update,
        trained: Sequence[int],
        parameters: Sequence[nn.Parameter],
        add_gradient: Callable[[Sequence[int]], None],
        ranks: Ranks,
    ) -> None:
        """Refuse an update that could ruin the weights, or let the optimizer's step pass without a gradient.

        All ranks call it together, and it comes to the same on each.

        Args:
            update: whose last gradient stands in the parameters, with the responses of this rank that have a fault.
            trained: the responses of this rank that the gradient is of.
            add_gradient: adds the gradient of some responses to the parameters, together with the other ranks.

        Raises:
            UnusableStepError: where the run is to stop.
        """
        fault = self._fault(rollout, update, trained, parameters, add_gradient, ranks)
        if fault is None:
            return
        line = f"step {rollout.step}, update {len(update.losses)}: {fault}; this update was not made"
        if self.on_unusable == "stop":
            raise UnusableStepError(
                f"{line}; lower optimizer.lr, set credit.floor where relative entropy can be 0, or set "
                "module.on_unusable_update=skip"
            )
        if ranks.rank == 0:
            print(line, file=sys.stderr)
        forget(parameters)
        update.skipped += 1

    def _fault(self, rollout, update, trained, parameters, add_gradient, ranks) -> str | None:
        here = {what: _problems(rollout, sorted(responses)) for what, responses in update.faults.items()}
        everywhere = ranks.gather(here)
        for what in ("entropy", "log-probability", "advantage", "loss"):  # each makes those behind it what they are
            if problems := _once(problem for faults in everywhere for problem in faults.get(what, ())):
                return f"{what} that is no finite number for {named(problems)}"
        norm = update.gradient_norms[-1]  # of all ranks
        if not math.isfinite(norm):
            responsible = _once(_without_number(rollout, trained, parameters, add_gradient, ranks))
            return f"gradient norm {norm:g}, from {named(responsible)}"
        if self.largest_norm is not None and norm > self.largest_norm:
            return f"gradient norm {norm:g}, at most module.largest_gradient_norm={self.largest_norm:g} expected"
        return None


def _without_number(rollout, trained, parameters, add_gradient, ranks) -> Iterator[str]:
    """Problems with a response whose gradient by itself is no finite number: a backward pass each. None is left after it."""
    seats = [(rank, i) for rank, some in enumerate(ranks.gather(list(trained))) for i in some]
    for rank, i in seats:
        forget(parameters)
        add_gradient([i] if rank == ranks.rank else [])
        finite = all(torch.isfinite(shard_of(p.grad)).all() for p in parameters if p.grad is not None)
        problem = rollout.responses[i].problem.id if rank == ranks.rank else None
        found = ranks.gather((finite, problem))
        if not all(finite for finite, _ in found):
            yield found[rank][1]
    forget(parameters)


def forget(parameters: Iterable[nn.Parameter]) -> None:
    """No gradient: an optimizer's step leaves weights and moments as they are, and is counted all the same."""
    for parameter in parameters:
        parameter.grad = None


def _problems(rollout: Rollout, responses: Sequence[int]) -> list[str]:
    return _once(rollout.responses[i].problem.id for i in responses)


def _once(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
