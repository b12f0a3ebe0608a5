"""How the layers of the policy run: once more in the backward pass to spare memory, or compiled to spare time.

Neither changes a value by more than rounding. Embeddings, the last norm and the head stay as they are.
Left out: other compilers' settings, choosing layers.
"""

from __future__ import annotations

import os
import shutil
import sysconfig
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import torch
import torch._dynamo
from torch import nn
from transformers.modeling_layers import GradientCheckpointingLayer

from edge_lightning.errors import UserError

# torch runs a layer uncompiled, with no more than a warning, where it would need more variants than this. With and without
# gradient, of the layer itself or of its input, packed and padded, one response and more, adapters on and off: about 20.
VARIANTS = 32


def recompute_layers(model: nn.Module) -> None:
    """Keep the input of each layer alone for the backward pass, which runs the layer again. Puts the model into train().

    Raises:
        UserError: transformers can't do it with this model, or the model has dropout, which train() would switch on.
    """
    key = "model.gradient_checkpointing=true"
    for name, share in model.config.get_text_config().to_dict().items():
        if "drop" in name and isinstance(share, float) and share > 0:
            raise UserError(
                f"{key}: a model without dropout expected, since layers run again in training mode, {name}={share} came; "
                "set it to 0 in the model's config.json"
            )
    if not model.supports_gradient_checkpointing:
        raise UserError(f"{key}: {type(model).__name__} can't do that; set model.gradient_checkpointing=false")
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    model.train()


def compile_layers(model: nn.Module, *, backend: str | Callable = "inductor") -> None:
    """Compile the decoder's layers for rows of any length; the first passes take the time for it.

    Layers of one kind share their code, so that the time does not grow with their number as that of a whole decoder would.
    A pass with and one without gradient, and rows of one response and of more, are compiled by themselves.

    Args:
        backend: what torch hands a layer's graph to.
    Raises:
        UserError: there is no compiler, or the model has no layers of transformers' kind.
    """
    if backend == "inductor":
        require_compiler()
    layers = [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]
    if not layers:
        raise UserError(f"model.compile=true: {type(model).__name__} has no layers to compile; set model.compile=false")
    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, VARIANTS)
    for layer in layers:
        layer.compile(dynamic=True, backend=backend)
    model.edge_compiled_layers = True


def is_compiled(model: nn.Module) -> bool:
    """Whether compile_layers was called with the model."""
    return getattr(model, "edge_compiled_layers", False)


def uncompiled() -> AbstractContextManager:
    """Compiled layers run as they were before inside the block."""
    return torch.compiler.set_stance("force_eager")


def require_compiler() -> None:
    """Raise UserError where torch.compile would fail for want of a C++ compiler or of Python's headers."""
    compiler = os.environ.get("CXX", "g++")
    if shutil.which(compiler) is None:
        raise UserError(f"model.compile=true: a C++ compiler expected, there is no {compiler}; install it or set CXX")
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        raise UserError(
            f"model.compile=true: the headers of Python {sysconfig.get_python_version()} expected, there is no Python.h in "
            f"{sysconfig.get_path('include')}; install them"
        )
