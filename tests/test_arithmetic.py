"""Chain arithmetic: the texts, the two sides, the corrections."""

import random
import re

import pytest

from edge_lightning.data.arithmetic import CUE, Arithmetic, Chain, draw_chain, draw_wrong_working
from edge_lightning.errors import UserError
from edge_lightning.rewards.boxed import last_boxed


def arithmetic(**changes) -> Arithmetic:
    arguments = {"chain_lengths": [1, 2, 3], "train_size": 200, "held_out_size": 40, "seed": 0}
    return Arithmetic(**{**arguments, **changes})


def steps(working: str) -> list[tuple[int, str, int, int]]:
    found = re.findall(r"(-?\d+) ([-+*]) (\d+) = (-?\d+)", working)
    return [(int(before), sign, int(operand), int(after)) for before, sign, operand, after in found]


def test_a_chain_is_written_as_a_problem_and_its_working():
    chain = Chain((("-", 3), ("+", 8), ("*", 2)), (8, 5, 13, 26))
    assert chain.text == "Start with 8. Subtract 3. Add 8. Multiply by 2. What is the result?"
    assert chain.solution == r"8 - 3 = 5, 5 + 8 = 13, 13 * 2 = 26. The answer is \boxed{26}."
    assert chain.answer == "26"


def test_every_step_of_a_drawn_chain_is_true_and_in_range():
    rng = random.Random(0)
    signs = set()
    for _ in range(500):
        chain = draw_chain(rng, 4)
        assert len(chain.operations) == 4
        assert all(0 <= value <= 30 for value in chain.values)
        for before, sign, operand, after in steps(chain.solution):
            assert {"+": before + operand, "-": before - operand, "*": before * operand}[sign] == after
            assert operand in ({2, 3} if sign == "*" else set(range(1, 10)))
            signs.add(sign)
    assert signs == {"+", "-", "*"}


def test_nothing_multiplies_at_a_share_of_zero():
    rng = random.Random(0)
    assert all("Multiply" not in draw_chain(rng, 5, multiply_share=0.0).text for _ in range(200))


def test_a_slip_stays_in_range_and_never_ends_at_the_right_answer():
    # 1 + 1 = 2 in 0..3: of the slips -3..3, -2, -1 and 1 stay in range.
    short = Chain((("+", 1),), (1, 2))
    rng = random.Random(0)
    found = {draw_wrong_working(rng, short, largest=3) for _ in range(100)}
    assert found == {rf"1 + 1 = {wrong}. The answer is \boxed{{{wrong}}}." for wrong in (0, 1, 3)}


def test_a_slip_is_carried_through():
    # In 0..10: the first step can slip to 0 alone (anything above 1 is carried past 10), the last to 7, 8 and 9.
    chain = Chain((("-", 9), ("+", 9)), (10, 1, 10))
    rng = random.Random(0)
    found = {draw_wrong_working(rng, chain, largest=10) for _ in range(300)}
    first = {r"10 - 9 = 0, 0 + 9 = 9. The answer is \boxed{9}."}
    last = {rf"10 - 9 = 1, 1 + 9 = {wrong}. The answer is \boxed{{{wrong}}}." for wrong in (7, 8, 9)}
    assert found == first | last


@pytest.mark.parametrize(
    "other", [{"seed": 1}, {"chain_lengths": [1]}, {"chain_lengths": [2], "seed": 7, "held_out_size": 90}]
)
def test_no_text_is_on_both_sides_whatever_the_seeds_and_sizes(other):
    other = {"held_out_size": 20, **other}
    train = {problem.text for problem in arithmetic(train_size=3000).train()}
    assert not train & {problem.text for problem in arithmetic(**other).held_out()}


def test_held_out_texts_differ_from_each_other():
    texts = [problem.text for problem in arithmetic(chain_lengths=[1], held_out_size=60).held_out()]
    assert len(set(texts)) == 60


