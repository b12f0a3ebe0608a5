"""The trainer's process is the same before and after an engine."""

from __future__ import annotations

import gc
import logging
import os
import random
import signal
import sys
import threading

import numpy as np
import pytest
import torch
import torch.distributed as dist

from edge_lightning.engine import process_state
from edge_lightning.engine.process_state import engine_side
from edge_lightning.engine.vllm import VllmEngine
from edge_lightning.types import Sampling
from tests.engine_fixtures import greedy_ids, requests_of, tiny_policy

WATCHED = (torch, torch.Tensor, torch.cuda, torch.accelerator, torch.distributed, sys, os, random, threading)


def snapshot() -> dict:
    """What the trainer may rely on: generators, threads, environment, and every function of the watched modules."""
    state = {
        (str(owner), name): value for owner in WATCHED for name in dir(owner) if callable(value := getattr(owner, name))
    }
    state |= {number: str(signal.getsignal(number)) for number in signal.Signals}
    state |= {
        "python": random.getstate(),
        "numpy": np.random.get_state()[1].tolist(),
        "torch": torch.get_rng_state().tolist(),
        "threads": (torch.get_num_threads(), torch.get_num_interop_threads()),
        "cores": os.sched_getaffinity(0),
        "environment": dict(os.environ),
        "logging": (id(logging.getLogRecordFactory()), logging.root.level, list(map(repr, logging.root.handlers))),
        "collector": (gc.get_freeze_count() > 0, gc.get_threshold(), gc.isenabled(), len(gc.callbacks)),
        "torch modes": (torch.get_default_dtype(), torch.is_grad_enabled(), torch.is_inference_mode_enabled()),
        "precision": (torch.get_float32_matmul_precision(), torch.are_deterministic_algorithms_enabled()),
        "directory": os.getcwd(),
    }
    return state


def assert_unchanged(before: dict, after: dict) -> None:
    assert {key: (value, after.get(key)) for key, value in before.items() if after.get(key) != value} == {}


@pytest.fixture
def process_group():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def test_stand_ins_come_and_go_with_the_block(monkeypatch):
    monkeypatch.setattr(process_state, "_engine_values", {})
    monkeypatch.setenv("KEPT", "1")
    before = snapshot()
    stand_in = lambda self: self  # noqa: E731
    with engine_side():
        torch.Tensor.pin_memory = stand_in
        torch.set_num_threads = stand_in
        os.environ["LD_PRELOAD"] = "libgomp.so"
        del os.environ["KEPT"]
        gc.freeze()
        random.seed(0), np.random.seed(0), torch.manual_seed(0)
    assert_unchanged(before, snapshot())
    with engine_side():
        assert torch.Tensor.pin_memory is stand_in
        assert torch.set_num_threads is stand_in
    assert_unchanged(before, snapshot())


def test_an_error_inside_the_block_restores_too():
    before = snapshot()

    @engine_side()
    def fail():
        torch.manual_seed(0)
        os.environ["LEFT_BEHIND"] = "1"
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert_unchanged(before, snapshot())


@pytest.mark.slow
def test_an_engine_leaves_the_trainers_process_as_it_was(process_group, tmp_path):
    policy = tiny_policy()
    policy.save_config(tmp_path)
    requests = requests_of(policy)
    with engine_side():
        import vllm  # noqa: F401  # torch's compiler, which vLLM imports, wraps functions once, whoever imports it first
    before = snapshot()
    engine = VllmEngine(policy=policy, folder=tmp_path, max_model_len=128)
    assert_unchanged(before, snapshot())
    engine.push_weights(policy, 0)
    assert_unchanged(before, snapshot())
    engine.generate(requests, Sampling(), weights_version=0)
    assert_unchanged(before, snapshot())
    torch.set_num_threads(before["threads"][0] + 1)
    assert torch.get_num_threads() == before["threads"][0] + 1
    torch.set_num_threads(before["threads"][0])
    engine.close()
    assert_unchanged(before, snapshot())


@pytest.mark.slow
def test_the_trainers_process_group_outlives_engines_and_a_second_engine_works(process_group, tmp_path):
    policy = tiny_policy()
    policy.save_config(tmp_path)
    requests = requests_of(policy)
    for _ in range(2):
        engine = VllmEngine(policy=policy, folder=tmp_path, max_model_len=128)
        engine.push_weights(policy, 0)
        generations = engine.generate(requests, Sampling(temperature=0.0), weights_version=0)
        assert [g.token_ids for g in generations] == [greedy_ids(policy, r) for r in requests]
        engine.close()
        engine.close()
        total = torch.ones(1)
        dist.all_reduce(total)
        assert total.item() == 1
    with pytest.raises(RuntimeError, match="the vLLM engine is closed"):
        engine.generate(requests, Sampling(), weights_version=0)
    with pytest.raises(RuntimeError, match="the vLLM engine is closed"):
        engine.push_weights(policy, 1)


@pytest.mark.slow
def test_an_engine_closes_after_the_trainers_group_is_gone_and_one_alone_leaves_none(tmp_path):
    policy = tiny_policy()
    policy.save_config(tmp_path)
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    engine = VllmEngine(policy=policy, folder=tmp_path, max_model_len=128)
    dist.destroy_process_group()
    engine.close()
    VllmEngine(policy=policy, folder=tmp_path, max_model_len=128).close()
    assert not dist.is_initialized()


def test_an_engine_of_another_rank_than_the_group_is_refused(process_group, tmp_path):
    pytest.importorskip("vllm")
    with pytest.raises(RuntimeError, match=r"engine built for rank 1 of 2, torch.distributed has rank 0 of 1"):
        VllmEngine(policy=tiny_policy(), folder=tmp_path, max_model_len=128, rank=1, world_size=2)


def test_ranks_without_a_process_group_are_refused(tmp_path):
    pytest.importorskip("vllm")
    with pytest.raises(RuntimeError, match=r"rank 1 of 2 before torch.distributed was initialised"):
        VllmEngine(policy=tiny_policy(), folder=tmp_path, max_model_len=128, rank=1, world_size=2)
