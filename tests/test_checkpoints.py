from types import SimpleNamespace

import torch

from edge_lightning.collective import ALONE
from edge_lightning.training import checkpoints
from edge_lightning.training.checkpoints import BestCheckpoint, LastCheckpoint


class Trainer:
    is_global_zero = True
    fit_loop = SimpleNamespace(state_dict=dict)

    def __init__(self):
        self.global_step = 0
        self.callback_metrics = {}
        self.saved = []
        self.strategy = None
        self.should_stop = False

    def save_checkpoint(self, path):
        self.saved.append(self.global_step)
        path.write_text(str(self.global_step))

    def step(self, callback, accuracy=None):
        self.global_step += 1
        if accuracy is not None:
            self.callback_metrics = {
                "evaluation/smoke/accuracy": torch.tensor(accuracy),
                "evaluation/step": torch.tensor(float(self.global_step)),
            }
        module = SimpleNamespace(ranks=ALONE)
        callback.on_train_batch_end(self, module, None, SimpleNamespace(step=self.global_step - 1), 0)


def test_only_an_evaluation_that_beats_all_before_it_is_kept(tmp_path):
    trainer, callback = Trainer(), BestCheckpoint(dirpath=tmp_path, monitor="evaluation/smoke/accuracy")
    for accuracy in (None, 0.2, None, 0.1, 0.2, 0.3, None):
        trainer.step(callback, accuracy)
    assert trainer.saved == [2, 6]
    assert (tmp_path / "best.ckpt").read_text() == "6"


def test_the_evaluation_before_training_is_of_other_weights(tmp_path):
    trainer, callback = Trainer(), BestCheckpoint(dirpath=tmp_path, monitor="evaluation/smoke/accuracy")
    trainer.callback_metrics = {"evaluation/smoke/accuracy": torch.tensor(0.9), "evaluation/step": torch.tensor(0.0)}
    trainer.step(callback)
    assert trainer.saved == []


def test_a_resumed_run_remembers_what_there_is_to_beat(tmp_path):
    trainer, callback = Trainer(), BestCheckpoint(dirpath=tmp_path, monitor="evaluation/smoke/accuracy")
    trainer.step(callback, 0.5)
    resumed = BestCheckpoint(dirpath=tmp_path, monitor="evaluation/smoke/accuracy")
    resumed.load_state_dict(callback.state_dict())
    trainer.step(resumed, 0.4)
    assert trainer.saved == [1]


def test_without_the_metric_nothing_is_written(tmp_path):
    trainer = Trainer()
    trainer.step(BestCheckpoint(dirpath=tmp_path, monitor="evaluation/other/accuracy"), 0.5)
    assert trainer.saved == []


def test_without_a_monitor_nothing_is_written(tmp_path):
    trainer = Trainer()
    trainer.step(BestCheckpoint(dirpath=tmp_path, monitor=None), 0.5)
    assert trainer.saved == []


def test_an_evaluation_that_a_resumed_run_does_first_can_be_the_best(tmp_path):
    trainer, callback = Trainer(), BestCheckpoint(dirpath=tmp_path, monitor="evaluation/smoke/accuracy")
    trainer.global_step = 4
    trainer.callback_metrics = {"evaluation/smoke/accuracy": torch.tensor(0.5), "evaluation/step": torch.tensor(4.0)}
    callback.on_train_start(trainer, None)
    trainer.step(callback)  # of other weights than those evaluated
    assert trainer.saved == [4]


def test_the_last_checkpoint_is_written_each_n_steps_or_when_the_time_is_up(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(checkpoints.time, "monotonic", lambda: now[0])
    trainer, callback = Trainer(), LastCheckpoint(dirpath=tmp_path, every_n_steps=4, every_n_minutes=10.0)
    for minutes in (1, 2, 3, 4, 13, 14, 15, 16):
        now[0] = 60.0 * minutes
        trainer.step(callback)
    # the fourth and the eighth for their number; after the fourth, at 4 min, the next is due at 14
    assert trainer.saved == [4, 6, 8]
