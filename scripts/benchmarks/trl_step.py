"""Time of a step of TRL's GRPOTrainer on the same prompts; runs in the virtual environment that scripts/bench makes.

    python scripts/benchmarks/trl_step.py OUT.json --model DIR --prompts FILE --response-limit L [--group-size G] ...

FILE is what step.py wrote: the prompts of each step, as text. TRL samples with transformers (on CPU its colocated vLLM fails
at the first weight push), without gradient checkpointing, in float32, one optimizer step a rollout. Rewards are the
parity of the length: their values decide nothing about the time.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path

WARM_UP = 1


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--model", required=True)
    parser.add_argument("--prompts", type=Path, required=True)
    parser.add_argument("--group-size", type=int, default=8)
    parser.add_argument("--response-limit", type=int, required=True)
    parser.add_argument("--at-once", type=int, help="responses of a forward pass in training; all where not given")
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--threads", type=int)
    arguments = parser.parse_args()
    if arguments.threads:
        os.environ["OMP_NUM_THREADS"] = str(arguments.threads)
    os.environ.update(TRANSFORMERS_VERBOSITY="error", TRL_EXPERIMENTAL_SILENCE="1", HF_HUB_OFFLINE="1")
    steps = json.loads(arguments.prompts.read_text())["prompts"]
    arguments.out.write_text(json.dumps({"steps": measure(arguments, steps)}, indent=1))


def measure(arguments, steps: list[list[str]]) -> list[dict]:
    import torch
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    tokenizer = AutoTokenizer.from_pretrained(arguments.model)
    model = AutoModelForCausalLM.from_pretrained(arguments.model, dtype=torch.float32)
    rows: list[dict] = []
    now: dict = {}
    responses = len(steps[0]) * arguments.group_size
    at_once = arguments.at_once or responses

    class Clock(TrainerCallback):
        def on_step_begin(self, *_, **__):
            now.clear()
            now.update(step=len(rows))

        def on_step_end(self, *_, **__):
            rows.append({**now, "step_seconds": time.perf_counter() - now["begun"]})

    class Timed(GRPOTrainer):
        def _generate_single_turn(self, *args, **kwargs):
            begun = time.perf_counter()
            made = super()._generate_single_turn(*args, **kwargs)
            now["seconds/generate"] = time.perf_counter() - begun
            return made

        def _generate_and_score_completions(self, inputs):
            begun = now.setdefault("begun", time.perf_counter())
            made = super()._generate_and_score_completions(inputs)
            now["seconds/rollout"] = time.perf_counter() - begun
            now["generated_tokens"] = int(made["completion_mask"].sum())
            now["prompt_tokens"] = int(made["prompt_mask"].sum())
            return made

    def reward(completions, **_):
        return [float(len(text) % 2) for text in completions]

    with tempfile.TemporaryDirectory() as folder:
        config = GRPOConfig(
            output_dir=folder,
            per_device_train_batch_size=at_once,
            gradient_accumulation_steps=responses // at_once,
            num_generations=arguments.group_size,
            max_completion_length=arguments.response_limit,
            temperature=arguments.temperature,
            learning_rate=1e-6,
            lr_scheduler_type="constant",
            loss_type="grpo",
            max_steps=len(steps),
            shuffle_dataset=False,
            gradient_checkpointing=False,
            bf16=False,
            use_cpu=True,
            report_to="none",
            save_strategy="no",
            disable_tqdm=True,
            logging_strategy="no",
        )
        trainer = Timed(
            model=model,
            processing_class=tokenizer,
            reward_funcs=reward,
            args=config,
            train_dataset=Dataset.from_dict({"prompt": [prompt for step in steps for prompt in step]}),
            callbacks=[Clock()],
        )
        trainer.train()
    for row in rows:
        row["seconds/train"] = row["step_seconds"] - row["seconds/rollout"]
        del row["begun"]
    return rows[WARM_UP:]


if __name__ == "__main__":
    main()
