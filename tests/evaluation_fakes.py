"""An engine that says what it is told, a reward that reads it, and an evaluation of five problems by them."""

from dataclasses import replace

from edge_lightning.evaluation.benchmark import Benchmark, Exam
from edge_lightning.evaluation.metrics import summarize
from edge_lightning.evaluation.suite import evaluate
from edge_lightning.prompts import ChatPrompt
from edge_lightning.seeds import counter_seed
from edge_lightning.types import Generation, Grade, Problem, Provenance

PROBLEMS = [
    Problem(f"held_out-{n}", f"Start with {n}. Add 1. What is the result?", (str(n + 1),), "no use") for n in range(5)
]
BENCHMARK = Benchmark(
    name="smoke", problems=None, prompt_limit=90, samples=4, temperature=0.7, top_p=0.9, response_limit=20, k=(1, 2)
)
EXAM = Exam(BENCHMARK, PROBLEMS, ChatPrompt())
BY_TWO = replace(EXAM, benchmark=replace(BENCHMARK, responses_at_a_time=8))  # chunks of 2 problems


class Sayer:
    """An engine that says what it is told, and keeps what it was asked."""

    provenance = Provenance.SAMPLED
    max_model_len = 500

    def __init__(self, policy, say, *, at_most=None):
        self.policy, self.say, self.asked, self.at_most = policy, say, [], at_most

    def generate(self, requests, sampling, *, weights_version):
        if self.at_most is not None and len(self.asked) + len(requests) > self.at_most:
            raise KeyboardInterrupt
        self.asked += [(request, sampling, weights_version) for request in requests]
        said = [(*self.policy.encode(self.say(request)), self.policy.eos_ids[0]) for request in requests]
        return [Generation(ids, (-0.1,) * len(ids), "stop") for ids in said]


class TextReward:
    """Right is a response that holds a box with the answer."""

    timeouts = 0

    def __call__(self, responses):
        right = [rf"\boxed{{{response.problem.answers[0]}}}" in response.text for response in responses]
        return [Grade(float(flag), flag) for flag in right]


def evaluated(policy, reward, say, folder, *, exam=EXAM, at_most=None, provenance=Provenance.SAMPLED, **settings):
    engine = Sayer(policy, say, at_most=at_most)
    engine.provenance = provenance
    rows = evaluate(
        exam,
        policy=policy,
        engine=engine,
        reward=reward,
        folder=folder,
        **({"step": 9, "weights_version": 8} | settings),
    )
    return rows, engine


def figures(rows):
    return summarize(rows, samples=4, k=(1, 2))


def one_in_four(request):
    """Right for the second sample of each problem, wrong for the others, no box for the fourth."""
    index = [asked_seed(request.problem, i) for i in range(4)].index(request.seed)
    return [r"\boxed{0}", rf"\boxed{{{request.problem.answers[0]}}}", r"\boxed{-3}", "none"][index]


def asked_seed(problem, index):
    return counter_seed(0, "smoke", problem.id, index)
