"""An evaluation that ranks share comes to what one process makes of it."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_lightning.evaluation.metrics import summarize
from edge_lightning.evaluation.sampling import graded_rows
from edge_lightning.evaluation.shares import merge, share
from edge_lightning.prompts import PlainPrompt
from edge_lightning.types import Problem
from tests.evaluation_fakes import BENCHMARK, BY_TWO, Sayer, TextReward, evaluated, one_in_four


def test_shares_by_hand():
    assert [share("abcdefg", rank=rank, world_size=3) for rank in range(3)] == [["a", "d", "g"], ["b", "e"], ["c", "f"]]
    for rank in (3, -1):
        with pytest.raises(ValueError, match=f"rank={rank}, world_size=3"):
            share("abc", rank=rank, world_size=3)


@given(count=st.integers(1, 20), samples=st.integers(1, 4), world_size=st.integers(1, 8), at_a_time=st.integers(1, 20))
def test_any_layout_gives_the_rows_and_metrics_of_one_process(tiny_policy, count, samples, world_size, at_a_time):
    problems = [Problem(f"p{n}", f"What is {n}?", (str(n),)) for n in range(count)]

    def rows(mine, at_a_time):
        chunks = graded_rows(
            mine,
            policy=tiny_policy,
            engine=Sayer(
                tiny_policy, lambda request: rf"\boxed{{{request.problem.answers[0]}}}" if request.seed % 2 else "-"
            ),
            prompt=PlainPrompt(),
            reward=TextReward(),
            sampling=BENCHMARK.sampling,
            samples=samples,
            response_limit=20,
            seed_name="ranks",
            responses_at_a_time=at_a_time,
        )
        return [row for chunk in chunks for row in chunk]

    alone = rows(problems, 1000)
    parts = [rows(share(problems, rank=rank, world_size=world_size), at_a_time) for rank in reversed(range(world_size))]
    merged = merge(parts, problems, samples)
    assert merged == alone
    assert summarize(merged, samples=samples, k=(1,)) == summarize(alone, samples=samples, k=(1,))


ROWS = [{"problem_id": p, "response_index": i} for p in "ab" for i in range(2)]
AB = [Problem("a", "?", ("1",)), Problem("b", "?", ("1",))]


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([ROWS[:3]], "3 rows came, and problem 'b', response 1 is there 0 times"),
        ([ROWS, ROWS[:1]], "5 rows came, and problem 'a', response 0 is there 2 times"),
        ([ROWS[:2]], "2 rows came, and problem 'b', response 0 is there 0 times"),
        ([ROWS, [{"problem_id": "c", "response_index": 0}]], "5 rows came, and problem 'c', response 0 is there 1 times"),
        ([ROWS[1:], [{"problem_id": "a", "response_index": 2}]], "problem 'a', response 0 is there 0 times"),
        ([], "0 rows came"),
    ],
)
def test_rows_that_are_missing_or_there_twice_are_refused(parts, message):
    with pytest.raises(ValueError, match=message):
        merge(parts, AB, 2)
    assert merge([ROWS[2:], ROWS[:2]], AB, 2) == ROWS


def test_two_problems_of_one_name_are_refused():
    with pytest.raises(ValueError, match="problem 'a', response 0 is there 2 times"):
        merge([[{"problem_id": "a", "response_index": 0}] * 2], [AB[0], AB[0]], 1)


@pytest.mark.parametrize("world_size", [2, 3])
def test_ranks_that_share_a_folder_get_the_rows_of_one(tiny_policy, world_size, tmp_path):
    whole, _ = evaluated(tiny_policy, TextReward(), one_in_four, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):  # a layout of one left a chunk behind
        evaluated(tiny_policy, TextReward(), one_in_four, tmp_path / "run", exam=BY_TWO, at_most=12)
    meet, found, asked = threading.Barrier(world_size), {}, []

    def work(rank):
        found[rank], engine = evaluated(
            tiny_policy,
            TextReward(),
            one_in_four,
            tmp_path / "run",
            rank=rank,
            world_size=world_size,
            barrier=lambda: meet.wait(20),
        )
        asked.append(len(engine.asked))

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(world_size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert found == dict.fromkeys(range(world_size), whole)
    assert sum(asked) == 12  # 3 problems of 4
    assert [path.name for path in (tmp_path / "run").rglob("*.parquet")] == ["smoke.parquet"]
