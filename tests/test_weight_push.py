"""A push reaches every weight that the engine computes with, and what older weights left behind is dropped."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

import pytest
import torch
from torch.distributed.device_mesh import init_device_mesh

from edge_lightning.engine import weight_push
from edge_lightning.engine.base import StaleWeightsError
from edge_lightning.engine.spot_check import SpotCheck, sample
from edge_lightning.engine.vllm import VllmEngine
from edge_lightning.sharding import is_shard, shard
from edge_lightning.types import Sampling
from tests.engine_fixtures import greedy_ids, largest_gap, perturb, requests_of, tiny_policy
from tests.test_lora import adapted, move_b

GREEDY = Sampling(temperature=0.0)


@pytest.fixture(scope="module", params=[True, False], ids=["tied", "untied"])
def tied(request):
    return request.param


@pytest.fixture(scope="module")
def engine(tied, tmp_path_factory):
    folder = tmp_path_factory.mktemp("policy")
    policy = tiny_policy(tied=tied)
    policy.save_config(folder)
    engine = VllmEngine(policy=policy, folder=folder, max_model_len=128, block_size=32)
    yield engine
    engine.close()


@pytest.mark.slow
def test_the_engine_follows_the_policy_from_push_to_push(engine, tied):
    policy = tiny_policy(tied=tied)
    requests = requests_of(policy, each=2)
    outputs = []
    for version in range(3):
        engine.push_weights(policy, version)
        greedy = engine.generate(requests, GREEDY, weights_version=version)
        sampled = engine.generate(requests, Sampling(), weights_version=version)
        assert [g.token_ids for g in greedy] == [greedy_ids(policy, r) for r in requests]
        assert largest_gap(policy, requests, sampled, temperature=1.0) < 1e-4
        outputs.append([g.token_ids for g in greedy])
        perturb(policy, seed=version)
    assert outputs[0] != outputs[1] != outputs[2]  # the weights moved far enough to be seen


@pytest.mark.slow
def test_linear_layers_multiply_by_what_was_pushed_last(engine, tied):
    """A layer of the engine that is packed once and not again would go on with the first weights."""
    policy = tiny_policy(tied=tied)
    for version in range(2):
        engine.push_weights(policy, version)
        perturb(policy)

    def gaps(model) -> list[float]:
        linears = [layer for layer in model.modules() if hasattr(layer, "cpu_linear")]
        assert all(isinstance(layer.cpu_linear, partial) for layer in linears)  # packed
        rows = [torch.randn(5, layer.weight.shape[1]) for layer in linears]
        return [(f.cpu_linear(x, f.weight) - x @ f.weight.T).abs().max().item() for f, x in zip(linears, rows)]

    (found,) = engine._llm.apply_model(gaps)
    assert len(found) >= 9  # two layers of four, and the head
    assert max(found) < 1e-4


@pytest.mark.slow
def test_the_engine_serves_a_policy_with_its_adapters_merged(engine, tied):
    policy = adapted(tied=tied)
    requests = requests_of(policy, each=2)
    engine.push_weights(policy, 0)
    greedy = engine.generate(requests, GREEDY, weights_version=0)
    sampled = engine.generate(requests, Sampling(), weights_version=0)
    assert [g.token_ids for g in greedy] == [greedy_ids(policy, r) for r in requests]
    assert largest_gap(policy, requests, sampled, temperature=1.0) < 1e-4
    assert largest_gap(tiny_policy(tied=tied), requests, sampled, temperature=1.0) > 1e-1  # without adapters
    move_b(policy)
    engine.push_weights(policy, 1)
    again = engine.generate(requests, Sampling(), weights_version=1)
    assert largest_gap(policy, requests, again, temperature=1.0) < 1e-4
    assert largest_gap(policy, requests, sampled, temperature=1.0) > 1e-2


@pytest.mark.slow
@pytest.mark.parametrize("adapters", [False, True])
def test_the_engine_is_served_from_shards(engine, tied, adapters):
    """Unit by unit; adapters are merged while a layer is whole. In the engine's own process group of one."""
    policy, plain = ((adapted(tied=tied) if adapters else tiny_policy(tied=tied)) for _ in range(2))
    for one in (policy, plain):
        move_b(one) if adapters else perturb(one)
    shard(policy, init_device_mesh("cpu", (1,)))
    engine.push_weights(policy, 0)
    assert all(is_shard(parameter) for parameter in policy.parameters())
    requests = requests_of(plain, each=2)
    sampled = engine.generate(requests, Sampling(), weights_version=0)
    assert largest_gap(plain, requests, sampled, temperature=1.0) < 1e-4
    assert largest_gap(tiny_policy(tied=tied), requests, sampled, temperature=1.0) > 1e-2


