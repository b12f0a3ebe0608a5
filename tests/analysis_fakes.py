"""An engine whose continuations are known, and what stands around it."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager

import numpy as np

from edge_lightning.analysis.base import Measured, Tools
from edge_lightning.analysis.continuation import Continuer
from edge_lightning.types import Generation, Grade, Problem, Provenance
from tests.by_hand import response

RIGHT, WRONG = 200, 201  # the last token of a response says what it is


class ScriptedEngine:
    """The first so many continuations of a sequence end right, the others wrong; a sequence without an entry is an error."""

    provenance = Provenance.SAMPLED
    weights_version = 0

    def __init__(self, right_of: dict[tuple[int, ...], int], max_model_len: int = 100):
        self.right_of, self.max_model_len = right_of, max_model_len
        self.requests, self.seen = [], Counter()

    def generate(self, requests, sampling, *, weights_version):
        made = []
        for request in requests:
            self.requests.append(request)
            self.seen[request.prompt_ids] += 1
            right = self.seen[request.prompt_ids] <= self.right_of[request.prompt_ids]
            made.append(Generation((RIGHT if right else WRONG,), (-0.1,), "stop"))
        return made


class LastTokenReward:
    """Right where the last token says so."""

    timeouts = 0

    def __call__(self, responses):
        return [Grade(float(r.completion_ids[-1] == RIGHT), r.completion_ids[-1] == RIGHT) for r in responses]


class Spelled:
    """A policy whose texts are its ids."""

    eos_ids = (0,)
    temperature = 1.0

    def decode(self, ids):
        return " ".join(map(str, ids))


def measured(name: str, prompt: int, ids, entropies, *, right: bool, index: int = 0) -> Measured:
    """A response to a problem of its own, whose prompt is one token."""
    problem = Problem(name, name, ("1",))
    made = response(ids, right=right, index=index, problem=problem, prompt_ids=(prompt,))
    return Measured(made, np.array(entropies, dtype=np.float64))


@contextmanager
def unseen(what, total):
    yield lambda done: None


def tools(engine, *, policy=None, response_limit: int = 50, responses_at_a_time: int = 3, seed: int = 0) -> Tools:
    policy = policy or Spelled()
    continuer = Continuer(
        policy=policy,
        engine=engine,
        reward=LastTokenReward(),
        temperature=1.0,
        response_limit=response_limit,
        responses_at_a_time=responses_at_a_time,
    )
    return Tools(policy=policy, continuer=continuer, seed=seed, show=unseen)
