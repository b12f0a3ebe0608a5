"""The command line: what a user can get wrong is one clear line before anything is trained."""

import json
import re

import pytest
import torch
from omegaconf import OmegaConf

from edge_lightning.cli import hydra_app
from edge_lightning.cli.analyze import analyze
from edge_lightning.cli.checks import check_devices
from edge_lightning.cli.fit import fit
from edge_lightning.cli.grade import grade
from edge_lightning.cli.inspect import inspect
from edge_lightning.cli.report import report
from edge_lightning.cli.screen import screen
from edge_lightning.cli.validate import validate
from edge_lightning.errors import UserError

TASKS = {
    "fit": fit,
    "validate": validate,
    "analyze": analyze,
    "screen": screen,
    "grade": grade,
    "report": report,
    "inspect": inspect,
}
ROWS = [{"problem": f"Start with {n}. Add 1. What is the result?", "answer": n + 1, "solution": "s"} for n in range(40)]
FILES = {
    "good.json": ROWS,
    "no_answer_column.json": [{"problem": "p", "final": 1}],
    "empty_answer.json": [*ROWS, {"problem": "p", "answer": " "}],
    "long_prompt.json": [*ROWS, {"problem": "very " * 300, "answer": 1}],
}


@pytest.fixture(autouse=True, scope="module")
def folder(tmp_path_factory):
    """A folder with the files above, as the working directory."""
    place = tmp_path_factory.mktemp("cli")
    for name, rows in FILES.items():
        (place / name).write_text(json.dumps(rows))
    (place / "neither").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        yield place


def refusal(command, line, run_dir, capfd):
    """What a command says on stderr: one line, nothing trained, no traceback."""
    status = hydra_app.run(command, [*line.split(), f"hydra.run.dir={run_dir}"], TASKS[command])
    out, err = capfd.readouterr()
    assert status == 1
    assert not (run_dir / "metrics.csv").exists()
    assert not (run_dir / "evaluation").exists()
    assert out == ""
    assert err.count("\n") == 1, err
    assert err.startswith(f"edge-lightning {command}: ")
    return err


