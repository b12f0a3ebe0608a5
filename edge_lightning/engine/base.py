"""What an engine owes the pipeline: token ids in, token ids out, drawn from the weights it was given last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from edge_lightning.errors import UserError
from edge_lightning.types import Generation, Provenance, Request, Sampling

if TYPE_CHECKING:
    from edge_lightning.policy import Policy


class StaleWeightsError(RuntimeError):
    """The engine was asked to generate with weights that it does not hold."""


class Engine(Protocol):
    """A source of responses.

    Attributes:
        provenance: SAMPLED for engines that sample from the policy, REFERENCE for the one that copies solutions.
        weights_version: the version of the last push, None before the first.
        max_model_len: the most tokens that prompt and response may have together.
    """

    provenance: Provenance
    weights_version: int | None
    max_model_len: int

    def push_weights(self, policy: Policy, version: int) -> None:
        """Serve the policy's current weights from now on, and forget everything computed with older ones."""

    def generate(self, requests: Sequence[Request], sampling: Sampling, *, weights_version: int) -> list[Generation]:
        """One generation per request, in order.

        Raises:
            StaleWeightsError: the engine does not hold `weights_version`.
        """

    def sleep(self) -> None:
        """Free the device until the next push, where the engine can; generation is refused until then."""

    def close(self) -> None:
        """Free what the engine holds. Safe to call twice."""


def name_of(engine: Engine) -> str:
    """Of its class, whatever watches it."""
    return type(getattr(engine, "engine", engine)).__name__


def require_stall(stall_s: float | None) -> float | None:
    """The setting; raises UserError unless it is above 0 or None."""
    if stall_s is not None and not stall_s > 0:
        raise UserError(f"engine.stall_s={stall_s}: above 0 seconds expected, null: not watched")
    return stall_s


def require_version(engine: Engine, weights_version: int) -> None:
    """Refuse to generate with other weights than the caller means.

    Raises:
        StaleWeightsError: names both versions.
    """
    if engine.weights_version != weights_version:
        raise StaleWeightsError(
            f"engine holds weights version {engine.weights_version}, version {weights_version} was asked for; "
            "call push_weights before generate"
        )
