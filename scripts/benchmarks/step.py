"""Time of a step of this project beside the bare work in it, step by step in one process; called by scripts/bench.

    python scripts/benchmarks/step.py OUT.json [--steps 6] [override ...]

After each step the same requests go to the bare engine once more (same weights, seeds, lengths, so the same tokens), and the
same packed rows through the bare model: plain head, cross-entropy, backward. Writes seconds and counts of every step but
the first. `--profile FILE` adds a step that is not timed and writes the table of its operators.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path

from edge_lightning.cli.process import hush, prepare

WARM_UP = 1


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--profile", type=Path, help="where the table goes")
    arguments, overrides = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as folder:
        steps = arguments.steps + WARM_UP + (arguments.profile is not None)
        rows, prompts = measure([*overrides, f"steps={steps}"], Path(folder), arguments.profile)
    arguments.out.write_text(json.dumps({"steps": rows, "prompts": prompts}, indent=1))


def measure(overrides: list[str], folder: Path, profile: Path | None) -> tuple[list[dict], list[list[str]]]:
    """Rows of the timed steps, and the prompts of all steps as text."""
    from hydra import compose, initialize_config_dir

    from edge_lightning.cli.hydra_app import CONF

    with initialize_config_dir(str(CONF), version_base=None):
        cfg = compose("fit", [*overrides, "evaluation=none", "logger=default", "callbacks.progress=null"])
    prepare(cfg.cpu_threads)
    from edge_lightning.cli.build import build

    hush()
    run = build(cfg, folder)
    twin = twin_callback(run, profile)
    run.trainer.callbacks = [twin.opens, *run.trainer.callbacks, twin.closes]
    run.trainer.fit(run.module, run.datamodule)
    metrics = run.record.metrics_file.rows
    for row, figures in zip(twin.rows, metrics):
        row.update({name: float(value) for name, value in figures.items() if wanted(name) and value != ""})
    return twin.rows[WARM_UP : -1 if profile else None], twin.prompts


def wanted(name: str) -> bool:
    return name.startswith(("seconds/", "tokens/", "responses/", "length/mean", "group/zero_variance_corrected"))


def twin_callback(run, profile: Path | None):
    """Two callbacks, one in front of all others and one behind them, around the bare work of each step."""
    import lightning as L
    import torch
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as profiler

    class Opens(L.Callback):
        def on_train_start(self, trainer, module):
            engine = run.evaluations.rollouts.engine
            twin.generate, engine.generate = engine.generate, twin.note
            twin.begun = time.perf_counter()

        def on_train_batch_start(self, trainer, module, rollout, batch_idx):
            if profile and batch_idx == len(trainer.train_dataloader) - 1:
                twin.profiler = profiler(activities=[ProfilerActivity.CPU])
                twin.profiler.start()

    class Closes(L.Callback):
        def on_train_batch_end(self, trainer, module, outputs, rollout, batch_idx):
            step_seconds = time.perf_counter() - twin.begun
            if twin.profiler:
                twin.profiler.stop()
                table = twin.profiler.key_averages().table(
                    sort_by="self_cpu_time_total", row_limit=20, max_name_column_width=40
                )
                profile.write_text(table)
            calls, twin.calls = twin.calls, []
            tokens = [sum(map(len, answers)) for _, answers in calls]
            row = {"step": rollout.step, "step_seconds": step_seconds, "generated_tokens": sum(tokens)}
            row["bare_generate"], again = bare_generate(run.evaluations.rollouts.engine, [c for c, _ in calls])
            row["bare_generated_tokens"] = again
            row["prompt_tokens"] = sum(len(r.prompt_ids) for r in rollout.responses)
            row["bare_train"] = bare_train(module, rollout)
            twin.rows.append(row)
            first = [r.prompt_ids for r in rollout.responses if r.index == 0]
            twin.prompts.append([module.policy.tokenizer.decode(list(ids)) for ids in first])
            twin.begun = time.perf_counter()

    class Twin:
        opens, closes = Opens(), Closes()

        def __init__(self):
            self.calls, self.rows, self.prompts = [], [], []
            self.begun, self.generate, self.profiler = 0.0, None, None

        def note(self, requests, sampling, *, weights_version):
            made = self.generate(requests, sampling, weights_version=weights_version)
            self.calls.append(((requests, sampling), [generation.token_ids for generation in made]))
            return made

    def bare_generate(engine, calls) -> tuple[float, int]:
        """Seconds of the engine alone, its prefix cache empty at first as it was, and the tokens that it made."""
        if not hasattr(engine, "_llm"):  # transformers' own generation has no barer form
            begun = time.perf_counter()
            made = [twin.generate(*call, weights_version=engine.weights_version) for call in calls]
            return time.perf_counter() - begun, sum(len(g.token_ids) for answers in made for g in answers)
        from edge_lightning.engine.process_state import engine_side

        prepared = [
            (
                [engine._vllm.TokensPrompt(prompt_token_ids=list(request.prompt_ids)) for request in requests],
                [engine._params(request, sampling) for request in requests],
            )
            for requests, sampling in calls
        ]
        count = 0
        with engine_side(), torch.compiler.set_stance("force_eager") if engine._without_compiler else nullcontext():
            engine._llm.reset_prefix_cache()
            begun = time.perf_counter()
            for asked, params in prepared:
                outputs = engine._llm.generate(asked, params, use_tqdm=False)
                count += sum(len(output.outputs[0].token_ids) for output in outputs)
            return time.perf_counter() - begun, count

    def bare_train(module, rollout) -> float:
        """Seconds of forward and backward over the trained responses, in rows as trained."""
        chosen = module._trained(rollout, module.credit.alive(rollout.advantages_B))
        batches = module._micro_batches(rollout, chosen)
        model = module.policy.model
        module.policy.zero_grad()
        begun = time.perf_counter()
        for tokens in batches:
            logits = bare_logits(module.policy, tokens)
            torch.nn.functional.cross_entropy(logits, tokens.target_N, reduction="sum").backward()
            del logits
        seconds = time.perf_counter() - begun
        model.zero_grad()
        return seconds

    def bare_logits(policy, tokens):
        from edge_lightning.attention import layout_of

        device = tokens.input_ids_T.device
        hidden = policy.model.base_model(
            input_ids=tokens.input_ids_T[None],
            position_ids=tokens.position_ids_T[None],
            attention_mask=torch.ones(1, 1, 1, 1, dtype=torch.bool, device=device),
            use_cache=False,
            packed_layout=layout_of(tokens.spans, device, policy.model.dtype),
        ).last_hidden_state[0]
        return policy.model.get_output_embeddings()(hidden[tokens.predictor_N]).float()

    twin = Twin()
    return twin


if __name__ == "__main__":
    sys.exit(main())
