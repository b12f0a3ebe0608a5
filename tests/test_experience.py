"""The pipeline in front of the gradient, with an engine that says what the test wants."""

from dataclasses import replace

import pytest
import torch

from edge_lightning.advantage.grpo import GroupRelative
from edge_lightning.advantage.sampled_baseline import SampledBaseline
from edge_lightning.correction.gec import GuidedErrorCorrection
from edge_lightning.correction.none import NoCorrection
from edge_lightning.engine.reference import ReferenceEngine
from edge_lightning.errors import UserError
from edge_lightning.experience import Pipeline, Rollout
from edge_lightning.prompts import ChatPrompt
from edge_lightning.rewards.accuracy import BoxedAccuracy
from edge_lightning.rewards.weighted import WeightedSum
from edge_lightning.types import Generation, Problem, Provenance

PROBLEMS = [
    Problem("a", "Start with 8. Subtract 3. What is the result?", ("5",), "8 - 3 = 5. The answer is \\boxed{5}."),
    Problem("b", "Start with 1. Add 1. What is the result?", ("2",), "1 + 1 = 2. The answer is \\boxed{2}."),
]
CUE = " Wait! Something is wrong here."


class Scripted:
    """Says the next of its lines; keeps what it was asked. Log-probabilities are -0.01, -0.02, ..."""

    provenance = Provenance.SAMPLED
    max_model_len = 512

    def __init__(self, policy, *lines):
        self.policy, self.lines, self.asked, self.versions = policy, list(lines), [], []

    def generate(self, requests, sampling, *, weights_version):
        self.asked.append(list(requests))
        self.versions.append(weights_version)
        self.sampling = sampling
        made = []
        for _ in requests:
            line = self.lines.pop(0)
            cut = line.endswith("...")
            ids = self.policy.encode(line) if cut else (*self.policy.encode(line), self.policy.eos_ids[0])
            logprobs = tuple(-0.01 * (i + 1) for i in range(len(ids)))
            made.append(Generation(ids, logprobs, "length" if cut else "stop"))
        return made


REFLECT = GuidedErrorCorrection(reflect=1.0, answer=0.0, reference=0.0, reflection_limit=17)
REFERENCE = GuidedErrorCorrection(reflect=0.0, answer=0.0, reference=1.0)
ANSWER = GuidedErrorCorrection(reflect=0.0, answer=1.0, reference=0.0)


@pytest.fixture(scope="module")
def reward():
    grader = WeightedSum({"accuracy": BoxedAccuracy()})
    yield grader
    grader.close()


def pipeline(policy, reward, engine, **settings):
    stages = {
        "prompt": ChatPrompt(),
        "corrector": NoCorrection(),
        "advantage": GroupRelative(),
        "group_size": 2,
        "response_limit": 30,
        "length_limit": 512,
        "temperature": 0.8,
        "seed": 0,
    }
    return Pipeline(policy=policy, reward=reward, engine=engine, **(stages | settings))


def filled(policy, reward, *lines, step=0, problems=PROBLEMS, pool=(), **settings):
    engine = Scripted(policy, *lines)
    rollout = Rollout(list(problems), step)
    pipeline(policy, reward, engine, problems=pool, **settings).fill(rollout, weights_version=step + 40)
    return rollout, engine


BOX = {"a": r"\boxed{5}", "b": r"\boxed{2}", "wrong": r"\boxed{7}"}


def test_responses_stand_group_by_group(tiny_policy, reward):
    rollout, engine = filled(tiny_policy, reward, BOX["a"], BOX["wrong"], BOX["wrong"], BOX["b"])
    assert [(r.problem.id, r.index) for r in rollout.responses] == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
    assert rollout.group_B.tolist() == [0, 0, 1, 1]
    assert [r.text for r in rollout.responses] == [BOX["a"], BOX["wrong"], BOX["wrong"], BOX["b"]]
    assert rollout.advantages_B.tolist() == [1.0, -1.0, -1.0, 1.0]
    assert rollout.seconds.keys() == {"generate", "grade", "correct"}
    [requests] = engine.asked
    assert [r.prompt_ids for r in requests] == [r.prompt_ids for r in rollout.responses]
    assert requests[0].prompt_ids == ChatPrompt()(PROBLEMS[0], tiny_policy.tokenizer)
    assert {r.max_tokens for r in requests} == {30}
    assert (engine.sampling.temperature, engine.sampling.top_p) == (0.8, 1.0)


def test_the_engine_is_asked_for_the_weights_that_the_rollout_is_stamped_with(tiny_policy, reward):
    rollout, engine = filled(tiny_policy, reward, *[BOX["wrong"]] * 8, step=2, corrector=REFLECT)
    assert engine.versions == [42, 42]  # first answers and reflections alike
    assert rollout.weights_version == 42


