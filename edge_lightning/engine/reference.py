"""An engine that copies each problem's reference solution: the path of supervised fine-tuning.

Left out: sampling. All responses of a problem are equal, so a group of one is what it is for.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from edge_lightning.engine.base import require_version
from edge_lightning.engine.limits import allowed_tokens
from edge_lightning.errors import UserError
from edge_lightning.policy import Policy
from edge_lightning.types import Generation, Provenance, Request, Sampling


class ReferenceEngine:
    """Returns the solution's ids and one end-of-sequence id."""

    provenance = Provenance.REFERENCE

    def __init__(
        self,
        *,
        policy: Policy,
        folder: str | Path,
        max_model_len: int,
        rank: int = 0,
        local_rank: int = 0,
        world_size: int = 1,
    ):
        """Args:
        policy: lends its tokenizer and its end-of-sequence id.
        max_model_len: the most tokens that prompt and solution may have together.
        folder, rank, local_rank, world_size: what other engines need; unused.
        """
        self.max_model_len = max_model_len
        self.weights_version: int | None = None
        self._encode = policy.encode
        self._eos_id = policy.eos_ids[0]

    def push_weights(self, policy: Policy, version: int) -> None:
        """Note the version; a copy needs no weights."""
        self.weights_version = version

    def generate(self, requests: Sequence[Request], sampling: Sampling, *, weights_version: int) -> list[Generation]:
        """The reference solution of each request's problem.

        Raises:
            StaleWeightsError: another version was pushed last.
            UserError: a problem has no solution, or one that is longer than the request allows.
        """
        require_version(self, weights_version)
        return [self._copy(request) for request in requests]

    def sleep(self) -> None:
        """Nothing to free."""

    def close(self) -> None:
        """Nothing is held."""
        self.weights_version = None

    def _copy(self, request: Request) -> Generation:
        problem = request.problem
        if problem.solution is None:
            raise UserError(f"problem {problem.id!r}: no reference solution; choose data with solutions or engine=vllm")
        ids = (*self._encode(problem.solution), self._eos_id)
        if len(ids) > request.max_tokens:
            raise UserError(
                f"problem {problem.id!r}: reference solution of {len(ids)} tokens with its end, rollout.response_limit "
                f"is {request.max_tokens}; raise it to {len(ids)} or leave the problem out"
            )
        if len(ids) > allowed_tokens(request, self.max_model_len):
            total = len(request.prompt_ids) + len(ids)
            raise UserError(
                f"problem {problem.id!r}: prompt and reference solution of {total} tokens, the engine takes "
                f"{self.max_model_len}; raise rollout.response_limit or leave the problem out"
            )
        return Generation(token_ids=ids, logprobs=None, finish_reason="stop")
