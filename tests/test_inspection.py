"""What inspect reads, works out and tells, with groups by hand."""

import json
import re

import pyarrow.parquet as pq
import pytest

from edge_lightning.cli.hydra_app import run
from edge_lightning.cli.inspect import inspect
from edge_lightning.inspection.page import spread_steps
from edge_lightning.inspection.rollouts import groups_of, read_groups, read_rows, recorded_steps
from edge_lightning.inspection.sums import advantage_sums, final_sum, relative_entropy_sums
from edge_lightning.inspection.terminal import _style
from edge_lightning.inspection.tokens import Piece, Reader
from tests.inspected_run import CUE, HOSTILE, finish_run, write_run


@pytest.fixture
def folder(tmp_path):
    return write_run(tmp_path / "run")


def rewards(*pairs, advantages):
    """Rows of (sampled reward, reward)."""
    return [{"sampled_reward": s, "reward": r, "advantage": a} for (s, r), a in zip(pairs, advantages, strict=True)]


def entropies(*pairs):
    """Rows of (P, Phat)."""
    return [{"entropy": p, "relative_entropy": phat} for p, phat in pairs]


def final(advantage, tokens, phat=None):
    return final_sum({"advantage": advantage, "relative_entropy": phat, "token_advantages": tokens})


def data(folder):
    """What the page was given."""
    text = (folder / "inspect.html").read_text()
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)[1])


def test_a_group_relative_advantage_is_worked_out():
    rows = rewards((0, 1), (0, 0), (0, 0), (0, 0), advantages=[1.7320508, -0.57735, -0.57735, -0.57735])
    assert advantage_sums(rows)[:2] == ["(1.000 - 0.250) / 0.433 = +1.732", "(0.000 - 0.250) / 0.433 = -0.577"]


def test_the_released_code_divides_by_another_deviation():
    rows = rewards((0, 1), (0, 0), (0, 0), (0, 0), advantages=[1.4997, -0.4999, -0.4999, -0.4999])
    assert advantage_sums(rows)[0] == "(1.000 - 0.250) / 0.500 = +1.500"


@pytest.mark.parametrize(
    ("advantages", "told"),
    [
        ([0.75, -0.25, -0.25, -0.25], "1.000 - 0.250 = +0.750"),
        ([1.0, -1 / 3, -1 / 3, -1 / 3], "1.000 - 0.000 of the others = +1.000"),
        ([1.0, 0.0, 0.0, 0.0], "1.000 - 0.000 before correction = +1.000"),
        ([0.9, 0.0, 0.0, 0.0], None),
    ],
    ids=["dr_grpo", "rloo", "sampled_baseline", "none"],
)
def test_a_formula_is_shown_where_it_gives_what_was_recorded(advantages, told):
    assert advantage_sums(rewards((0, 1), (0, 0), (0, 0), (0, 0), advantages=advantages))[0] == told


def test_equal_rewards_have_no_deviation_to_divide_by():
    assert (
        advantage_sums(rewards((0, 1), (1, 1), advantages=[0.0, 0.0]))
        == ["all rewards of the group are equal: A = +0.000"] * 2
    )


def test_relative_entropy_is_worked_out_over_the_group():
    assert relative_entropy_sums(entropies((0.1, 0.5), (0.3, 1.5))) == ["0.100 / 0.200 = 0.500", "0.300 / 0.200 = 1.500"]


def test_a_bound_on_relative_entropy_is_told():
    assert relative_entropy_sums(entropies((0.01, 0.1), (0.39, 1.95))) == [
        "0.010 / 0.200 = 0.050, held at 0.100",
        "0.390 / 0.200 = 1.950",
    ]
    assert relative_entropy_sums(entropies((0.1, 1.0), (0.3, 1.5)))[1] == "0.300 / 0.200 = 1.500"


