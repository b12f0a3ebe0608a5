"""What stands where in a packed row, and that a prompt which responses share is as good as one for each."""

from dataclasses import replace

import pytest
import torch

from edge_lightning import attention
from edge_lightning.attention import PaddedLayout, VarlenLayout
from edge_lightning.packing import pack, plan_micro_batches
from edge_lightning.tokens import Span
from tests.by_hand import response
from tests.test_policy import responses


def test_a_shared_prompt_stands_once_and_positions_go_on_from_it():
    group = [response((5, 6)), response((7,), prompt_ids=(1,)), response((8, 9, 4), index=1)]
    tokens = pack(group, [0, 1, 2])
    assert tokens.input_ids_T.tolist() == [1, 2, 5, 6, 1, 7, 8, 9, 4]
    assert tokens.position_ids_T.tolist() == [0, 1, 2, 3, 0, 1, 2, 3, 4]
    assert tokens.predictor_N.tolist() == [1, 2, 4, 1, 6, 7]
    assert tokens.target_N.tolist() == [5, 6, 7, 8, 9, 4]
    assert tokens.response_N.tolist() == [0, 0, 1, 2, 2, 2]
    assert tokens.place_N.tolist() == [0, 1, 2, 3, 4, 5]
    assert tokens.spans == (
        Span(range(0, 2), range(2, 4)),
        Span(range(4, 5), range(5, 6)),
        Span(range(0, 2), range(6, 9)),
    )


def test_tokens_know_their_place_in_the_step():
    tokens = pack([response((5, 6)), response((7,)), response((8, 9, 4))], [2, 0])
    assert tokens.place_N.tolist() == [3, 4, 5, 0, 1]
    assert tokens.response_N.tolist() == [2, 2, 2, 0, 0]


def test_prompts_are_shared_by_their_ids_and_not_by_their_beginning():
    tokens = pack([response((5,), prompt_ids=(1, 2)), response((5,), prompt_ids=(1, 2, 3))], [0, 1])
    assert tokens.input_ids_T.tolist() == [1, 2, 5, 1, 2, 3, 5]


def test_padded_layout_by_hand():
    layout = PaddedLayout.of(pack([response((5, 6)), response((7,))], [1, 0]).spans, torch.device("cpu"))
    # the row: prompt 0 1, response (7,) at 2, response (5, 6) at 3 4; the longer one first
    assert [block.tolist() for block in layout.blocks] == [[[0, 1, 3, 4], [0, 1, 2, 0]]]
    assert layout.place_T.tolist() == [4, 5, 6, 2, 3]  # of the prompt the outputs of either row would do


def test_sequences_of_unlike_length_are_padded_apart():
    spans = pack([response((5, 6, 7, 8)), response((5, 6)), response((7,))], [0, 1, 2]).spans
    # the row: prompt 0 1, responses 2 to 5, 6 7 and 8; 6, 4 and 3 tokens with the prompt, 6 <= 1.5 x 4 and 6 > 1.5 x 3
    layout = PaddedLayout.of(spans, torch.device("cpu"))
    assert [block.tolist() for block in layout.blocks] == [[[0, 1, 2, 3, 4, 5], [0, 1, 6, 7, 0, 0]], [[0, 1, 8]]]
    assert layout.place_T.tolist() == [12, 13, 2, 3, 4, 5, 8, 9, 14]  # of the prompt the outputs of any row would do


def test_varlen_layout_by_hand():
    spans = pack([response((5, 6)), response((7,)), response((8,), prompt_ids=(3, 3, 3))], [0, 1, 2]).spans
    layout = VarlenLayout.of(spans, torch.device("cpu"), torch.bfloat16)
    # the row: prompt 0 1, responses 2 3 and 4; prompt 5 6 7, response 8
    assert layout.query_starts.tolist() == [0, 2, 4, 5, 8, 9]
    assert layout.key_starts.tolist() == [0, 2, 6, 9, 12, 16]
    assert layout.key_T.tolist() == [0, 1, 0, 1, 2, 3, 0, 1, 4, 5, 6, 7, 5, 6, 7, 8]
    assert (layout.longest_query, layout.longest_key) == (3, 4)


def shared(count=6):
    """Responses of several lengths, three to each of two prompts."""
    group = responses(count)
    return [replace(r, prompt_ids=group[i % 2].prompt_ids, index=i) for i, r in enumerate(group)]


def gradients(policy, batches):
    """Of a mean that no two tokens have the same weight in."""
    tokens_in_all = sum(len(tokens.target_N) for tokens in batches)
    policy.zero_grad()
    for tokens in batches:
        forward = policy(tokens)
        weights_N = torch.cos(tokens.target_N + 7.0 * tokens.response_N)
        (weights_N * (forward.logprobs_N + 0.3 * forward.entropies_N)).sum().div(tokens_in_all).backward()
    return [parameter.grad.clone() for parameter in policy.parameters()]


