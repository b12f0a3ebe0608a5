"""The figures of a step, on two groups of four responses written by hand."""

from dataclasses import replace

import pytest
import torch

from edge_lightning.credit.base import Constants
from edge_lightning.experience import Rollout
from edge_lightning.training.metrics import engine_gap, step_metrics
from edge_lightning.training.update import Update
from edge_lightning.types import Grade, Provenance
from tests.by_hand import response

NAN = float("nan")


def corrected(marks: str, provenance: Provenance, *, right: bool):
    """A response that was wrong at first: S for each token that the policy sampled, I for each that was put in."""
    mask = [mark == "S" for mark in marks]
    made = response(range(len(mask)), right=right, sampled_mask=mask, provenance=provenance)
    return replace(made, sampled_text="wrong", sampled_tokens=4, sampled_grade=Grade(0.0, False))


def rollout() -> Rollout:
    """A group that was all wrong and has one of each provenance now, and one that is right as sampled, its last cut."""
    group = [
        response(range(3)),
        corrected("SSISS", Provenance.REFLECTED, right=False),
        corrected("SIII", Provenance.ANSWER_INJECTED, right=True),
        corrected("II", Provenance.REFERENCE, right=True),
        *(response(range(2), right=True) for _ in range(3)),
        response(range(6), right=True, finish_reason="length"),
    ]
    return Rollout(
        problems=[group[0].problem] * 2,
        step=3,
        weights_version=3,
        responses=group,
        advantages_B=torch.tensor([-1.0, -1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0]),
        group_B=torch.tensor([0, 0, 0, 0, 1, 1, 1, 1]),
        sampled_advantages_B=torch.zeros(8),
        seconds={"generate": 2.0, "grade": 0.5},
    )


def update(step: Rollout, **changes) -> Update:
    """Log-probability -1 everywhere, entropy 0.5, nothing clipped."""
    lengths = torch.tensor([len(r.completion_ids) for r in step.responses])
    response_N = torch.repeat_interleave(torch.arange(len(lengths)), lengths)
    tokens = len(response_N)
    made = Update(
        constants=Constants(step.advantages_B),
        response_N=response_N,
        logprobs_N=torch.full((tokens,), -1.0),
        entropies_N=torch.full((tokens,), 0.5),
        token_advantages_N=step.advantages_B[response_N],
        ratio_N=torch.ones(tokens),
        clipped_N=torch.zeros(tokens),
        kl_N=torch.full((tokens,), NAN),
        trained_responses=4,
        losses=[0.25],
        gradient_norms=[3.0],
        learning_rate=1e-3,
        seconds={"score": 1.0, "train": 4.0},
    )
    return replace(made, **changes)


def figures(**changes):
    step = rollout()
    return step_metrics(step, update(step, **changes))


def test_accuracy_and_reward_are_those_before_and_after_correction():
    found = figures()
    assert found["accuracy/sampled"] == found["reward/mean_sampled"] == 4 / 8
    assert found["accuracy/corrected"] == found["reward/mean_corrected"] == found["reward/mean"] == 6 / 8


def test_groups_are_counted_before_and_after_correction():
    found = figures()
    before = {name: found[f"group/{name}_sampled"] for name in ("zero_variance", "all_wrong", "all_right")}
    after = {name: found[f"group/{name}_corrected"] for name in ("zero_variance", "all_wrong", "all_right")}
    assert before == {"zero_variance": 1.0, "all_wrong": 0.5, "all_right": 0.5}
    assert after == {"zero_variance": 0.5, "all_wrong": 0.0, "all_right": 0.5}


def test_a_group_of_equal_rewards_below_one_is_wrong_without_variance():
    step = rollout()
    step.responses = [replace(r, grade=Grade(0.5, False)) for r in step.responses]
    found = step_metrics(step, update(step))
    assert found["group/zero_variance_corrected"] == found["group/all_wrong_corrected"] == 1.0
    assert found["reward/mean"] == 0.5
    assert found["accuracy/corrected"] == 0.0


