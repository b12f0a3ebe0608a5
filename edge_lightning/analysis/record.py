"""responses.parquet: what was sampled and how sure the policy was of each token, whatever is asked of it then."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from edge_lightning.analysis.base import Measured, parquet

SCHEMA = pa.schema(
    [
        ("problem_id", pa.string()),
        ("response_index", pa.int32()),
        ("text", pa.string()),
        ("gold", pa.list_(pa.string())),
        ("correct", pa.bool_()),
        ("finish_reason", pa.string()),
        ("prompt_ids", pa.list_(pa.int32())),
        ("completion_ids", pa.list_(pa.int32())),
        ("entropy", pa.float32()),  # mean over the tokens, nats
        ("token_entropies", pa.list_(pa.float32())),
        ("seed", pa.int64()),
    ]
)


def response_rows(measured: Sequence[Measured]) -> bytes:
    """One row a response, as the content of the file."""
    rows = [
        {
            "problem_id": it.response.problem.id,
            "response_index": it.response.index,
            "text": it.response.text,
            "gold": list(it.response.problem.answers),
            "correct": it.response.grade.right,
            "finish_reason": it.response.finish_reason,
            "prompt_ids": it.response.prompt_ids,
            "completion_ids": it.response.completion_ids,
            "entropy": float(it.entropies_T.mean()),
            "token_entropies": it.entropies_T.tolist(),
            "seed": it.response.seed,
        }
        for it in measured
    ]
    return parquet(rows, SCHEMA)