def seeds(policy, reward, **settings):
    rollout, engine = filled(policy, reward, *[BOX["wrong"]] * 8, corrector=REFLECT, **settings)
    return [r.seed for r in rollout.responses], [request.seed for request in engine.asked[1]]


def test_seeds_differ_between_responses_steps_runs_and_purposes(tiny_policy, reward):
    drawn = [
        seed
        for step in (0, 1)
        for run in (0, 1)
        for kind in seeds(tiny_policy, reward, step=step, seed=run)
        for seed in kind
    ]
    assert len(drawn) == len(set(drawn)) == 2 * 2 * 2 * 4
    assert len({seed & 0xFFFFFFFF for seed in drawn}) == len(drawn)  # what torch's CPU generator heeds


def test_seeds_depend_on_the_problem_and_not_on_its_place_in_the_step(tiny_policy, reward):
    sampled, reflected = seeds(tiny_policy, reward)
    assert seeds(tiny_policy, reward) == (sampled, reflected)
    again, also = seeds(tiny_policy, reward, problems=PROBLEMS[::-1])
    assert again == sampled[2:] + sampled[:2]
    assert also == reflected[2:] + reflected[:2]


def test_what_the_policy_said_first_is_kept_beside_the_correction(tiny_policy, reward):
    lines = [BOX["wrong"], BOX["a"], BOX["b"], BOX["b"]]
    rollout, engine = filled(tiny_policy, reward, *lines, f"So it is {BOX['a']}.", corrector=REFLECT)
    reflected = rollout.responses[0]
    assert reflected.sampled_text == BOX["wrong"]
    assert (reflected.sampled_grade.right, reflected.sampled_grade.reward) == (False, 0.0)
    assert reflected.text == f"{BOX['wrong']}{CUE}So it is {BOX['a']}."
    assert (reflected.grade.right, reflected.grade.reward) == (True, 1.0)
    assert reflected.provenance is Provenance.REFLECTED
    first, cue = len(tiny_policy.encode(BOX["wrong"])), len(tiny_policy.encode(CUE))
    rest = len(reflected.completion_ids) - first - cue
    assert reflected.sampled_mask == (True,) * first + (False,) * cue + (True,) * rest
    assert reflected.engine_logprobs[:first] == tuple(-0.01 * (i + 1) for i in range(first))
    assert reflected.engine_logprobs[first : first + cue] == (None,) * cue
    [request] = engine.asked[1]
    assert request.prompt_ids == reflected.prompt_ids + reflected.completion_ids[: first + cue]
    assert request.max_tokens == 17


@pytest.mark.parametrize("corrector", [REFLECT, ANSWER, REFERENCE])
def test_right_responses_come_through_correction_untouched(tiny_policy, reward, corrector):
    lines = [BOX["a"], BOX["wrong"], f"{BOX['b']} and so on...", BOX["wrong"], "no...", "no..."]
    plain, _ = filled(tiny_policy, reward, *lines)
    changed, _ = filled(tiny_policy, reward, *lines, corrector=corrector)
    for place in (0, 2):
        assert changed.responses[place] == plain.responses[place]
        assert changed.responses[place].completion_ids == plain.responses[place].completion_ids
        assert changed.responses[place].sampled_grade == changed.responses[place].grade
    for place in (1, 3):
        assert changed.responses[place].provenance is not Provenance.SAMPLED
        assert changed.responses[place].sampled_text == BOX["wrong"]


def test_advantages_are_those_of_the_corrected_group(tiny_policy, reward):
    lines = [BOX["a"], BOX["wrong"], BOX["wrong"], BOX["wrong"]]
    plain, _ = filled(tiny_policy, reward, *lines)
    assert plain.advantages_B.tolist() == [1.0, -1.0, 0.0, 0.0]
    changed, _ = filled(tiny_policy, reward, *lines, BOX["wrong"], BOX["b"], BOX["wrong"], corrector=REFLECT)
    assert [r.grade.right for r in changed.responses] == [True, False, True, False]
    assert changed.advantages_B.tolist() == [1.0, -1.0, 1.0, -1.0]
    given, _ = filled(tiny_policy, reward, *lines, corrector=REFERENCE)
    assert given.advantages_B.tolist() == [0.0] * 4
    assert [r.sampled_grade.right for r in given.responses] == [True, False, False, False]


