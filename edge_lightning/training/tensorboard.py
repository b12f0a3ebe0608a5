"""What tensorboard is told beside the curves: a layout of charts, histograms, what was set and what came of it.

docs/metrics.md names everything. Left out: that a run failed. Tensorboard heeds the first end of a run alone, so one that
was gone on with would stay failed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import lightning as L
import torch
from lightning.pytorch.loggers import TensorBoardLogger
from torch.utils.tensorboard import SummaryWriter
from torch.utils.tensorboard.summary import hparams as settings_summaries

from edge_lightning.errors import require_at_least_one
from edge_lightning.experience import Rollout
from edge_lightning.training.evaluation_callback import EvaluationCallback
from edge_lightning.training.module import PolicyModule
from edge_lightning.training.parts import ORIGINS
from edge_lightning.training.record import MetricsFile
from edge_lightning.training.record_callback import RecordCallback
from edge_lightning.types import Provenance

LAST_STEPS = 10  # that a final figure of training is the mean of
FINAL_OF_EVALUATION = "accuracy"
FINAL_OF_TRAINING = ("reward/mean_sampled", "group/zero_variance_sampled", "group/all_wrong_sampled", "entropy/mean")


def layout(benchmarks: list[str]) -> dict[str, dict[str, list]]:
    """Charts by category, each with the names of its curves, for the tab CUSTOM SCALARS.

    Args:
        benchmarks: names of the evaluations, `average` among them where it is told.
    """
    stages = ("sampled", "corrected")
    seconds = ("generate", "grade", "correct", "score", "train", "gradient_shares", "push", "record")
    by_provenance = ("reward/mean", "accuracy/corrected", "advantage/mean", "relative_entropy/mean", "entropy/mean")
    charts = {
        "Learning": {
            **{f"accuracy of {name}": [f"evaluation/{name}/accuracy"] for name in benchmarks},
            "accuracy": [f"accuracy/{stage}" for stage in stages],
            "reward": [f"reward/mean_{stage}" for stage in stages],
            "length": ["length/mean", "length/max"],
            "cut off": ["truncation/fraction"],
        },
        "Groups": {
            kind.replace("_", " "): [f"group/{kind}_{stage}" for stage in stages]
            for kind in ("zero_variance", "all_wrong", "all_right")
        },
        "Correction": {
            "responses by provenance": [f"count/{name}" for name in Provenance],
            "corrected": ["correction/fraction"],
            "tokens": ["tokens/sampled", "tokens/regenerated", "tokens/injected"],
        },
        "Entropy": {
            "entropy": ["entropy/mean"],
            "of the tokens": [f"entropy/mean/{origin}" for origin in ORIGINS],
            "relative entropy": ["relative_entropy/min", "relative_entropy/max"],
            "held by a bound": ["relative_entropy/clamped_fraction"],
        },
        "Stability": {
            "gradient norm": ["gradient/norm"],
            "loss": ["loss/value"],
            "advantage variance": ["advantage/variance", "advantage/variance_sampled", "credit/token_advantage_variance"],
            "largest advantage": ["advantage/abs_max", "credit/token_advantage_abs_max"],
            "engine gap": ["engine_gap/mean", "engine_gap/max"],
            "clipped": ["clip/fraction"],
            "divergence": ["kl/mean"],
            "learning rate": ["learning_rate"],
        },
        "Speed": {"seconds": [f"seconds/{stage}" for stage in seconds], "trained responses": ["responses/trained"]},
        "Provenance": {
            **{figure: [f"{figure}/{name}" for name in Provenance] for figure in by_provenance},
            "gradient share": [f"gradient/share/{name}" for name in Provenance],
            "gradient share of the tokens": [f"gradient/share/{origin}" for origin in ORIGINS],
        },
    }
    # Tensorboard reads a name as a pattern that a curve's name may merely begin with.
    return {
        category: {title: ["Multiline", [f"^{name}$" for name in names]] for title, names in own.items()}
        for category, own in charts.items()
    }


class TensorboardCallback(L.Callback):
    """Tells tensorboard how to show a run. It stands behind the record and the evaluations.

    Args:
        settings: name -> value, for the tab HPARAMS.
        record: whose metrics are told at the end.
        evaluations: whose results are.
        histograms_every_n_steps: of advantages and relative entropies; None: never.
    """

    def __init__(
        self,
        *,
        settings: Mapping[str, bool | int | float | str],
        record: RecordCallback,
        evaluations: EvaluationCallback,
        histograms_every_n_steps: int | None = 5,
    ):
        require_at_least_one("callbacks.tensorboard.histograms_every_n_steps", histograms_every_n_steps)
        self.settings = dict(settings)
        self.record = record
        self.evaluations = evaluations
        self.histograms_every_n_steps = histograms_every_n_steps

    def on_fit_start(self, trainer: L.Trainer, pl_module: PolicyModule) -> None:
        names = [exam.benchmark.name for exam in self.evaluations.exams]
        names += ["average"] if len(names) > 1 else []
        finals = [f"final/{name}/{FINAL_OF_EVALUATION}" for name in names] + [f"final/{name}" for name in FINAL_OF_TRAINING]
        for writer in writers(trainer):
            writer.add_custom_scalars(layout(names))
            for summary in settings_summaries(self.settings, dict.fromkeys(finals, 0.0))[:2]:  # not that it has ended
                writer.file_writer.add_summary(summary)

    def on_train_batch_end(
        self, trainer: L.Trainer, pl_module: PolicyModule, outputs, batch: Rollout, batch_idx: int
    ) -> None:
        every = self.histograms_every_n_steps
        if every is None or batch.step % every:
            return
        for writer in writers(trainer):
            rollout, update = self.record.step
            _histogram(writer, "advantage/of_responses", rollout.advantages_B, batch.step)
            _histogram(writer, "advantage/of_tokens", update.token_advantages_N, batch.step)
            if update.constants.relative_entropy_B is not None:
                _histogram(writer, "relative_entropy/of_responses", update.constants.relative_entropy_B, batch.step)

    def on_train_end(self, trainer: L.Trainer, pl_module: PolicyModule) -> None:
        """In front of the last checkpoint: a run that goes on from it tells its end no second time."""
        self._end(trainer)

    def on_fit_end(self, trainer: L.Trainer, pl_module: PolicyModule) -> None:
        if trainer.datamodule.steps == 0:  # there was no training
            self._end(trainer)

    def _end(self, trainer: L.Trainer) -> None:
        if trainer.global_step < trainer.datamodule.steps:
            return
        for writer in writers(trainer):
            for name, value in final_figures(self.record.metrics_file, self.evaluations.results):
                writer.add_scalar(name, value, trainer.global_step)
            writer.file_writer.add_summary(settings_summaries({}, {})[2])


def final_figures(metrics: MetricsFile, results: Mapping[int, Mapping[str, float]]) -> Iterator[tuple[str, float]]:
    """`final/<benchmark>/accuracy` of the last evaluation, and the means of some figures over the last steps of training."""
    for name, value in results[max(results)].items() if results else ():
        if name.endswith(f"/{FINAL_OF_EVALUATION}"):
            yield f"final/{name}", value
    for name in FINAL_OF_TRAINING:
        values = metrics.column(name)[-LAST_STEPS:]
        if values:
            yield f"final/{name}", sum(values) / len(values)


def writers(trainer: L.Trainer) -> list[SummaryWriter]:
    """Those of the tensorboard loggers; of further ranks there are none."""
    loggers = [logger for logger in trainer.loggers if isinstance(logger, TensorBoardLogger)]
    return [logger.experiment for logger in loggers] if trainer.is_global_zero else []


def _histogram(writer: SummaryWriter, name: str, values: torch.Tensor, step: int) -> None:
    known = values[values.isfinite()]
    if len(known):
        writer.add_histogram(name, known, step)
