"""Words, their entropies and their log-odds, with numbers by hand."""

import csv
import io
from math import log, sqrt

import numpy as np
import pytest

from edge_lightning.analysis.lexical import Lexical, ends_of, top_words, visible, word_figures
from edge_lightning.analysis.log_odds import log_odds_z
from edge_lightning.analysis.words import pieces, words
from edge_lightning.errors import UserError
from tests.analysis_fakes import ScriptedEngine, measured, tools


def test_log_odds_of_two_words_by_hand():
    # a: 6 of 8 words are one half of the prior's mass each, so 4 of 8 pseudo-counts for either word.
    # a: (3 + 4) / (4 + 8 - 7) = 7/5 against (1 + 4) / (4 + 8 - 5) = 5/7: 2 log 1.4 = .672944;
    # variance 1/7 + 1/5 = .342857, root .585540: z = 1.149271
    found = log_odds_z({"a": 3, "b": 1}, {"a": 1, "b": 3}, prior_words=8)
    assert found["a"] == pytest.approx((0.672944, 1.149271), abs=1e-5)
    assert found["b"] == pytest.approx((-0.672944, -1.149271), abs=1e-5)


def test_log_odds_of_bodies_of_different_size_by_hand():
    # 16 words in all, a prior of 16: a has 4 of it, b 12.
    # a: 6 / (4 + 16 - 6) = 6/14 against 6 / (12 + 16 - 6) = 6/22: log(22/14); variance 1/6 + 1/6
    found = log_odds_z({"a": 2, "b": 2}, {"a": 2, "b": 10}, prior_words=16)
    assert found["a"] == pytest.approx((log(22 / 14), log(22 / 14) / sqrt(1 / 3)))
    # b: 14 / (4 + 16 - 14) = 14/6 against 22 / (12 + 16 - 22) = 22/6; variance 1/14 + 1/22
    assert found["b"] == pytest.approx((log(14 / 22), log(14 / 22) / sqrt(1 / 14 + 1 / 22)))


def test_a_word_that_one_side_lacks_has_odds_and_a_stronger_prior_holds_it_back():
    z = [log_odds_z({"a": 5, "b": 5}, {"b": 20}, prior_words=prior)["a"][1] for prior in (1, 10, 100)]
    assert z[0] > 0
    assert z[1] > z[2] > 0


def test_one_word_has_no_odds():
    with pytest.raises(ValueError, match="at least two different words expected, 1 came"):
        log_odds_z({"a": 3}, {"a": 1}, prior_words=8)


def test_words_are_put_together_of_texts_and_stand_where_they_begin():
    parts = [("So", 0), (" \\box", 1), ("ed", 2), ("{1", 3), ("2}", 4), (". don", 5), ("'t", 6), (" 1.5 x", 8)]
    assert words(parts) == [
        ("So", 0),
        ("\\boxed", 1),
        ("{", 3),
        ("12", 3),
        ("}", 4),
        (".", 5),
        ("don't", 5),
        ("1.5", 8),
        ("x", 8),
    ]


def test_texts_of_tokens_are_those_of_the_response(tiny_policy):
    text = "So 8 + 3 → \\boxed{11}. é"
    ids = tiny_policy.encode(text)
    with_special = (*ids[:3], 1, *ids[3:], 2)
    found = pieces(tiny_policy.tokenizer, with_special)
    assert "".join(part for part, _ in found) == text == tiny_policy.decode(with_special)
    places = [place for _, place in found]
    assert places == sorted(set(places))
    assert 3 not in places  # the special token's
    assert max(places) < len(ids)  # it moved the others by one, and the last character has two tokens
    arrow = next(place for part, place in found if "→" in part)
    assert tiny_policy.decode(with_special[arrow : arrow + 3]) == "→"  # three tokens, of which the first one counts


def test_ends_are_disjoint_and_equal_entropies_are_drawn():
    entropies = np.array([0.3, 0.9, 0.1, 0.5, 0.8, 0.2, 0.4, 0.6, 0.7, 0.0])
    ends = ends_of(entropies, 0.2, seed=0)
    assert {end: set(places) for end, places in ends.items()} == {"highest": {1, 4}, "lowest": {2, 9}}
    for seed in range(5):
        ends = ends_of(np.zeros(10), 0.5, seed=seed)
        assert len(ends["highest"]) == len(ends["lowest"]) == 5
        assert not set(ends["highest"]) & set(ends["lowest"])
    assert len({tuple(sorted(ends_of(np.zeros(10), 0.2, seed=seed)["lowest"])) for seed in range(20)}) > 5
    assert [len(places) for places in ends_of(np.zeros(3), 0.5, seed=0).values()] == [1, 1]  # 1.5 would be 2


