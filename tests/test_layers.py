"""Layers that run again in the backward pass, and layers that are compiled: the same numbers, made in another way."""

from __future__ import annotations

import random

import pytest
import torch

from edge_lightning import layers
from edge_lightning.engine.hf import HfEngine
from edge_lightning.errors import UserError
from edge_lightning.layers import compile_layers, recompute_layers, require_compiler
from edge_lightning.packing import pack
from edge_lightning.scoring import response_index
from edge_lightning.training.reference_policy import ReferencePolicy
from edge_lightning.types import Sampling
from tests.by_hand import response
from tests.engine_fixtures import largest_gap, requests_of, tiny_policy
from tests.test_lora import adapted, scores


def group(count, seed=0):
    """Responses of 1 to 30 tokens to two prompts."""
    rng = random.Random(seed)

    def ids(low, high):
        return tuple(rng.randrange(3, 102) for _ in range(rng.randint(low, high)))

    prompts = (ids(1, 20), ids(1, 20))
    return [response(ids(1, 30), prompt_ids=prompts[i % 2], index=i) for i in range(count)]


def passed(policy, responses):
    """Loss, gradients by name and scores without gradient of some responses."""
    policy.zero_grad()
    forward = policy(pack(responses, range(len(responses))))
    loss = -forward.logprobs_N.mean() + 0.3 * forward.entropies_N.mean()
    loss.backward()
    gradients = {name: p.grad.clone() for name, p in policy.named_parameters() if p.grad is not None}
    return loss.detach(), gradients, scores(policy, responses).logprobs_N


