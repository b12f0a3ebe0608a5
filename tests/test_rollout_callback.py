"""The callback's own: when it pushes, and when it stops a run whose engine and policy disagree."""

from types import SimpleNamespace

import pytest

from edge_lightning.collective import ALONE
from edge_lightning.training.rollout_callback import EngineDriftError, RolloutCallback
from tests.test_metrics import rollout, update


class Engine:
    def __init__(self):
        self.weights_version = None
        self.pushed = []
        self.slept = 0

    def sleep(self):
        self.slept += 1

    def push_weights(self, policy, version):
        self.weights_version = version
        self.pushed.append(version)


def test_another_engine_may_evaluate_and_is_pushed_for_itself(tmp_path):
    engines = [Engine(), Engine()]
    made = RolloutCallback(
        make_engine=lambda **place: engines[0],
        make_evaluation_engine=lambda **place: engines[1],
        make_pipeline=lambda **parts: None,
        max_model_len=10,
        folder=tmp_path,
        max_engine_gap=None,
    )
    place = {"global_rank": 0, "local_rank": 0, "world_size": 1, "is_global_zero": True}
    here = SimpleNamespace(global_step=3, ckpt_path=None, **place)
    made.setup(here, SimpleNamespace(policy=SimpleNamespace(save_config=lambda folder: None)), "fit")
    assert made.push(made.evaluation_engine, here, MODULE) == 3
    assert (engines[0].pushed, engines[1].pushed) == ([], [3])


class Pipeline:
    def __init__(self):
        self.asked = []

    def fill(self, rollout, *, weights_version):
        self.asked.append(weights_version)


def callback(max_engine_gap=0.05):
    made = RolloutCallback(
        make_engine=None, make_pipeline=None, max_model_len=10, folder=None, max_engine_gap=max_engine_gap
    )
    made.engine, made.pipeline = Engine(), Pipeline()
    return made


def trainer(global_step):
    return SimpleNamespace(global_step=global_step)


MODULE = SimpleNamespace(policy=None, ranks=ALONE)


def test_every_rollout_after_an_update_comes_from_freshly_pushed_weights():
    made = callback()
    for step in (0, 1, 1, 2):  # no update between the second and the third: an evaluation has pushed already
        made.on_train_batch_start(trainer(step), MODULE, rollout(), 0)
    assert made.engine.pushed == [0, 1, 2]
    assert made.pipeline.asked == [0, 1, 1, 2]
    assert made.engine.slept == 4


def test_seconds_of_the_push_are_kept():
    batch = rollout()
    callback().on_train_batch_start(trainer(0), MODULE, batch, 0)
    assert batch.seconds["push"] > 0


def ended(made, logprob):
    """The engine said -0.5 for each sampled token; the policy says `logprob`."""
    step = rollout()
    changed = update(step)
    changed.logprobs_N[:] = logprob
    made.on_train_batch_end(trainer(1), SimpleNamespace(update=changed, ranks=ALONE), None, step, 0)


def test_a_run_stops_when_the_engine_serves_other_weights():
    ended(callback(), -0.52)
    ended(callback(max_engine_gap=None), -1.0)
    with pytest.raises(EngineDriftError, match=r"step 3: .* differ by 0.06 nats on average, at most 0.05"):
        ended(callback(), -0.56)