def test_ids_count_the_problems_of_a_side():
    assert [problem.id for problem in arithmetic(train_size=2).train()] == ["train-000000", "train-000001"]
    assert [problem.id for problem in arithmetic(held_out_size=2).held_out()] == ["held_out-0000", "held_out-0001"]


def test_a_longer_set_begins_with_the_shorter_one():
    assert arithmetic(train_size=30).train() == arithmetic(train_size=50).train()[:30]
    assert arithmetic(held_out_size=5).held_out() == arithmetic(held_out_size=9).held_out()[:5]


def test_another_seed_gives_other_problems():
    assert arithmetic().train() == arithmetic().train()
    assert arithmetic().train() != arithmetic(seed=1).train()
    assert arithmetic().held_out() != arithmetic(seed=1).held_out()


def test_the_global_generator_is_left_alone():
    before = random.getstate()
    arithmetic(corrupted_share=0.5).train()
    assert random.getstate() == before


def test_weights_decide_the_lengths():
    problems = arithmetic(chain_lengths=[2, 5], weights=[1.0, 0.0]).train()
    assert {len(steps(problem.solution)) for problem in problems} == {2}
    threes = [len(steps(p.solution)) for p in arithmetic(chain_lengths=[1, 3], weights=[0.1, 0.9], train_size=1000).train()]
    assert 850 < threes.count(3) < 950  # 900 expected, standard deviation 9.5


def test_the_asked_share_of_training_problems_are_corrections():
    problems = arithmetic(corrupted_share=0.1).train()
    corrections = [problem for problem in problems if problem.prefix]
    assert len(corrections) == 20
    plain = arithmetic().train()
    for problem, before in zip(problems, plain):
        assert (problem.text, problem.answers) == (before.text, before.answers)
        assert problem.solution == (" " if problem.prefix else "") + before.solution
    for problem in corrections:
        wrong = problem.prefix.removesuffix(CUE)
        assert wrong != problem.prefix
        assert last_boxed(wrong) != problem.answers[0]
        assert [step[1:3] for step in steps(wrong)] == [step[1:3] for step in steps(problem.solution)]


def test_held_out_problems_are_never_corrections():
    assert not any(problem.prefix for problem in arithmetic(corrupted_share=1.0).held_out())


def test_the_cue_can_be_another():
    problem = arithmetic(corrupted_share=1.0, cue=" Hm.").train()[0]
    assert problem.prefix.endswith("}. Hm.")


def test_too_few_distinct_problems_are_an_error_with_numbers():
    with pytest.raises(UserError, match=r"data.problem_set.held_out_size=5000: .*\[1\] gave \d+ different problems; lower"):
        arithmetic(chain_lengths=[1], held_out_size=5000).held_out()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"chain_lengths": []}, "chain_lengths=\\[\\]"),
        ({"chain_lengths": [2, 0]}, "chain_lengths=\\[2, 0\\]"),
        ({"weights": [0.5, 0.5]}, "one for each of chain_lengths="),
        ({"weights": [1.0, -1.0, 1.0]}, "finite numbers of 0 or more"),
        ({"weights": []}, "weights=\\[\\]: one for each"),
        ({"weights": [0.0, 0.0, 0.0]}, "at least one above 0"),
        ({"weights": [1.0, float("nan"), 1.0]}, "finite numbers"),
        ({"train_size": -1}, "train_size=-1: 0 or more expected"),
        ({"largest": 1}, "largest=1: 2 or more expected"),
        ({"operand_max": 0}, "operand_max=0: 1 or more expected"),
        ({"multiplier_max": 1}, "multiplier_max=1: 2 or more expected"),
        ({"multiply_share": 1.0}, "below 1 expected"),
        ({"corrupted_share": 1.5}, "corrupted_share=1.5"),
    ],
)
def test_arguments_out_of_range_are_refused(changes, message):
    with pytest.raises(UserError, match=message):
        arithmetic(**changes)


def test_the_smallest_range_still_has_problems():
    problems = arithmetic(largest=2, operand_max=1, train_size=20, chain_lengths=[4]).train()
    assert all(0 <= int(problem.answers[0]) <= 2 for problem in problems)