def test_words_of_an_end_are_held_against_all_others():
    said = ["so"] * 4 + ["the"] * 8 + ["box"] * 4
    entropies = [0.9] * 4 + [0.5] * 8 + [0.1] * 4
    ends = ends_of(np.array(entropies), 0.25, seed=0)
    figures = {it.word: it for it in word_figures(said, entropies, ends, prior_words=16)}
    assert figures["so"].of_end == {"highest": 4, "lowest": 0}
    assert figures["box"].of_end == {"highest": 0, "lowest": 4}
    assert (figures["so"].count, figures["so"].entropy) == (4, pytest.approx(0.9))
    # so: (4 + 4) / (4 + 16 - 8) = 8/12 against (0 + 4) / (12 + 16 - 4) = 4/24: log 4; variance 1/8 + 1/4
    assert figures["so"].log_odds["highest"] == pytest.approx(log(4))
    assert figures["so"].z["highest"] == pytest.approx(log(4) / sqrt(3 / 8))
    assert figures["so"].z["lowest"] < 0 < figures["box"].z["lowest"]
    assert [it.word for it in top_words(list(figures.values()), "highest", 5, 1)] == ["so"]
    assert [it.word for it in top_words(list(figures.values()), "lowest", 5, 4)] == ["box"]
    assert top_words(list(figures.values()), "lowest", 5, 5) == []  # too rare


def test_an_analysis_writes_what_it_has_found(tiny_policy):
    ids = (*tiny_policy.encode("8 - 3 = 5, 5 + 8 = 13. The answer is \\boxed{13}."), 2)
    texts = [tiny_policy.decode([token]) for token in ids]
    # Where an operation follows the policy is unsure; what a box is made of is beyond doubt.
    entropies = [{" -": 1.0, " +": 0.9, ",": 0.8, " \\": 0.0, "boxed": 0.01, "{": 0.02}.get(text, 0.4) for text in texts]
    asked = [measured(f"p{n}", 5, ids, entropies, right=True) for n in range(5)]
    findings = Lexical(name="lexical", share=0.15, minimum_count=5, prior_words=20)(
        asked, tools(ScriptedEngine({}), policy=tiny_policy)
    )
    # 20 words in each response; 15 of 100 at either end, the lowest 5 of which are drawn
    assert findings.figures["words"] == 100
    assert findings.figures["of_ends"] == {"highest": 15, "lowest": 15}
    top = {end: [it["word"] for it in own] for end, own in findings.figures["top"].items()}
    assert set(top["highest"]) == {"-", "+", ","}
    assert set(top["lowest"][:2]) == {"\\boxed", "{"}
    assert findings.files["lexical.png"].startswith(b"\x89PNG")
    assert "| \\boxed |" in findings.files["lexical.md"].decode()
    rows = {row["word"]: row for row in csv.DictReader(io.StringIO(findings.files["lexical.csv"].decode()))}
    assert rows["-"]["count_highest"] == rows["-"]["count"] == "5"
    assert rows["-"]["count_lowest"] == rows["\\boxed"]["count_highest"] == "0"
    assert float(rows["-"]["mean_entropy"]) == pytest.approx(1.0)
    assert float(rows["13"]["mean_entropy"]) == pytest.approx(0.4)


def test_tokens_are_shown_with_their_spaces(tiny_policy):
    assert visible(" a\n") == "␣a⏎"
    ids = tiny_policy.encode("8 - 3 = 5, 5 + 8 = 13.")
    asked = [measured("p", 5, ids, np.arange(len(ids)) / 10, right=True)]
    findings = Lexical(name="lexical", unit="token", minimum_count=1)(asked, tools(ScriptedEngine({}), policy=tiny_policy))
    assert [it["word"] for it in findings.figures["top"]["highest"]] == ["."]  # 10 % of 12 or so is one
    assert [it["word"] for it in findings.figures["top"]["lowest"]] == ["8"]
    assert findings.figures["words"] == len(ids)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"share": 0.0}, "analysis.share=0.0: above 0 and at most 0.5 expected"),
        ({"share": 0.6}, "analysis.share=0.6: above 0 and at most 0.5 expected"),
        ({"prior_words": 0.0}, "analysis.prior_words=0.0: above 0 expected"),
        ({"top": 0}, "analysis.top=0: at least 1 expected"),
        ({"minimum_count": 0}, "analysis.minimum_count=0: at least 1 expected"),
        (
            {"minimum_count": 99},
            "analysis.minimum_count=99: none of .* different words that an end has more of is so frequent",
        ),
    ],
)
def test_what_gives_no_words_is_refused(settings, message, tiny_policy):
    ids = tiny_policy.encode("8 - 3 = 5, 5 + 8 = 13.")
    asked = [measured("p", 5, ids, np.arange(len(ids)) / 10, right=True)]
    with pytest.raises(UserError, match=message):
        Lexical(name="lexical", **settings)(asked, tools(ScriptedEngine({}), policy=tiny_policy))


def test_two_words_are_too_few(tiny_policy):
    ids = tiny_policy.encode("8 -")
    asked = [measured("p", 5, ids, np.zeros(len(ids)), right=True)]
    with pytest.raises(UserError, match="2 words came, 3 and two different ones expected"):
        Lexical(name="lexical")(asked, tools(ScriptedEngine({}), policy=tiny_policy))
