"""HfEngine against whole forward passes of the same policy."""

from __future__ import annotations

import random
from dataclasses import asdict

import numpy as np
import pytest
import torch

from edge_lightning.engine.base import StaleWeightsError
from edge_lightning.engine.hf import HfEngine, draw
from edge_lightning.errors import UserError
from edge_lightning.types import Problem, Request, Sampling
from tests.engine_fixtures import (
    EOS,
    greedy_ids,
    largest_gap,
    nucleus_logprobs,
    perturb,
    requests_of,
    tiny_policy,
)


@pytest.fixture(scope="module")
def policy():
    return tiny_policy()


def pushed_engine(policy, **settings):
    engine = HfEngine(policy=policy, folder=".", **{"max_model_len": 256, **settings})
    engine.push_weights(policy, 0)
    return engine


def test_greedy_is_the_likeliest_continuation(policy):
    requests = requests_of(policy)
    generations = pushed_engine(policy).generate(requests, Sampling(temperature=0.0), weights_version=0)
    assert [g.token_ids for g in generations] == [greedy_ids(policy, r) for r in requests]


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_logprobs_are_the_policys_at_the_sampling_temperature(policy, temperature):
    requests = requests_of(policy, each=4)
    generations = pushed_engine(policy).generate(requests, Sampling(temperature), weights_version=0)
    assert largest_gap(policy, requests, generations, temperature=temperature) < 1e-4


def test_logprobs_are_renormalised_over_the_nucleus(policy):
    requests = requests_of(policy, each=4)
    generations = pushed_engine(policy).generate(requests, Sampling(1.0, top_p=0.9), weights_version=0)
    for request, generation in zip(requests, generations):
        expected = nucleus_logprobs(policy, request, generation.token_ids, top_p=0.9)
        assert generation.logprobs == pytest.approx(expected, abs=1e-4)


def test_a_response_does_not_depend_on_its_neighbours(policy):
    requests = requests_of(policy, each=4)
    together = pushed_engine(policy).generate(requests, Sampling(), weights_version=0)
    reversed_pairs = pushed_engine(policy, max_batch=3).generate(requests[::-1], Sampling(), weights_version=0)[::-1]
    alone = [pushed_engine(policy).generate([r], Sampling(), weights_version=0)[0] for r in requests]
    for other in (reversed_pairs, alone):
        assert [g.token_ids for g in other] == [g.token_ids for g in together]
        for one, two in zip(other, together):
            assert one.logprobs == pytest.approx(two.logprobs, abs=1e-5)


def test_another_seed_gives_another_response(policy):
    ids = [
        [g.token_ids for g in pushed_engine(policy).generate(requests, Sampling(), weights_version=0)]
        for requests in (requests_of(policy), requests_of(policy, run_seed=1))
    ]
    assert all(one != two for one, two in zip(*ids))


def test_draw_inverts_the_cumulative_distribution():
    logits = torch.tensor([[0.2, 0.5, 0.3]]).log().expand(4, 3)
    tokens, logprobs = draw(logits, torch.tensor([0.0, 0.19, 0.21, 0.71], dtype=torch.float64), Sampling())
    assert tokens.tolist() == [0, 0, 1, 2]
    assert logprobs.tolist() == pytest.approx(torch.tensor([0.2, 0.2, 0.5, 0.3]).log().tolist(), abs=1e-6)


def test_draw_leaves_out_what_lies_outside_the_nucleus():
    # 0.5 + 0.3 reaches 0.8: the nucleus renormalises to 0.625, 0.375
    logits = torch.tensor([[0.2, 0.5, 0.3]]).log().expand(3, 3)
    tokens, logprobs = draw(
        logits, torch.tensor([0.0, 0.62, 0.63], dtype=torch.float64), Sampling(temperature=1.0, top_p=0.79)
    )
    assert tokens.tolist() == [1, 1, 2]
    assert logprobs.exp().tolist() == pytest.approx([0.625, 0.625, 0.375], abs=1e-6)


def test_draw_takes_none_but_the_likeliest_tokens():
    # .4 and .3 of .7 are 4/7 and 3/7: the first up to u = .571
    logits = torch.tensor([[0.1, 0.4, 0.2, 0.3]]).log().expand(4, 4)
    uniforms = torch.tensor([0.0, 0.571, 0.572, 0.999], dtype=torch.float64)
    tokens, logprobs = draw(logits, uniforms, Sampling(top_k=2))
    assert tokens.tolist() == [1, 1, 3, 3]
    assert logprobs.exp().tolist() == pytest.approx([4 / 7, 4 / 7, 3 / 7, 3 / 7], abs=1e-6)
    for everything in (4, 9, None):
        assert draw(logits, uniforms, Sampling(top_k=everything))[0].tolist() == [0, 2, 2, 3]


