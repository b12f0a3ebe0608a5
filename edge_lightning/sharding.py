"""A policy whose weights are dealt out to ranks (FSDP2), and how each gets to see them whole: unit by unit.

A unit is a decoder layer; what is left (embeddings, last norm, head) is one more, which is whole during the whole of the
policy's forward pass, since the head is read by blocks (head.py). Every function here is called by all ranks together.
Left out: sharding a tensor over the ranks of a layer's product (tensor parallelism), offloading to the CPU.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor
from transformers.modeling_layers import GradientCheckpointingLayer

from edge_lightning.errors import UserError


def shard(policy: nn.Module, mesh: DeviceMesh) -> None:
    """Deal a policy's weights out to the ranks of a mesh, layer by layer.

    Raises:
        UserError: the model has no layers of transformers' kind.
    """
    layers = [module for module in policy.modules() if isinstance(module, GradientCheckpointingLayer)]
    if not layers:
        raise UserError(f"strategy=fsdp: {type(policy.model).__name__} has no layers to shard; set strategy=ddp")
    for layer in layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(policy, mesh=mesh)
    fully_shard.state(policy)._lazy_init()  # else the first part of it that runs by itself would take itself for the root


def is_sharded(module: nn.Module) -> bool:
    return isinstance(module, FSDPModule)


def whole_parameters(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """named_parameters(), each as long as the caller looks at it; of a sharded module never more than one unit is whole.

    A caller that keeps one copies it. Tied weights come once.
    """
    if not is_sharded(module):
        yield from module.named_parameters()
        return
    for place, unit in _units(module):
        nested = tuple(f"{name}." for name, part in unit.named_modules() if name and is_sharded(part))
        unit.unshard()
        try:
            for name, parameter in unit.named_parameters():
                if not name.startswith(nested):
                    yield f"{place}.{name}" if place else name, parameter
        finally:
            unit.reshard()


def gather(module: nn.Module) -> None:
    """Make a sharded module whole until `release`: it costs its weights once more, and runs without other ranks."""
    for _, unit in _units(module):
        unit.set_reshard_after_forward(False, recurse=False)
        unit.unshard()


def release(module: nn.Module) -> None:
    """Undo `gather`: each rank keeps its shards alone, and nothing of the passes that it made by itself."""
    forget_passes(module)
    for place, unit in _units(module):
        unit.set_reshard_after_forward(bool(place), recurse=False)  # the outermost is needed at once in the backward pass


def forget_passes(module: nn.Module) -> None:
    """After passes without gradient: FSDP keeps their order to fetch weights ahead in a backward pass that never comes."""
    if is_sharded(module):
        module.reset_iter_state()


def is_shard(tensor: Tensor) -> bool:
    """Whether it is a part, of which other ranks have the others."""
    return isinstance(tensor, DTensor)


def shard_of(tensor: Tensor) -> Tensor:
    """What of it lies on this rank; the tensor itself where it is whole."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def whole(tensor: Tensor) -> Tensor:
    """All ranks' shards together; the tensor itself where it is whole."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def _units(module: nn.Module) -> list[tuple[str, FSDPModule]]:
    return [(name, part) for name, part in module.named_modules() if is_sharded(part)]


@torch.no_grad()
def clip_gradients(parameters: list[nn.Parameter], limit: float) -> float:
    """Clip the norm of the whole gradient, all shards together; returns it as it was before."""
    return float(whole(torch.nn.utils.clip_grad_norm_(parameters, limit)))
