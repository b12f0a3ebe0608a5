"""What a benchmark takes and refuses; the paper's five, as the configuration describes them."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
from hydra import compose, initialize_config_dir

from edge_lightning.cli.build import build_benchmarks
from edge_lightning.cli.checks import exam_length
from edge_lightning.cli.hydra_app import CONF
from edge_lightning.cli.multirun import result
from edge_lightning.data.table import ProblemTable
from edge_lightning.errors import UserError
from edge_lightning.evaluation.benchmark import Benchmark, Exam
from edge_lightning.evaluation.metrics import summarize
from edge_lightning.evaluation.published import SIZES
from edge_lightning.prompts import ChatPrompt, PlainPrompt
from edge_lightning.types import Problem, Sampling

PROBLEMS = [Problem(f"p{n}", f"What is {n}?", (str(n),)) for n in range(5)]
BENCHMARK = Benchmark(
    name="smoke", problems=None, prompt_limit=90, samples=4, temperature=0.7, top_p=0.9, response_limit=20, k=(1, 2)
)
RUNS_PROMPT = ChatPrompt()


def test_a_benchmark_takes_the_first_problems_and_refuses_more_than_there_are():
    assert replace(BENCHMARK, problems=3).exam(PROBLEMS, RUNS_PROMPT).problems == PROBLEMS[:3]
    assert BENCHMARK.exam(PROBLEMS, RUNS_PROMPT).problems == PROBLEMS
    with pytest.raises(UserError, match="evaluation smoke: 6 problems asked for, the data hold 5 held-out ones"):
        replace(BENCHMARK, problems=6).exam(PROBLEMS, RUNS_PROMPT)
    with pytest.raises(UserError, match="evaluation smoke: held-out problems expected, the data hold none out"):
        BENCHMARK.exam([], RUNS_PROMPT)


def test_problems_and_prompt_of_its_own_come_before_those_of_the_run(tmp_path):
    rows = [{"problem": f"Own {n}", "answer": n} for n in range(3)]
    (tmp_path / "own.json").write_text(json.dumps(rows))
    prompt = PlainPrompt()
    own = replace(BENCHMARK, problem_set=ProblemTable(tmp_path / "own.json", held_out_share=1.0), prompt=prompt)
    exam = own.exam(PROBLEMS, RUNS_PROMPT)
    assert [problem.text for problem in exam.problems] == ["Own 0", "Own 1", "Own 2"]
    assert exam.prompt is prompt
    assert BENCHMARK.exam(PROBLEMS, RUNS_PROMPT).prompt is RUNS_PROMPT


def test_a_row_that_cannot_be_scored_is_refused_not_dropped(tmp_path):
    (tmp_path / "own.json").write_text(json.dumps([{"problem": "p", "answer": 1}, {"problem": "q", "answer": None}]))
    own = replace(BENCHMARK, problem_set=ProblemTable(tmp_path / "own.json", held_out_share=1.0))
    with pytest.raises(UserError, match="evaluation smoke: 1 of its rows can't be used, and each is to be scored: .*row 2"):
        own.exam(PROBLEMS, RUNS_PROMPT)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"k": (5,)}, "k=.5., each between 1 and samples=4"),
        ({"k": (0,)}, "k=.0."),
        ({"name": "a/b"}, "name='a/b': a name without / and control characters"),
        ({"name": "average"}, "name='average': another name expected"),
        ({"prompt_limit": 0}, "evaluation.benchmarks.smoke.prompt_limit=0: at least 1 expected"),
        ({"responses_at_a_time": 0}, "evaluation.benchmarks.smoke.responses_at_a_time=0: at least 1 expected"),
        ({"name": ""}, "name='': a name without /"),
        ({"samples": 0, "k": ()}, "evaluation.benchmarks.smoke.samples=0: at least 1 expected"),
        ({"response_limit": 0}, "evaluation.benchmarks.smoke.response_limit=0: at least 1 expected"),
        ({"temperature": -0.1}, "temperature=-0.1, top_p=0.9: a temperature from 0"),
        ({"top_p": 1.1}, "temperature=0.7, top_p=1.1: a temperature from 0"),
        ({"top_k": 0}, "evaluation.benchmarks.smoke.top_k=0: at least 1 expected"),
        ({"rarely_solved_at_most": 25}, "smoke.rarely_solved_at_most=25: a share from 0 to 1 expected"),
        ({"top_p": 0.0}, "top_p=0.0: a temperature from 0 .* and 0 < top_p <= 1 expected"),
    ],
)
def test_what_cannot_be_is_refused(wrong, message):
    with pytest.raises(UserError, match=message):
        replace(BENCHMARK, **wrong)


def test_top_k_reaches_the_engine_and_is_all_tokens_by_default():
    assert replace(BENCHMARK, top_k=20).sampling == Sampling(0.7, 0.9, 20)
    assert BENCHMARK.sampling == Sampling(0.7, 0.9, None)


def test_the_curve_of_pass_at_k_goes_by_powers_of_two_up_to_the_samples():
    assert replace(BENCHMARK, k=None, samples=256).ks == (1, 2, 4, 8, 16, 32, 64, 128, 256)
    assert replace(BENCHMARK, k=None, samples=255).ks == (1, 2, 4, 8, 16, 32, 64, 128)
    assert replace(BENCHMARK, k=None, samples=1).ks == (1,)
    assert replace(BENCHMARK, k=[3, 4]).ks == (3, 4)


def test_avg_at_k_tells_the_curve_up_to_its_samples():
    for samples, highest in ((256, 256), (32, 32), (100, 64)):
        (benchmark,) = build_benchmarks(composed("evaluation=avg_at_k", f"evaluation.samples={samples}"))
        assert benchmark.sampling == Sampling(0.7, 0.8, 20)
        right = [[True] * 3 + [False] * (samples - 3), [False] * samples]
        rows = [
            {"problem_id": p, "correct": x, "answer": None, "formatted": False, "finish_reason": "stop", "tokens": 1}
            for p, flags in enumerate(right)
            for x in flags
        ]
        found = summarize(rows, samples=samples, k=benchmark.ks)
        curve = [value for name, value in found.items() if name.startswith("pass@")]
        assert [name for name in found if name.startswith("pass@")] == [f"pass@{2**i}" for i in range(highest.bit_length())]
        assert curve == sorted(curve)
        assert (curve[0], found[f"avg@{samples}"]) == (pytest.approx(1.5 / samples), pytest.approx(1.5 / samples))
        if highest == samples:
            assert curve[-1] == 0.5


def test_greedy_responses_may_be_asked_for():
    assert replace(BENCHMARK, temperature=0.0, top_p=1.0).sampling == Sampling(0.0, 1.0)


# How long prompt and response may be: prompts of 10 characters are 10 tokens here.


class Characters:
    def __call__(self, problem, tokenizer):
        return tuple(problem.text.encode())


def exam_of(*lengths, **settings):
    problems = [Problem(f"p{n}", "x" * length, ("1",)) for n, length in enumerate(lengths)]
    return Exam(replace(BENCHMARK, **settings), problems, Characters())


def policy_with(positions):
    return SimpleNamespace(max_positions=positions, tokenizer=None)


def test_the_engine_is_given_room_for_the_longest_prompt_and_a_whole_response():
    assert exam_length(exam_of(10, 30, 20, response_limit=50), policy_with(512)) == 80
    assert exam_length(exam_of(10, 30, 20, response_limit=50), policy_with(80)) == 80


def test_a_prompt_over_the_limit_is_refused_and_not_left_out():
    message = r"problem 'p1': prompt of 91 tokens, at most evaluation.benchmarks.smoke.prompt_limit=90 expected \(1 of 3"
    with pytest.raises(UserError, match=message):
        exam_length(exam_of(10, 91, 20), policy_with(512))


def test_one_problem_in_a_hundred_may_have_less_room_for_its_response():
    exam = exam_of(*[10] * 99, 60, response_limit=50)
    assert exam_length(exam, policy_with(100)) == 100  # 60 + 50 tokens for one, whose response has 40
    exam = exam_of(*[10] * 98, 60, 60, response_limit=50)
    with pytest.raises(UserError, match="smoke: 2 of 100 problems need more than the model's 100 positions"):
        exam_length(exam, policy_with(100))


def test_a_prompt_that_leaves_no_room_at_all_is_refused():
    with pytest.raises(UserError, match="smoke: 1 of 100 problems need more than the model's 60 positions"):
        exam_length(exam_of(*[5] * 99, 60, response_limit=50), policy_with(60))


# The configuration


def composed(*overrides, command="validate"):
    with initialize_config_dir(str(CONF), version_base=None):
        return compose(command, ["ckpt=x", *overrides] if command == "validate" else list(overrides))


@pytest.fixture(params=["fit", "validate"])
def suite(request, edge_data, monkeypatch):
    monkeypatch.setenv("EDGE_DATA", str(edge_data("evaluation_suite").parent))
    return build_benchmarks(composed("evaluation=paper_suite", command=request.param))


def test_the_paper_suite_has_every_problem_of_the_five_benchmarks_once(suite):
    exams = [benchmark.exam([], RUNS_PROMPT) for benchmark in suite]
    assert {exam.benchmark.name: len(exam.problems) for exam in exams} == SIZES
    assert all(len({problem.id for problem in exam.problems}) == len(exam.problems) for exam in exams)
    golds = {exam.benchmark.name: exam.problems[0].answers for exam in exams}
    assert golds == {
        "aime": ("204",),
        "amc": ("142",),  # a float in the file
        "math": (r"\left( 3, \frac{\pi}{2} \right)",),
        "minerva": ("9.6",),  # a list of one text with a line end
        "olympiad_bench": ("2",),
    }


def test_the_paper_suite_samples_and_asks_as_the_paper_does(suite):
    for benchmark in suite:
        assert (benchmark.temperature, benchmark.top_p, benchmark.samples, tuple(benchmark.k)) == (0.1, 1.0, 1, (1,))
        assert benchmark.response_limit == 3000
        assert benchmark.prompt.system == r"Please reason step by step, and put your final answer within \boxed{}."


def test_every_benchmark_follows_the_keys_of_the_suite(edge_data, monkeypatch):
    monkeypatch.setenv("EDGE_DATA", str(edge_data("evaluation_suite").parent))
    keys = ("problems_per_benchmark=16", "samples=4", "k=[1,4]", "response_limit=64", "temperature=0.7", "top_p=0.8")
    changed = build_benchmarks(composed("evaluation=paper_suite", *(f"evaluation.{key}" for key in keys)))
    assert len(changed) == 5
    for benchmark in changed:
        assert (benchmark.problems, benchmark.samples, tuple(benchmark.k)) == (16, 4, (1, 4))
        assert (benchmark.response_limit, benchmark.temperature, benchmark.top_p) == (64, 0.7, 0.8)
        assert len(benchmark.exam([], RUNS_PROMPT).problems) == 16


def test_another_prompt_for_the_suite_and_one_benchmark_less(edge_data, monkeypatch):
    monkeypatch.setenv("EDGE_DATA", str(edge_data("evaluation_suite").parent))
    line = ("evaluation=paper_suite", "prompt@evaluation.prompt=plain", "evaluation.benchmarks.math=null")
    changed = build_benchmarks(composed(*line))
    assert [benchmark.name for benchmark in changed] == ["aime", "amc", "minerva", "olympiad_bench"]
    assert all(isinstance(benchmark.prompt, PlainPrompt) for benchmark in changed)


@pytest.mark.parametrize(
    ("option", "monitor"),
    [
        ("paper_suite", "evaluation/average/accuracy"),
        ("smoke", "evaluation/smoke/accuracy"),
        ("avg_at_k", "evaluation/held_out/accuracy"),
        ("none", None),
    ],
)
def test_the_best_checkpoint_goes_by_what_the_evaluation_says(option, monitor):
    assert composed(f"evaluation={option}", command="fit").callbacks.best_checkpoint.monitor == monitor


def test_a_line_of_a_sweep_names_the_average_alone_where_there_are_several_benchmarks(tmp_path):
    metrics = {"aime/accuracy": 0.1, "math/accuracy": 0.5, "average/accuracy": 0.4, "average/accuracy_of_benchmarks": 0.3}
    write = (tmp_path / "summary.json").write_text
    write(json.dumps({"status": "finished", "before": {**metrics, "average/accuracy": 0.2}, "after": metrics}))
    assert result(tmp_path).startswith("finished     average pass@1 0.200 -> 0.400  ")
    write(json.dumps({"status": "finished", "metrics": {"smoke/accuracy": 0.25}}))
    assert result(tmp_path).startswith("finished     smoke pass@1 0.250  ")