def test_a_reference_replaces_ids_mask_and_log_probabilities(tiny_policy, reward):
    rollout, _ = filled(tiny_policy, reward, *[BOX["wrong"]] * 4, corrector=REFERENCE)
    solution = (*tiny_policy.encode(PROBLEMS[0].solution), tiny_policy.eos_ids[0])
    first = rollout.responses[0]
    assert first.completion_ids == solution
    assert first.sampled_mask == (False,) * len(solution)
    assert first.engine_logprobs == (None,) * len(solution)
    assert first.sampled_text == BOX["wrong"]


def test_correction_draws_depend_on_counters_alone(tiny_policy, reward):
    corrector = GuidedErrorCorrection()

    def branches(problems, step=0):
        rollout, _ = filled(
            tiny_policy, reward, *["no"] * 64, problems=problems, step=step, group_size=16, corrector=corrector
        )
        return [(r.problem.id, r.index, r.provenance) for r in rollout.responses]

    drawn = branches(PROBLEMS)
    assert {provenance for *_, provenance in drawn} == set(Provenance) - {Provenance.SAMPLED}
    assert sorted(drawn) == sorted(branches(PROBLEMS[::-1]))
    assert drawn != branches(PROBLEMS, step=1)


def test_a_copied_solution_was_sampled_by_nobody(tiny_policy, reward):
    engine = ReferenceEngine(policy=tiny_policy, folder="", max_model_len=512)
    engine.push_weights(tiny_policy, 0)
    rollout = Rollout(PROBLEMS[:1], 0)
    pipeline(tiny_policy, reward, engine).fill(rollout, weights_version=0)
    for response in rollout.responses:
        assert response.provenance is Provenance.REFERENCE
        assert response.text == PROBLEMS[0].solution
        assert not any(response.sampled_mask)
        assert set(response.engine_logprobs) == {None}


@pytest.mark.parametrize(
    ("size", "message"), [(1, "rollout.group_size=1: at least 2 expected"), (0, "rollout.group_size=0")]
)
def test_a_group_too_small_to_compare_is_refused(tiny_policy, reward, size, message):
    with pytest.raises(UserError, match=message) as caught:
        pipeline(tiny_policy, reward, None, group_size=size)
    assert size == 0 or "raise rollout.group_size or set advantage=none" in str(caught.value)


def test_a_changed_response_is_graded_anew_and_the_others_once(tiny_policy, reward):
    counted = []

    class Counting:
        timeouts = 0

        def __call__(self, responses):
            counted.append(len(responses))
            return reward(responses)

    filled(tiny_policy, Counting(), BOX["a"], BOX["wrong"], BOX["b"], BOX["b"], BOX["wrong"], corrector=REFLECT)
    assert counted == [4, 1]


def test_the_rollout_is_filled_in_place_whatever_it_held(tiny_policy, reward):
    first, _ = filled(tiny_policy, reward, BOX["a"], BOX["wrong"], BOX["wrong"], BOX["b"])
    stale = replace(first, responses=[], advantages_B=torch.full((4,), 9.0))
    pipeline(tiny_policy, reward, Scripted(tiny_policy, *[BOX["wrong"]] * 4)).fill(stale, weights_version=1)
    assert stale.advantages_B.tolist() == [0.0] * 4
    assert stale.weights_version == 1


def test_what_correction_may_take_does_not_grow_with_the_engine_of_an_evaluation(tiny_policy, reward):
    """A solution that fits the engine but not the run gives way to the answer, whatever the evaluation's limit."""
    prompt = len(ChatPrompt()(PROBLEMS[0], tiny_policy.tokenizer))
    needed = prompt + len(tiny_policy.encode(PROBLEMS[0].solution)) + 1
    for limit, provenance in ((needed, Provenance.REFERENCE), (needed - 1, Provenance.REFLECTED)):
        corrector = GuidedErrorCorrection(reflect=0.0, answer=0.0, reference=1.0, answer_text="ANSWER " * 100)
        rollout, _ = filled(
            tiny_policy, reward, "no", "no", "no", "no", problems=PROBLEMS[:1], corrector=corrector, length_limit=limit
        )
        assert {response.provenance for response in rollout.responses} == {provenance}


def test_advantages_are_of_the_rewards_after_correction_against_those_before_it(tiny_policy, reward):
    # rewards of each group: 1, 0 as sampled and 1, 1 after the answer is given, so the baseline is .5, the mean before
    lines = [BOX["a"], BOX["wrong"], BOX["b"], BOX["wrong"]]
    rollout, _ = filled(tiny_policy, reward, *lines, corrector=ANSWER, advantage=SampledBaseline())
    assert rollout.advantages_B.tolist() == [0.5, 0.5, 0.5, 0.5]
    assert rollout.sampled_advantages_B.tolist() == [0.5, -0.5, 0.5, -0.5]
