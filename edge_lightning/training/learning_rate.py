"""The learning rate of a run that goes on: what the configuration says now, not what its checkpoint holds."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence

import torch
from torch import nn


def configured_rates(
    make_optimizer: Callable, make_schedule: Callable, parameters: Sequence[nn.Parameter], done: int
) -> list[tuple[float, float]]:
    """Of each group of parameters the rate at the beginning, and the one behind `done` steps of the schedule.

    Found by taking those steps: a schedule says what its next step makes of the rate before it, and nothing else.
    """
    optimizer = make_optimizer(parameters)
    initial = [group["lr"] for group in optimizer.param_groups]
    schedule = make_schedule(optimizer=optimizer)
    with warnings.catch_warnings(action="ignore"):  # of steps without an optimizer's
        for _ in range(done):
            schedule.step()
    return [(first, group["lr"]) for first, group in zip(initial, optimizer.param_groups)]


def hold(checkpoint: dict, optimizers: Iterable[torch.optim.Optimizer], rates: Sequence[tuple[float, float]]) -> None:
    """Put the configured rates in the place of those that a checkpoint has brought.

    Args:
        optimizers: that have been loaded already, as those of shards have.
    """
    loaded = [state["param_groups"] for state in checkpoint.get("optimizer_states", ())]
    for groups in [*loaded, *(optimizer.param_groups for optimizer in optimizers)]:
        for group, (initial, now) in zip(groups, rates):
            group["initial_lr"], group["lr"] = initial, now
    for schedule in checkpoint["lr_schedulers"]:
        schedule["base_lrs"] = [initial for initial, _ in rates]
        schedule["_last_lr"] = [now for _, now in rates]
