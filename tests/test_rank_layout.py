"""A step's rollouts, rewards, corrections and advantages do not depend on how many ranks share it: bit for bit."""

from dataclasses import replace

import pytest
import torch

from edge_lightning.advantage.grpo import GroupRelative
from edge_lightning.advantage.mean_baseline import MeanBaseline
from edge_lightning.advantage.sampled_baseline import SampledBaseline
from edge_lightning.collective import ALONE, share_of
from edge_lightning.correction.gec import GuidedErrorCorrection
from edge_lightning.experience import Pipeline, Rollout
from edge_lightning.prompts import ChatPrompt
from edge_lightning.rewards.accuracy import BoxedAccuracy
from edge_lightning.rewards.weighted import WeightedSum
from edge_lightning.types import Generation, Problem, Provenance, Sampling
from tests.ranks import ThreadRanks, together

PROBLEMS = [Problem(f"p{n}", f"What is {n}+{n}?", (str(2 * n),), f"\\boxed{{{2 * n}}}") for n in range(9)]


class Dice:
    """An engine whose answer is a function of the request's seed and prompt alone: right in one of three cases."""

    provenance = Provenance.SAMPLED
    max_model_len = 512

    def __init__(self, policy):
        self.policy = policy

    def generate(self, requests, sampling: Sampling, *, weights_version):
        assert requests, "nothing to generate is no reason to ask"
        made = []
        for request in requests:
            right = request.seed % 3 == 0
            text = f"{request.seed % 97} \\boxed{{{request.problem.answers[0] if right else 'x' + str(request.seed % 5)}}}"
            ids = (*self.policy.encode(text), self.policy.eos_ids[0])[: request.max_tokens]
            made.append(Generation(ids, tuple(-1e-3 * (request.seed % 89 + i) for i in range(len(ids))), "stop"))
        return made


@pytest.fixture(scope="module")
def reward():
    grader = WeightedSum({"accuracy": BoxedAccuracy(timeout_s=60)})  # threads on a busy machine wait for their turn
    yield grader
    grader.close()


def filled(policy, reward, ranks, *, problems, group_size, **settings):
    stages = {"advantage": GroupRelative(), "corrector": GuidedErrorCorrection(reflection_limit=12)}
    pipeline = Pipeline(
        policy=policy, reward=reward, engine=Dice(policy), prompt=ChatPrompt(), group_size=group_size, response_limit=40,
        length_limit=512, temperature=1.0, seed=7, problems=PROBLEMS, ranks=ranks, **(stages | settings),
    )  # fmt: skip
    rollout = Rollout(list(PROBLEMS[:problems]), 3)
    pipeline.fill(rollout, weights_version=3)
    return rollout, ranks


def merged(parts):
    """What all ranks have, as one, problem by problem."""
    responses = [r for part in parts for r in part.responses]
    group_B = torch.cat([part.group_B for part in parts])
    order = sorted(range(len(responses)), key=lambda i: (group_B[i], responses[i].index))
    return replace(
        parts[0],
        responses=[responses[i] for i in order],
        advantages_B=torch.cat([part.advantages_B for part in parts])[order],
        sampled_advantages_B=torch.cat([part.sampled_advantages_B for part in parts])[order],
        group_B=group_B[order],
        dropped=sorted((r for part in parts for r in part.dropped), key=lambda r: (r.problem.id, r.index)),
        seconds={},
    )


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"refill_rounds": 2, "corrector": GuidedErrorCorrection(reflect=0, answer=1, reference=0)},
        {"mini_batches": 1},
        {"advantage": MeanBaseline(leave_one_out=True)},
        {"advantage": SampledBaseline()},
        {"corrector": GuidedErrorCorrection(reflect=0.5, answer=0.5, reference=0, retokenize=True)},
    ],
    ids=["gec", "refill", "parts", "rloo", "sampled_baseline", "retokenize"],
)
@pytest.mark.parametrize(("problems", "group_size", "layouts"), [(1, 8, (2, 4, 8)), (4, 3, (2, 5, 12))])
def test_ranks_together_make_the_step_of_one(tiny_policy, reward, settings, problems, group_size, layouts):
    step = {"problems": problems, "group_size": group_size, **settings}
    step |= {"mini_batches": problems // 2} if "mini_batches" in settings and problems > 1 else {}
    lone, _ = filled(tiny_policy, reward, ALONE, **step)
    whole = merged([lone])
    assert len({str(r.provenance) for r in whole.responses}) > 1  # something was corrected
    assert whole.sampled_advantages_B.abs().max() > 0
    assert bool(whole.dropped) == ("refill_rounds" in settings)
    for count in [n for n in layouts if n <= problems * group_size // step.get("mini_batches", 1)]:
        found = together(lambda ranks: filled(tiny_policy, reward, ranks, **step), count)
        parts = [rollout for rollout, _ in found]
        sizes = [len(part.responses) for part in parts]
        assert max(sizes) - min(sizes) <= step.get("mini_batches", 1)  # a share of each
        assert len({ranks.calls for _, ranks in found}) == 1  # none waits for the others
        assert all(part.problems == lone.problems for part in parts)
        together_made = merged(parts)
        assert together_made.responses == whole.responses
        assert together_made.dropped == whole.dropped
        for name in ("advantages_B", "sampled_advantages_B", "group_B"):
            assert torch.equal(getattr(together_made, name), getattr(whole, name)), name


@pytest.mark.parametrize(("count", "size"), [(8, 1), (8, 8), (8, 3), (7, 4), (12, 5), (2, 3)])
def test_shares_are_neighbours_and_each_place_is_in_one(count, size):
    shares = [share_of(count, ThreadRanks(rank, size, None, [])) for rank in range(size)]
    assert [place for share in shares for place in share] == list(range(count))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1
