"""A package that breaks vLLM and transformers where it was built for another torch."""

from __future__ import annotations

import importlib.metadata
import importlib.util

import torch

from edge_lightning.errors import UserError


def refuse_broken_torchvision() -> None:
    """Raise UserError if a torchvision built for CUDA stands beside a CPU torch: transformers fails on it too."""
    if torch.version.cuda is None and importlib.util.find_spec("torchvision") is not None:
        version = importlib.metadata.version("torchvision")
        if not version.endswith("+cpu"):
            raise UserError(
                f"torchvision {version} does not fit torch {torch.__version__} and breaks vLLM; "
                "run: pip uninstall -y torchvision torchaudio torchcodec"
            )
