"""What holds for every credit: the layout of a step over rows, ranks and micro-batches changes nothing."""

from dataclasses import replace

import pytest
import torch

from edge_lightning.credit.base import Scope
from edge_lightning.credit.eapo import EAPO
from edge_lightning.credit.eda import EntropyDrivenAdvantage
from edge_lightning.credit.entropy_adv import EntropyAdv
from edge_lightning.credit.ep_grpo import EPGRPO
from edge_lightning.credit.hapo import HAPO
from edge_lightning.credit.none import NoCredit
from edge_lightning.credit.rl_zvp import RLZVP
from edge_lightning.credit.top_entropy import TopEntropy
from tests.credit_steps import passed, scored, weigh
from tests.ranks import on_ranks

CREDITS = [
    NoCredit(),
    EntropyDrivenAdvantage(),
    EntropyDrivenAdvantage(mean_over="step"),
    EAPO(),
    EntropyAdv(),
    TopEntropy(share=0.4),
    HAPO(),
    RLZVP(),
    EPGRPO(),
    EPGRPO(zero_variance=False),
]
LENGTHS = torch.tensor([3, 1, 6, 2, 5, 4, 2, 9])


@pytest.fixture(params=CREDITS, ids=lambda credit: type(credit).__name__)
def credit(request):
    return request.param


def whole():
    """Two groups of four, the second tied and wrong."""
    generator = torch.Generator().manual_seed(3)
    tokens = int(LENGTHS.sum())
    return scored(
        [1.5, -0.5, -0.5, -0.5, 0.0, 0.0, 0.0, 0.0],
        torch.rand(tokens, generator=generator),
        torch.arange(8).repeat_interleave(LENGTHS),
        [0] * 4 + [1] * 4,
        logprobs=-torch.rand(tokens, generator=generator),
        reference=-torch.rand(tokens, generator=generator),
    )


def part(step, responses):
    """The step as a rank sees it that holds these responses, in this order."""
    tokens = torch.cat([(step.response_N == i).nonzero().flatten() for i in responses])
    index = torch.tensor(responses)
    return tokens, replace(
        step,
        **{name: getattr(step, name)[index] for name in ("advantages_B", "rewards_B", "right_B", "tied_B", "group_B")},
        response_N=torch.arange(len(responses)).repeat_interleave(LENGTHS[index]),
        **{name: getattr(step, name)[tokens] for name in ("entropies_N", "logprobs_N", "reference_logprobs_N")},
    )


def test_the_order_of_responses_changes_nothing(credit):
    tokens, shuffled = part(whole(), [5, 0, 7, 2, 1, 6, 4, 3])
    torch.testing.assert_close(weigh(credit, shuffled), weigh(credit, whole())[tokens], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("layout", ["0123 4567", "045 12367", "0 127 3456"])
def test_ranks_find_what_one_rank_finds(credit, layout):
    step, ranks = whole(), [[int(i) for i in responses] for responses in layout.split()]
    expected = weigh(credit, step)

    def work(rank, all_reduce):
        tokens, mine = part(step, ranks[rank])
        return tokens, credit.weigh(credit.prepare(mine, all_reduce), passed(mine))

    for tokens, found in on_ranks(work, len(ranks)):
        torch.testing.assert_close(found, expected[tokens], atol=1e-5, rtol=1e-5)


def test_micro_batches_get_the_advantages_of_the_whole(credit):
    expected = weigh(credit, whole())
    for tokens in (list(range(3)), [4, 5, 6, 7, 8, 9, 3]):
        assert weigh(credit, whole(), tokens=tokens).tolist() == pytest.approx(expected[tokens].tolist(), abs=1e-6)


def test_what_has_no_score_yet_leaves_the_others_as_they_are(credit):
    """In the order in which a step is trained: one response, one group, at last the other."""
    step = whole()
    expected = weigh(credit, step)
    known = {None: [0], Scope.RESPONSE: [0], Scope.GROUP: [0, 1, 2, 3], Scope.STEP: list(range(8))}[credit.scope]
    seen_N = torch.isin(step.response_N, torch.tensor(known))
    half = replace(
        step,
        entropies_N=step.entropies_N.masked_fill(~seen_N, torch.nan),
        logprobs_N=step.logprobs_N.masked_fill(~seen_N, torch.nan),
    )
    torch.testing.assert_close(weigh(credit, half)[seen_N], expected[seen_N], atol=1e-6, rtol=1e-6)
    last = {None: [5], Scope.RESPONSE: [5], Scope.GROUP: [4, 5, 6, 7], Scope.STEP: list(range(8))}[credit.scope]
    seen_N = torch.isin(step.response_N, torch.tensor(last))
    half = replace(
        step,
        entropies_N=step.entropies_N.masked_fill(~seen_N, torch.nan),
        logprobs_N=step.logprobs_N.masked_fill(~seen_N, torch.nan),
    )
    torch.testing.assert_close(weigh(credit, half)[seen_N], expected[seen_N], atol=1e-6, rtol=1e-6)


def test_a_response_without_scores_is_never_trained_in_silence(credit):
    """A token advantage that depends on scores is NaN without them, which the module refuses."""
    step = whole()
    blank = torch.full_like(step.entropies_N, torch.nan)
    found, expected = weigh(credit, replace(step, entropies_N=blank, logprobs_N=blank)), weigh(credit, step)
    assert (found.isnan() | (found == expected)).all()
    assert found.isnan().any() == (credit.scope is not None)


def test_dead_responses_have_no_advantage_at_any_token(credit):
    step = whole()
    found = weigh(credit, step)
    dead_N = ~credit.alive(step.advantages_B)[step.response_N]
    assert (found[dead_N] == 0).all()
    assert found.abs().max() > 0


def test_a_step_of_one_token(credit):
    step = scored([0.0], [0.3], torch.tensor([0]), logprobs=[-0.2], reference=[-0.2])
    assert weigh(credit, step).abs().item() <= 0.03  # RL-ZVP blames by 0.1 (H - H) = 0
