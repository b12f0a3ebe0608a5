"""Low-rank adapters: what they compute, what is trained, and what the rest of the house gets to see of them."""

from __future__ import annotations

import gc
import math
import weakref

import pytest
import torch
from transformers import AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel

from edge_lightning import head
from edge_lightning.credit.none import NoCredit
from edge_lightning.engine.hf import HfEngine
from edge_lightning.errors import UserError
from edge_lightning.lora import LowRankAdapters
from edge_lightning.objective.policy_gradient import PolicyGradient
from edge_lightning.packing import pack
from edge_lightning.policy import Policy
from edge_lightning.scoring import response_index, score
from edge_lightning.training.module import PolicyModule
from edge_lightning.training.reference_policy import ReferencePolicy
from edge_lightning.types import Sampling
from tests.by_hand import response
from tests.engine_fixtures import largest_gap, requests_of, tiny_policy
from tests.test_module import Stand, rollout
from tests.test_policy import responses

Q = "model.layers.0.self_attn.q_proj"
GROUP = responses(vocabulary=102)


def adapted(policy=None, *, tied=True, seed=0, trained=True, **settings):
    """A policy, else a Qwen2 of 2 layers, with adapters of rank 4; trained: B is not 0 any more."""
    policy = policy or tiny_policy(tied=tied)
    policy.adapt(LowRankAdapters(**{"rank": 4, "alpha": 12.0, **settings}), seed=seed)
    if trained:
        move_b(policy)
    return policy


def move_b(policy, scale=0.05):
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, weight in policy.model.named_parameters():
            if "lora_B" in name:
                weight += scale * torch.randn(weight.shape, generator=generator)


def ab(policy, layer):
    """A [rank, inputs] and B [outputs, rank] of a layer."""
    weights = dict(policy.model.named_parameters())
    return tuple(weights[f"{layer}.lora_{kind}.default.weight"] for kind in "AB")


def plain(policy, *, tied=True):
    """A policy without adapters that has the merged weights."""
    other = tiny_policy(tied=tied, seed=9)
    other.model.load_state_dict(dict(policy.merged_parameters()), strict=not tied)
    return other


def scores(policy, group=GROUP):
    return score(policy, [pack(group, range(len(group)))], response_index(group))


def test_a_merged_weight_is_w_plus_alpha_over_rank_b_a_by_hand():
    """alpha / rank = 3 / 2; B[1, 1] = 5 and A[1, 0] = 2 join input 0 to output 1: 1.5 * 5 * 2 = 15."""
    policy = adapted(trained=False, rank=2, alpha=3.0)
    a, b = ab(policy, Q)
    with torch.no_grad():
        a.zero_()[1, 0] = 2.0
        b.zero_()[1, 1] = 5.0
    before = tiny_policy().model.get_parameter(f"{Q}.weight")
    moved = dict(policy.merged_parameters())[f"{Q}.weight"] - before
    assert moved[1, 0].item() == pytest.approx(15.0, abs=1e-6)
    moved[1, 0] = 0.0
    assert moved.abs().max() == 0


@pytest.mark.parametrize("tied", [True, False])
def test_merged_weights_have_names_and_order_of_the_plain_model_and_its_values_where_nothing_is_adapted(tied):
    policy, original = adapted(tied=tied), dict(tiny_policy(tied=tied).model.named_parameters())
    merged = dict(policy.merged_parameters())
    assert list(merged) == list(original)
    assert ("lm_head.weight" in merged) is not tied
    for name, weight in original.items():
        layer, _, leaf = name.rpartition(".")
        if leaf == "weight" and layer.endswith("_proj"):
            a, b = ab(policy, layer)
            torch.testing.assert_close(merged[name], weight + 3 * b @ a, atol=1e-6, rtol=0)
            assert (merged[name] - weight).abs().max() > 1e-2
        else:
            assert torch.equal(merged[name], weight), name


