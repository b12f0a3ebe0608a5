"""How many tokens a request may have; every engine refuses and cuts alike."""

from __future__ import annotations

from edge_lightning.errors import UserError
from edge_lightning.types import Request


def allowed_tokens(request: Request, max_model_len: int) -> int:
    """The most new tokens of a request: `max_tokens`, or what the prompt leaves of `max_model_len`.

    Raises:
        UserError: no token is asked for, or the prompt leaves no room for one.
    """
    if request.max_tokens < 1:
        raise UserError(
            f"problem {request.problem.id!r}: at least 1 new token expected, {request.max_tokens} asked for; "
            "raise the response limit"
        )
    prompt = len(request.prompt_ids)
    if prompt >= max_model_len:
        raise UserError(
            f"problem {request.problem.id!r}: prompt of {prompt} tokens, the engine takes {max_model_len} in all; "
            "raise rollout.prompt_limit or leave the problem out"
        )
    return min(request.max_tokens, max_model_len - prompt)