def test_advantage_figures_are_the_populations_own():
    found = figures()
    assert found["advantage/variance"] == 0.5  # 4 of 8 are +-1, mean 0
    assert found["advantage/abs_max"] == 1.0
    # tokens: 3 + 5 at -1, 4 + 2 at +1, 12 at 0; mean -2/26
    assert found["credit/token_advantage_variance"] == pytest.approx(14 / 26 - (2 / 26) ** 2)
    assert found["credit/token_advantage_abs_max"] == 1.0


@pytest.mark.parametrize(("policy", "gap"), [(-0.44, 0.06), (-0.56, 0.06)])
def test_the_gap_to_the_engine_has_no_sign(policy, gap):
    step = rollout()
    found = engine_gap(step.responses, update(step, logprobs_N=torch.full((26,), policy)))
    assert found["engine_gap/mean"] == found["engine_gap/max"] == pytest.approx(gap)


def test_tokens_are_counted_by_origin():
    found = figures()
    assert found["tokens/sampled"] == 3 + 4 + 4 + 4 + 12  # first answers, also where they were replaced
    assert found["tokens/regenerated"] == 2  # behind the cue of the reflection
    assert found["tokens/injected"] == 0 + 1 + 3 + 2
    assert found["length/mean"] == 26 / 8
    assert found["length/max"] == 6
    assert found["truncation/fraction"] == 1 / 8


def test_responses_are_counted_by_provenance():
    found = figures()
    counts = {str(p): found[f"count/{p}"] for p in Provenance}
    assert counts == {"sampled": 5, "reflected": 1, "answer_injected": 1, "reference": 1}
    assert found["correction/fraction"] == 3 / 8


def test_accuracy_by_provenance_is_that_of_the_responses_that_have_it():
    found = figures()
    by_provenance = {str(p): found[f"accuracy/corrected/{p}"] for p in Provenance}
    assert by_provenance == {"sampled": 4 / 5, "reflected": 0.0, "answer_injected": 1.0, "reference": 1.0}


def test_log_probabilities_are_split_by_provenance_and_by_origin():
    step = rollout()
    made = update(step)
    made.logprobs_N[3:8] = torch.tensor([-1.0, -1.0, -9.0, -1.0, -1.0])  # reflected, its cue at -9
    made.logprobs_N[8:12] = torch.tensor([-1.0, -2.0, -3.0, -7.0])  # answer injected after one token
    made.logprobs_N[12:14] = torch.tensor([-5.0, -6.0])  # reference
    found = step_metrics(step, made)
    assert found["logprob/mean/reflected"] == pytest.approx(-13 / 5)
    assert found["logprob/mean/answer_injected"] == pytest.approx(-13 / 4)
    assert found["logprob/mean/reference"] == -5.5
    assert found["logprob/mean/sampled"] == -1.0
    assert found["logprob/mean/injected_tokens"] == pytest.approx(-(9 + 2 + 3 + 7 + 5 + 6) / 6)
    made.logprobs_N[3:5] = -4.0  # in front of the cue
    made.logprobs_N[6:8] = -3.0  # behind it: sampled as well as the 15 of untouched responses at -1
    found = step_metrics(step, made)
    assert found["logprob/mean/wrong_prefix_tokens"] == pytest.approx(-(4 + 4 + 1) / 3)
    assert found["logprob/mean/sampled_tokens"] == pytest.approx(-(15 + 2 * 3) / 17)


def test_rewards_advantages_and_lengths_are_split_by_provenance_and_by_origin():
    found = figures()
    assert [found[f"reward/mean/{p}"] for p in ("sampled", "reflected", "answer_injected", "reference")] == [0.8, 0, 1, 1]
    assert [found[f"advantage/mean/{p}"] for p in ("sampled", "reflected", "answer_injected")] == [
        pytest.approx(-0.2),
        -1,
        1,
    ]
    assert found["length/mean/sampled"] == (3 + 2 + 2 + 2 + 6) / 5
    assert found["reward/mean/injected_tokens"] == pytest.approx(5 / 6)  # 3 and 2 of right responses, 1 of a wrong one
    assert found["advantage/mean/injected_tokens"] == pytest.approx((3 + 2 - 1) / 6)
    assert found["advantage/mean/wrong_prefix_tokens"] == pytest.approx((1 - 2) / 3)
    assert found["credit/token_advantage_mean/sampled_tokens"] == pytest.approx(-(3 + 2) / 17)
    assert "relative_entropy/mean/sampled" not in found


