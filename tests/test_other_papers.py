"""The published runs and evaluations of EAPO and EP-GRPO: every constant of theirs stands in the resolved configuration.

What needs a hub (models, data, some benchmarks) is not loaded; data are read from rows in the shape that they have there.
"""

import json
import math

import pytest
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from omegaconf import OmegaConf

from edge_lightning.cli.build import build_benchmarks, build_problem_set
from edge_lightning.cli.checks import check_credit, check_model, check_source, check_values
from edge_lightning.cli.hydra_app import CONF
from edge_lightning.cli.schema import check
from edge_lightning.credit.eapo import EAPO
from edge_lightning.credit.ep_grpo import EPGRPO
from edge_lightning.prompts import ChatPrompt
from edge_lightning.types import Sampling

RUNS = ("eapo_qwen3_4b", "ep_grpo_qwen2_5_3b")
INSTRUCTION = r"Please reason step by step, and put your final answer within \boxed{}."


def composed(*overrides, command="fit"):
    with initialize_config_dir(str(CONF), version_base=None):
        return compose(command, ["ckpt=x", *overrides] if command == "validate" else list(overrides))


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("ablation", [None, "grpo", "full", "entropy_adv", "higher_temperature", "ep_grpo_eg"])
def test_a_published_run_passes_every_check_that_loads_no_model(run, ablation):
    cfg = composed(f"experiment={run}", *([f"ablation={ablation}"] if ablation else []))
    check_values(cfg)
    check(cfg)
    check_model(cfg.model)
    credit, objective, corrector, advantage = (
        instantiate(cfg[stage]) for stage in ("credit", "objective", "correction", "advantage")
    )
    rollout = cfg.rollout
    check_source(instantiate(cfg.engine), objective, advantage, corrector, rollout.group_size, rollout.refill_rounds)
    check_credit(credit, objective, rollout.refill_rounds)
    for stage in ("prompt", "reward", "optimizer", "schedule"):
        instantiate(cfg[stage])
    assert cfg.ablation.name == (ablation or {"eapo_qwen3_4b": "eapo", "ep_grpo_qwen2_5_3b": "ep_grpo"}[run])


def test_eapo_has_its_papers_constants():
    cfg = composed("experiment=eapo_qwen3_4b")
    assert cfg.model.path == "Qwen/Qwen3-4B-Base"
    assert OmegaConf.to_container(cfg.model.lora) == {"rank": 32, "alpha": 64, "target_modules": "all-linear"}
    assert (cfg.data.problem_set.path, cfg.data.problem_set.sample) == ("open-r1/DAPO-Math-17k-Processed", 2048)
    rollout = cfg.rollout
    assert (rollout.problems_per_step, rollout.group_size, rollout.temperature) == (16, 8, 1.0)
    assert rollout.updates_per_rollout == cfg.module.updates_per_rollout == 2
    assert cfg.steps * rollout.updates_per_rollout == 200  # optimizer steps
    assert (cfg.schedule.name, cfg.schedule.num_warmup_steps * 2) == ("constant_with_warmup", 10)
    assert (cfg.optimizer.lr, cfg.optimizer.weight_decay, cfg.module.gradient_clip_norm) == (1e-5, 0.01, 1.0)
    objective = cfg.objective
    assert (objective.surrogate.clip_low, objective.surrogate.clip_high) == (0.2, 0.28)
    assert (objective.aggregation, objective.kl_coefficient) == ("token_mean", 0.0)
    assert (objective.mismatch, objective.mismatch_high) == ("tis", 2.0)
    credit = instantiate(cfg.credit)
    assert isinstance(credit, EAPO)
    assert cfg.credit.kappa == pytest.approx(math.log(4))
    overlong = cfg.reward.parts.overlong
    assert (overlong.from_tokens, overlong.to_tokens, overlong.weight, rollout.response_limit) == (8192, 10240, 1.0, 10240)
    assert cfg.correction._target_.endswith("NoCorrection")
    assert instantiate(cfg.prompt).user == "{problem}\n" + INSTRUCTION
    assert cfg.evaluation.name == "eapo_suite"
    assert (cfg.evaluation.samples, list(cfg.evaluation.k), cfg.evaluation.response_limit) == (32, [1, 32], 16384)
    assert (cfg.evaluation.temperature, cfg.evaluation.top_p, cfg.evaluation.top_k) == (0.7, 0.8, 20)


def test_ep_grpo_has_its_papers_constants():
    cfg = composed("experiment=ep_grpo_qwen2_5_3b")
    assert cfg.model.path == "Qwen/Qwen2.5-3B"
    assert OmegaConf.to_container(cfg.model.lora) == {"rank": 32, "alpha": 64, "target_modules": "all-linear"}
    assert (cfg.data.problem_set.path, cfg.data.problem_set.sample) == ("Skywork/Skywork-OR1-RL-Data", 8000)
    rollout = cfg.rollout
    assert (rollout.problems_per_step, rollout.group_size, rollout.updates_per_rollout) == (16, 8, 1)
    assert (rollout.temperature, rollout.response_limit, cfg.steps) == (1.0, 2048, 1000)
    assert (cfg.schedule.name, cfg.schedule.num_warmup_steps, cfg.schedule.num_training_steps) == ("linear", 100, 1000)
    assert (cfg.optimizer.lr, cfg.optimizer.weight_decay) == (5e-6, 0.001)
    assert (cfg.objective.aggregation, cfg.objective.kl_coefficient) == ("group_token_mean", 0.001)
    credit = instantiate(cfg.credit)
    assert isinstance(credit, EPGRPO)
    assert (credit.gamma, credit.buckets, credit.eta) == (5.0, 10, 0.2)
    assert (credit.entropy_gate, credit.needs_reference, credit.zero_variance) == (True, True, True)
    assert cfg.evaluation.name == "ep_grpo_suite"
    assert (cfg.evaluation.samples, list(cfg.evaluation.k), cfg.evaluation.response_limit) == (16, [1, 4, 8, 16], 2048)
    assert (cfg.evaluation.temperature, cfg.evaluation.top_p, cfg.evaluation.top_k) == (1.0, 0.95, None)


