"""VllmEngine against whole forward passes of the policy and against HfEngine. One engine serves the file."""

from __future__ import annotations

import socket
import sys
import time
from dataclasses import asdict, replace

import pytest
import torch

from edge_lightning.engine.base import StaleWeightsError
from edge_lightning.engine.hf import HfEngine
from edge_lightning.engine.vllm import CPU_BATCH_TOKENS, VllmEngine
from edge_lightning.engine.watched import EngineError, Watched
from edge_lightning.errors import UserError
from edge_lightning.types import Problem, Request, Sampling
from tests.engine_fixtures import (
    EOS,
    PROMPTS,
    greedy_ids,
    largest_gap,
    nucleus_logprobs,
    perturb,
    requests_of,
    response_logits,
    tiny_policy,
)

slow = pytest.mark.slow


@pytest.fixture(scope="module")
def policy():
    return tiny_policy()


@pytest.fixture(scope="module")
def engine(policy, tmp_path_factory):
    folder = tmp_path_factory.mktemp("policy")
    policy.save_config(folder)
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.MonkeyPatch.context() as patch:
        patch.setenv("MASTER_PORT", str(taken.getsockname()[1]))  # of another run: one process has no need of a port
        engine = VllmEngine(policy=policy, folder=folder, max_model_len=128, block_size=32)
    with pytest.raises(StaleWeightsError, match="holds weights version None"):
        engine.generate(requests_of(policy), Sampling(), weights_version=0)
    engine.push_weights(policy, 0)
    yield engine
    engine.close()


@slow
def test_greedy_is_the_likeliest_continuation(engine, policy):
    requests = requests_of(policy)
    generations = engine.generate(requests, Sampling(temperature=0.0), weights_version=0)
    assert [g.token_ids for g in generations] == [greedy_ids(policy, r) for r in requests]
    assert largest_gap(policy, requests, generations, temperature=1.0) < 1e-4


@slow
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_logprobs_are_the_policys_at_the_sampling_temperature(engine, policy, temperature):
    requests = requests_of(policy, each=4)
    generations = engine.generate(requests, Sampling(temperature), weights_version=0)
    assert largest_gap(policy, requests, generations, temperature=temperature) < 1e-4
    other = 0.7 if temperature == 1.0 else 1.0
    assert largest_gap(policy, requests, generations, temperature=other) > 1e-1


@slow
def test_logprobs_are_renormalised_over_the_nucleus(engine, policy):
    requests = requests_of(policy, each=4)
    generations = engine.generate(requests, Sampling(1.0, top_p=0.9), weights_version=0)
    for request, generation in zip(requests, generations):
        expected = nucleus_logprobs(policy, request, generation.token_ids, top_p=0.9)
        assert generation.logprobs == pytest.approx(expected, abs=1e-4)
    assert largest_gap(policy, requests, generations, temperature=1.0) > 1e-2  # they are not the whole distribution's


@slow
@pytest.mark.parametrize("sampling", [Sampling(top_k=3), Sampling(1.0, 0.9, 5), Sampling(0.7, 0.8, 20)])
def test_no_engine_ever_samples_a_token_outside_the_top_k(engine, policy, sampling):
    """The fixture's own ranking of the policy's logits says which tokens these are, and what their log-probabilities."""
    hf = HfEngine(policy=policy, folder=".", max_model_len=128)
    hf.push_weights(policy, 0)
    requests = requests_of(policy, each=16)
    seen = []
    for one in (engine, hf):
        generations = one.generate(requests, sampling, weights_version=0)
        ranks = []
        for request, generation in zip(requests, generations):
            expected = nucleus_logprobs(policy, request, generation.token_ids, **asdict(sampling))
            assert generation.logprobs == pytest.approx(expected, abs=1e-4)
            logits = response_logits(policy, request, generation.token_ids)
            chosen = logits.gather(1, torch.tensor(generation.token_ids)[:, None])
            ranks += (logits > chosen).sum(1).tolist()
        assert max(ranks) < sampling.top_k
        seen.append(torch.tensor(ranks).bincount(minlength=sampling.top_k) / len(ranks))
    assert (seen[0] - seen[1]).abs().max() < 0.08  # 64 responses each, drawn by different generators
    unbounded = engine.generate(requests, Sampling(sampling.temperature, sampling.top_p), weights_version=0)
    outside = 0
    for request, generation in zip(requests, unbounded):
        logits = response_logits(policy, request, generation.token_ids)
        chosen = logits.gather(1, torch.tensor(generation.token_ids)[:, None])
        outside += int(((logits > chosen).sum(1) >= sampling.top_k).sum())
    assert outside > 0  # top_k is what kept them out