def test_all_linear_is_every_linear_layer_but_the_head_and_names_choose_some():
    untied = adapted(tied=False)
    assert not hasattr(untied.model.lm_head, "lora_A")
    # q 64 + 64, k and v 64 + 32, o 64 + 64, gate, up and down 64 + 128: 1024 a layer and rank
    assert sum(p.numel() for p in untied.trained_parameters()) == 2 * 1024 * 4
    some = adapted(target_modules=["q_proj", "layers.1.mlp.up_proj"])
    names = {n.split(".lora_")[0] for n, p in some.model.named_parameters() if p.requires_grad}
    assert names == {Q, Q.replace("0", "1"), "model.layers.1.mlp.up_proj"}
    assert sum(p.numel() for p in adapted(target_modules="q_proj").trained_parameters()) == 2 * 128 * 4


def test_merging_leaves_the_policy_as_it_is_and_holds_one_weight_at_a_time():
    policy = adapted()
    before = {name: weight.clone() for name, weight in policy.model.state_dict().items()}
    of_the_policy = {id(p) for p in policy.model.parameters()}
    alive, most, made = weakref.WeakSet(), 0, 0
    for _, weight in policy.merged_parameters():
        if id(weight) not in of_the_policy:
            made += 1
            alive.add(weight)
        most = max(most, len(alive))
    assert (made, most) == (14, 1)
    assert torch.is_grad_enabled()
    assert all(torch.equal(weight, before[name]) for name, weight in policy.model.state_dict().items())


def test_alpha_is_twice_the_rank_where_nothing_is_said():
    policy = adapted(alpha=None)
    a, b = ab(policy, Q)
    moved = dict(policy.merged_parameters())[f"{Q}.weight"] - tiny_policy().model.get_parameter(f"{Q}.weight")
    torch.testing.assert_close(moved, 2 * b @ a, atol=1e-6, rtol=0)


