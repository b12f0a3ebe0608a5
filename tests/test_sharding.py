"""A policy in shards, in a group of one process: whole unit by unit, with one gradient, one hash and one folder."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from safetensors.torch import load_file
from torch.distributed.device_mesh import init_device_mesh

from edge_lightning.engine.hf import HfEngine
from edge_lightning.packing import pack
from edge_lightning.scoring import response_index, score
from edge_lightning.sharding import clip_gradients, is_shard, is_sharded, shard, whole, whole_parameters
from edge_lightning.training.lockstep import empty_batch
from edge_lightning.types import Sampling
from tests.by_hand import response
from tests.engine_fixtures import requests_of, tiny_policy
from tests.test_lora import adapted, move_b

RESPONSES = [response((11, 12), prompt_ids=(7, 8, 9)), response((13, 14, 15, 16), prompt_ids=(7, 8, 9))]


@pytest.fixture
def mesh():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield init_device_mesh("cpu", (1,))
    dist.destroy_process_group()


@pytest.fixture(params=["tied", "untied", "adapted"])
def make(request):
    """Makes the same policy again and again."""
    if request.param != "adapted":
        return lambda: tiny_policy(tied=request.param == "tied")

    def make():
        policy = adapted(tied=True)
        move_b(policy)
        return policy

    return make


def sharded(policy, mesh):
    shard(policy, mesh)
    return policy


def test_no_more_than_one_unit_is_whole_at_a_time(make, mesh):
    policy, plain = sharded(make(), mesh), dict(make().named_parameters())
    assert is_sharded(policy)
    assert all(is_shard(parameter) for parameter in policy.parameters())
    seen, most = [], 0
    for name, weight in whole_parameters(policy):
        seen.append(name)
        assert torch.equal(weight, plain[name])
        most = max(most, sum(p.numel() for p in policy.parameters() if not is_shard(p)))
    assert sorted(seen) == sorted(plain)
    layers = [sum(w.numel() for n, w in plain.items() if n.startswith(f"model.model.layers.{i}.")) for i in range(2)]
    assert most == max(*layers, sum(w.numel() for w in plain.values()) - sum(layers))
    assert all(is_shard(parameter) for parameter in policy.parameters())


def test_merged_weights_hash_and_folder_are_those_of_the_whole_policy(make, mesh, tmp_path):
    policy, plain = sharded(make(), mesh), make()
    expected = dict(plain.merged_parameters())
    found = {name: weight.detach().clone() for name, weight in policy.merged_parameters()}
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], weight) for name, weight in expected.items())
    assert policy.checksum() == plain.checksum()
    policy.save(tmp_path / "found")
    plain.save(tmp_path / "expected")
    found, expected = (load_file(tmp_path / name / "model.safetensors") for name in ("found", "expected"))
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], weight) for name, weight in expected.items())


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_passes_and_gradients_are_those_of_the_whole_policy(make, mesh, precision):
    """Shards are float32 with passes in bfloat16, too: autocast casts what has been gathered."""
    grads = []
    for policy in (make(), sharded(make(), mesh)):
        tokens = pack(RESPONSES, range(2))
        with torch.autocast("cpu", torch.bfloat16, enabled=precision is torch.bfloat16, cache_enabled=False):
            scored = score(policy, [tokens, empty_batch()], response_index(RESPONSES))
            for batch in (tokens, empty_batch()):
                forward = policy(batch)
                (forward.logprobs_N.sum() + forward.entropies_N.sum()).backward()
        assert all(p.grad.dtype is torch.float32 for p in policy.trained_parameters())
        trained = policy.trained_parameters()
        norm = clip_gradients(trained, 0.5)
        grads.append((scored.logprobs_N, norm, [whole(p.grad) for p in trained]))
    (logprobs, norm, expected), (other_logprobs, other_norm, found) = grads
    torch.testing.assert_close(other_logprobs, logprobs)
    assert norm > 1
    assert other_norm == pytest.approx(norm, rel=1e-5)
    for mine, its in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, its, atol=1e-6, rtol=1e-4)
    assert torch.stack([g.norm() for g in found]).norm() == pytest.approx(0.5, rel=1e-3)


def test_the_policy_generates_whole_and_is_trained_in_shards(make, mesh, tmp_path):
    policy, plain = sharded(make(), mesh), make()
    made = []
    for one in (policy, plain):
        engine = HfEngine(policy=one, folder=tmp_path, max_model_len=128)
        requests = requests_of(one, max_tokens=6)
        for version in range(2):  # again after a pass in shards
            engine.push_weights(one, version)
            made.append([g.token_ids for g in engine.generate(requests, Sampling(), weights_version=version)])
            engine.sleep()
            assert all(is_shard(p) for p in one.parameters()) is (one is policy)
            assert engine.weights_version == (None if one is policy else version)
            one(pack(RESPONSES, range(2))).logprobs_N.sum().backward()
    assert made[0] == made[1] == made[2] == made[3]
