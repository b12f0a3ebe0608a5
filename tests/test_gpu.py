"""What only a CUDA device shows: bfloat16 passes, an engine that sleeps, NCCL. Not yet run on hardware."""

from __future__ import annotations

import pytest
import torch

from edge_lightning.engine.base import StaleWeightsError
from edge_lightning.packing import pack
from edge_lightning.policy import Policy
from edge_lightning.types import Sampling
from tests.engine_fixtures import largest_gap, perturb, requests_of, tiny_policy
from tests.run_record import here, summary
from tests.test_policy import responses

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.slow,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]


def test_a_packed_pass_on_the_device_gives_what_the_cpu_gives(asset):
    policy, tokens = Policy.load(asset), pack(responses(4), range(4))
    expected = policy(tokens)
    found = policy.cuda()(tokens.to(torch.device("cuda")))
    torch.testing.assert_close(found.logprobs_N.cpu(), expected.logprobs_N, atol=1e-4, rtol=0)
    torch.testing.assert_close(found.entropies_N.cpu(), expected.entropies_N, atol=1e-4, rtol=0)
    with torch.autocast("cuda", torch.bfloat16, cache_enabled=False):
        coarse = policy(tokens.to(torch.device("cuda")))
    assert (coarse.logprobs_N.cpu() - expected.logprobs_N).abs().mean() < 0.05


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    from edge_lightning.engine.vllm import VllmEngine

    folder = tmp_path_factory.mktemp("policy")
    tiny_policy().save_config(folder)
    made = VllmEngine(
        policy=tiny_policy(), folder=folder, max_model_len=128, dtype="bfloat16", gpu_memory_utilization=0.2,
        enable_sleep_mode=True,
    )  # fmt: skip
    yield made
    made.close()


def test_an_engine_that_has_slept_serves_the_weights_of_the_push_that_woke_it(engine):
    policy = tiny_policy().cuda()
    requests = requests_of(policy, each=2)
    for version in range(3):
        engine.push_weights(policy, version)
        made = engine.generate(requests, Sampling(), weights_version=version)
        on_cpu = tiny_policy()
        on_cpu.load_state_dict(policy.state_dict())
        assert largest_gap(on_cpu, requests, made, temperature=1.0) < 0.2
        engine.sleep()
        with pytest.raises(StaleWeightsError, match="version None"):
            engine.generate(requests, Sampling(), weights_version=version)
        perturb_on_device(policy, version)


def perturb_on_device(policy, seed):
    moved = tiny_policy()
    moved.load_state_dict(policy.state_dict())
    perturb(moved, seed=seed)
    policy.load_state_dict(moved.state_dict())


def test_sleep_gives_the_memory_of_weights_and_cache_back(engine):
    engine.push_weights(tiny_policy().cuda(), 0)
    awake, _ = torch.cuda.mem_get_info()
    engine.sleep()
    asleep, total = torch.cuda.mem_get_info()
    assert asleep - awake > 0.1 * total  # of the 0.2 that it was given


@pytest.mark.parametrize("strategy", ["single", "ddp", "fsdp"])
@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_a_few_steps_on_one_device(strategy, precision, tmp_path):
    line = [
        "engine=vllm", "engine.gpu_memory_utilization=0.2", "evaluation=none", "steps=3", f"strategy={strategy}",
        "strategy.devices=1", f"model.precision={precision}", "rollout.problems_per_step=2", "rollout.group_size=4",
    ]  # fmt: skip
    assert here("fit", tmp_path / "run", *line) == 0
    assert summary(tmp_path / "run")["status"] == "finished"
