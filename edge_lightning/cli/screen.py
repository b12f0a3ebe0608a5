"""edge-lightning screen: from a pool of problems, the hardest for a policy or a random draw, as a file to train on."""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf, open_dict
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from edge_lightning.cli.process import hush, prepare
from edge_lightning.cli.resume import refuse_changes, refuse_finished, refuse_second_run
from edge_lightning.errors import UserError
from edge_lightning.types import Problem, Provenance
from edge_lightning.whole import whole

SAMPLING = ("samples", "temperature", "top_p", "top_k", "prompt_limit", "response_limit", "seed", "responses_at_a_time")
WRITTEN = "written.json"


def screen(cfg: DictConfig, folder: Path) -> None:
    """Choose cfg.selection.size problems of cfg.data and write them, one JSON object a line."""
    prepare(cfg.cpu_threads, offline=cfg.offline)
    from edge_lightning.cli.build import built
    from edge_lightning.screening import as_row, rates_of, require_enough
    from edge_lightning.training.summary import write_json
    from edge_lightning.versions import git_commit, versions

    hush()
    start = time.time()
    _check(cfg)
    if cfg.resume:
        refuse_finished(folder)
        refuse_changes(cfg, folder)
    else:
        refuse_second_run(folder)
    out = folder / "selected.jsonl" if cfg.out is None else Path(cfg.out)
    if not (cfg.resume and _is_own(out, folder)):
        _refuse_out(out, cfg.data.problem_set.get("path"))
    selection, reward = built(cfg.selection, "selection", object), built(cfg.reward, "reward", object)
    try:
        ask = _Asking(cfg, folder) if selection.needs_rates else None
        candidates, counts = _pool(cfg, reward, ask)
        require_enough(candidates, selection.size)
        if not cfg.resume:
            OmegaConf.save(OmegaConf.create(OmegaConf.to_container(cfg, resolve=True)), folder / "config.yaml")
        rates = rates_of(ask(candidates, reward)) if ask else {}
    except KeyboardInterrupt:
        raise UserError(f"interrupted; go on with edge-lightning screen resume={folder}") from None
    finally:
        reward.close()
    chosen = selection(candidates, rates)
    _write(out, [as_row(problem, rates) for problem in chosen], folder)
    summary = {
        "command": "screen",
        "name": cfg.name,
        "status": "finished",
        "policy": cfg.model.path,
        "data": cfg.data.name,
        "problems": {**counts, "candidates": len(candidates), "selected": len(chosen)},
        "right_of_samples": None if ask is None else _histogram(candidates, rates, cfg.samples),
        "right_of_samples_selected": None if ask is None else _histogram(chosen, rates, cfg.samples),
        "out": str(out),
        "grading_timeouts": reward.timeouts,
        "seconds": {"whole_run": time.time() - start},
        "versions": versions(),
        "git_commit": git_commit(),
    }
    write_json(folder / "summary.json", summary)
    _print(summary, cfg.solutions)


def _check(cfg: DictConfig) -> None:
    """Types of all values. A selection that asks no policy needs none, so no model is missing then.

    Raises:
        UserError: names the key, what came and what is expected.
    """
    from edge_lightning.cli.schema import check, check_call, target
    from edge_lightning.curation import usable_held_out
    from edge_lightning.evaluation.benchmark import Benchmark
    from edge_lightning.screening import with_solution

    check_call(with_solution, {"solutions": cfg.solutions}, "")
    check_call(usable_held_out, {"on_bad_row": cfg.data.on_bad_row}, "data")
    check_call(Benchmark, {key: cfg[key] for key in SAMPLING}, "")
    if not isinstance(cfg.drop_duplicates, bool):
        raise UserError(f"drop_duplicates={cfg.drop_duplicates}: true or false expected")
    if not target(cfg.selection.get("_target_"), "selection").needs_rates:
        with open_dict(cfg):
            cfg.model.path = None
    check(cfg)


def _refuse_out(out: Path, pool: str | None) -> None:
    """Raise UserError where the set can't be written, or would be written over something."""
    if not out.parent.is_dir():
        raise UserError(f"out={out}: a file in a folder that exists expected; make {out.parent} first")
    if out.is_dir() or not os.access(out.parent, os.W_OK):
        raise UserError(f"out={out}: a file that can be written expected; name another")
    if out.exists():
        also = ", the pool itself" if pool is not None and Path(pool).exists() and out.samefile(pool) else ""
        raise UserError(f"out={out}: there is a file of that name{also}; name another, or move it away")


