"""An ablation is a bundle of other options: what each changes against the whole method, and nothing else."""

import math
from collections.abc import Mapping
from functools import cache

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from edge_lightning.cli.hydra_app import CONF

STAGES = ("engine", "reward", "correction", "advantage", "credit", "objective", "rollout", "datamodule")
NO_CORRECTION = {"correction": "NoCorrection"}
NO_EDA = {"credit": "NoCredit"}
REFLECTION_ALONE = {"correction.reflect": 1.0, "correction.answer": 0.0, "correction.reference": 0.0}
WRONG_ANSWER = {"correction.answer": 0.5, "correction.reference": 0.0, "correction.answer_given": "wrong"}
EP_GRPO = NO_CORRECTION | {"credit": "EPGRPO", "objective.aggregation": "group_token_mean"}
BUNDLES = {
    "full": {},
    "grpo": NO_CORRECTION | NO_EDA,
    "base": NO_CORRECTION | NO_EDA | {"datamodule.steps": 0},
    "force_r": REFLECTION_ALONE | NO_EDA,
    "force_r_eda": REFLECTION_ALONE,
    "sft": NO_CORRECTION
    | NO_EDA
    | {"engine": "ReferenceEngine", "advantage": "NoAdvantage", "objective": "Supervised", "rollout.group_size": 1},
    "gec_only": NO_EDA,
    "eda_only": NO_CORRECTION,
    "gec_masked": NO_EDA | {"objective.injected_tokens": "masked"},
    "gec_no_wrong_prefix": NO_EDA | {"objective.train_wrong_prefix": False},
    "full_no_wrong_prefix": {"objective.train_wrong_prefix": False},
    "gec_wrong_answer": NO_EDA | WRONG_ANSWER,
    "gec_wrong_label": NO_EDA | WRONG_ANSWER | {"correction.reward_wrong_answer_as_right": True},
    "gec_foreign_reference": NO_EDA
    | {"correction.answer": 0.0, "correction.reference": 0.5, "correction.reference_given": "foreign"},
    "gec_supervised": NO_EDA | {"objective.injected_tokens": "supervised"},
    "gec_shaped": NO_EDA | {"objective.injected_tokens": "shaped"},
    "gec_statistics_only": NO_EDA | {"objective.train_corrected": False},
    "compute_matched_grpo": NO_CORRECTION | NO_EDA | {"rollout.group_size": 11},
    "full_sampled_baseline": {"advantage": "SampledBaseline"},
    "dr_grpo": NO_CORRECTION | NO_EDA | {"advantage": "MeanBaseline", "objective.aggregation": "token_sum"},
    "higher_temperature": NO_CORRECTION | NO_EDA | {"rollout.temperature": 1.2},
    "more_rollouts": NO_CORRECTION | NO_EDA | {"rollout.group_size": 10},
    "dapo": NO_CORRECTION
    | NO_EDA
    | {"objective.surrogate.clip_high": 0.28, "objective.aggregation": "token_mean", "rollout.refill_rounds": 3}
    | {"reward.parts.overlong": "SoftOverlong", "reward.parts.overlong.weight": 1.0}
    | {"reward.parts.overlong.from_tokens": 32, "reward.parts.overlong.to_tokens": 48},
    "eapo": NO_CORRECTION | {"credit": "EAPO"},
    "full_eapo": {"credit": "EAPO"},
    "entropy_adv": NO_CORRECTION | {"credit": "EntropyAdv"},
    "top_entropy": NO_CORRECTION | {"credit": "TopEntropy"},
    "hapo": NO_CORRECTION | {"credit": "HAPO"},
    "rl_zvp": NO_CORRECTION | {"credit": "RLZVP"},
    "ep_grpo": EP_GRPO,
    "ep_grpo_eg": EP_GRPO,
    "ep_grpo_ips": EP_GRPO,
    "ep_grpo_eg_ips": EP_GRPO,
    "ep_grpo_ips_zvd": EP_GRPO,
}
EP_GRPO_PARTS = {  # entropy gate, progress signal, its anchor in tied groups
    "ep_grpo": (True, True, True),
    "ep_grpo_eg": (True, False, True),
    "ep_grpo_ips": (False, True, False),
    "ep_grpo_eg_ips": (True, True, False),
    "ep_grpo_ips_zvd": (False, True, True),
}


