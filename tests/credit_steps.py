"""Scored steps written by hand, for tests of credits."""

from __future__ import annotations

import torch

from edge_lightning.credit.base import Scored
from edge_lightning.tokens import Forward

RESPONSE_N = torch.tensor([0, 0, 1, 1, 1])  # a response of two tokens and one of three


def scored(
    advantages,
    entropies,
    response=RESPONSE_N,
    group=None,
    *,
    logprobs=None,
    reference=None,
    rewards=None,
    right=None,
    tied=None,
    step=0,
):
    """One group unless `group` says more. By default a positive advantage is right, with a reward of 1; all 0 is a tie."""
    advantages_B = torch.as_tensor(advantages)
    group_B = torch.zeros(len(advantages_B), dtype=torch.long) if group is None else torch.as_tensor(group)
    entropies_N = torch.as_tensor(entropies)
    rewards_B = (advantages_B > 0).double() if rewards is None else torch.as_tensor(rewards, dtype=torch.float64)
    groups = int(group_B.max()) + 1
    return Scored(
        step=step,
        advantages_B=advantages_B,
        rewards_B=rewards_B,
        right_B=rewards_B == 1 if right is None else torch.as_tensor(right),
        tied_B=torch.stack([(advantages_B[group_B == g] == 0).all() for g in range(groups)])[group_B]
        if tied is None
        else torch.as_tensor(tied),
        group_B=group_B,
        groups=groups,
        response_N=response,
        entropies_N=entropies_N,
        logprobs_N=torch.zeros_like(entropies_N) if logprobs is None else torch.as_tensor(logprobs),
        reference_logprobs_N=None if reference is None else torch.as_tensor(reference),
    )


def passed(step: Scored, entropies_N=None, logprobs_N=None, tokens=None) -> Forward:
    """A forward pass over all of a step's tokens or some, under the policy that was scored unless values say otherwise."""
    place_N = torch.arange(len(step.response_N)) if tokens is None else torch.as_tensor(tokens)
    return Forward(
        step.logprobs_N[place_N] if logprobs_N is None else logprobs_N,
        step.entropies_N[place_N] if entropies_N is None else entropies_N,
        step.response_N[place_N],
        place_N,
    )


def weigh(credit, step: Scored, entropies_N=None, logprobs_N=None, tokens=None):
    """Token advantages of all of a step's tokens, or of some."""
    return credit.weigh(credit.prepare(step), passed(step, entropies_N, logprobs_N, tokens))