def test_sharing_changes_neither_values_nor_gradients(tiny_policy):
    group = shared()
    together, alone = pack(group, range(6)), [pack(group, [i]) for i in range(6)]
    assert len(together.input_ids_T) < sum(len(t.input_ids_T) for t in alone)
    forward, singles = tiny_policy(together), [tiny_policy(tokens) for tokens in alone]
    torch.testing.assert_close(forward.logprobs_N, torch.cat([f.logprobs_N for f in singles]), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(forward.entropies_N, torch.cat([f.entropies_N for f in singles]), atol=1e-5, rtol=1e-5)
    for mine, theirs in zip(gradients(tiny_policy, [together]), gradients(tiny_policy, alone)):
        torch.testing.assert_close(mine, theirs, atol=1e-5, rtol=1e-4)


def segment_attention(
    query, key, value, query_starts, key_starts, longest_query, longest_key, *, scale, window_size, enable_gqa
):
    """What the variable-length kernel computes, one segment after the other, in float32."""
    assert window_size == (-1, 0)
    outputs = []
    for i in range(len(query_starts) - 1):
        q = query[query_starts[i] : query_starts[i + 1]].transpose(0, 1).float()
        k, v = (x[key_starts[i] : key_starts[i + 1]].transpose(0, 1).float() for x in (key, value))
        assert q.shape[1] <= longest_query
        assert k.shape[1] <= longest_key
        if enable_gqa:
            k, v = (x.repeat_interleave(len(q) // len(x), 0) for x in (k, v))
        allowed = torch.ones(q.shape[1], k.shape[1]).tril(k.shape[1] - q.shape[1]).bool()  # aligned at the ends
        scores = (q @ k.transpose(1, 2) * scale).masked_fill(~allowed, -torch.inf)
        outputs.append((scores.softmax(-1) @ v).transpose(0, 1))
    return torch.cat(outputs).to(query.dtype)


def test_both_layouts_ask_for_the_same_attention(tiny_policy, monkeypatch):
    tokens = pack(shared(), [3, 0, 1, 5, 2, 4])
    padded = tiny_policy(tokens)
    monkeypatch.setattr(attention, "varlen_attn", segment_attention)
    monkeypatch.setattr(
        "edge_lightning.policy.layout_of", lambda spans, device, dtype, **_: VarlenLayout.of(spans, device, dtype)
    )
    varlen = tiny_policy(tokens)
    torch.testing.assert_close(varlen.logprobs_N, padded.logprobs_N, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(varlen.entropies_N, padded.entropies_N, atol=1e-5, rtol=1e-5)


def plan(lengths, token_budget, prompts=None):
    """Of responses of these lengths, each to a prompt of ten tokens; the same letter is the same prompt."""
    prompts = prompts or [chr(65 + i) for i in range(len(lengths))]
    group = [response((5,) * n, prompt_ids=(ord(p),) * 10) for n, p in zip(lengths, prompts)]
    return plan_micro_batches(group, range(len(group)), token_budget=token_budget)


def test_plan_holds_every_response_once_and_the_budget():
    # with prompts: 15, 100, 50, 51, 17, 310; 310 is alone over the budget, 51 leaves no room for 50, so there are four rows:
    # 310 | 100 | 51 + 15 = 66 | 50 + 17 = 67
    assert plan([5, 90, 40, 41, 7, 300], 100) == [[5], [1], [3, 0], [2, 4]]


def test_plan_keeps_responses_to_one_prompt_together():
    # A: 10 + 20 + 30 + 10 = 70, B: 10 + 25 + 25 = 60, C: 10 + 5 = 15: 70 | 60 + 15 = 75
    assert plan([20, 25, 30, 25, 10, 5], 100, "ABABAC") == [[0, 2, 4], [1, 3, 5]]


def test_plan_takes_no_further_row_for_balance():
    # with prompts: 60, 50, 40, 30, 20; the emptiest row: 60 + 30 | 50 + 40, and no room for 20; the first with room:
    # 60 + 40 | 50 + 30 + 20
    assert plan([50, 40, 30, 20, 10], 100) == [[0, 2], [1, 3, 4]]


def test_plan_splits_a_group_that_no_row_has_room_for():
    # A: 10 + 40 + 40 = 90, 10 + 40 + 40 again, 10 + 40
    assert plan([40] * 5, 100, "AAAAA") == [[0, 3], [1, 4], [2]]


def test_plan_splits_a_group_in_equal_parts():
    # 90 tokens behind the prompt: 8 x 12 = 96 is too much, and 7 + 1 would need the memory of 7
    assert plan([12] * 8, 100, "AAAAAAAA") == [[0, 2, 4, 6], [1, 3, 5, 7]]


def test_plan_of_some_responses_names_their_positions():
    group = [response((5,) * 3, prompt_ids=(i,)) for i in range(4)]
    assert plan_micro_batches(group, [3, 1], token_budget=4) == [[1], [3]]


@pytest.mark.parametrize("token_budget", [1, 40, 75, 10_000])
def test_every_plan_is_a_partition(token_budget):
    group = shared()
    found = plan_micro_batches(group, range(6), token_budget=token_budget)
    assert sorted(i for part in found for i in part) == list(range(6))
    for part in found:
        assert len(part) == 1 or len(pack(group, part).input_ids_T) <= token_budget