def test_the_ratio_is_split_and_its_maximum_kept():
    step = rollout()
    made = update(step)
    made.ratio_N[8:12] = torch.tensor([1.0, 2.0, 4.0, NAN])
    found = step_metrics(step, made)
    assert found["ratio/mean/answer_injected"] == pytest.approx(7 / 3)
    assert found["ratio/max/answer_injected"] == found["ratio/max/injected_tokens"] == 4.0
    assert found["ratio/max/sampled_tokens"] == 1.0


def test_figures_before_credit_are_not_those_after_it():
    step = rollout()
    made = update(step)
    made.token_advantages_N = 3 * made.token_advantages_N
    found = step_metrics(step, made)
    assert found["credit/token_advantage_mean/injected_tokens"] == pytest.approx(3 * (3 + 2 - 1) / 6)
    assert found["advantage/mean/injected_tokens"] == pytest.approx((3 + 2 - 1) / 6)
    assert found["advantage/mean/reflected"] == -1.0


def test_relative_entropy_is_split_by_provenance():
    step = rollout()
    phat = torch.tensor([0.5, 1.0, 2.0, 0.25, 1.0, 1.0, 1.0, 1.5])
    constants = Constants(step.advantages_B, phat, phat > 9)
    found = step_metrics(step, update(step, constants=constants))
    names = ("sampled", "reflected", "answer_injected", "reference")
    assert [found[f"relative_entropy/mean/{name}"] for name in names] == [1.0, 1.0, 2.0, 0.25]


def test_divergence_and_clipping_have_figures_of_their_own():
    step = rollout()
    made = update(step)
    made.kl_N = torch.full((26,), 0.25)
    made.clipped_N[8:12] = torch.tensor([1.0, 0.0, 0.0, NAN])
    made.ratio_N[8:12] = 7.0
    found = step_metrics(step, made)
    assert found["kl/mean"] == 0.25
    assert found["clip/fraction/answer_injected"] == pytest.approx(1 / 3)
    assert found["clip/fraction"] == pytest.approx(1 / 25)


def test_the_variance_of_advantages_without_correction_is_that_of_the_first_rewards():
    step = rollout()
    step.sampled_advantages_B = torch.tensor([0.0] * 6 + [3.0, -1.0])
    assert step_metrics(step, update(step))["advantage/variance_sampled"] == pytest.approx(10 / 8 - (2 / 8) ** 2)


def test_entropy_is_reported_only_where_every_response_was_scored():
    found = figures()
    assert found["entropy/mean"] == found["entropy/mean/reference"] == 0.5
    partial = figures(entropies_N=torch.tensor([0.5] * 14 + [NAN] * 12))
    assert not [name for name in partial if name.startswith("entropy/")]


def test_phat_comes_with_its_bounds_and_the_share_that_a_bound_held():
    step = rollout()
    phat = torch.tensor([0.1, 0.5, 2.0, 1.4, 1.0, 1.0, 1.0, 1.0])
    constants = Constants(step.advantages_B, phat, phat == 0.1)
    found = step_metrics(step, update(step, constants=constants))
    assert found["relative_entropy/min"] == pytest.approx(0.1)
    assert found["relative_entropy/max"] == 2.0
    assert found["relative_entropy/clamped_fraction"] == 1 / 8


