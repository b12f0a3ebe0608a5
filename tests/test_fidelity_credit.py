"""What each deviation of the released code's entropy-driven advantage does to the gradient of a small step, or why nothing.

Two problems of two responses each, of different lengths, in a policy with random weights. Bounds that hold are in
test_fidelity.py, undetached entropy by hand in test_credit.py, padding against a padded batch in test_padding.py.
"""

from dataclasses import replace

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from edge_lightning.credit.eda import EntropyDrivenAdvantage
from edge_lightning.objective.base import StepTotals
from edge_lightning.objective.policy_gradient import PolicyGradient
from edge_lightning.packing import pack
from edge_lightning.policy import PACKED, Policy
from edge_lightning.scoring import response_index, score
from tests.by_hand import response
from tests.credit_steps import scored

PAPER = {"floor": None, "ceiling": None}  # neither the paper nor its code has bounds
CODE = PAPER | {"detach": False, "entropy_over_padding": True, "mean_over": "step"}
RESPONSES = [
    response((11, 12), prompt_ids=(7, 8, 9)),
    response((13, 14, 15, 16, 17), prompt_ids=(7, 8, 9)),
    response((18,), prompt_ids=(5,)),
    response((19, 20, 21), prompt_ids=(5,)),
]
ADVANTAGES = [1.0, -1.0, -1.0, 1.0]


@pytest.fixture(scope="module")
def policy(asset):
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=416, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=128, tie_word_embeddings=False, initializer_range=0.3,
        attn_implementation=PACKED, eos_token_id=2,
    )  # fmt: skip
    return Policy(LlamaForCausalLM(config).double(), Policy.load(asset).tokenizer, temperature=0.6)


class Step:
    """The gradient of the step's loss, with the chosen responses on ranks of their own or on one."""

    def __init__(self, policy, chosen, ranks):
        self.policy = policy
        self.chosen = chosen
        self.ranks = ranks
        self.totals = StepTotals(len(chosen), sum(len(RESPONSES[i].completion_ids) for i in chosen))

    def scored(self, rank):
        mine = [RESPONSES[i] for i in rank]
        longest = max(len(r.completion_ids) for r in mine)
        found = score(self.policy, [pack(mine, range(len(mine)))], response_index(mine), padded_to=longest)
        advantages = torch.tensor([ADVANTAGES[i] for i in rank])
        problems = torch.tensor([i // 2 for i in rank])
        index = problems - problems.min()
        step = scored(advantages, found.entropies_N, found.response_N, index, logprobs=found.logprobs_N)
        return replace(step, padding_entropy_B=found.padding_entropy_B)

    def constants(self, credit):
        """What each rank's `prepare` finds out, with sums over all ranks."""
        sent = []
        for rank in self.ranks:
            sent.append([])
            credit.prepare(self.scored(rank), lambda values, operation: sent[-1].append(values) or values)
        sums = [sum(values) for values in zip(*sent)]
        found = []
        for rank in self.ranks:
            totals = iter(sums)
            found.append(credit.prepare(self.scored(rank), lambda values, operation, totals=totals: next(totals)))
        return found

    def gradient(self, **options):
        """d loss / d weights, in one row; the loss is a sum over ranks."""
        credit = EntropyDrivenAdvantage(**options)
        loss = 0.0
        for rank, constants in zip(self.ranks, self.constants(credit)):
            mine = [RESPONSES[i] for i in rank]
            tokens = pack(mine, range(len(mine)))
            forward = self.policy(tokens, padded_to=constants.padded_length)
            loss = loss + PolicyGradient()(forward, credit.weigh(constants, forward), tokens, self.totals).value
        return torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(self.policy.model.parameters()))])


def published(policy):
    """One problem, one response a rank: as the published runs are laid out."""
    return Step(policy, [0, 1], [[0], [1]])


def one_rank(policy):
    return Step(policy, [0, 1, 2, 3], [[0, 1, 2, 3]])


def same(a, b):
    return torch.allclose(a, b, rtol=1e-4, atol=1e-6 * a.abs().max())


def mean_entropies(policy):
    forward = policy(pack(RESPONSES, range(4)))
    return [forward.entropies_N[forward.response_N == i].mean() for i in range(4)]


