"""The pipeline on one page: from problems to graded, corrected groups with their advantages.

    problems -> prompts -> engine.generate -> rewards -> correction -> rewards again -> advantages

What follows (scoring, credit, objective) needs gradients and is in training/module.py. Source: EDGE-GRPO
(arXiv:2507.21848), Algorithm 1. Every draw is a function of (run seed, step, problem, response): see seeds.py.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import torch
from torch import Tensor

from edge_lightning.advantage.base import Advantage
from edge_lightning.collective import ALONE, Ranks, gathered, share_of
from edge_lightning.correction.base import CorrectionTools, Corrector
from edge_lightning.engine.base import Engine
from edge_lightning.errors import UserError, require_at_least_one
from edge_lightning.policy import Policy
from edge_lightning.prompts import Prompt
from edge_lightning.rewards.base import Reward
from edge_lightning.seeds import counter_seed, counter_uniform
from edge_lightning.stopwatch import Stopwatch
from edge_lightning.types import Generation, Problem, Provenance, Request, Response, Sampling


@dataclass
class Rollout:
    """One step's responses, group by group.

    Attributes:
        problems: of all ranks. The rollout callback fills in the rest, in place.
        step: number of rollouts before this one; weights_version: the weights that sampled.
        responses: of this rank, after correction; each keeps what the policy said first. A group may be spread over ranks.
        advantages_B, group_B: group-relative advantage of each of them, and the place of its problem in `problems`.
        sampled_advantages_B: what the advantages would have been without correction.
        dropped: responses of this rank in groups that others were sampled in place of.
        seconds: by stage.
    """

    problems: list[Problem]
    step: int
    weights_version: int = -1
    responses: list[Response] = field(default_factory=list)
    advantages_B: Tensor | None = None
    group_B: Tensor | None = None
    sampled_advantages_B: Tensor | None = None
    dropped: list[Response] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    def mini_batches(self, count: int) -> list[list[int]]:
        """Responses by mini-batch: whole groups, one after the other, about as many in each."""
        ends = [len(self.problems) * (number + 1) // count for number in range(count)]
        parts: list[list[int]] = [[] for _ in ends]
        for response, group in enumerate(self.group_B.tolist()):
            parts[bisect_right(ends, group)].append(response)
        return parts


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """The stages in front of the gradient.

    Attributes:
        group_size: responses of a problem (G).
        response_limit: new tokens of a response.
        length_limit: prompt, response and correction together, in tokens. The engine may take more, for evaluations.
        temperature: of sampling; log-probabilities and entropies are taken at the same.
        seed: of the run.
        problems: the training problems, for corrections that take text of another problem, and for refills.
        refill_rounds: how often groups that are all right or all wrong after correction are dropped and groups of other
            problems sampled in their place (dynamic sampling of DAPO, arXiv:2503.14476); what is tied after that stays.
        mini_batches: parts of a step that are trained on one after the other.
        ranks: that share a step. The responses of each part, problem by problem, are dealt out to them in a row, and what
            they make of a step together is what one rank makes of it.
    """

    policy: Policy
    prompt: Prompt
    engine: Engine
    reward: Reward
    corrector: Corrector
    advantage: Advantage
    group_size: int
    response_limit: int
    length_limit: int
    temperature: float
    seed: int
    problems: Sequence[Problem] = ()
    refill_rounds: int = 0
    mini_batches: int = 1
    ranks: Ranks = ALONE

    def __post_init__(self) -> None:
        check_group_size(self.advantage, self.group_size)
        if self.refill_rounds < 0:
            raise UserError(f"rollout.refill_rounds={self.refill_rounds}: at least 0 expected")

    def fill(self, rollout: Rollout, *, weights_version: int) -> None:
        """Sample, grade, correct, grade again and compare; fills `rollout` in place. All ranks call it together."""
        clock = Stopwatch()
        rollout.weights_version = weights_version
        places = self._places(len(rollout.problems))
        graded = self._graded(places, rollout, clock)
        if self.refill_rounds:
            self._refill(graded, places, rollout, clock)
        self._compare(graded, places, rollout)
        rollout.responses = graded
        rollout.seconds.update(clock.seconds)

    def _places(self, problems: int) -> list[int]:
        """Of this rank's responses among all of a step: a share of each mini-batch, so that every rank has work in each."""
        ends = [problems * number // self.mini_batches * self.group_size for number in range(self.mini_batches + 1)]
        return [start + place for start, end in pairwise(ends) for place in share_of(end - start, self.ranks)]

    def _compare(self, graded: Sequence[Response], places: Sequence[int], rollout: Rollout) -> None:
        """Advantages in the groups of the whole step, of which this rank keeps its own."""
        groups = len(rollout.problems)
        group_B = torch.arange(groups).repeat_interleave(self.group_size)
        rewards = gathered(places, [(r.sampled_grade.reward, r.grade.reward) for r in graded], self.ranks)
        first_B, rewards_B = torch.tensor(rewards, dtype=torch.float64).T
        mine = torch.tensor(places, dtype=torch.long)
        rollout.group_B = group_B[mine]
        rollout.advantages_B = self.advantage(rewards_B, group_B, groups, sampled_rewards_B=first_B)[mine]
        rollout.sampled_advantages_B = self.advantage(first_B, group_B, groups, sampled_rewards_B=first_B)[mine]

    def _graded(self, places: Sequence[int], rollout: Rollout, clock: Stopwatch) -> list[Response]:
        """Corrected and graded responses at some places of the step, problem by problem."""
        step, weights_version = rollout.step, rollout.weights_version
        seats = [(rollout.problems[place // self.group_size], place % self.group_size) for place in places]
        with clock("generate"):
            sampled = self._sample(seats, step, weights_version)
        with clock("grade"):
            sampled = [replace(r, sampled_grade=r.grade) for r in self._grade(sampled)]
        with clock("correct"):
            corrected = self.corrector(sampled, self._tools(step, weights_version))
        with clock("grade"):
            return self._grade(corrected)

    def _refill(self, graded: list[Response], places: Sequence[int], rollout: Rollout, clock: Stopwatch) -> None:
        """Put groups of other problems where groups are tied, in place; those keep coming in an order of the step's own."""
        taken = {problem.id for problem in rollout.problems}
        others = [problem for problem in self.problems if problem.id not in taken]
        random.Random(counter_seed(self.seed, "refill", rollout.step)).shuffle(others)
        waiting = iter(others)
        size = self.group_size
        for _ in range(self.refill_rounds):
            rights = gathered(places, [r.grade.right for r in graded], self.ranks)
            tied = [i for i in range(len(rollout.problems)) if len(set(rights[i * size : (i + 1) * size])) == 1]
            fresh = dict(zip(tied, waiting))
            if not fresh:
                return
            for place, problem in fresh.items():
                rollout.problems[place] = problem
            mine = [number for number, place in enumerate(places) if place // size in fresh]
            for number, response in zip(mine, self._graded([places[n] for n in mine], rollout, clock)):
                rollout.dropped.append(graded[number])
                graded[number] = response

    def _sample(self, seats: Sequence[tuple[Problem, int]], step: int, weights_version: int) -> list[Response]:
        prompts = {problem.id: self.prompt(problem, self.policy.tokenizer) for problem, _ in seats}
        requests = [
            Request(
                problem,
                prompts[problem.id],
                self.response_limit,
                counter_seed(self.seed, step, problem.id, index, "sample"),
            )
            for problem, index in seats
        ]
        generations = self._generate(requests, weights_version)
        return [self._response(r, g, index) for r, g, (_, index) in zip(requests, generations, seats)]

    def _generate(self, requests: Sequence[Request], weights_version: int) -> list[Generation]:
        if not requests:  # other ranks may have some
            return []
        return self.engine.generate(requests, Sampling(self.temperature), weights_version=weights_version)

    def _response(self, request: Request, generation: Generation, index: int) -> Response:
        ids = generation.token_ids
        sampled = self.engine.provenance is Provenance.SAMPLED
        text = self.policy.decode(ids)
        return Response(
            problem=request.problem,
            index=index,
            seed=request.seed,
            prompt_ids=request.prompt_ids,
            completion_ids=ids,
            sampled_mask=(sampled,) * len(ids),
            engine_logprobs=generation.logprobs if sampled else (None,) * len(ids),
            finish_reason=generation.finish_reason,
            provenance=self.engine.provenance,
            text=text,
            sampled_text=text,
            sampled_tokens=len(ids) if sampled else 0,
        )

    def _grade(self, responses: Sequence[Response]) -> list[Response]:
        """Grade the responses that have no grade yet; the others keep theirs."""
        ungraded = [i for i, response in enumerate(responses) if response.grade is None]
        graded = list(responses)
        for i, grade in zip(ungraded, self.reward([responses[i] for i in ungraded])):
            graded[i] = replace(responses[i], grade=grade)
        return graded

    def _tools(self, step: int, weights_version: int) -> CorrectionTools:
        def counters(response: Response, purpose: str) -> tuple:
            return self.seed, step, response.problem.id, response.index, purpose

        return CorrectionTools(
            generate=lambda requests: self._generate(requests, weights_version),
            encode=self.policy.encode,
            decode=self.policy.decode,
            grade=lambda response, text: self.reward([replace(response, text=text)])[0],
            uniform=lambda response, purpose: counter_uniform(*counters(response, purpose)),
            seed=lambda response, purpose: counter_seed(*counters(response, purpose)),
            eos_ids=self.policy.eos_ids,
            length_limit=self.length_limit,
            problems=self.problems,
            gather=self.ranks.gather,
        )


def check_group_size(advantage: Advantage, group_size: int) -> None:
    """Raise UserError for groups that are too small for the advantage."""
    require_at_least_one("rollout.group_size", group_size)
    if group_size < advantage.smallest_group:
        raise UserError(
            f"rollout.group_size={group_size}: at least {advantage.smallest_group} expected, since the advantage compares "
            "the responses of a group; raise rollout.group_size or set advantage=none"
        )
