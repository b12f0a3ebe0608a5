"""Values that look right to a person or to YAML and are not: one line that names the key, before anything is trained.

Beside the hundred lines of tests/test_cli.py: numbers that are text, None that is no null, numbers that are none, sizes
below zero, names that lead out of the run's folder.
"""

import pytest

from tests.test_cli import refusal

CASES = [
    # what YAML makes of it
    ("steps=1e5", "steps=100000.0: int . null expected, float came"),
    ("steps='1e5'", "steps=1e5: int . null expected, str came"),
    ("steps=None", "steps=None: int . null expected, str came"),
    ("steps=''", "steps=: int . null expected, str came"),
    ("steps=[4]", "steps=\\[4\\]: int . null expected, list came"),
    ("steps=true", "steps=True: int . null expected, bool came"),
    ("steps=1_000x", "steps=1_000x: int . null expected, str came"),
    ("seed=1.0", "seed=1.0: int expected, float came"),
    ("seed=null", "seed=None: int expected, null came"),
    ("optimizer.lr='1e-6'", "optimizer.lr=1e-6: float . Tensor expected, str came"),
    ("optimizer.lr=nan", "optimizer: Invalid learning rate: nan"),
    ("rollout.group_size=None", "rollout.group_size=None: int expected, str came"),
    ("data.on_bad_row=no", "data.on_bad_row=no: drop . refuse expected, str came"),
    ("evaluation.before=None", "evaluation.before=None: bool expected, str came"),
    # numbers that are none, sizes below zero
    ("rollout.temperature=nan", "rollout.temperature=nan: above 0"),
    ("rollout.max_engine_gap=nan", "rollout.max_engine_gap=nan: above 0 expected"),
    ("module.gradient_clip_norm=nan", "module.gradient_clip_norm=nan: above 0 expected"),
    ("module.largest_gradient_norm=nan", "module.largest_gradient_norm=nan: above 0 expected, null for no bound"),
    ("module.largest_gradient_norm=0", "module.largest_gradient_norm=0: above 0 expected"),
    ("rollout.group_size=-8", "rollout.group_size=-8: at least 1 expected"),
    ("rollout.problems_per_step=-1", "rollout.problems_per_step=-1: at least 1 expected"),
    ("rollout.problems_per_step=0", "rollout.problems_per_step=0: at least 1 expected"),
    ("rollout.response_limit=-1", "rollout.response_limit=-1: at least 1 token expected"),
    ("rollout.updates_per_rollout=0", "updates_per_rollout=0: at least 1 expected"),
    ("datamodule.micro_batch_tokens=-4096", "micro_batch_tokens=-4096: at least 1 expected"),
    ("engine.stall_s=0", "engine.stall_s=0: above 0 seconds expected, null: not watched"),
    ("callbacks.signal_watch.after_n_steps=0", "callbacks.signal_watch.after_n_steps=0: at least 1 expected"),
    ("callbacks.last_checkpoint.every_n_minutes=nan", "every_n_minutes=nan: above 0 expected"),
    # options that are none
    ("module.on_unusable_update=ignore", "module.on_unusable_update=ignore: stop . skip expected"),
    ("callbacks.last_checkpoint.keep_previous=perhaps", "keep_previous=perhaps: bool expected, str came"),
    ("model.trust_remote_code=yes-please", "model.trust_remote_code=yes-please: true or false expected"),
    ("offline=perhaps", "offline=perhaps: true or false expected"),
    # names that lead out of the folder
    ("evaluation.benchmarks.smoke.name=../../x", "name='../../x': a name without /"),
]


@pytest.mark.parametrize(("line", "message"), CASES, ids=[line for line, _ in CASES])
def test_a_malformed_value_is_one_line_before_training(line, message, tmp_path, capfd):
    import re

    assert re.search(message, refusal("fit", f"engine=hf {line}", tmp_path, capfd))