@pytest.mark.parametrize(
    ("line", "message"),
    [
        # keys and options
        ("bogus=1", "no key bogus; edge-lightning fit --cfg job prints all of them"),
        ("optimizer.lrr=1", "no key optimizer.lrr; did you mean optimizer.lr?"),
        ("rollout.groupsize=4", "no key rollout.groupsize; did you mean rollout.group_size?"),
        ("+correction.foo=1", "no key correction.foo; one of answer, .*cue, .*reflect, "),
        ("+optimizer.foo=1", "no key optimizer.foo; one of .*betas.*lr.* expected"),
        ("ablation=foo", "ablation=foo: one of .*force_r, force_r_eda, full, .*grpo.* expected"),
        ("credit=foo", "credit=foo: one of eapo, eda, entropy_adv, ep_grpo, hapo, none, rl_zvp, top_entropy expected"),
        (
            "experiment=foo",
            "experiment=foo: one of eapo_qwen3_4b, ep_grpo_qwen2_5_3b, paper_1_5b, paper_7b, warm_up_hard, ",
        ),
        ("steps", "Error parsing override 'steps'"),
        # types, under the key that the user sets
        ("steps=abc", "steps=abc: int . null expected, str came"),
        ("steps=1.5", "steps=1.5: int . null expected, float came"),
        ("seed=x", "seed=x: int expected, str came"),
        ("cpu_threads=x", "cpu_threads=x: an integer of at least 1 expected"),
        ("rollout.group_size=two", "rollout.group_size=two: int expected, str came"),
        ("rollout.temperature=hot", "rollout.temperature=hot: float expected, str came"),
        ("rollout.prompt_limit=x", "rollout.prompt_limit=x: int expected, str came"),
        ("rollout.max_engine_gap=x", "rollout.max_engine_gap=x: float . null expected, str came"),
        ("rollout.reflection_limit=x", "rollout.reflection_limit=x: int expected, str came"),
        ("correction.reflect=x", "correction.reflect=x: float expected, str came"),
        ("correction.cue=3", "correction.cue=3: str expected, int came"),
        ("engine.max_num_seqs=x", "engine.max_num_seqs=x: int expected, str came"),
        ("evaluation.before=maybe", "evaluation.before=maybe: bool expected, str came"),
        ("evaluation.benchmarks.smoke.samples=x", "evaluation.benchmarks.smoke.samples=x: int expected, str came"),
        ("optimizer.lr=x", "optimizer.lr=x: float . Tensor expected, str came"),
        ("trainer.precision=17", "trainer.precision=17: .*32-true.* expected, int came"),
        # values
        ("steps=-1", "steps=-1: at least 1 expected, 0 for an evaluation alone"),
        ("steps=0 evaluation=none", "steps=0 is an evaluation alone, and evaluation=none has none before the first step"),
        ("ablation=base evaluation.before=false", "steps=0 is an evaluation alone, and evaluation=smoke-.* has none before"),
        (
            "ablation=base evaluation.benchmarks.smoke=null",
            "steps=0 is an evaluation alone, and evaluation=smoke-.* has none",
        ),
        ("rollout.response_limit=0", "rollout.response_limit=0: at least 1 token expected"),
        ("rollout.temperature=0", r"rollout.temperature=0: above 0 \(0.01 to 100\) expected"),
        ("rollout.temperature=inf", "rollout.temperature=inf: above 0"),
        ("rollout.group_size=0 advantage=none", "rollout.group_size=0: at least 1 expected"),
        (
            "rollout.mini_batches=16 rollout.updates_per_rollout=16",
            "rollout.mini_batches=16: at most rollout.problems_per_step=8 expected",
        ),
        ("rollout.max_engine_gap=-1", "rollout.max_engine_gap=-1: above 0 expected"),
        ("module.gradient_clip_norm=-1", "module.gradient_clip_norm=-1: above 0 expected, null for no clipping"),
        ("fidelity.advantage_ddof=9", "advantage.ddof=9, epsilon=0.0: a ddof of 0 or 1"),
        ("fidelity.advantage_epsilon=-0.5", "advantage.ddof=0, epsilon=-0.5: a ddof of 0 or 1"),
        ("reward.parts.accuracy.weight=-1", "reward.parts.accuracy.weight=-1: above 0 expected"),
        ("reward.offset=inf", "reward.offset=inf: a finite number expected"),
        ("fidelity.corrected_prompt_limit=0", "correction.prompt_limit=0: at least 1 expected, null for no limit"),
        ("fidelity.retokenize=3", "fidelity.retokenize=3: bool expected, int came"),
        ("correction.answer_given=any", "correction.answer_given=any: right or wrong expected"),
        ("correction.reference_given=any", "correction.reference_given=any: own or foreign expected"),
        ("correction.reward_wrong_answer_as_right=true", "as_right=True: correction.answer_given=wrong expected beside it"),
        ("ablation=full correction.answer=0.5", "reflect=0.5, answer=0.5, reference=0.25: .* their sum is 1.25"),
        ("data.corrupted_solutions=1.5", "data.corrupted_solutions=1.5: a share from 0 to 1 expected"),
        ("data.corrupted_solutions=half", "data.corrupted_solutions=half: float expected, str came"),
        ("ablation=full_sampled_baseline rollout.group_size=1", "rollout.group_size=1: at least 2 expected"),
        ("schedule.num_warmup_steps=-5", "schedule.num_warmup_steps=-5: at least 0 expected"),
        ("evaluation.benchmarks.smoke.top_p=5", "temperature=1.0, top_p=5: a temperature from 0"),
        ("evaluation.benchmarks.smoke.temperature=-1", "temperature=-1, top_p=1.0: a temperature from 0"),
        ("evaluation.benchmarks.smoke.samples=0", "evaluation.benchmarks.smoke.samples=0: at least 1 expected"),
        ("evaluation.benchmarks.smoke.name=a/b", "name='a/b': a name without / and control characters"),
        ("callbacks.progress.line_every_n_steps=0", "callbacks.progress.line_every_n_steps=0: at least 1 expected"),
        ("callbacks.record=null", "callbacks.record=null: a run without a record is none"),
        ("+trainer.max_steps=1", "trainer.max_steps does not hold here, where a step is a rollout; set steps"),
        ("+trainer.gradient_clip_val=1", "trainer.gradient_clip_val does not hold here.*; set module.gradient_clip_norm"),
        ("trainer.precision=bf16-true", "trainer.precision=bf16-true: 32-true or bf16-mixed expected"),
        ("cpu_threads=true", "cpu_threads=True: an integer of at least 1 expected"),
        ("credit._target_=foo.bar", "credit._target_=foo.bar: a class or function that can be imported expected"),
        ("model=null", "model=null: one of local, qwen2_5_3b, qwen2_5_math_1_5b"),
        ("model.path=null", "model.path=null: a transformers folder or hub id expected"),
        ("model.dtype=int64", "model.dtype=int64: float32, bfloat16 or another floating dtype"),
        ("model.lora={rank:0}", "model.lora.rank=0: at least 1 expected"),
        ("model.lora={rank:few}", "model.lora.rank=few: int expected, str came"),
        ("model.lora={alpha:-1}", "model.lora.alpha=-1: above 0 expected, null: twice the rank"),
        ("model.lora={dropout:0.1}", "no key model.lora.dropout; one of alpha, rank, target_modules expected"),
        (
            "model.lora={target_modules:[q_proj,x]}",
            "all-linear or some of q_proj, .*'x' is none of its linear layers",
        ),
        ("model.lora=32", "model.lora=32: {rank: 32, alpha: 64} or null expected"),
        ("model.gradient_checkpointing=1", "model.gradient_checkpointing=1: true or false expected"),
        ("model.compile=yes-please", "model.compile=yes-please: true or false expected"),
        # stages that do not go together
        ("objective=supervised", "Supervised imitates whatever stands in the groups, and VllmEngine samples"),
        ("advantage=none engine=reference", "ReferenceEngine copies one reference solution a problem: advantage=none"),
        (
            "advantage=none engine=reference rollout.group_size=1 correction=none credit=none",
            "PolicyGradient has nothing to weigh in what ReferenceEngine copies; set ablation=sft",
        ),
        ("ablation=sft engine=reference rollout.response_limit=20", "reference solution of .* tokens with its end"),
        ("module.entropy_every_n_steps=0", "module.entropy_every_n_steps=0: at least 1 expected"),
        ("evaluation.every_n_steps=0", "evaluation.every_n_steps=0: at least 1 expected"),
        ("callbacks.last_checkpoint.every_n_steps=0", "callbacks.last_checkpoint.every_n_steps=0: at least 1 expected"),
        ("optimizer.lr=-1", "optimizer: Invalid learning rate: -1; change optimizer"),
        ("+optimizer.foreach=true", "optimizer: .*fused.*foreach.*; change optimizer"),
        ("schedule.name=foo", "schedule: foo is not a valid SchedulerType"),
        ("schedule=linear steps=null", "schedule: .* requires `num_training_steps`"),
        ("model.dtype=float99", "model.dtype=float99: float32, bfloat16"),
        ("trainer.devices=65", "65 processes for 64 responses of a step or mini-batch: at least one each expected"),
        ("correction.reflect=0.6", "reflect=0.6, answer=0.25, reference=0.25: three shares .* their sum is 1.1"),
        ("credit.floor=0", "credit.floor=0, credit.ceiling=10.0: 0 < floor <= 1 <= ceiling expected"),
        ("credit.ceiling=0.5", "credit.floor=0.1, credit.ceiling=0.5: 0 < floor <= 1 <= ceiling expected"),
        ("objective.injected_tokens=foo", "objective.injected_tokens=foo: one of as_sampled, masked, .* expected"),
        ("ablation=grpo rollout.group_size=1", "rollout.group_size=1: at least 2 expected"),
        ("evaluation.benchmarks.smoke.problems=61", "evaluation smoke: 61 problems asked for, the data hold 60 held-out"),
        ("evaluation.benchmarks.smoke.samples=4", r"evaluation smoke: k=\[1, 8\], each between 1 and samples=4"),
        ("evaluation.benchmarks.smoke.name=average", "name='average': another name expected"),
        ("evaluation.benchmarks.smoke.responses_at_a_time=0", "smoke.responses_at_a_time=0: at least 1 expected"),
        ("evaluation.benchmarks.smoke.problem_set=3", "smoke.problem_set=3: ProblemSet . null expected, int came"),
        ("evaluation.benchmarks.smoke.prompt_limit=10", "at most evaluation.benchmarks.smoke.prompt_limit=10 expected"),
        ("evaluation.benchmarks.smoke.response_limit=500", "60 of 60 problems need more than the model's 512"),
        ("evaluation=avg_at_k evaluation.samples=4 evaluation.k=[8]", r"held_out: k=\[8\], each between 1 and samples=4"),
        (
            "evaluation=avg_at_k evaluation.rarely_solved_by=neither",
            "held_out.rarely_solved_by=neither: the folder of a validation of the base policy expected .* none is there",
        ),
        (
            "evaluation=avg_at_k evaluation.rarely_solved_at_most=25",
            "rarely_solved_at_most=25: a share from 0 to 1 expected",
        ),
        (
            "evaluation=paper_suite data_folder=/nowhere",
            "/nowhere/evaluation_suite: .* none was found .*change evaluation.benchmarks.aime.problem_set.path",
        ),
        # files
        ("data.problem_set=null", "data.problem_set=None: a node with a _target_ expected; choose an option of data"),
        ("evaluation.benchmarks=3", "evaluation.benchmarks=3: benchmarks by name expected; set evaluation=smoke"),
        ("evaluation.benchmarks.smoke=3", "evaluation.benchmarks.smoke=3: a node with a _target_ expected"),
        (
            "+evaluation.benchmarks.again=${evaluation.benchmarks.smoke}",
            "two benchmarks of the name 'smoke' came, different names expected",
        ),
        ("data=gsm8k data_folder=/nowhere", "there is no folder data_folder=/nowhere; set EDGE_DATA"),
        ("data=math_json", "no value for data.problem_set.path; set data.problem_set.path="),
        (
            "data=math_json data.problem_set.path=no_answer_column.json",
            "row 1: no column 'answer'; set data.problem_set.answer_col",
        ),
        ("data=math_json data.problem_set.path=good.json data.problem_set.problem_column=q", "row 1: no column 'q'"),
        (
            "data=math_json data.problem_set.path=empty_answer.json",
            "row 41: text, a number .* expected in column 'answer', \" \" came",
        ),
        ("data=math_json data.problem_set.path=none.json", "none.json: a readable file expected, No such file"),
        (
            "data=math_json data.problem_set.path=long_prompt.json",
            "prompt of 609 tokens, at most rollout.prompt_limit=96 expected",
        ),
        (
            "data=math_json data.problem_set.path=good.json rollout.problems_per_step=50",
            "rollout.problems_per_step=50: the data hold",
        ),
        # models
        (
            "rollout.prompt_limit=10",
            "problem 'train-000000': prompt of .* tokens, at most rollout.prompt_limit=10 expected .*drop",
        ),
        ("rollout.prompt_limit=400 rollout.response_limit=100", "need .* positions, the model has 512; lower"),
        ("model=local", "no value for model.path; set model.path="),
        ("model=local model.path=/nowhere", r"model.path=/nowhere: a transformers folder \(with config.json\) or a hub id"),
        ("model=local model.path=neither", r"model.path=neither: a transformers folder \(with config.json\) or a hub id"),
        ("resume=neither", "resume=neither: the folder of a run with checkpoints/last.ckpt expected"),
    ],
)
def test_what_a_fit_cannot_do_is_one_line_before_training(line, message, tmp_path, capfd):
    assert re.search(message, refusal("fit", line, tmp_path / "run", capfd))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "no value for ckpt; set ckpt="),
        ("ckpt=neither", "ckpt=neither: the folder of a finished run .* or a transformers folder"),
        ("ckpt=/nowhere/at/all", "ckpt=/nowhere/at/all: the folder of a finished run"),
        ("ckpt=3", "ckpt=3: str expected, int came"),
        ("ckpt={asset} evaluation=none", "evaluation.benchmarks is empty"),
        ("ckpt=a/last.ckpt", "ckpt=a/last.ckpt: a checkpoint inside its run's folder expected"),
        ("ckpt={asset} evaluation.benchmarks.smoke.prompt_limit=10", "at most evaluation.benchmarks.smoke.prompt_limit=10"),
        ("ckpt={asset} evaluation.benchmarks.smoke.response_limit=500", "60 of 60 problems need more than the model's 512"),
        ("resume=neither", "resume=neither: the folder of a validate that has begun expected"),
        ("ckpt={asset} evaluation.benchmarks.smoke.problems=61", "evaluation smoke: 61 problems asked for"),
        ("ckpt={asset} rollout.prompt_limit=10", "problem 'held_out-0000': prompt of"),
        ("ckpt={asset} steps=3", "no key steps"),
        ("ckpt={asset} engine=foo", "engine=foo: one of hf, reference, vllm expected"),
    ],
)
def test_what_a_validation_cannot_do_is_one_line(line, message, asset, tmp_path, capfd):
    assert re.search(message, refusal("validate", line.format(asset=asset), tmp_path / "run", capfd))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "no value for file; set file="),
        ("nowhere.jsonl", "file=nowhere.jsonl: a file of JSON lines expected, nothing is there"),
        ("neither", "file=neither: a file of JSON lines expected, a folder is there"),
        ("good.json out=good.json", "out=good.json: another file than the input expected"),
        ("good.json out=neither", "out=neither: a file in a folder that exists expected"),
        ("good.json out=no/where.jsonl", "out=no/where.jsonl: a file in a folder that exists expected"),
        ("good.json answer=response", "answer=response response=response: two columns expected"),
        ("good.json answer=reward", "answer=reward: another column expected"),
        ("good.json answer=3", "answer=3: str expected, int came"),
        ("good.json rows_at_a_time=0", "rows_at_a_time=0: at least 1 expected"),
        ("good.json reward=foo", "reward=foo: one of boxed, boxed_and_format, boxed_and_overlong expected"),
        ("good.json reward.parts.accuracy.workers=0", "reward.parts.accuracy.workers=0: at least 1 expected"),
        ("good.json reward.parts.accuracy.timeout_s=0", "timeout_s=0: a finite number of seconds above 0 expected"),
        ("good.json reward.parts.accuracy._target_=edge_lightning.rewards.format.BoxedFormat", "no key .*timeout_s"),
        ("good.json steps=3", "no key steps"),
        ("-m good.json", "-m is not supported; one file at a time"),
    ],
)
def test_what_a_grading_cannot_do_is_one_line(line, message, tmp_path, capfd):
    assert re.search(message, refusal("grade", line, tmp_path / "run", capfd))


@pytest.mark.parametrize(
    ("found", "accelerator", "devices", "message"),
    [
        (0, "gpu", 1, "trainer.accelerator=gpu: a GPU expected, torch .* finds none; set trainer.accelerator=cpu"),
        (0, "cuda", "auto", "trainer.accelerator=cuda: a GPU expected"),
        (2, "auto", 8, "trainer.devices=8: at most the 2 GPUs of this machine expected; set trainer.devices=2"),
        (2, "gpu", 3, "trainer.devices=3: at most the 2 GPUs"),
        (0, "auto", 8, None),  # processes on CPU cores
        (2, "cpu", 8, None),
        (2, "gpu", 2, None),
        (2, "gpu", "auto", None),
    ],
)
def test_gpus_that_are_not_there_are_one_line(found, accelerator, devices, message, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: found)
    trainer = OmegaConf.create({"accelerator": accelerator, "devices": devices})
    if message is None:
        check_devices(trainer)
        return
    with pytest.raises(UserError, match=message):
        check_devices(trainer)