@pytest.mark.slow
def test_a_kept_prefix_cache_shows_in_the_logprobs(engine, tied, monkeypatch):
    policy = tiny_policy(tied=tied)
    requests = requests_of(policy)[-1:]  # its prompt fills two blocks
    engine.push_weights(policy, 0)
    engine.generate(requests, Sampling(), weights_version=0)
    perturb(policy)
    with monkeypatch.context() as patch:
        patch.setattr(engine._llm, "reset_prefix_cache", lambda: True)
        engine.push_weights(policy, 1)
    stale = engine.generate(requests, Sampling(), weights_version=1)
    assert largest_gap(policy, requests, stale, temperature=1.0) > 1e-2
    engine.push_weights(policy, 2)
    fresh = engine.generate(requests, Sampling(), weights_version=2)
    assert largest_gap(policy, requests, fresh, temperature=1.0) < 1e-4


@pytest.mark.slow
def test_a_refused_reset_leaves_no_version_to_serve(engine, tied, monkeypatch):
    policy = tiny_policy(tied=tied)
    engine.push_weights(policy, 0)
    with monkeypatch.context() as patch:
        patch.setattr(engine._llm, "reset_prefix_cache", lambda: False)
        with pytest.raises(RuntimeError, match="refused to drop its prefix cache"):
            engine.push_weights(policy, 1)
    with pytest.raises(StaleWeightsError, match="version None"):
        engine.generate(requests_of(policy), Sampling(), weights_version=0)


@pytest.mark.slow
def test_a_weight_that_is_not_pushed_is_named(engine, tied):
    named = [(n, p) for n, p in tiny_policy(tied=tied).model.named_parameters() if n != "model.norm.weight"]
    with pytest.raises(RuntimeError, match=r"1 weights of the engine got no value in a push, model.norm.weight"):
        weight_push.push(engine._llm, named)


@pytest.mark.slow
def test_a_weight_that_the_engine_does_not_keep_is_named(engine, tied, monkeypatch):
    """The engine's embeddings, norms, output projections and head are compared with what was pushed, also a tied head."""
    policy = tiny_policy(tied=tied)
    names = ["model.norm.weight", "model.layers.1.mlp.down_proj.weight", "lm_head.weight"]
    for name in names:

        def spoiled(model, name=name, pack=weight_push.pack_linears):
            with torch.no_grad():
                model.get_parameter(name).view(-1)[0] += 0.5

        monkeypatch.setattr(weight_push, "pack_linears", lambda model, ops, spoil=spoiled: spoil(model))
        with pytest.raises(RuntimeError, match=f"weights of the engine are not the policy's after a push, .*{name[:8]}"):
            engine.push_weights(policy, 1)
        assert engine.weights_version is None


def test_a_sample_sees_the_first_and_the_last_of_each_axis_and_no_padding():
    weight = torch.arange(12.0 * 3).view(12, 3)
    assert sample(weight, (10, 3)).flatten().tolist()[:3] == [0.0, 1.0, 2.0]
    assert sample(weight, (10, 3))[-1].tolist() == [27.0, 28.0, 29.0]  # row 9, not 11
    assert sample(weight, (10, 3)).shape == (8, 3)


def test_a_push_compares_to_the_precision_of_the_engine():
    policy, engine = torch.nn.Linear(5, 4, bias=False), torch.nn.Linear(5, 6, bias=False).bfloat16()  # two rows of padding
    check = SpotCheck()
    for _, weight in check.watched(policy.named_parameters()):
        with torch.no_grad():
            engine.weight[:4] = weight.bfloat16()
    assert check.differing(engine) == set()
    with torch.no_grad():
        engine.weight[3, 4] += 0.25
    assert check.differing(engine) == {"weight"}
    with pytest.raises(RuntimeError, match="none of the engine's weights has the name of a pushed one"):
        check.differing(torch.nn.Sequential(engine))


def test_a_vllm_without_repacking_is_refused():
    with pytest.raises(RuntimeError, match="no dispatch_cpu_unquantized_gemm to replace"):
        weight_push.keep_plain_linears(SimpleNamespace())
