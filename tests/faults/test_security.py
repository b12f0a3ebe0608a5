"""What data and names can not do: run code, lead out of a run's folder. For checkpoints: tests/test_checkpoint_files.py."""

import subprocess
from pathlib import Path

import pytest

from edge_lightning.errors import UserError, require_file_name
from edge_lightning.evaluation.record import EVALUATION_SCHEMA, EvaluationFile
from edge_lightning.types import Problem
from tests.inspected_run import member, write_step

ROOT = Path(__file__).resolve().parents[2]


def audit(*arguments):
    return subprocess.run(["bash", ROOT / "scripts" / "audit", *arguments], capture_output=True, text=True)


def test_no_code_of_ours_runs_what_it_reads():
    done = audit("calls")
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    "line",
    [
        "import pickle; pickle.loads(b'')",
        "eval(input())",
        "import torch; torch.load('a.ckpt')",
        "import torch; torch.load('a.ckpt', weights_only=False)",
        "model(trust_remote_code=True)",
        "import yaml; yaml.load('')",
        "import subprocess; subprocess.run('ls', shell=True)",
    ],
)
def test_the_audit_finds_what_would(tmp_path, line):
    (tmp_path / "a.py").write_text(f"{line}\n")
    done = audit("calls", tmp_path)
    assert (done.returncode, "a.py" in done.stdout) == (1, True)


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a/b", "", None, "a\0b", "a\nb", "\x1b[2J", "x" * 101, "\udcff"])
def test_what_would_lead_out_of_a_folder_or_into_nothing_is_no_name(name):
    with pytest.raises(UserError, match="^key=.*: a name without / and control characters expected") as refused:
        require_file_name("key", name)
    assert str(refused.value).isprintable()


@pytest.mark.parametrize("name", ["aime24", "größe 1,5", "..x", 7])
def test_other_names_are_names(name):
    require_file_name("key", name)


@pytest.mark.parametrize("problem_id", ["../../x", "/tmp/x", "a\0b", "..", "x" * 5000, "a\nb"])
def test_an_id_of_a_problem_never_names_a_file(tmp_path, problem_id):
    run, problem = tmp_path / "run", Problem(problem_id, "2 + 3?", ("5",))
    (run / "rollouts").mkdir(parents=True)
    write_step(run / "rollouts", 0, [[member(problem, 0, "5"), member(problem, 1, "6")]], [0.0, 0.0], [1.0, 1.0])
    row = dict.fromkeys(EVALUATION_SCHEMA.names) | {"problem_id": problem_id}
    EvaluationFile(run / "evaluation", "smoke", "mark").write_chunk([row], 0)
    found = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert found == {"run/rollouts/step_000000_rank_0.parquet", "run/evaluation/smoke.chunks/000000.parquet"}