def test_a_relative_entropy_of_another_mean_is_not_explained_by_this_one():
    assert relative_entropy_sums(entropies((0.1, 0.25), (0.3, 0.75))) == [None, None]
    assert relative_entropy_sums(entropies((0.1, None), (0.3, 1.0))) == [None, None]


OWN = "credit's own signal"


def test_the_final_advantage_is_worked_out():
    assert final(-1.0, [-2.0, -2.0], 0.5) == "-1.000 / 0.500 = -2.000"
    assert final(1.0, [1.0, 1.0], 0.5) == "+1.000"  # credit.advantages=negative leaves it
    assert final(0.0, [0.0, 0.0], 0.5) == "+0.000"
    assert final(2.0, [1.0, 3.0]) == "+2.000 × w, w from 0.500 to 1.500: +1.000 to +3.000 over the tokens, mean +2.000"
    assert final(-2.0, [-1.0, -3.0]) == "-2.000 × w, w from 0.500 to 1.500: -3.000 to -1.000 over the tokens, mean -2.000"
    assert final(1.0, [0.0, 0.0]) == "+1.000 × 0.000 = +0.000"
    assert final(2.0, [0.0, 2.0]) == "+2.000 × w, w from 0.000 to 1.000: +0.000 to +2.000 over the tokens, mean +1.000"
    assert final(1.0, [-0.5, 1.5]) == f"-0.500 to +1.500 over the tokens, mean +0.500, {OWN}"  # added to, not weighed
    assert final(0.0, [-0.5, 1.5]) == f"-0.500 to +1.500 over the tokens, mean +0.500, {OWN}"  # a tied group
    assert final(0.0, [0.5, 0.5]) == f"+0.500, {OWN}"


def test_groups_are_read_over_ranks_and_in_order(folder):
    path = next((folder / "rollouts").glob("step_000003*"))
    table = pq.read_table(path)
    pq.write_table(table.slice(1, 1), path.with_name("step_000003_rank_1.parquet"))
    pq.write_table(table.take([0, 3, 2]), path)
    easy, hard = groups_of(read_rows(folder / "rollouts", 3))
    assert [row["response_index"] for row in (*easy.responses, *hard.responses)] == [0, 1, 0, 1]
    assert (easy.right_sampled, easy.right, easy.corrected, hard.right) == (0, 1, 1, 0)


def test_a_problem_that_a_step_has_twice_makes_two_groups(folder):
    rows = read_rows(folder / "rollouts", 4)
    assert [len(group.responses) for group in groups_of(rows + rows)] == [2, 2]


def test_steps_under_way_and_steps_that_vanish_are_no_error(folder):
    (folder / "rollouts" / "step_000005_rank_0.parquet.part").write_bytes(b"half")
    assert recorded_steps(folder / "rollouts") == [3, 4]
    assert read_rows(folder / "rollouts", 5) == []


def test_pieces_are_the_text_and_know_who_wrote_them(folder):
    reader = Reader(folder)
    group = next(read_groups(folder / "rollouts", [3]))
    pieces = reader.pieces(group.responses[1])
    assert "".join(p.text for p in pieces if not p.special) == HOSTILE + CUE + " 5."
    by_origin = {o: "".join(p.text for p in pieces if p.origin == o) for o in ("wrong_prefix", "injected", "sampled")}
    assert by_origin == {"wrong_prefix": HOSTILE, "injected": CUE, "sampled": " 5.<|end|>"}
    accent = next(p for p in pieces if p.text == "é")
    assert (accent.entropy, accent.logprob, accent.advantage) == pytest.approx((0.2, -2.0, 0.75))  # of its two bytes
    assert {p.origin for p in reader.pieces(group.responses[0])} == {"sampled"}
    assert reader.prompt(group.responses[0]) == "easy: 2 + 3?"


def test_without_a_tokenizer_a_response_is_its_text(folder):
    (folder / "policy" / "tokenizer.json").unlink()
    group = next(read_groups(folder / "rollouts", [3]))
    (piece,) = Reader(folder).pieces(group.responses[0])
    assert (piece.text, round(piece.entropy, 6)) == ("It is 4.", 0.1)