def test_a_baseline_of_a_published_run_keeps_its_set_up():
    cfg = composed("experiment=eapo_qwen3_4b", "ablation=grpo")
    assert cfg.credit._target_.endswith("NoCredit")
    assert (cfg.objective.aggregation, cfg.optimizer.lr, cfg.rollout.response_limit) == ("token_mean", 1e-5, 10240)
    cfg = composed("experiment=ep_grpo_qwen2_5_3b", "ablation=higher_temperature")
    assert (cfg.rollout.temperature, cfg.objective.aggregation) == (1.2, "response_mean")
    assert composed("experiment=ep_grpo_qwen2_5_3b", "ablation=more_rollouts").rollout.group_size == 10


# Suites


HERE = {"aime24": ("aime", 30), "math500": ("math", 500), "minerva": ("minerva", 272), "math500_h": ("math", 134)}
SUITES = {
    "eapo_suite": ("aime24", "aime25", "aime26", "hmmt26", "amc23", "math500_h"),
    "ep_grpo_suite": ("math500", "amc23", "minerva", "aime24", "aime25"),
}


@pytest.mark.parametrize("command", ["fit", "validate"])
@pytest.mark.parametrize("suite", SUITES)
def test_a_suite_has_its_benchmarks_and_those_that_lie_here_have_their_problems(suite, command, edge_data, monkeypatch):
    monkeypatch.setenv("EDGE_DATA", str(edge_data("evaluation_suite").parent))
    cfg = composed(f"evaluation={suite}", command=command)
    nodes = cfg.evaluation.benchmarks
    assert tuple(nodes) == SUITES[suite]
    for name in SUITES[suite]:
        assert nodes[name].name == name
        if name not in HERE:
            assert "/" in nodes[name].problem_set.path  # a hub id
            nodes[name] = None
    sampling = Sampling(0.7, 0.8, 20) if suite == "eapo_suite" else Sampling(1.0, 0.95)
    for benchmark in build_benchmarks(cfg):
        exam = benchmark.exam([], ChatPrompt())
        assert len(exam.problems) == HERE[benchmark.name][1]
        assert exam.problems[0].id.startswith(HERE[benchmark.name][0] + "-")
        assert benchmark.sampling == sampling
        assert INSTRUCTION in (exam.prompt.user + (exam.prompt.system or ""))


def test_a_suite_follows_its_keys(edge_data, monkeypatch):
    monkeypatch.setenv("EDGE_DATA", str(edge_data("evaluation_suite").parent))
    line = ["samples=256", "k=null", "problems_per_benchmark=2"]
    line += [f"benchmarks.{name}=null" for name in SUITES["eapo_suite"] if name not in HERE]
    first, second = build_benchmarks(composed("evaluation=eapo_suite", *(f"evaluation.{key}" for key in line)))
    assert first.ks[-1] == second.ks[-1] == 256
    assert [len(b.exam([], ChatPrompt()).problems) for b in (first, second)] == [2, 2]


# Data, from rows as the hub has them


def problem_set(option, rows, tmp_path, *overrides):
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows))
    place = (f"data.problem_set.path={path}", "data.problem_set.split=null", "data.problem_set.subset=null")
    return build_problem_set(composed(f"data={option}", *place, *overrides))


def test_eapos_problems_have_no_chinese_character(tmp_path):
    texts = ["What is 1+1?", "求 $x$ 的值。", "Find x (解).", "É, Ω and 100 °"]
    rows = [{"prompt": text, "solution": str(n), "source_prompt": [{"content": text}]} for n, text in enumerate(texts)]
    found = problem_set("dapo_math_2048", rows, tmp_path, "data.problem_set.sample=null")
    assert [(p.text, p.answers, p.solution) for p in found.train()] == [
        ("What is 1+1?", ("0",), None),
        ("É, Ω and 100 °", ("3",), None),
    ]
    assert found.report.filtered == {"not_chinese": 2}


def test_ep_grpos_problems_are_read_out_of_messages_and_json(tmp_path):
    golds = ['["204"]', r'["\\frac{1}{2}"]', '["1", "2"]', r'["\\text{say \"a\"}"]']
    rows = [
        {"prompt": [{"content": f"Q{n}", "role": "user"}], "reward_model": {"ground_truth": g}} for n, g in enumerate(golds)
    ]
    rows.append({"prompt": [], "reward_model": {"ground_truth": '["3"]'}})
    found = problem_set("skywork_or1_8k", rows, tmp_path, "data.problem_set.sample=null")
    assert [(p.text, p.answers) for p in found.train()][:2] == [("Q0", ("204",)), ("Q1", (r"\frac{1}{2}",))]
    assert [str(bad).split(", ", 1)[1][:30] for bad in found.report.bad] == [
        "line 3: text, a number or a li",  # two answers: a list of one is what the pattern takes
        "line 5: no column 'prompt.0.co",
    ]