@pytest.mark.parametrize("tied", [True, False])
def test_an_adapted_policy_computes_what_the_plain_one_with_merged_weights_does(tied):
    policy = adapted(tied=tied)
    mine, merged, before = scores(policy), scores(plain(policy, tied=tied)), scores(tiny_policy(tied=tied))
    torch.testing.assert_close(mine.logprobs_N, merged.logprobs_N, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(mine.entropies_N, merged.entropies_N, atol=1e-5, rtol=1e-5)
    assert (mine.logprobs_N - before.logprobs_N).abs().max() > 1e-1


def test_fresh_adapters_change_no_bit():
    assert torch.equal(scores(adapted(trained=False)).logprobs_N, scores(tiny_policy()).logprobs_N)


def test_gradients_are_those_of_the_merged_weight_times_the_other_factor():
    """W' = W + s B A, so dL/dB = s dL/dW' A^T and dL/dA = s B^T dL/dW'."""
    policy = adapted()
    other = plain(policy)
    for each in (policy, other):
        forward = each(pack(GROUP, range(len(GROUP))))
        (forward.logprobs_N.sum() + 0.3 * forward.entropies_N.sum()).backward()
    for layer in (Q, "model.layers.1.mlp.down_proj"):
        a, b = ab(policy, layer)
        whole = other.model.get_parameter(f"{layer}.weight").grad
        torch.testing.assert_close(b.grad, 3 * whole @ a.detach().T, atol=1e-3, rtol=1e-4)
        torch.testing.assert_close(a.grad, 3 * b.detach().T @ whole, atol=1e-3, rtol=1e-4)
        assert b.grad.abs().max() > 0.1


def test_a_step_gives_gradients_to_adapters_alone_and_the_optimizer_sees_no_other(asset):
    policy = adapted(Policy.load(asset))
    Stand(policy).training_step(rollout(), 0)
    own = {name for name, weight in policy.model.named_parameters() if weight.grad is not None}
    assert own == {name for name, _ in policy.model.named_parameters() if ".lora_" in name}
    settings = {"credit": NoCredit(), "objective": PolicyGradient(), "schedule": lambda optimizer: None}
    module = PolicyModule(policy=policy, optimizer=torch.optim.AdamW, **settings)
    groups = module.configure_optimizers()["optimizer"].param_groups
    # q and o 128 + 128, k and v 128 + 64, gate, up and down 128 + 384: 2432 for each of 3 layers and 4 ranks
    assert [sum(p.numel() for p in group["params"]) for group in groups] == [29184]


@pytest.mark.parametrize("tied", [True, False])
def test_the_head_computes_no_gradient_for_a_frozen_weight(tied, monkeypatch):
    needed = []
    backward = head._BlockwiseHead.backward

    def spy(ctx, *gradients):
        needed.append(ctx.needs_input_grad[:3])
        return backward(ctx, *gradients)

    monkeypatch.setattr(head._BlockwiseHead, "backward", staticmethod(spy))
    for policy in (adapted(tied=tied), tiny_policy(tied=tied)):
        policy(pack(GROUP, [0, 1])).logprobs_N.sum().backward()
    assert needed == [(True, False, False), (True, True, False)]


def test_the_start_is_a_function_of_the_seed_alone():
    torch.manual_seed(3)
    state = torch.get_rng_state()
    one = adapted(trained=False)
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(4)
    again, other = adapted(trained=False), adapted(trained=False, seed=1)
    assert torch.equal(ab(one, Q)[0], ab(again, Q)[0])
    assert not torch.equal(ab(one, Q)[0], ab(other, Q)[0])
    bound = 1 / math.sqrt(64)  # of a uniform draw, for 64 inputs
    assert ab(one, Q)[0].abs().max().item() == pytest.approx(bound, rel=0.05)
    assert ab(one, Q)[1].abs().max() == 0


def test_adapters_are_float32_whatever_the_model_is_and_merged_weights_have_its_dtype(asset):
    policy = Policy.load(asset, dtype="bfloat16")
    policy.adapt(LowRankAdapters(rank=2), seed=0)
    move_b(policy)
    assert {p.dtype for p in policy.trained_parameters()} == {torch.float32}
    assert {w.dtype for _, w in policy.merged_parameters()} == {torch.bfloat16}
    policy(pack(GROUP, [0, 1])).logprobs_N.sum().backward()
    assert all(p.grad.dtype == torch.float32 for p in policy.trained_parameters())


@pytest.mark.parametrize("tied", [True, False])
def test_a_saved_policy_is_a_plain_folder_with_merged_weights(tied, tmp_path):
    policy = adapted(tied=tied)
    policy.save(tmp_path)
    assert not list(tmp_path.glob("adapter*"))
    model = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert model.state_dict().keys() == tiny_policy(tied=tied).model.state_dict().keys()
    ids = torch.arange(3, 43)[None]
    with torch.no_grad():
        torch.testing.assert_close(model(ids).logits, policy.model(ids).logits, atol=1e-5, rtol=1e-5)
        assert (model(ids).logits - tiny_policy(tied=tied).model(ids).logits).abs().max() > 1e-1
    names = [name for name, _ in Policy.load(tmp_path).model.named_parameters()]
    assert names == [name for name, _ in tiny_policy(tied=tied).model.named_parameters()]


def test_the_reference_is_the_same_model_with_adapters_off_and_they_are_on_again_afterwards():
    policy = adapted(trained=False)
    gc.collect()
    models = sum(type(thing) is type(policy.model) for thing in gc.get_objects())
    reference = ReferencePolicy(policy)
    assert reference.policy is policy
    assert sum(type(thing) is type(policy.model) for thing in gc.get_objects()) == models
    batches, response_N = [pack(GROUP, range(len(GROUP)))], response_index(GROUP)
    begun = reference.logprobs(batches, response_N, torch.device("cpu"))
    assert torch.equal(begun, scores(tiny_policy()).logprobs_N)
    move_b(policy)
    trained = [id(p) for p in policy.trained_parameters()]
    assert torch.equal(reference.logprobs(batches, response_N, torch.device("cpu")), begun)
    assert (scores(policy).logprobs_N - begun).abs().max() > 1e-1
    assert [id(p) for p in policy.trained_parameters()] == trained


def test_adapters_are_on_again_after_a_reference_pass_that_raises():
    policy = adapted()
    mine, trained = scores(policy).logprobs_N, len(policy.trained_parameters())
    with pytest.raises(ValueError, match="at least one token each"):
        ReferencePolicy(policy).logprobs((pack([response(())], [0]) for _ in "1"), torch.zeros(1), torch.device("cpu"))
    assert torch.equal(scores(policy).logprobs_N, mine)
    assert len(policy.trained_parameters()) == trained == 28


def test_a_step_with_a_kl_term_measures_from_the_start_and_trains_the_adapters(asset):
    policy = adapted(Policy.load(asset))
    module = Stand(policy, objective=PolicyGradient(kl_coefficient=0.1))
    module.training_step(rollout(), 0)
    kl = module.update.kl_N[~module.update.kl_N.isnan()]
    below = module.update.logprobs_N - scores(Policy.load(asset), rollout().responses).logprobs_N
    assert kl.max() > 0.1
    expected = (-below).exp() + below - 1
    torch.testing.assert_close(kl, expected[~module.update.kl_N.isnan()], atol=1e-4, rtol=1e-4)
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in policy.trained_parameters())


