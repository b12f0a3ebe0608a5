"""Peak memory of the training part of a step, of this project or of TRL; called by scripts/bench.

    python scripts/benchmarks/memory.py OUT.json --who ours|trl --model DIR [--group-size 8] [--response-limit 512] ...

One group of responses of full length, made up. Measured is the resident set (Linux, glibc: freed memory is given back and
the high-water mark reset before the step), in the second step, when the optimizer's state stands:

    activations = peak - what stood before - gradients        training part = weights + gradients + optimizer + activations

`--vocabulary V` gives the model a new head and embedding of V words. Neither has an engine in the process.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import os
import tempfile
import time
from pathlib import Path

MIB = 2**20
PROMPT = 64
STEPS = 2


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--who", choices=("ours", "trl"), required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--group-size", type=int, default=8)
    parser.add_argument("--response-limit", type=int, default=512)
    parser.add_argument("--vocabulary", type=int)
    parser.add_argument("--micro-batch-tokens", type=int, default=2048, help="ours: tokens of a forward pass")
    parser.add_argument("--at-once", type=int, help="trl: responses of a forward pass; the whole group where not given")
    parser.add_argument("--gradient-checkpointing", action="store_true")
    parser.add_argument("--compile", action="store_true", help="layers, after the first step")
    parser.add_argument("--lora-rank", type=int, help="of ours: adapters are trained in place of the weights")
    parser.add_argument("--threads", type=int)
    arguments = parser.parse_args()
    if arguments.threads:
        os.environ["OMP_NUM_THREADS"] = str(arguments.threads)
    os.environ.update(TRANSFORMERS_VERBOSITY="error", TRL_EXPERIMENTAL_SILENCE="1", HF_HUB_OFFLINE="1")
    found = (ours if arguments.who == "ours" else trl)(arguments)
    settings = {k: v for k, v in vars(arguments).items() if k not in ("out", "model")}
    arguments.out.write_text(json.dumps({**settings, **found}, indent=1))


def resident(field: str) -> int:
    """VmRSS or VmHWM of this process, bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {field}; Linux expected")


class Peak:
    """Bytes above what stood when the block began, at its highest, and the block's seconds."""

    def __enter__(self) -> Peak:
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)  # what was freed would count as standing before
        Path("/proc/self/clear_refs").write_text("5")
        self.before, self.begun = resident("VmRSS"), time.perf_counter()
        return self

    def __exit__(self, *_) -> None:
        self.seconds = time.perf_counter() - self.begun
        self.rise = resident("VmHWM") - self.before


def report(model, optimizer, peak: Peak) -> dict:
    def size(tensors) -> int:
        return sum(t.numel() * t.element_size() for t in tensors)

    weights = size(model.parameters())
    gradients = size(p for p in model.parameters() if p.requires_grad)
    state = size(v for values in optimizer.state.values() for v in values.values() if hasattr(v, "numel"))
    activations = peak.rise - gradients
    return {
        "weights_mib": weights / MIB,
        "gradients_mib": gradients / MIB,
        "optimizer_mib": state / MIB,
        "activations_mib": activations / MIB,
        "training_part_mib": (weights + gradients + state + activations) / MIB,
        "seconds": peak.seconds,
    }


def load(arguments):
    import torch
    from transformers import AutoModelForCausalLM

    kind = {"attn_implementation": "edge_packed"} if arguments.who == "ours" else {}
    model = AutoModelForCausalLM.from_pretrained(arguments.model, dtype=torch.float32, **kind)
    if arguments.vocabulary:
        model.resize_token_embeddings(arguments.vocabulary, mean_resizing=False)
    if arguments.gradient_checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    return model.train()


