"""Going on from the middle of a response, and grading what stands then.

Token ids in, token ids out: what is kept is never decoded and tokenised again. A continuation ends at the limit that the
whole response had: it gets what the kept part has left of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from edge_lightning.engine.base import Engine
from edge_lightning.policy import Policy
from edge_lightning.rewards.base import Reward
from edge_lightning.types import Generation, Request, Response, Sampling


@dataclass(frozen=True, slots=True)
class Cut:
    """A response up to some token.

    Attributes:
        response: the whole of it, as it was sampled.
        kept_ids: response tokens that the continuation goes on from; they need not be those of the response.
        seed: of the continuation.
        new_tokens: that it may have; None: what the kept part has left of the response limit.
    """

    response: Response
    kept_ids: tuple[int, ...]
    seed: int
    new_tokens: int | None = None


@dataclass(frozen=True, kw_only=True)
class Continuer:
    """Goes on from cuts with the engine that sampled the responses.

    Attributes:
        temperature: of sampling, that of the responses.
        response_limit: tokens that the kept part and the continuation may have together.
        responses_at_a_time: asked of the engine together; changes no continuation.
    """

    policy: Policy
    engine: Engine
    reward: Reward
    temperature: float
    response_limit: int
    responses_at_a_time: int
    weights_version: int = 0

    def __call__(self, cuts: Sequence[Cut], advance: Callable[[int], None] = lambda done: None) -> list[Response]:
        """The whole responses, kept part and continuation, graded, in order; seeds are those of the cuts.

        A kept part that reaches the limit is graded as it stands, and counts as cut off.
        """
        responses: list[Response] = []
        for start in range(0, len(cuts), self.responses_at_a_time):
            chunk = cuts[start : start + self.responses_at_a_time]
            made = [self._whole(cut, new) for cut, new in zip(chunk, self._generations(chunk))]
            responses += [replace(response, grade=grade) for response, grade in zip(made, self.reward(made))]
            advance(len(responses))
        return responses

    def _generations(self, cuts: Sequence[Cut]) -> list[Generation]:
        rooms = [self._room(cut) for cut in cuts]
        requests = [
            Request(cut.response.problem, cut.response.prompt_ids + cut.kept_ids, room, cut.seed)
            for cut, room in zip(cuts, rooms)
            if room > 0
        ]
        sampling = Sampling(self.temperature)
        made = iter(self.engine.generate(requests, sampling, weights_version=self.weights_version) if requests else ())
        return [next(made) if room > 0 else Generation((), (), "length") for room in rooms]

    def _room(self, cut: Cut) -> int:
        kept = len(cut.kept_ids)
        limit = self.response_limit - kept if cut.new_tokens is None else cut.new_tokens
        return min(limit, self.engine.max_model_len - len(cut.response.prompt_ids) - kept)

    def _whole(self, cut: Cut, new: Generation) -> Response:
        ids = cut.kept_ids + new.token_ids
        text = self.policy.decode(ids)
        return replace(
            cut.response,
            seed=cut.seed,
            completion_ids=ids,
            sampled_mask=(True,) * len(ids),
            engine_logprobs=(None,) * len(cut.kept_ids) + (new.logprobs or ()),
            finish_reason=new.finish_reason,
            text=text,
            sampled_text=text,
            sampled_tokens=len(new.token_ids),
            sampled_grade=None,
            grade=None,
        )