def test_the_transformers_engine_samples_from_the_adapted_policy():
    policy = adapted()
    engine = HfEngine(policy=policy, folder=".", max_model_len=256)
    engine.push_weights(policy, 0)
    requests = requests_of(policy, each=4)
    generations = engine.generate(requests, Sampling(), weights_version=0)
    assert largest_gap(policy, requests, generations, temperature=1.0) < 1e-4
    assert largest_gap(plain(policy), requests, generations, temperature=1.0) < 1e-4
    assert largest_gap(tiny_policy(), requests, generations, temperature=1.0) > 1e-1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rank": 0}, r"model.lora.rank=0: at least 1 expected"),
        ({"alpha": 0.0}, r"model.lora.alpha=0.0: above 0 expected, null: twice the rank"),
        ({"alpha": math.nan}, r"model.lora.alpha=nan: above 0 expected"),
        ({"target_modules": ["q_proj", "qproj"]}, r"some of q_proj, k_proj, .*down_proj expected, 'qproj' is none of its"),
        ({"target_modules": ["lm_head"]}, r"target_modules=\['lm_head'\]: all-linear or some of q_proj, "),
        ({"target_modules": "embed_tokens"}, r"target_modules=\['embed_tokens'\]: all-linear or some of q_proj, "),
        ({"target_modules": []}, r"target_modules=\[\]: all-linear or some of q_proj, .* expected, nothing came"),
    ],
)
def test_what_cannot_be_adapted_is_one_clear_line(settings, message):
    with pytest.raises(UserError, match=message) as caught:
        adapted(tied=False, **settings)
    assert "\n" not in str(caught.value)


def test_a_model_without_linear_layers_is_refused():
    model = GPT2LMHeadModel(GPT2Config(vocab_size=16, n_positions=8, n_embd=8, n_layer=1, n_head=1))
    with pytest.raises(UserError, match=r"layers beside its head expected, GPT2LMHeadModel came; set model.lora=null"):
        LowRankAdapters(rank=2).add_to(model, seed=0)


def test_a_folder_of_adapters_alone_is_no_policy(asset, tmp_path):
    from peft import LoraConfig, get_peft_model

    model = AutoModelForCausalLM.from_pretrained(asset)
    get_peft_model(model, LoraConfig(r=2, target_modules=["q_proj"])).save_pretrained(tmp_path)
    Policy.load(asset).tokenizer.save_pretrained(tmp_path)
    with pytest.raises(UserError, match=r"a whole model expected, adapters of one came; merge them into it first"):
        Policy.load(tmp_path)