def test_the_step_has_a_gradient_and_responses_differ_in_entropy(policy):
    assert one_rank(policy).gradient(**PAPER).norm() > 0
    entropies = torch.stack(mean_entropies(policy))
    assert entropies.unique().numel() == 4
    assert entropies.min() > 0


@pytest.mark.parametrize("layout", [published, one_rank])
def test_undetached_entropy_adds_the_gradient_of_p_and_nothing_else(policy, layout):
    # loss_i = -A_i m / P_i / B, so the part through P_i is +A_i m / P_i^2 / B dP_i
    step = layout(policy)
    entropies = mean_entropies(policy)
    term = 0.0
    for i in step.chosen:
        mean = (entropies[i // 2 * 2] + entropies[i // 2 * 2 + 1]).detach() / 2
        term = term + ADVANTAGES[i] * mean / entropies[i].detach() ** 2 * entropies[i] / len(step.chosen)
    grads = torch.autograd.grad(term, list(policy.model.parameters()))
    expected = torch.cat([g.flatten() for g in grads])
    added = step.gradient(**PAPER, detach=False) - step.gradient(**PAPER)
    assert same(added, expected)
    assert not same(added, -expected)


def test_the_mean_over_the_step_is_the_groups_at_one_problem(policy):
    assert same(published(policy).gradient(**PAPER, mean_over="step"), published(policy).gradient(**PAPER))


def test_the_mean_over_the_step_scales_each_problems_gradient_by_its_mean_over_the_steps(policy):
    # A m_step / P in place of A m_group / P: the gradient of each problem by m_step / m_group
    m = torch.stack(mean_entropies(policy)).detach().view(2, 2).mean(1)
    parts = []
    for problem in ([0, 1], [2, 3]):
        step = Step(policy, [0, 1, 2, 3], [problem])  # the loss of one problem's responses, over those of both
        parts.append(step.gradient(**PAPER) * m.mean() / m[problem[0] // 2])
    assert same(one_rank(policy).gradient(**PAPER, mean_over="step"), parts[0] + parts[1])
    assert not same(one_rank(policy).gradient(**PAPER, mean_over="step"), one_rank(policy).gradient(**PAPER))


def test_padding_changes_nothing_at_one_response_a_rank(policy):
    """Each response is the longest of its rank, so that there is none."""
    for detach in (True, False):
        found = published(policy).gradient(**PAPER, detach=detach, entropy_over_padding=True)
        assert same(found, published(policy).gradient(**PAPER, detach=detach))


def test_padding_changes_relative_entropy_where_responses_share_a_rank(policy):
    # P over all 5 positions of the longest response, from the padded sums; the gradient of each response by its Phat's ratio
    step = Step(policy, [0, 1], [[0, 1]])
    scored = step.scored([0, 1])
    sums = torch.zeros(2).index_add(0, scored.response_N, scored.entropies_N)
    plain, padded = sums / torch.tensor([2.0, 5.0]), (sums + scored.padding_entropy_B) / 5
    found = {over: step.constants(EntropyDrivenAdvantage(**PAPER, entropy_over_padding=over))[0] for over in (False, True)}
    torch.testing.assert_close(found[False].relative_entropy_B, plain / plain.mean())
    torch.testing.assert_close(found[True].relative_entropy_B, padded / padded.mean())
    assert not torch.allclose(found[True].relative_entropy_B, found[False].relative_entropy_B, rtol=0.01)
    assert not same(step.gradient(**PAPER, entropy_over_padding=True), step.gradient(**PAPER))


def test_bounds_change_nothing_while_no_response_reaches_them(policy):
    step = one_rank(policy)
    (constants,) = step.constants(EntropyDrivenAdvantage())
    assert not constants.clamped_B.any()
    assert same(step.gradient(), step.gradient(**PAPER))


def test_all_together_are_undetached_entropy_alone_in_the_published_layout(policy):
    assert same(published(policy).gradient(**CODE), published(policy).gradient(**PAPER, detach=False))
    assert not same(published(policy).gradient(**CODE), published(policy).gradient(**PAPER))
    assert not same(one_rank(policy).gradient(**CODE), one_rank(policy).gradient(**PAPER, detach=False))