class _Asking:
    """The policy, with an engine once it is asked."""

    def __init__(self, cfg: DictConfig, folder: Path):
        import torch

        from edge_lightning.cli.build import build_policy

        self.cfg, self.folder = cfg, folder
        self.make_engine = instantiate(cfg.engine)
        if self.make_engine.func.provenance is not Provenance.SAMPLED:
            name = self.make_engine.func.__name__
            raise UserError(f"{name} copies reference solutions: an engine that samples expected; set engine=vllm or hf")
        self.prompt = instantiate(cfg.prompt)
        self.policy = build_policy(cfg.model, folder, temperature=1.0).eval()
        if torch.cuda.is_available():  # not yet run on hardware
            self.policy.cuda()

    def measure(self, problem: Problem) -> int:
        """Tokens of the prompt."""
        return len(self.prompt(problem, self.policy.tokenizer))

    def __call__(self, problems: Sequence[Problem], reward) -> list[dict]:
        """A row for each of cfg.samples responses of each problem; what an earlier run has sampled is not sampled again."""
        from edge_lightning.cli.checks import exam_length
        from edge_lightning.engine.watched import Watched
        from edge_lightning.evaluation.benchmark import Benchmark, Exam
        from edge_lightning.evaluation.progress import Display
        from edge_lightning.evaluation.suite import evaluate

        cfg = self.cfg
        benchmark = Benchmark(name="screen", problems=None, keys="", **{key: cfg[key] for key in SAMPLING})
        exam = Exam(benchmark, list(problems), self.prompt)
        limit = exam_length(exam, self.policy)
        self.policy.save_config(self.folder / "policy")
        print(f"{cfg.name}: starting engine={cfg.engine._target_.rsplit('.', 1)[-1]}", file=sys.stderr)
        engine = Watched(self.make_engine(policy=self.policy, folder=self.folder / "policy", max_model_len=limit))
        display = Display()
        try:
            engine.push_weights(self.policy, 0)
            display.start()
            with display.benchmark(exam, 0) as advance:
                return evaluate(
                    exam,
                    policy=self.policy,
                    engine=engine,
                    reward=reward,
                    folder=self.folder,
                    step=0,
                    weights_version=0,
                    advance=advance,
                )
        finally:
            display.stop()
            engine.close()


def _pool(cfg: DictConfig, reward, ask: _Asking | None) -> tuple[list[Problem], dict]:
    """The problems that can be taken, and how many rows there were and were left out."""
    from edge_lightning.cli.build import build_problem_set
    from edge_lightning.curation import refuse, usable
    from edge_lightning.data.overlap import duplicates
    from edge_lightning.screening import with_solution

    problem_set = build_problem_set(cfg)
    report = problem_set.report
    problems = [*problem_set.train(), *problem_set.held_out()]
    measure = ask.measure if ask else lambda problem: 0
    kept, bad, _ = usable(problems, report.source, reward, measure, cfg.prompt_limit, "prompt_limit")
    bad = report.bad + bad
    if cfg.data.on_bad_row == "refuse":
        refuse(bad, report.rows)
    left_out = Counter(row.kind for row in bad)
    if cfg.drop_duplicates:
        again = {name for ids in duplicates(kept) for name in ids[1:]}
        kept = [problem for problem in kept if problem.id not in again]
        left_out["duplicate"] = len(again)
    candidates = with_solution(kept, cfg.solutions, reward)
    left_out[f"no solution that is {cfg.solutions}"] = len(kept) - len(candidates)
    counts = {"rows": report.rows, "filtered": report.filtered, "left_out": {k: n for k, n in left_out.items() if n}}
    return candidates, counts


def _histogram(problems: Sequence[Problem], rates: Mapping[str, float], samples: int) -> dict[str, int]:
    """How many problems had how many of their samples right."""
    found = Counter(round(rates[problem.id] * samples) for problem in problems)
    return {str(right): found[right] for right in range(samples + 1)}


def _write(path: Path, rows: Sequence[dict], folder: Path) -> None:
    """Write the rows, and before them into the run's folder what will lie where: if killed, it knows its file again."""
    content = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()
    with whole(folder / WRITTEN) as part:
        part.write_text(json.dumps(_written(folder) | {sha256(content).hexdigest(): os.path.relpath(path, folder)}))
    with whole(path) as part:
        part.write_bytes(content)


def _is_own(path: Path, folder: Path) -> bool:
    """Whether a file is there, as the run in the folder has written it."""
    place, written = os.path.relpath(path, folder), _written(folder)
    recorded = place in written.values() and path.is_file()
    return recorded and written.get(sha256(path.read_bytes()).hexdigest()) == place


def _written(folder: Path) -> dict[str, str]:
    """By digest of a content, the place, seen from the folder, that the run has chosen for it."""
    record = folder / WRITTEN
    try:
        return dict(json.loads(record.read_text())) if record.exists() else {}
    except (ValueError, TypeError) as error:
        raise UserError(
            f"{record}: JSON expected, it was damaged ({error}); remove it, and move the written set away"
        ) from None


def _print(summary: dict, solutions: str) -> None:
    console = Console(highlight=False)
    problems, asked = summary["problems"], summary["right_of_samples"]
    table = Table(title=f"{summary['name']}: {summary['status']}", title_justify="left")
    table.add_column("", no_wrap=True)
    table.add_column("pool", justify="right", no_wrap=True)
    table.add_column("selected", justify="right", no_wrap=True)
    table.add_row("rows", f"{problems['rows']:,}", "")
    for kind, count in (*problems["filtered"].items(), *problems["left_out"].items()):
        table.add_row(f"  left out: {escape(kind)}", f"{count:,}", "")
    table.add_row(f"problems (solutions={solutions})", f"{problems['candidates']:,}", f"{problems['selected']:,}")
    if asked is not None:
        table.add_section()
        for right, count in asked.items():
            selected = summary["right_of_samples_selected"][right]
            table.add_row(f"right {right} of {len(asked) - 1} times", f"{count:,}", f"{selected:,}")
    console.print(table)
    out = escape(summary["out"])
    console.print(f"train on it by  data=math_json data.problem_set.path={out}", soft_wrap=True)
