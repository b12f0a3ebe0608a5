"""The perturbation probe: which tokens are put in, and what that costs."""

import io

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from edge_lightning.analysis.perturbation import Perturbation, with_replaced
from edge_lightning.analysis.replacement import logits_at, other_tokens, plain_tokens
from edge_lightning.errors import UserError
from tests.analysis_fakes import ScriptedEngine, measured, tools

# Token 0 is special and the likeliest of all. Without it and without token 1 there are .5, .25 and .25 of 2, 3 and 4.
LOGITS = torch.tensor([0.9, 0.5, 0.25, 0.125, 0.125]).log()
PLAIN = torch.tensor([False, True, True, True, True])


def replaced(uniforms, *, original=1, how="sampled_other", temperature=1.0):
    rows = len(uniforms)
    return other_tokens(LOGITS.expand(rows, -1), [original] * rows, PLAIN, uniforms, how=how, temperature=temperature)


def test_another_token_is_drawn_from_what_is_left_of_the_distribution():
    assert replaced([0.0, 0.49, 0.51, 0.74, 0.76, 0.999]) == [2, 2, 3, 3, 4, 4]
    # Without token 2 .667, .167 and .167 of 1, 3 and 4
    assert replaced([0.66, 0.67, 0.83, 0.84], original=2) == [1, 3, 3, 4]


def test_the_temperature_is_that_of_sampling():
    # At 1/2 the shares are squared: .0625, .0156, .0156, so 2/3, 1/6, 1/6
    assert replaced([0.6, 0.68, 0.84], temperature=0.5) == [2, 3, 4]


def test_a_uniform_token_has_no_regard_for_the_policy():
    assert replaced([0.32, 0.34, 0.65, 0.68], how="uniform") == [2, 3, 3, 4]


def test_with_the_original_among_them_a_token_is_drawn_from_the_distribution_itself():
    # Without the special one .5, .25, .125 and .125 of 1, 2, 3 and 4
    assert replaced([0.49, 0.51, 0.74, 0.76, 0.87, 0.88], how="sampled") == [1, 2, 2, 3, 3, 4]


def test_the_control_puts_in_what_was_there():
    assert replaced([0.1, 0.9], how="original") == [1, 1]


@pytest.mark.parametrize("how", ["sampled_other", "uniform"])
def test_neither_the_original_nor_a_special_token_is_put_in(how, tiny_policy):
    plain_V = plain_tokens(tiny_policy)
    count = plain_V.shape[0]
    assert plain_V.nonzero().flatten().tolist() == list(range(3, 414))  # 0, 1, 2 are special; 414 and 415 pad the vocabulary
    assert count == 416
    originals = list(range(3, 414))
    logits = torch.zeros(len(originals), count)
    logits[:, :3] = 20.0
    logits[:, 414:] = 20.0
    logits[torch.arange(len(originals)), torch.tensor(originals)] = 20.0
    for seed in range(3):
        uniforms = np.random.default_rng(seed).random(len(originals)).tolist()
        new = other_tokens(logits, originals, plain_V, [0.0, *uniforms[1:-1], 1 - 2**-53], how=how, temperature=1.0)
        assert all(token != original and 3 <= token < 414 for token, original in zip(new, originals))


def test_logits_are_those_that_each_token_was_drawn_from(tiny_policy):
    ids = tiny_policy.encode("8 - 3 = 5. The answer is \\boxed{5}.")
    it = measured("a", 5, ids, np.zeros(len(ids)), right=True)
    whole = tiny_policy.model(torch.tensor([[5, *ids]])).logits[0]
    assert torch.allclose(logits_at(tiny_policy, it.response, [0, 3, 7]), whole[[0, 3, 7]], atol=1e-5)


def test_a_response_is_kept_up_to_the_last_replaced_token():
    assert with_replaced((5, 6, 7, 8, 9), [1, 3], [60, 80]) == (5, 60, 7, 80)
    assert with_replaced((5, 6, 7, 8, 9), [0], [50]) == (50,)
    assert with_replaced((5, 6, 7, 8, 9), [4], [90]) == (5, 6, 7, 8, 90)


def twenty(name, prompt, *, highest, lowest, right=True):
    """20 tokens and an end of sequence, which has the highest entropy of all; 5 % are one token."""
    entropies = np.full(21, 0.5)
    entropies[[highest, lowest, 20]] = 0.9, 0.1, 9.0
    return measured(name, prompt, (*range(20, 40), 2), entropies, right=right)


class ByKeptLength(ScriptedEngine):
    """Right where so many tokens are kept of a response to the prompt."""

    def __init__(self, right_lengths):
        super().__init__({})
        self.right_lengths = right_lengths

    def generate(self, requests, sampling, *, weights_version):
        for request in requests:
            kept = len(request.prompt_ids) - 1
            self.right_of[request.prompt_ids] = 99 if kept in self.right_lengths[request.prompt_ids[0]] else 0
        return super().generate(requests, sampling, weights_version=weights_version)