def test_draw_takes_the_nucleus_of_the_likeliest_tokens():
    # shares of the top 3 are 4/9, 3/9, 2/9: two reach .71 (.778); of all tokens .4 + .3 is .7, so a third is taken
    logits = torch.tensor([[0.1, 0.4, 0.2, 0.3]]).log().expand(2, 4)
    uniforms = torch.tensor([0.0, 0.999], dtype=torch.float64)
    assert draw(logits, uniforms, Sampling(top_p=0.71, top_k=3))[0].tolist() == [1, 3]
    assert draw(logits, uniforms, Sampling(top_p=0.71))[0].tolist() == [1, 3]
    assert draw(logits, uniforms, Sampling(top_p=0.71, top_k=3))[1].exp().tolist() == pytest.approx([4 / 7, 3 / 7], abs=1e-6)
    assert draw(logits, uniforms, Sampling(top_p=0.71))[1].exp().tolist() == pytest.approx([4 / 9, 3 / 9], abs=1e-6)


def test_a_greedy_draw_knows_no_top_k():
    logits = torch.tensor([[0.1, 0.4, 0.2, 0.3]]).log()
    token, logprob = draw(logits, torch.zeros(1, dtype=torch.float64), Sampling(temperature=0.0, top_k=2))
    assert (token.tolist(), logprob.exp().tolist()) == ([1], pytest.approx([0.4]))


def test_tokens_as_likely_as_the_last_are_left_in():
    logits = torch.tensor([[0.2, 0.4, 0.2, 0.2]]).log().expand(4, 4)
    tokens, _ = draw(logits, torch.tensor([0.1, 0.3, 0.7, 0.9], dtype=torch.float64), Sampling(top_k=2))
    assert tokens.tolist() == [0, 1, 2, 3]


EAPO = {"temperature": 0.7, "top_p": 0.8, "top_k": 20}


@pytest.mark.parametrize("sampling", [Sampling(top_k=3), Sampling(**EAPO)])
def test_logprobs_are_renormalised_over_the_top_k(policy, sampling):
    requests = requests_of(policy, each=4)
    generations = pushed_engine(policy).generate(requests, sampling, weights_version=0)
    for request, generation in zip(requests, generations):
        expected = nucleus_logprobs(policy, request, generation.token_ids, **asdict(sampling))
        assert generation.logprobs == pytest.approx(expected, abs=1e-4)


def test_an_end_is_kept_and_a_cut_has_none(policy):
    generations = pushed_engine(policy).generate(requests_of(policy, each=16), Sampling(), weights_version=0)
    assert {g.finish_reason for g in generations} == {"stop", "length"}
    for generation in generations:
        ended = generation.finish_reason == "stop"
        assert (generation.token_ids[-1] == EOS) == ended
        assert EOS not in generation.token_ids[:-1]
        assert len(generation.token_ids) == len(generation.logprobs)
        assert len(generation.token_ids) == 24 or ended


def test_a_response_is_cut_at_the_models_length(policy):
    request = Request(Problem("p0", "", ("1",)), policy.encode("12345"), 24, 0)
    engine = pushed_engine(policy, max_model_len=8)
    (generation,) = engine.generate([request], Sampling(temperature=0.0), weights_version=0)
    assert len(generation.token_ids) == 3


def test_a_prompt_without_room_names_the_problem(policy):
    request = Request(Problem("p17", "", ("1",)), policy.encode("12345678"), 24, 0)
    with pytest.raises(UserError, match=r"problem 'p17': prompt of 8 tokens, the engine takes 8 in all"):
        pushed_engine(policy, max_model_len=8).generate([request], Sampling(), weights_version=0)


def test_stale_weights_are_refused(policy):
    engine = HfEngine(policy=policy, folder=".", max_model_len=256)
    with pytest.raises(StaleWeightsError, match="holds weights version None, version 0 was asked for"):
        engine.generate(requests_of(policy), Sampling(), weights_version=0)
    engine.push_weights(policy, 0)
    with pytest.raises(StaleWeightsError, match="holds weights version 0, version 1 was asked for"):
        engine.generate(requests_of(policy), Sampling(), weights_version=1)


def test_it_serves_the_live_weights():
    policy = tiny_policy()
    engine = pushed_engine(policy)
    perturb(policy)
    engine.push_weights(policy, 1)
    generations = engine.generate(requests_of(policy), Sampling(), weights_version=1)
    assert largest_gap(policy, requests_of(policy), generations, temperature=1.0) < 1e-4


def test_generating_leaves_generators_mode_and_gradients_alone(policy):
    policy.train()
    states = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
    pushed_engine(policy).generate(requests_of(policy), Sampling(), weights_version=0)
    assert (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()) == states
    assert policy.model.training
    assert torch.is_grad_enabled()
    assert all(parameter.grad is None for parameter in policy.parameters())


def test_nothing_asked_is_nothing_made(policy):
    assert pushed_engine(policy).generate([], Sampling(), weights_version=0) == []
