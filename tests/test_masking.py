import pytest
import torch

from edge_lightning.masking import segment_mean, segment_sum, wrong_prefix_mask


def test_segments_are_summed_and_averaged():
    values, segments = torch.tensor([1.0, 2.0, 6.0]), torch.tensor([1, 0, 1])
    assert segment_sum(values, segments, 3).tolist() == [2.0, 7.0, 0.0]
    assert segment_mean(values, segments, 2).tolist() == [2.0, 3.5]
    with pytest.raises(ValueError, match="segment 2 of 3 has no value"):
        segment_mean(values, segments, 3)


def test_wrong_prefix_is_what_was_sampled_before_the_first_injected_token():
    #        sampled alone | reference      | reflected: own, cue, own again  | answer injected
    sampled = [1, 1, 0, 0, 1, 1, 0, 0, 1, 1, 1, 0]
    owner = [0, 0, 1, 1, 2, 2, 2, 2, 2, 2, 3, 3]
    mask = wrong_prefix_mask(torch.tensor(sampled, dtype=torch.bool), torch.tensor(owner), 4)
    assert mask.int().tolist() == [0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 1, 0]
