"""The blockwise head against the plain one: whole logits, log_softmax, autograd."""

import pytest
import torch

from edge_lightning import head
from edge_lightning.head import logprobs_and_entropies


@pytest.fixture(params=[(512, 1 << 20), (512, 22), (3, 12)], ids=["one block", "blocks of words", "blocks of both"])
def blocks(request, monkeypatch):
    """At 7 tokens and 11 words: 7 x 11; 7 x 3, the last one narrower; 3 x 4, the last ones lower and narrower."""
    monkeypatch.setattr(head, "BLOCK_TOKENS", request.param[0])
    monkeypatch.setattr(head, "BLOCK_LOGITS", request.param[1])


def plain(hidden, weight, target, temperature, bias):
    log_p = torch.log_softmax(torch.nn.functional.linear(hidden, weight, bias) / temperature, -1)
    return log_p.gather(-1, target[:, None])[:, 0], -(log_p.exp() * log_p).sum(-1)


def inputs(bias):
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(7, 5, generator=generator).requires_grad_()
    weight = torch.randn(11, 5, generator=generator).requires_grad_()
    b = torch.randn(11, generator=generator).requires_grad_() if bias else None
    return hidden, weight, torch.arange(7), b


def test_uniform_logits_have_log_v_in_both():
    hidden, weight = torch.zeros(1, 3), torch.randn(4, 3)
    logprob, entropy = logprobs_and_entropies(hidden, weight, torch.tensor([2]))
    assert logprob.item() == pytest.approx(-1.3862944)
    assert entropy.item() == pytest.approx(1.3862944)


@pytest.mark.parametrize("temperature", [1.0, 0.6])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.usefixtures("blocks")
def test_values_and_gradients_equal_the_plain_head(temperature, bias):
    hidden, weight, target, b = inputs(bias)
    wanted = [t for t in (hidden, weight, b) if t is not None]
    mine = logprobs_and_entropies(hidden, weight, target, temperature=temperature, bias_V=b)
    theirs = plain(hidden, weight, target, temperature, b)
    for which in (0, 1):
        torch.testing.assert_close(mine[which], theirs[which], atol=1e-6, rtol=1e-5)
    mixed = torch.linspace(-1, 2, 7)
    for combine in (lambda f: (mixed * f[0]).sum(), lambda f: (mixed * f[1]).sum(), lambda f: (f[0] * f[1]).sum()):
        got = torch.autograd.grad(combine(mine), wanted, retain_graph=True)
        expected = torch.autograd.grad(combine(theirs), wanted, retain_graph=True)
        for g, e in zip(got, expected):
            torch.testing.assert_close(g, e, atol=1e-5, rtol=1e-4)


@pytest.mark.usefixtures("blocks")
def test_autocast_runs_the_product_in_its_own_dtype():
    hidden, weight, target, _ = inputs(bias=False)
    with torch.autocast("cpu", torch.bfloat16):
        mine = logprobs_and_entropies(hidden, weight, target)
    coarse = plain(hidden.bfloat16(), weight.bfloat16(), target, 1.0, None)[0].float()
    fine = plain(hidden, weight, target, 1.0, None)[0]
    assert (mine[0] - fine).abs().max() > 1e-4  # bfloat16 shows
    torch.testing.assert_close(mine[0], coarse, atol=3e-2, rtol=3e-2)
    (got,) = torch.autograd.grad(mine[0].sum(), [weight])  # outside autocast, where a backward pass runs
    (expected,) = torch.autograd.grad(fine.sum(), [weight])
    assert got.dtype == torch.float32
    torch.testing.assert_close(got, expected, atol=5e-2, rtol=5e-2)


def test_a_certain_distribution_has_an_entropy_of_zero_and_never_less():
    hidden, weight = 1e3 * torch.randn(50, 4), torch.randn(9, 4)
    assert logprobs_and_entropies(hidden, weight, torch.zeros(50, dtype=torch.long))[1].min() >= 0


@pytest.mark.parametrize(
    ("block_tokens", "block_logits", "tokens", "expected"),
    [
        (512, 1 << 20, 7, [(0, 7, 0, 11)]),
        (3, 12, 4, [(0, 3, 0, 4), (3, 4, 0, 4), (0, 3, 4, 8), (3, 4, 4, 8), (0, 3, 8, 11), (3, 4, 8, 11)]),
        (2, 88, 9, [(0, 8, 0, 11), (8, 9, 0, 11)]),  # a small vocabulary: higher blocks, as many logits
        (512, 1 << 20, 0, []),
    ],
)
def test_blocks_cover_every_logit_once(monkeypatch, block_tokens, block_logits, tokens, expected):
    monkeypatch.setattr(head, "BLOCK_TOKENS", block_tokens)
    monkeypatch.setattr(head, "BLOCK_LOGITS", block_logits)
    found = [(t.start, t.stop, w.start, w.stop) for t, w in head._blocks(tokens, torch.zeros(11, 5))]
    assert found == expected


def test_a_head_whose_outputs_get_no_gradient_is_refused():
    hidden, weight, target, _ = inputs(bias=False)
    logprobs, _ = logprobs_and_entropies(hidden, weight, target)
    with pytest.raises(RuntimeError, match="no gradient"):
        logprobs.grad_fn.apply(None, None)


def test_what_is_kept_for_the_backward_pass_does_not_grow_with_the_vocabulary():
    def kept(vocabulary):
        hidden = torch.randn(40, 8, requires_grad=True)
        weight = torch.randn(vocabulary, 8, requires_grad=True)
        sizes = []

        def pack(tensor):
            if tensor.data_ptr() not in (hidden.data_ptr(), weight.data_ptr()):
                sizes.append(tensor.numel())
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            logprobs_and_entropies(hidden, weight, torch.arange(40))
        return sum(sizes)

    assert kept(50) == kept(5000) == 3 * 40  # target, normalizer and entropy of each token