def test_the_chosen_step_is_among_those_that_are_spread(folder):
    assert spread_steps(range(100), 5, 50) == [0, 25, 50, 74, 99]
    assert spread_steps(range(100), 5, 60) == [0, 25, 60, 74, 99]
    assert spread_steps([3, 7], 5, 7) == [3, 7]
    assert spread_steps(range(9), 1, 4) == [4]


def test_the_terminal_shows_the_group_and_the_sums(folder, capfd):
    assert run("inspect", [str(folder), "--step", "3", "--problem=easy"], inspect) == 0
    out = " ".join(capfd.readouterr().out.split())
    assert "answer 5; 0 of 2 right as sampled, 1 after correction" in out
    assert (
        "reflected 0 wrong → 1 right (1.000 - 0.500) / 0.500 = +1.000 0.200 / 0.150 = 1.333 +1.000 / 1.333 = +0.750" in out
    )
    assert "⟦ Wait!⟧ 5.⟨<|end|>⟩" in out
    assert "3 groups of 2 steps" in out


@pytest.mark.parametrize(
    ("origin", "entropy", "style"),
    [
        ("injected", 2.0, "underline white on #7c3aed"),
        ("injected", 0.4, "underline green on #31175e"),
        ("injected", 0.1, "underline green"),
        ("wrong_prefix", 0.4, "italic white on #31175e"),
        ("wrong_prefix", None, "italic"),
        ("sampled", 1.0, "white on #7c3aed"),
        ("sampled", 0.1, ""),
    ],
)
def test_a_token_is_shaded_by_entropy_and_stays_readable(origin, entropy, style):
    """.4 of 1 nat is .4 of (124, 58, 237): (49, 23, 94)."""
    assert _style(Piece("x", origin, False, entropy, None, 0.0), 1.0, "green") == style


def test_without_a_choice_the_last_step_and_what_correction_changed_are_shown(folder, capfd):
    assert run("inspect", [str(folder)], inspect) == 0
    assert "step 4, problem third" in capfd.readouterr().out
    found = data(folder)
    assert found["open"] == {"step": 4, "problem": "third"}
    assert found["run"]["told"] == "under way, or killed; 2 steps on disk, 3 to 4"
    finish_run(folder)
    assert run("inspect", [str(folder), "step=3", f"out={folder / 'other.html'}"], inspect) == 0
    assert "<title>made-by-hand</title>" in (folder / "other.html").read_text()


def test_text_of_the_policy_is_data_in_the_page(folder):
    assert run("inspect", [str(folder), "step=3"], inspect) == 0
    text = (folder / "inspect.html").read_text()
    assert "<img" not in text
    assert text.count("</script>") == 2
    changed = next(r for g in data(folder)["groups"] for r in g["responses"] if r["sampled_text"] == HOSTILE)
    assert "".join(piece[0] for piece in changed["pieces"]) == HOSTILE + CUE + " 5.<|end|>"
    assert {piece[1] for piece in changed["pieces"]} == {"w", "i", "s", "s*"}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["step=9"], "step=9: one of the steps that are on disk expected, 3 to 4"),
        (["step=three"], "step=three: int | null expected, str came"),
        (["problem=nobody"], "problem=nobody: one of step 4 expected: third"),
        (["steps_on_page=0"], "steps_on_page=0: at least 1 expected"),
        (["out=/no/such/place.html"], "out=/no/such/place.html: a file in a folder that is there expected"),
    ],
)
def test_what_is_refused(folder, capfd, arguments, told):
    assert run("inspect", [str(folder), *arguments], inspect) == 1
    assert told in capfd.readouterr().err


def test_a_folder_without_steps_is_refused(tmp_path, capfd):
    (tmp_path / "config.yaml").touch()
    assert run("inspect", [str(tmp_path)], inspect) == 1
    assert "no step is in its rollouts/ yet" in capfd.readouterr().err
