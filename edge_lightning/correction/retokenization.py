"""Ids made anew from text, as EDGE-GRPO's released code does with a group in which it has corrected a response.

It decodes every response of the group, special tokens left out, and tokenises the texts again. So ends of sequence are
lost, those of right responses too; and where the policy had spelled a text in other ids than the tokenizer does, it is
trained on ids that it did not sample. An option, for comparison: nothing else here turns ids into text and back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from edge_lightning.correction.base import CorrectionTools
from edge_lightning.types import Provenance, Response


def retokenize_corrected_groups(responses: Sequence[Response], tools: CorrectionTools) -> list[Response]:
    """The responses, in order, those of a group with a corrected one with ids made of their text.

    A group is the responses to one problem, on whatever rank they are. Text, grade and finish reason stay.
    """
    here = {r.problem.id for r in responses if r.provenance is not Provenance.SAMPLED}
    corrected, encode = set().union(*tools.gather(here)), tools.encode
    return [retokenized(r, encode(r.text)) if r.problem.id in corrected else r for r in responses]


def retokenized(response: Response, ids: tuple[int, ...]) -> Response:
    """The response with other ids: up to the first that differs they are the old ones, and from there on sampled by nobody.

    A response without a text keeps its ids, since none would be left.
    """
    if not ids:
        return response
    pairs = zip(response.completion_ids, ids)
    same = next((i for i, (old, new) in enumerate(pairs) if old != new), min(len(response.completion_ids), len(ids)))
    rest = len(ids) - same
    return replace(
        response,
        completion_ids=ids,
        sampled_mask=response.sampled_mask[:same] + (False,) * rest,
        engine_logprobs=response.engine_logprobs[:same] + (None,) * rest,
    )