@cache
def composed(*overrides):
    with initialize_config_dir(str(CONF), version_base=None):
        return compose("fit", list(overrides))


def differences(cfg, whole):
    """Keys whose values differ; a stage of another class is one difference, its keys are its own."""
    found = {}
    for stage in STAGES:
        here, there = cfg[stage].get("_target_"), whole[stage].get("_target_")
        if here != there:
            found[stage] = here.rsplit(".", 1)[1]
        else:
            mine, others = flat(cfg[stage], stage), flat(whole[stage], stage)
            found |= {key: value for key, value in mine.items() if key not in others or value != others[key]}
    return found


def flat(node, name):
    """Values by dotted key; a part that is built is one, by its class, beside its own values."""
    found = {}
    for key, value in node.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{name}.{key}")
        elif key == "_target_":
            found[name] = value.rsplit(".", 1)[1]
        else:
            found[f"{name}.{key}"] = value
    return found


@pytest.mark.parametrize("name", BUNDLES)
def test_a_bundle_changes_what_it_says_and_nothing_else(name):
    cfg = composed(f"ablation={name}")
    assert cfg.ablation.name == name
    assert differences(cfg, composed("ablation=full")) == BUNDLES[name]


def test_the_default_is_the_whole_method():
    assert differences(composed(), composed("ablation=full")) == {}


@pytest.mark.parametrize(("reflect", "answer", "reference"), [(0, 1, 0), (0, 0, 1), (0.25, 0.5, 0.25), (0.5, 0.5, 0)])
def test_a_mix_of_branches_is_three_keys_on_the_command_line(reflect, answer, reference):
    shares = {"reflect": reflect, "answer": answer, "reference": reference}
    cfg = composed("ablation=full", *(f"correction.{key}={value}" for key, value in shares.items()))
    assert {key: cfg.correction[key] for key in shares} == shares


def test_every_ablation_is_held_against_the_whole_method():
    assert sorted(BUNDLES) == sorted(path.stem for path in (CONF / "ablation").glob("*.yaml"))


@pytest.mark.parametrize("name", EP_GRPO_PARTS)
def test_parts_of_ep_grpo_are_switched_one_by_one(name):
    credit = composed(f"ablation={name}").credit
    assert (credit.entropy_gate, credit.progress, credit.zero_variance) == EP_GRPO_PARTS[name]


@pytest.mark.parametrize(
    ("group", "option", "values"),
    [
        ("advantage", "dr_grpo", {"leave_one_out": False}),
        ("advantage", "rloo", {"leave_one_out": True}),
        ("credit", "eda", {"floor": 0.1, "ceiling": 10.0}),
        ("credit", "eapo", {"kappa": pytest.approx(math.log(4)), "positive": 1, "negative": -1}),
        ("credit", "ep_grpo", {"gamma": 5.0, "buckets": 10, "eta": 0.2}),
        ("credit", "entropy_adv", {"alpha": 0.4, "kappa": 2.0}),
        ("credit", "top_entropy", {"share": 0.2}),
        ("credit", "hapo", {"margin": 0.1, "tiny": 1e-6, "sign_slip": False}),
        ("credit", "rl_zvp", {"alpha": 0.1}),
        ("objective", "ppo_clip", {"surrogate.clip_low": 0.2, "surrogate.clip_high": 0.2}),
        ("objective", "clip_higher", {"surrogate.clip_low": 0.2, "surrogate.clip_high": 0.28}),
        ("objective", "gspo", {"surrogate.clip_low": 3e-4, "surrogate.clip_high": 4e-4}),
        ("objective", "cispo", {"surrogate.cap": 5.0}),
    ],
)
def test_constants_are_those_of_the_papers(group, option, values):
    cfg = composed(f"{group}={option}")
    assert {key: OmegaConf.select(cfg[group], key) for key in values} == values
