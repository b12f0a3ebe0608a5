"""A step as one process would have it: what its ranks did, put together on the first of them for the figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from itertools import chain

import torch
from torch import Tensor

from edge_lightning.collective import Ranks
from edge_lightning.credit.base import Constants
from edge_lightning.experience import Rollout
from edge_lightning.training.update import Update
from edge_lightning.types import Response


def whole_step(rollout: Rollout, update: Update, ranks: Ranks) -> tuple[Rollout, Update] | None:
    """The step of all ranks on rank 0, its responses in the order of one process; None elsewhere. All ranks call it.

    A stage takes as long as it took the slowest rank.
    """
    parts = ranks.collect((rollout, replace(update, constants=_plain(update.constants))))
    if parts is None or len(parts) == 1:
        return None if parts is None else (rollout, update)
    rollouts, updates = zip(*parts)
    whole = _whole_rollout(rollouts), _whole_update(updates, [len(part.responses) for part in rollouts])
    return _in_order(*whole)


def _in_order(rollout: Rollout, update: Update) -> tuple[Rollout, Update]:
    """Problem by problem: of each mini-batch every rank has a share."""
    groups = rollout.group_B.tolist()
    order = sorted(range(len(groups)), key=lambda i: (groups[i], rollout.responses[i].index))
    lengths = update.response_N.bincount(minlength=len(groups))
    of_response = torch.arange(len(update.response_N)).split(lengths.tolist())
    order_N, order_B = torch.cat([of_response[i] for i in order]), torch.tensor(order)
    responses = {"responses": [rollout.responses[i] for i in order]}
    values = {name: getattr(rollout, name)[order_B] for name in ("advantages_B", "group_B", "sampled_advantages_B")}
    tokens = {name: value[order_N] for name, value in vars(update).items() if isinstance(value, Tensor)}
    tokens["response_N"] = torch.arange(len(order)).repeat_interleave(lengths[order_B])
    known = {name: value[order_B] for name, value in vars(update.constants).items() if value is not None}
    return replace(rollout, **responses, **values), replace(update, **tokens, constants=Constants(**known))


def _whole_rollout(parts: Sequence[Rollout]) -> Rollout:
    return replace(
        parts[0],
        responses=[response for part in parts for response in part.responses],
        advantages_B=torch.cat([part.advantages_B for part in parts]),
        group_B=torch.cat([part.group_B for part in parts]),
        sampled_advantages_B=torch.cat([part.sampled_advantages_B for part in parts]),
        dropped=_group_by_group(chain.from_iterable(part.dropped for part in parts)),
        seconds=_slowest([part.seconds for part in parts]),
    )


def _whole_update(parts: Sequence[Update], responses: Sequence[int]) -> Update:
    """Args:
    responses: how many each part has.
    """
    starts = torch.tensor([0, *responses]).cumsum(0)[:-1]
    tokens = {
        field.name: torch.cat([getattr(part, field.name) for part in parts])
        for field in fields(Update)
        if isinstance(getattr(parts[0], field.name), Tensor)
    }
    tokens["response_N"] = torch.cat([part.response_N + start for part, start in zip(parts, starts)])
    return replace(
        parts[0],
        **tokens,
        trained_responses=sum(part.trained_responses for part in parts),
        constants=_whole_constants([part.constants for part in parts]),
        seconds=_slowest([part.seconds for part in parts]),
    )


def _plain(constants: Constants) -> Constants:
    """What figures are made of."""
    return Constants(constants.advantages_B, constants.relative_entropy_B, constants.clamped_B)


def _whole_constants(parts: Sequence[Constants]) -> Constants:
    names = ("advantages_B", "relative_entropy_B", "clamped_B")
    values = {name: [getattr(part, name) for part in parts] for name in names}
    return Constants(**{name: None if found[0] is None else torch.cat(found) for name, found in values.items()})


def _group_by_group(responses: Sequence[Response]) -> list[Response]:
    """Responses in groups of one problem, each by index; a step never holds a problem twice."""
    groups: dict[str, list[Response]] = {}
    for response in responses:
        groups.setdefault(response.problem.id, []).append(response)
    return [response for group in groups.values() for response in sorted(group, key=lambda r: r.index)]


def _slowest(parts: Sequence[dict[str, float]]) -> dict[str, float]:
    return {stage: max(part.get(stage, 0.0) for part in parts) for stage in dict.fromkeys(chain.from_iterable(parts))}
