"""An evaluation on disk: one parquet row a response, whole or not at all, and chunks while it is under way.

    evaluation/step_*/<benchmark>.parquet            finished
    evaluation/step_*/<benchmark>.chunks/*.parquet   of an evaluation that was not finished; gone afterwards

Each file bears a fingerprint of what its rows depend on, weights among it; files with another one are not read.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from edge_lightning.engine.base import Engine, name_of
from edge_lightning.errors import UserError
from edge_lightning.evaluation.benchmark import Exam
from edge_lightning.policy import Policy
from edge_lightning.whole import whole

EVALUATION_SCHEMA = pa.schema(
    [
        ("step", pa.int64()),
        ("weights_version", pa.int64()),
        ("benchmark", pa.string()),
        ("problem_id", pa.string()),
        ("response_index", pa.int32()),
        ("text", pa.string()),
        ("answer", pa.string()),
        ("gold", pa.list_(pa.string())),
        ("correct", pa.bool_()),
        ("formatted", pa.bool_()),
        ("finish_reason", pa.string()),
        ("tokens", pa.int32()),
        ("entropy", pa.float32()),
        ("seed", pa.int64()),
    ]
)
_KEY = b"edge_lightning.fingerprint"


def fingerprint(exam: Exam, *, engine: Engine, policy: Policy, weights_version: int) -> str:
    """A hash of what decides an exam's rows: draws, prompts as ids, limits, accepted answers, engine, weights.

    What only follows from the rows (the k of pass@k) or changes none (the size of chunks) is not in it.
    """
    benchmark = exam.benchmark
    decides = [name_of(engine), policy.checksum(), weights_version, benchmark.name, benchmark.seed, benchmark.samples]
    decides += [benchmark.temperature, benchmark.top_p, benchmark.top_k]
    for problem in exam.problems:
        ids = exam.prompt(problem, policy.tokenizer)
        limit = min(benchmark.response_limit, engine.max_model_len - len(ids))
        decides.append([problem.id, ids, limit, problem.answers])
    return hashlib.blake2b(json.dumps(decides).encode(), digest_size=16).hexdigest()


class EvaluationFile:
    """<benchmark>.parquet of one step, and the chunks that it is made of.

    Args:
        folder: evaluation/step_*, made when something is written.
        mark: the fingerprint that its rows have.
    """

    def __init__(self, folder: Path, benchmark: str, mark: str):
        self.path = folder / f"{benchmark}.parquet"
        self.chunks_folder = folder / f"{benchmark}.chunks"
        self.mark = mark

    def finished(self) -> list[dict] | None:
        """The rows of the finished evaluation; None if there is none with this fingerprint."""
        return self._read(self.path) if self.path.exists() else None

    def chunks(self) -> list[list[dict]]:
        """What an unfinished evaluation has left, chunk by chunk."""
        read = [self._read(path) for path in sorted(self.chunks_folder.glob("*.parquet"))]
        return [rows for rows in read if rows is not None]

    def write_chunk(self, rows: Sequence[dict], place: int) -> None:
        """Args:
        place: of the chunk's first problem among all of the benchmark; no two chunks share one.
        """
        self._write(self.chunks_folder / f"{place:06d}.parquet", rows)

    def finish(self, rows: Sequence[dict]) -> None:
        """Write the finished evaluation, then drop the chunks."""
        self._write(self.path, rows)
        self.drop_chunks()

    def drop_chunks(self) -> None:
        shutil.rmtree(self.chunks_folder, ignore_errors=True)

    def _read(self, path: Path) -> list[dict] | None:
        try:
            table = pq.read_table(path)
            same = (table.schema.metadata or {}).get(_KEY) == self.mark.encode()
            return table.to_pylist() if same else None
        except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
            if isinstance(error, OSError) and error.errno:  # of the system, not of the content
                raise
            reason = next(iter(str(error).splitlines()), type(error).__name__)
            raise UserError(
                f"{path}: the record of an evaluation expected, it is damaged ({reason}); remove it, and what it held is "
                "evaluated again"
            ) from error

    def _write(self, path: Path, rows: Sequence[dict]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        schema = EVALUATION_SCHEMA.with_metadata({_KEY: self.mark.encode()})
        with whole(path) as part:
            pq.write_table(pa.Table.from_pylist(list(rows), schema=schema), part, compression="zstd")


def step_folder(folder: Path, step: int) -> Path:
    """Where a run's evaluations of a step lie."""
    return folder / "evaluation" / f"step_{step:06d}"