def rows_of(findings):
    return pq.read_table(io.BytesIO(findings.files["perturbation.parquet"])).to_pylist()


def test_the_loss_of_each_way_is_what_it_costs_of_the_accuracy(tiny_policy):
    # The highest stand at 4 and 6, so 5 and 7 tokens are kept; the lowest at 9 and 11: 10 and 12.
    asked = [twenty("a", 10, highest=4, lowest=9), twenty("b", 11, highest=6, lowest=11)]
    engine = ByKeptLength({10: {10}, 11: set()})
    findings = Perturbation(name="perturbation")(asked, tools(engine, policy=tiny_policy))
    figures = findings.figures
    assert figures["sampled"]["accuracy"] == 1.0
    found = {which: (it["accuracy"], it["loss"], it["tokens"]) for which, it in figures["replaced"].items()}
    assert found["highest"] == (0.0, 1.0, 1.0)
    assert found["lowest"] == (0.5, 0.5, 1.0)
    assert figures["loss_ratio"] == 2.0
    assert {it["changed"] for it in figures["replaced"].values()} == {1.0}
    assert figures["replaced"]["highest"]["entropy"] == pytest.approx(0.9)
    assert figures["replaced"]["lowest"]["entropy"] == pytest.approx(0.1)
    assert figures["replaced"]["highest"]["last"] == pytest.approx((5 / 20 + 7 / 20) / 2)
    rows = rows_of(findings)
    assert [(r["problem_id"], r["replaced"]) for r in rows] == [
        (name, which) for name in "ab" for which in ("highest", "lowest", "random")
    ]
    assert [r["positions"] for r in rows if r["replaced"] != "random"] == [[4], [9], [6], [11]]
    assert all(r["replacing_ids"] != r["original_ids"] == [20 + r["positions"][0]] for r in rows)
    for request, row in zip(engine.requests, rows):  # the engine goes on behind what was put in
        assert request.prompt_ids[-1] == row["replacing_ids"][0]
        assert request.prompt_ids[1:-1] == tuple(range(20, 20 + row["positions"][0]))
        assert request.max_tokens == 50 - (row["positions"][0] + 1)


def test_without_a_loss_of_both_there_is_no_ratio(tiny_policy):
    asked = [twenty("a", 10, highest=4, lowest=9)]
    findings = Perturbation(name="perturbation")(asked, tools(ByKeptLength({10: {10}}), policy=tiny_policy))
    assert findings.figures["loss_ratio"] is None
    assert any("lowest: none, since one of them is not above 0" in note for note in findings.notes)


def test_versions_of_a_response_differ_and_are_a_function_of_the_seed(tiny_policy):
    def rows(seed, **settings):
        asked = [twenty("a", 10, highest=4, lowest=9), twenty("b", 11, highest=6, lowest=11)]
        probe = Perturbation(name="perturbation", draws=8, replace_with="uniform", **settings)
        engine = ByKeptLength({10: set(), 11: set()})
        return rows_of(probe(asked, tools(engine, policy=tiny_policy, seed=seed))), engine.requests

    (first, requests), (again, _), (other, _) = rows(0), rows(0), rows(1)
    assert first == again != other
    assert len(first) == len({request.seed for request in requests}) == 2 * 3 * 8
    assert len({r["replacing_ids"][0] for r in first if r["replaced"] == "highest"}) > 8  # 16 draws of 410 tokens
    limited, _ = rows(0, responses=1)
    assert len({r["problem_id"] for r in limited}) == 1


def test_a_response_that_is_cut_off_has_no_end_of_sequence_to_leave_out(tiny_policy):
    entropies = np.full(20, 0.5)
    entropies[19] = 0.9
    cut_off = measured("a", 10, tuple(range(20, 40)), entropies, right=False)
    findings = Perturbation(name="perturbation")([cut_off], tools(ByKeptLength({10: set()}), policy=tiny_policy))
    assert rows_of(findings)[0]["positions"] == [19]


def test_a_response_without_a_token_is_left_out_and_counted(tiny_policy):
    empty = measured("z", 9, (2,), [0.3], right=False)
    asked = [empty, twenty("a", 10, highest=4, lowest=9)]
    findings = Perturbation(name="perturbation")(asked, tools(ByKeptLength({10: set()}), policy=tiny_policy))
    assert findings.figures["responses"] == {"perturbed": 1, "without_tokens": 1}
    with pytest.raises(UserError, match="1 responses came, each of its end of sequence alone"):
        Perturbation(name="perturbation")([empty], tools(ByKeptLength({}), policy=tiny_policy))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"share": 0.0}, "analysis.share=0.0: above 0 and at most 1 expected"),
        ({"share": 1.1}, "analysis.share=1.1: above 0 and at most 1 expected"),
        ({"draws": 0}, "analysis.draws=0: at least 1 expected"),
        ({"responses": 0}, "analysis.responses=0: at least 1 expected"),
    ],
)
def test_what_makes_no_probe_is_refused(settings, message):
    with pytest.raises(UserError, match=message):
        Perturbation(name="perturbation", **settings)
