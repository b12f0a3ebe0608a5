"""ReferenceEngine copies solutions, with one end."""

from __future__ import annotations

import pytest

from edge_lightning.engine.base import StaleWeightsError
from edge_lightning.engine.reference import ReferenceEngine
from edge_lightning.errors import UserError
from edge_lightning.types import Generation, Problem, Provenance, Request, Sampling
from tests.engine_fixtures import EOS, tiny_policy


@pytest.fixture(scope="module")
def policy():
    return tiny_policy()


def generate(policy, problem, *, max_tokens=24, max_model_len=64):
    engine = ReferenceEngine(policy=policy, folder=".", max_model_len=max_model_len)
    engine.push_weights(policy, 3)
    return engine.generate([Request(problem, policy.encode("1+1="), max_tokens, 0)], Sampling(), weights_version=3)


def test_the_solution_comes_with_one_end_and_no_logprobs(policy):
    problem = Problem("p1", "1+1=", ("2",), solution="so 2")
    assert generate(policy, problem) == [Generation((*policy.encode("so 2"), EOS), None, "stop")]
    assert ReferenceEngine.provenance == Provenance.REFERENCE


def test_a_problem_without_solution_is_named(policy):
    with pytest.raises(UserError, match="problem 'p1': no reference solution"):
        generate(policy, Problem("p1", "1+1=", ("2",)))


def test_a_solution_may_fill_the_limit_and_not_pass_it(policy):
    problem = Problem("p1", "1+1=", ("2",), solution="so 2")  # 4 characters and an end
    assert len(generate(policy, problem, max_tokens=5)[0].token_ids) == 5
    with pytest.raises(UserError, match=r"solution of 5 tokens with its end, rollout.response_limit is 4"):
        generate(policy, problem, max_tokens=4)


def test_a_solution_that_passes_the_models_length_is_refused(policy):
    problem = Problem("p1", "1+1=", ("2",), solution="so 2")
    assert len(generate(policy, problem, max_model_len=9)[0].token_ids) == 5
    with pytest.raises(UserError, match=r"prompt and reference solution of 9 tokens, the engine takes 8"):
        generate(policy, problem, max_model_len=8)


def test_stale_weights_are_refused(policy):
    engine = ReferenceEngine(policy=policy, folder=".", max_model_len=64)
    with pytest.raises(StaleWeightsError, match="version None"):
        engine.generate([], Sampling(), weights_version=0)