@slow
def test_both_engines_give_one_greedy_generation(engine, policy):
    hf = HfEngine(policy=policy, folder=".", max_model_len=128)
    hf.push_weights(policy, 0)
    for sampling in (Sampling(temperature=0.0), Sampling(temperature=0.0, top_p=0.5, top_k=2)):
        for one, two in zip(*(e.generate(requests_of(policy), sampling, weights_version=0) for e in (engine, hf))):
            assert (one.token_ids, one.finish_reason) == (two.token_ids, two.finish_reason)
            assert one.logprobs == pytest.approx(two.logprobs, abs=1e-4)


@slow
def test_sampled_frequencies_follow_the_policy(engine, policy):
    request = requests_of(policy)[0]
    requests = [Request(request.problem, request.prompt_ids, 1, seed) for seed in range(2000)]
    ids = [g.token_ids[0] for g in engine.generate(requests, Sampling(), weights_version=0)]
    with torch.no_grad():
        probabilities = policy.model(torch.tensor([request.prompt_ids])).logits[0, -1].softmax(-1)
    likeliest = int(probabilities.argmax())
    expected = float(probabilities[likeliest])
    assert ids.count(likeliest) / 2000 == pytest.approx(expected, abs=4 * (expected * (1 - expected) / 2000) ** 0.5)


@slow
def test_a_seed_gives_one_response_whatever_its_neighbours(engine, policy):
    requests = requests_of(policy, each=4)
    together = [g.token_ids for g in engine.generate(requests, Sampling(), weights_version=0)]
    again = [g.token_ids for g in engine.generate(requests, Sampling(), weights_version=0)]
    backwards = [g.token_ids for g in engine.generate(requests[::-1], Sampling(), weights_version=0)][::-1]
    alone = [engine.generate([r], Sampling(), weights_version=0)[0].token_ids for r in requests]
    assert together == again == backwards == alone
    others = engine.generate(requests_of(policy, each=4, run_seed=1), Sampling(), weights_version=0)
    assert all(one != other.token_ids for one, other in zip(together, others))


@slow
def test_more_prompt_tokens_than_one_batch_takes_change_no_response(engine, policy):
    prompts = [policy.encode(f"{i:02}" + "abcdefghij" * 8) for i in range(80)]  # no two begin alike: nothing is cached
    requests = [Request(Problem(str(i), "", ("1",)), prompt, 8, seed=i) for i, prompt in enumerate(prompts)]
    assert sum(len(r.prompt_ids) for r in requests[:64]) > CPU_BATCH_TOKENS
    together = [g.token_ids for g in engine.generate(requests, Sampling(), weights_version=0)]
    assert together[::20] == [engine.generate([r], Sampling(), weights_version=0)[0].token_ids for r in requests[::20]]


