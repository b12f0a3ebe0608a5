"""The frozen policy that a KL term or a credit compares with: the one that the run began with.

It is no part of the module, so that no checkpoint, optimizer or gradient sees it; a resumed run makes it anew from the
same model, which is loaded before the checkpoint's weights are.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from contextlib import nullcontext

import torch
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh

from edge_lightning.policy import Policy
from edge_lightning.scoring import score
from edge_lightning.sharding import is_sharded, shard
from edge_lightning.tokens import TokenBatch


class ReferencePolicy:
    """A frozen copy of a policy as it is now; costs its weights once more in memory.

    A policy with adapters is its own reference with them switched off: they do nothing when a run begins.
    """

    def __init__(self, policy: Policy):
        if policy.adapters is not None:
            self.policy = policy
            self._frozen = policy.adapters.switched_off
            return
        self.policy = Policy(copy.deepcopy(policy.model), policy.tokenizer, temperature=policy.temperature)
        self.policy.requires_grad_(False)
        self._frozen = nullcontext

    def shard(self, mesh: DeviceMesh) -> None:
        """Deal the copy's weights out to the ranks of a mesh, as the policy's are."""
        if not is_sharded(self.policy):
            shard(self.policy, mesh)

    def logprobs(self, micro_batches: Iterable[TokenBatch], response_N: Tensor, device: torch.device) -> Tensor:
        """logprobs_N of a step's tokens in their flat order, nats at the sampling temperature."""
        if not is_sharded(self.policy):
            self.policy.to(device)
        with self._frozen():
            return score(self.policy, micro_batches, response_N).logprobs_N
