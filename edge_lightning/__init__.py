"""Reinforcement learning of math-reasoning policies: EDGE-GRPO on Lightning and vLLM."""

__version__ = "0.1.0"