@slow
def test_every_end_of_sequence_stops(engine, policy, monkeypatch):
    requests = requests_of(policy)
    generations = engine.generate(requests, Sampling(temperature=0.0), weights_version=0)
    free, request = max(zip(generations, requests), key=lambda pair: len(pair[0].token_ids))
    second = free.token_ids[len(free.token_ids) // 2]
    assert second != EOS
    monkeypatch.setattr(engine, "_stop_token_ids", [EOS, second])
    (cut,) = engine.generate([request], Sampling(temperature=0.0), weights_version=0)
    assert cut.token_ids == free.token_ids[: free.token_ids.index(second) + 1]
    assert cut.finish_reason == "stop"


@slow
def test_63_bit_seeds_are_taken_and_their_low_32_bits_decide(engine, policy):
    request = requests_of(policy)[0]
    top = 2**63 - 1
    requests = [Request(request.problem, request.prompt_ids, 24, seed) for seed in (top, top - 1, top - 2**32)]
    one, neighbour, low_bits_of_one = (g.token_ids for g in engine.generate(requests, Sampling(), weights_version=0))
    assert one != neighbour
    assert one == low_bits_of_one  # a fact about torch, worth knowing when it changes


@slow
def test_an_end_is_kept_and_a_cut_has_none(engine, policy):
    generations = engine.generate(requests_of(policy, each=16), Sampling(), weights_version=0)
    assert {g.finish_reason for g in generations} == {"stop", "length"}
    for generation in generations:
        ended = generation.finish_reason == "stop"
        assert (generation.token_ids[-1] == EOS) == ended
        assert EOS not in generation.token_ids[:-1]
        assert len(generation.token_ids) == len(generation.logprobs)
        assert len(generation.token_ids) == 24 or ended


@slow
def test_a_prompt_without_room_names_the_problem_and_leaves_the_engine_well(engine, policy):
    request = Request(Problem("p17", "", ("1",)), policy.encode("1" * 128), 24, 0)
    good = requests_of(policy)
    with pytest.raises(UserError, match=r"problem 'p17': prompt of 128 tokens, the engine takes 128 in all"):
        engine.generate([*good, request], Sampling(), weights_version=0)
    cut = Request(request.problem, request.prompt_ids[:125], 24, 0)
    generation = engine.generate([*good, cut], Sampling(temperature=0.0), weights_version=0)[-1]
    assert len(generation.token_ids) == 3


@slow
def test_nothing_asked_is_nothing_made(engine):
    assert engine.generate([], Sampling(), weights_version=0) == []


@slow
def test_another_version_is_refused(engine, policy):
    with pytest.raises(StaleWeightsError, match="holds weights version 0, version 1 was asked for"):
        engine.generate(requests_of(policy), Sampling(), weights_version=1)


@slow
def test_a_forgotten_push_shows_in_the_logprobs(engine, policy):
    moved = tiny_policy()
    perturb(moved)
    requests = requests_of(policy, each=4)
    generations = engine.generate(requests, Sampling(), weights_version=0)
    assert largest_gap(policy, requests, generations, temperature=1.0) < 1e-4 < 1e-2
    assert largest_gap(moved, requests, generations, temperature=1.0) > 1e-2


@slow
def test_sleep_does_nothing_where_it_was_not_enabled(engine, policy):
    engine.sleep()
    assert len(engine.generate(requests_of(policy), Sampling(), weights_version=0)) == len(PROMPTS)


def test_sleep_mode_is_refused_on_cpu(policy):
    if torch.cuda.is_available():
        pytest.skip("needs a machine without CUDA")
    with pytest.raises(UserError, match=r"engine.enable_sleep_mode=true needs a CUDA device"):
        VllmEngine(policy=policy, folder=".", max_model_len=128, enable_sleep_mode=True)


def test_a_missing_vllm_names_the_remedies(policy, monkeypatch):
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(UserError, match=r"install the project as .\[cpu\] or .\[cuda\], or set engine=hf"):
        VllmEngine(policy=policy, folder=".", max_model_len=128)


@slow
def test_a_continuation_reads_only_what_the_engine_has_not_read(engine, policy, monkeypatch):
    """As a correction asks: prompt and response of a request that was just served, whole cache blocks of 32 of it."""
    seen = []
    generate = engine._llm.generate

    def spied(*args, **kwargs):
        outputs = generate(*args, **kwargs)
        seen.extend(output.num_cached_tokens for output in outputs)
        return outputs

    monkeypatch.setattr(engine._llm, "generate", spied)
    first = requests_of(policy, max_tokens=24)[-1]  # the longest prompt
    said = engine.generate([first], Sampling(), weights_version=0)[0].token_ids
    again = replace(first, prompt_ids=(*first.prompt_ids, *said, *policy.encode("Wait")))
    engine.generate([again], Sampling(), weights_version=0)
    read = len(first.prompt_ids) + len(said) - 1  # the last token was drawn, not read
    assert seen[1] == read // 32 * 32 >= 32


@slow
def test_each_step_of_the_engine_is_a_beat(engine, policy, monkeypatch):
    beats = []
    monkeypatch.setattr(engine, "beat", lambda: beats.append(1))
    generations = engine.generate(requests_of(policy), Sampling(), weights_version=0)
    assert max(len(g.token_ids) for g in generations) <= len(beats) <= 2 + max(len(g.token_ids) for g in generations)


@slow
def test_an_engine_that_fails_is_one_line_and_its_log_is_shown(engine, policy, monkeypatch, capfd):
    """It stalls, it dies, it returns too little: each in place of its own code, with requests of its own under way."""
    inside = engine._llm.llm_engine
    step = inside.step

    def failing(owner, name, act, *, stall_s=None):
        with monkeypatch.context() as patch:
            patch.setattr(engine, "stall_s", stall_s)
            patch.setattr(engine, "beat", engine.beat)  # which Watched sets
            patch.setattr(owner, name, act)
            with pytest.raises(EngineError) as failed:
                Watched(engine).generate(requests_of(policy), Sampling(), weights_version=0)
        while inside.has_unfinished_requests():
            step()
        return str(failed.value)

    def die():
        step()
        raise RuntimeError("EngineCore encountered an issue.\nSee stack trace.")

    def lose_one(*args, **kwargs):
        return generate(*args, **kwargs)[:-1]

    generate = engine._llm.generate
    assert failing(inside, "step", lambda: time.sleep(600), stall_s=0.2) == (
        "VllmEngine made no token for 0.2 s in generating for problems 'p0', 'p1', 'p2', 'p3'; start again, or raise "
        "engine.stall_s where a token may take so long"
    )
    assert failing(inside, "step", die) == (
        "VllmEngine failed in generating for problems 'p0', 'p1', 'p2', 'p3': RuntimeError: EngineCore encountered an issue."
    )
    assert f"vLLM failed; the last lines of {engine._log.path}:" in capfd.readouterr().err
    said = failing(engine._llm, "generate", lose_one)
    assert said == "VllmEngine returned 3 responses, 4 were asked for; start again"
    assert len(engine.generate(requests_of(policy), Sampling(), weights_version=0)) == len(PROMPTS)