def ours(arguments) -> dict:
    from types import SimpleNamespace

    import torch
    from transformers import AutoTokenizer

    import edge_lightning.attention  # noqa: F401  registers the attention that load() asks for
    from edge_lightning.credit.none import NoCredit
    from edge_lightning.experience import Rollout
    from edge_lightning.layers import compile_layers
    from edge_lightning.lora import LowRankAdapters
    from edge_lightning.objective.policy_gradient import PolicyGradient
    from edge_lightning.policy import Policy
    from edge_lightning.training.datamodule import ProblemDataModule
    from edge_lightning.training.module import PolicyModule
    from edge_lightning.types import Grade, Problem, Provenance, Response

    policy = Policy(load(arguments), AutoTokenizer.from_pretrained(arguments.model))
    if arguments.lora_rank:
        policy.adapt(LowRankAdapters(rank=arguments.lora_rank), seed=0)
    if arguments.compile:
        compile_layers(policy.model)
    words = len(policy.model.get_output_embeddings().weight)
    generator = torch.Generator().manual_seed(0)
    problem = Problem("made up", "", ("0",), None)

    def ids(count: int) -> tuple[int, ...]:
        return tuple(torch.randint(words, (count,), generator=generator).tolist())

    prompt, size, limit = ids(PROMPT), arguments.group_size, arguments.response_limit
    responses = [
        Response(
            problem=problem, index=i, seed=i, prompt_ids=prompt, completion_ids=ids(limit), sampled_mask=(True,) * limit,
            engine_logprobs=(0.0,) * limit, finish_reason="length", provenance=Provenance.SAMPLED, text="", sampled_text="",
            sampled_tokens=limit, grade=Grade(reward=float(i % 2 == 0), right=i % 2 == 0),
        )
        for i in range(size)
    ]  # fmt: skip
    advantages_B = torch.tensor([(-1.0) ** i for i in range(size)])
    optimizer = torch.optim.AdamW(policy.trained_parameters(), lr=1e-6)
    data = SimpleNamespace(micro_batch_tokens=arguments.micro_batch_tokens)

    class Alone(PolicyModule):
        """The module without a trainer around it."""

        trainer = SimpleNamespace(
            datamodule=SimpleNamespace(micro_batches=lambda *a: ProblemDataModule.micro_batches(data, *a))
        )

        def optimizers(self):
            return optimizer

        def lr_schedulers(self):
            return SimpleNamespace(step=lambda: None)

        def manual_backward(self, loss):
            loss.backward()

    module = Alone(policy=policy, credit=NoCredit(), objective=PolicyGradient(), optimizer=None, schedule=None)
    for step in range(STEPS):
        optimizer.zero_grad()
        with Peak() as peak:
            module.training_step(Rollout([problem], step, 0, responses, advantages_B, torch.zeros(size).long()), 0)
    return report(policy.model, optimizer, peak)


def trl(arguments) -> dict:
    import torch
    from datasets import Dataset
    from transformers import AutoTokenizer
    from trl import GRPOConfig, GRPOTrainer

    model = load(arguments)
    size, limit = arguments.group_size, arguments.response_limit
    at_once = arguments.at_once or size
    words = len(model.get_output_embeddings().weight)
    generator = torch.Generator().manual_seed(0)
    peaks: list[Peak] = []

    class Made(GRPOTrainer):
        """Trains on a made-up group; what is measured is forward, loss and backward of all its parts, and the update."""

        def _generate_and_score_completions(self, inputs):
            ones = torch.ones(size, limit, dtype=torch.long)
            return {
                "prompt_ids": torch.randint(words, (1, PROMPT), generator=generator).expand(size, PROMPT),
                "prompt_mask": torch.ones(size, PROMPT, dtype=torch.long),
                "completion_ids": torch.randint(words, (size, limit), generator=generator),
                "completion_mask": ones,
                "advantages": torch.tensor([(-1.0) ** i for i in range(size)]),
                "num_items_in_batch": ones.sum(),
            }

        def training_step(self, *args, **kwargs):
            if self._step % self.args.gradient_accumulation_steps == 0:
                self.optimizer.zero_grad()
                peaks.append(Peak().__enter__())
            loss = super().training_step(*args, **kwargs)
            if self._step % self.args.gradient_accumulation_steps == 0:
                peaks[-1].__exit__()
            return loss

    with tempfile.TemporaryDirectory() as folder:
        config = GRPOConfig(
            output_dir=folder,
            per_device_train_batch_size=at_once,
            gradient_accumulation_steps=size // at_once,
            num_generations=size,
            max_completion_length=limit,
            loss_type="grpo",
            max_steps=STEPS,
            gradient_checkpointing=arguments.gradient_checkpointing,
            bf16=False,
            use_cpu=True,
            report_to="none",
            save_strategy="no",
            disable_tqdm=True,
            logging_strategy="no",
        )
        trainer = Made(
            model=model,
            processing_class=AutoTokenizer.from_pretrained(arguments.model),
            reward_funcs=lambda completions, **_: [0.0] * len(completions),
            args=config,
            train_dataset=Dataset.from_dict({"prompt": ["made up"] * STEPS * size}),
        )
        trainer.train()
    return report(model, trainer.optimizer, peaks[-1])


if __name__ == "__main__":
    main()
