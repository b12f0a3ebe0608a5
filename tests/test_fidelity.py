"""What the released code does otherwise than the paper: each deviation is a key, and what it changes in one small group.

Those of the entropy-driven advantage (padding, gradient through P, mean over the step) are in test_credit.py, ids made anew
and long prompts in test_correction_retokenization.py.
"""

import pytest
import torch
import yaml
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from omegaconf import OmegaConf

from edge_lightning.advantage.grpo import GroupRelative
from edge_lightning.advantage.sampled_baseline import SampledBaseline
from edge_lightning.cli.hydra_app import CONF
from edge_lightning.correction.gec import GuidedErrorCorrection
from edge_lightning.credit.eda import EntropyDrivenAdvantage
from edge_lightning.rewards.accuracy import BoxedAccuracy
from edge_lightning.rewards.weighted import WeightedSum
from edge_lightning.types import Problem, Provenance
from tests.by_hand import PROBLEM
from tests.credit_steps import scored
from tests.test_correction import Desk, said

GROUP = torch.zeros(4, dtype=torch.long)
ONE_RIGHT = torch.tensor([1.0, 0.0, 0.0, 0.0])

REACHED = {  # key -> the key of a stage that takes its value
    "advantage_ddof": "advantage.ddof",
    "advantage_epsilon": "advantage.epsilon",
    "relative_entropy_floor": "credit.floor",
    "relative_entropy_ceiling": "credit.ceiling",
    "entropy_over_padding": "credit.entropy_over_padding",
    "detach": "credit.detach",
    "mean_over": "credit.mean_over",
    "reward_offset": "reward.offset",
    "corrected_prompt_limit": "correction.prompt_limit",
    "retokenize": "correction.retokenize",
    "verified_references_only": "correction.verified_references_only",
}


def composed(*overrides):
    with initialize_config_dir(str(CONF), version_base=None):
        return compose("fit", list(overrides))


def values(option):
    return yaml.safe_load((CONF / "fidelity" / f"{option}.yaml").read_text())


def test_both_options_have_the_same_keys_and_every_value_differs():
    assert values("paper").keys() == values("reference_code").keys() == REACHED.keys()
    assert [key for key in REACHED if values("paper")[key] == values("reference_code")[key]] == []


@pytest.mark.parametrize("key", REACHED)
def test_each_deviation_can_be_set_alone_and_reaches_its_stage(key):
    value = values("reference_code")[key]
    for cfg in (composed("fidelity=reference_code"), composed(f"fidelity.{key}={'null' if value is None else value}")):
        assert OmegaConf.select(cfg, REACHED[key]) == value
    others = OmegaConf.to_container(cfg.fidelity)
    assert {k for k in REACHED if others[k] != values("paper")[k]} == {key}


@pytest.mark.parametrize("name", ["paper_1_5b", "paper_7b"])
def test_a_published_run_has_the_papers_values_without_what_is_ours_or_the_codes(name):
    theirs = {"relative_entropy_floor": None, "relative_entropy_ceiling": None, "verified_references_only": False}
    assert OmegaConf.to_container(composed(f"experiment={name}").fidelity) == values("paper") | theirs
    assert OmegaConf.to_container(composed(f"experiment={name}", "fidelity=reference_code").fidelity) == values(
        "reference_code"
    )


def test_the_stages_can_be_built_as_the_released_code_has_them():
    cfg = composed("fidelity=reference_code")
    for stage in ("advantage", "credit", "correction", "reward"):
        instantiate(cfg[stage])


def test_the_other_commands_have_no_fidelity_and_no_offset():
    with initialize_config_dir(str(CONF), version_base=None):
        for command in ("validate", "screen", "grade"):
            assert compose(command).reward.offset == 0.0


def test_one_degree_of_freedom_less_makes_advantages_smaller():
    # std sqrt(3/16) = .433 against sqrt((3/4) / 3) = .5: 3/4 over each
    assert GroupRelative()(ONE_RIGHT, GROUP, 1)[0].item() == pytest.approx(3**0.5)
    assert GroupRelative(ddof=1)(ONE_RIGHT, GROUP, 1).tolist() == pytest.approx([1.5, -0.5, -0.5, -0.5])


def test_an_epsilon_in_the_denominator_takes_4_parts_in_10_000():
    # .75 / (.4330127 + .0001) = 1.7316509, .75 / .4330127 = 1.7320508
    first = GroupRelative(epsilon=1e-4)(ONE_RIGHT.double(), GROUP, 1)[0].item()
    assert first == pytest.approx(1.7316509, abs=2e-7)


def test_an_offset_of_all_rewards_changes_no_advantage():
    # r - mean and the deviation are those of the rewards without it, and so with an epsilon too
    texts = [rf"\boxed{{{n}}}" for n in (5, 4, 4, 4)]
    found = {}
    for offset in (0.0, 1.0):
        reward = WeightedSum({"accuracy": BoxedAccuracy()}, offset=offset)
        grades = reward([said(text) for text in texts])
        assert [grade.reward for grade in grades] == [1 + offset, offset, offset, offset]
        assert [grade.right for grade in grades] == [True, False, False, False]  # at r = 2, not at r = 1
        rewards = torch.tensor([grade.reward for grade in grades])
        found[offset] = [
            advantage(rewards, GROUP, 1, sampled_rewards_B=rewards).tolist()
            for advantage in (GroupRelative(), GroupRelative(ddof=1, epsilon=1e-4), SampledBaseline())
        ]
        reward.close()
    assert found[0.0] == found[1.0]


def test_without_a_floor_a_confident_response_is_taken_twenty_times():
    # P = .05, 1.65, 1.15, 1.15, mean 1: Phat of the first is .05, the floor makes it .1
    entropies, one_each = torch.tensor([0.05, 1.65, 1.15, 1.15]), torch.arange(4)
    step = scored([1.0, -1.0, 1.0, -1.0], entropies, one_each, GROUP)
    weight = {floor: EntropyDrivenAdvantage(floor=floor, ceiling=None).prepare(step) for floor in (0.1, None)}
    assert [1 / w.relative_entropy_B[0].item() for w in weight.values()] == pytest.approx([10, 20])


def test_a_ceiling_of_10_holds_for_no_group_of_8():
    # the largest Phat: all of the entropy in one response, P / (P / 8)
    entropies, one_each = torch.tensor([3.0] + [0.0] * 7), torch.arange(8)
    step = scored(torch.ones(8), entropies, one_each)
    for ceiling in (10.0, None):
        found = EntropyDrivenAdvantage(floor=None, ceiling=ceiling).prepare(step).relative_entropy_B
        assert found.tolist() == [8.0] + [0.0] * 7


def test_a_reference_solution_with_another_answer_is_put_in_and_keeps_a_reward_of_0():
    contradictory = Problem("p", PROBLEM.text, ("5",), r"so \boxed{8}", solution_right=False)
    for verified, provenance, right in ((True, Provenance.ANSWER_INJECTED, True), (False, Provenance.REFERENCE, False)):
        gec = GuidedErrorCorrection(reflect=0.0, answer=0.0, reference=1.0, verified_references_only=verified)
        (changed,) = gec([said("4", problem=contradictory)], (desk := Desk()).tools)
        assert changed.provenance == provenance
        assert desk.tools.grade(changed, changed.text).right is right