def test_phat_of_groups_that_no_pass_scored_counts_nowhere():
    step = rollout()
    phat = torch.tensor([0.1, 0.5, 2.0, 1.4, NAN, NAN, NAN, NAN])
    found = step_metrics(step, update(step, constants=Constants(step.advantages_B, phat, phat == 0.1)))
    assert found["relative_entropy/max"] == 2.0
    assert found["relative_entropy/clamped_fraction"] == 1 / 4
    nothing = torch.full((8,), NAN)
    bare = step_metrics(step, update(step, constants=Constants(step.advantages_B, nothing, nothing > 0)))
    assert not [name for name in bare if name.startswith("relative_entropy/")]


def test_ratio_and_clip_share_are_means_over_the_tokens_that_had_a_ratio():
    found = figures(
        ratio_N=torch.tensor([1.5] * 3 + [0.5] * 5 + [NAN] * 18), clipped_N=torch.tensor([1.0] * 3 + [0.0] * 5 + [NAN] * 18)
    )
    assert found["ratio/mean"] == pytest.approx((3 * 1.5 + 5 * 0.5) / 8)
    assert found["clip/fraction"] == 3 / 8
    assert found["ratio/mean/reflected"] == 0.5
    assert found["clip/fraction/sampled"] == 1.0
    assert "ratio/mean/reference" not in found


def test_engine_gap_looks_at_sampled_tokens_alone():
    step = rollout()
    made = update(step)  # engine -0.5, policy -1 everywhere
    assert engine_gap(step.responses, made) == {"engine_gap/mean": 0.5, "engine_gap/max": 0.5}
    made.logprobs_N[5] = -40.0  # the cue of the reflection: injected
    assert engine_gap(step.responses, made)["engine_gap/max"] == 0.5
    made.logprobs_N[0] = -2.5  # 20 sampled tokens, one with a gap of 2
    assert engine_gap(step.responses, made) == {"engine_gap/mean": pytest.approx((19 * 0.5 + 2) / 20), "engine_gap/max": 2.0}


def test_seconds_of_rollout_and_update_stand_side_by_side():
    found = figures()
    seconds = {name: value for name, value in found.items() if name.startswith("seconds/")}
    assert seconds == {"seconds/generate": 2.0, "seconds/grade": 0.5, "seconds/score": 1.0, "seconds/train": 4.0}


def test_a_figure_without_a_value_is_absent_and_never_nan():
    step = rollout()
    step.responses = [replace(r, engine_logprobs=(None,) * len(r.completion_ids)) for r in step.responses]
    nothing_N = torch.full((26,), NAN)
    bare = dict.fromkeys(("logprobs_N", "entropies_N", "ratio_N", "clipped_N"), nothing_N)
    found = step_metrics(step, update(step, **bare))
    absent = ("entropy/", "logprob/", "ratio/", "clip/", "engine_gap/", "relative_entropy/")
    assert not [name for name in found if name.startswith(absent)]
    assert all(value == value for value in found.values())


def test_a_provenance_that_no_response_has_gets_a_count_of_zero_and_nothing_else():
    step = rollout()
    step.responses = [replace(r, provenance=Provenance.SAMPLED) for r in step.responses]
    found = step_metrics(step, update(step))
    assert found["count/reference"] == 0
    assert [name for name in found if name.endswith("/reference")] == ["count/reference"]


def test_dropped_groups_count_as_sampled_and_not_as_trained():
    step = rollout()
    before = step_metrics(step, update(step))
    step.dropped = [replace(r, sampled_grade=Grade(1.0, True), sampled_tokens=10) for r in step.responses[:4]]
    found = step_metrics(step, update(step))
    assert (before["group/dropped"], found["group/dropped"]) == (0, 1)
    assert found["accuracy/sampled"] == pytest.approx((8 * before["accuracy/sampled"] + 4) / 12)
    assert found["group/all_right_sampled"] == pytest.approx((2 * before["group/all_right_sampled"] + 1) / 3)
    assert found["accuracy/corrected"] == before["accuracy/corrected"]
    assert found["tokens/sampled"] == before["tokens/sampled"] + 40
    assert found["length/mean"] == before["length/mean"]