def assert_equal(one, other):
    torch.testing.assert_close(one[0], other[0], atol=1e-5, rtol=1e-5)
    assert one[1].keys() == other[1].keys()
    for name, gradient in one[1].items():
        torch.testing.assert_close(gradient, other[1][name], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(one[2], other[2], atol=1e-5, rtol=1e-5)
    assert max(gradient.abs().max() for gradient in one[1].values()) > 1e-2  # or equality would say little


@pytest.fixture
def runs(monkeypatch):
    """How often each layer was run, by its number."""
    counted = {}

    def count(policy):
        for number, layer in enumerate(policy.model.base_model.layers):
            layer.register_forward_pre_hook(lambda *_, n=number: counted.update({n: counted.get(n, 0) + 1}))
        return counted

    return count


@pytest.mark.parametrize("make", [tiny_policy, adapted])
def test_recomputed_layers_give_the_same_loss_gradients_and_scores(make):
    policy, other = make(), make()
    recompute_layers(policy.model)
    assert_equal(passed(policy, group(6)), passed(other, group(6)))


@pytest.mark.parametrize("make", [tiny_policy, adapted])
def test_each_layer_runs_again_in_the_backward_pass_and_in_no_other(make, runs):
    policy = make()
    counted = runs(policy)
    recompute_layers(policy.model)
    forward = policy(pack(group(3), [0, 1, 2]))
    assert counted == {0: 1, 1: 1}
    forward.logprobs_N.sum().backward()
    assert counted == {0: 2, 1: 2}
    scores(policy, group(3))
    assert counted == {0: 3, 1: 3}


def test_layers_still_run_again_after_the_policy_has_generated_by_itself(runs):
    policy = tiny_policy()
    recompute_layers(policy.model)
    engine = HfEngine(policy=policy, folder=".", max_model_len=256)
    engine.push_weights(policy, 0)
    requests = requests_of(policy)
    generations = engine.generate(requests, Sampling(), weights_version=0)
    assert largest_gap(policy, requests, generations, temperature=1.0) < 1e-4
    counted = runs(policy)
    policy(pack(group(3), [0, 1, 2])).logprobs_N.sum().backward()
    assert counted == {0: 2, 1: 2}


def test_recomputed_layers_keep_less_for_the_backward_pass():
    kept = {}
    for name in ("plain", "recomputed"):
        policy = tiny_policy()
        if name == "recomputed":
            recompute_layers(policy.model)
        own = {p.untyped_storage().data_ptr() for p in policy.parameters()}
        found = {}

        def note(tensor, own=own, found=found):
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in own:
                found[storage.data_ptr()] = storage.nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            forward = policy(pack(group(8), range(8)))
        kept[name] = sum(found.values())
        assert forward.logprobs_N.requires_grad
    assert kept["recomputed"] < kept["plain"] / 3


def test_dropout_that_training_mode_would_switch_on_is_refused():
    policy = tiny_policy()
    policy.model.config.attention_dropout = 0.1
    with pytest.raises(UserError, match=r"a model without dropout expected, .* attention_dropout=0.1 came; set it to 0"):
        recompute_layers(policy.model)
    assert not policy.model.is_gradient_checkpointing


def test_a_model_that_cannot_run_layers_again_is_refused(monkeypatch):
    policy = tiny_policy()
    monkeypatch.setattr(policy.model, "supports_gradient_checkpointing", False)
    with pytest.raises(UserError, match=r"Qwen2ForCausalLM can't do that; set model.gradient_checkpointing=false"):
        recompute_layers(policy.model)


@pytest.fixture
def graphs():
    """A backend that counts what it is handed."""
    torch._dynamo.reset()
    made = []

    def backend(graph, inputs):
        made.append(graph)
        return graph

    backend.made = made
    yield backend
    torch._dynamo.reset()


def test_rows_of_any_length_share_one_graph_with_gradient_and_one_without(graphs):
    policy = tiny_policy()
    compile_layers(policy.model, backend=graphs)
    passed(policy, group(6))
    assert len(graphs.made) == 2  # both layers, whole
    for seed in range(1, 12):
        passed(policy, group(2 + seed % 5, seed))
    assert len(graphs.made) == 2
    for seed in range(3):
        passed(policy, group(1, seed))  # one response: torch takes sizes of 1 for constants
    assert len(graphs.made) == 4


@pytest.mark.slow
def test_all_variants_of_a_layer_are_compiled(graphs):
    """With adapters that are switched off, recomputed, one response and more: none falls back to running uncompiled."""
    policy = adapted()
    recompute_layers(policy.model)
    compile_layers(policy.model, backend=graphs)
    reference = ReferencePolicy(policy)
    for responses in (group(6), group(1), group(4, 1), group(1, 1)):
        passed(policy, responses)
        row = pack(responses, range(len(responses)))
        reference.logprobs([row], response_index(responses), torch.device("cpu"))
        policy(row, padded_to=40).padding_entropy_B.sum().backward()
    made = len(graphs.made)
    assert 6 < made < layers.VARIANTS
    for responses in (group(5, 2), group(1, 2)):
        passed(policy, responses)
        reference.logprobs([pack(responses, range(len(responses)))], response_index(responses), torch.device("cpu"))
    assert len(graphs.made) == made


def test_the_transformers_engine_runs_layers_uncompiled(graphs):
    policy = tiny_policy()
    compile_layers(policy.model, backend=graphs)
    engine = HfEngine(policy=policy, folder=".", max_model_len=256)
    engine.push_weights(policy, 0)
    requests = requests_of(policy)
    generations = engine.generate(requests, Sampling(), weights_version=0)
    assert graphs.made == []
    plain = tiny_policy()
    assert largest_gap(plain, requests, generations, temperature=1.0) < 1e-4
    policy(pack(group(3), [0, 1, 2]))
    assert len(graphs.made) == 1


def test_compiled_layers_keep_names_and_a_copy_has_weights_of_its_own(graphs):
    policy = tiny_policy()
    compile_layers(policy.model, backend=graphs)
    assert policy.state_dict().keys() == tiny_policy().state_dict().keys()
    reference = ReferencePolicy(policy)
    with torch.no_grad():
        for weight in policy.parameters():
            weight.mul_(1.1)
    row, response_N = pack(group(3), [0, 1, 2]), response_index(group(3))
    now = reference.logprobs([row], response_N, torch.device("cpu"))
    torch.testing.assert_close(now, scores(tiny_policy(), group(3)).logprobs_N, atol=1e-5, rtol=1e-5)


@pytest.mark.slow
def test_compiled_layers_give_the_same_loss_gradients_and_scores():
    try:
        require_compiler()
    except UserError as error:
        pytest.skip(str(error))
    torch._dynamo.reset()
    policy, other = tiny_policy(), tiny_policy()
    compile_layers(policy.model)
    for seed in (0, 1):
        assert_equal(passed(policy, group(6, seed)), passed(other, group(6, seed)))


@pytest.mark.slow
def test_layers_with_adapters_may_be_compiled_and_recomputed():
    torch._dynamo.reset()
    policy, other = adapted(), adapted()
    recompute_layers(policy.model)
    compile_layers(policy.model, backend="aot_eager")  # torch's tracing of shapes and gradients, without a compiler's code
    for responses in (group(6), group(1)):
        assert_equal(passed(policy, responses), passed(other, responses))


def test_a_missing_compiler_is_one_clear_line(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(UserError, match=r"a C\+\+ compiler expected, there is no no-such-compiler; install it or set CXX"):
        compile_layers(tiny_policy().model)
    monkeypatch.delenv("CXX")
    monkeypatch.setattr(layers.shutil, "which", lambda name: name)
    monkeypatch.setattr(layers.sysconfig, "get_path", lambda name: "/nowhere")
    with pytest.raises(UserError, match=r"the headers of Python .* expected, there is no Python.h in /nowhere; install"):
        compile_layers(tiny_policy().model)


def test_a_model_without_layers_of_its_own_kind_is_refused():
    policy = tiny_policy()
    policy.model.model.layers = torch.nn.ModuleList()
    with pytest.raises(UserError, match=r"Qwen2ForCausalLM has no layers to compile; set model.compile=false"):
        compile_layers(policy.model, backend="eager")
