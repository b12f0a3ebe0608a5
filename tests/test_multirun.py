"""Sweeps: what is skipped, gone on with, started and reported, with a stand-in for the process of a job; and real ones."""

import json
import signal
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from edge_lightning.cli import hydra_app, multirun
from edge_lightning.cli.fit import fit
from edge_lightning.cli.job_process import run_process, why
from edge_lightning.cli.multirun import shortest
from edge_lightning.cli.resume import claimed
from edge_lightning.errors import UserError
from tests.run_record import finish, process, summary

SWEEP = ("ablation=grpo,full", "seed=0,1")
NAMES = [f"ablation={ablation},seed={seed}" for ablation in ("grpo", "full") for seed in (0, 1)]


class Jobs:
    """Stands in for `run_process`: leaves what a job would, or fails as it is told to. `lines`: the jobs' command lines."""

    def __init__(self):
        self.lines = []
        self.failures = {}  # by the name of the job's folder: (line, whether there is a checkpoint)

    def __call__(self, line, log, *, label):
        self.lines.append(line)
        folder = log.parent
        log.write_text("what it said\n")
        if "resume=" not in line[1]:
            (folder / ".hydra").mkdir()
            OmegaConf.save(OmegaConf.create(line[1:-1]), folder / ".hydra" / "overrides.yaml")
            (folder / "config.yaml").write_text("command: fit\n")
        failure, reached = self.failures.get(folder.name, (None, True))
        if reached:
            (folder / "checkpoints").mkdir(exist_ok=True)
            (folder / "checkpoints" / "last.ckpt").touch()
        if failure is None:
            found = {"status": "finished", "before": {"smoke/accuracy": 0.25}, "after": {"smoke/accuracy": 0.5}}
            (folder / "summary.json").write_text(json.dumps(found))
        return failure


@pytest.fixture
def jobs(monkeypatch):
    stand_in = Jobs()
    monkeypatch.setattr(multirun, "run_process", stand_in)
    return stand_in


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "sweep"


def sweep(*arguments):
    return hydra_app.run("fit", ["-m", *arguments], fit)


def test_jobs_are_command_lines_of_single_runs_in_the_order_of_the_product(jobs, folder):
    assert sweep(*SWEEP, f"hydra.sweep.dir={folder}") == 0
    assert jobs.lines == [["fit", *name.split(","), f"hydra.run.dir='{folder}/{name}'"] for name in NAMES]
    assert not any((folder / name / ".hydra" / "hydra.yaml").exists() for name in NAMES)  # only a job leaves its record


def test_a_failed_job_stops_no_other_and_is_listed_with_its_reason(jobs, folder, capfd):
    jobs.failures[NAMES[1]] = ("the disk is full", True)
    assert sweep(*SWEEP, f"hydra.sweep.dir={folder}") == 1
    out, err = capfd.readouterr()
    assert len(jobs.lines) == 4
    assert [line.split()[0] for line in out.splitlines()[-4:]] == ["finished", "failed", "finished", "finished"]
    assert "smoke pass@1 0.250 -> 0.500" in out
    assert err.splitlines() == [
        f"failed: job 1: ablation=grpo seed=1: the disk is full ({shortest(folder / NAMES[1] / 'job.log')})",
        f"edge-lightning fit: 1 of 4 jobs failed; go on with edge-lightning fit -m resume={shortest(folder)}",
    ]


def test_going_on_skips_resumes_starts_again_and_begins(jobs, folder, capfd):
    jobs.failures = {NAMES[1]: ("out of memory", True), NAMES[2]: ("no such file", False)}
    assert sweep("ablation=grpo,full", "seed=0,1", f"hydra.sweep.dir={folder}") == 1
    jobs.failures, jobs.lines = {}, []
    capfd.readouterr()
    assert sweep("seed=0,1,2", f"resume={folder}") == 0
    grpo, full = "ablation=grpo", "ablation=full"
    assert jobs.lines == [
        ["fit", f"resume='{folder}/{grpo},seed=1'"],
        ["fit", grpo, "seed=2", f"hydra.run.dir='{folder}/{grpo},seed=2'"],
        ["fit", full, "seed=0", f"hydra.run.dir='{folder}/{full},seed=0'"],
        ["fit", full, "seed=2", f"hydra.run.dir='{folder}/{full},seed=2'"],
    ]
    out = capfd.readouterr().out
    assert "job 0: skipped: finished, ablation=grpo seed=0\n" in out
    assert f"job 3: moved aside what was begun, to {full},seed=0-1\n" in out
    assert (folder / f"{full},seed=0-1" / "job.log").exists()
    assert sum(line.startswith("finished ") for line in out.splitlines()) == 6
    jobs.lines = []
    assert sweep(f"resume={folder}") == 0
    assert jobs.lines == []


def test_a_job_that_fails_again_and_again_loses_nothing(jobs, folder):
    jobs.failures[NAMES[0]] = ("no such file", False)
    for _ in range(3):
        assert sweep("ablation=grpo", "seed=0", f"hydra.sweep.dir={folder}", f"resume={folder}") == 1
    assert {path.name for path in folder.iterdir() if path.is_dir()} == {NAMES[0], f"{NAMES[0]}-1", f"{NAMES[0]}-2"}


def test_the_sweep_may_be_given_again_and_larger_also_before_its_first_start(jobs, folder):
    assert sweep("ablation=grpo", "seed=0", f"hydra.sweep.dir={folder}", f"resume={folder}") == 0
    assert sweep("seed=0,1", "ablation=grpo,full", f"hydra.sweep.dir={folder}", f"resume={folder}") == 0
    assert [line[-1].split("/")[-1].strip("'") for line in jobs.lines] == [NAMES[i] for i in (0, 2, 1, 3)]


def test_what_a_record_of_a_finished_run_stands_for_is_skipped(jobs, folder):
    (folder / NAMES[0]).mkdir(parents=True)
    (folder / NAMES[0] / "summary.json").write_text('{"status": "finished"}')  # as keep_records.py puts it back
    assert sweep(*SWEEP, f"hydra.sweep.dir={folder}", f"resume={folder}") == 0
    assert len(jobs.lines) == 3


def test_without_resume_a_job_is_started_whatever_its_folder_holds(jobs, folder, monkeypatch):
    assert sweep(*SWEEP, f"hydra.sweep.dir={folder}") == 0
    seen = []
    monkeypatch.setattr(multirun, "run_process", lambda line, log, label: seen.append(line[-1]))
    assert sweep(*SWEEP, f"hydra.sweep.dir={folder}") == 0
    assert len(seen) == 4  # each of which refuses: a run's record is there


def test_settings_of_the_launcher_may_change_and_are_kept(jobs, folder):
    assert sweep("ablation=grpo", "seed=0", "hydra.sweeper.max_batch_size=3", f"hydra.sweep.dir={folder}") == 0
    assert sweep("hydra.job.name=again", f"resume={folder}") == 0
    kept = OmegaConf.load(folder / "multirun.yaml").hydra.overrides.hydra
    assert {"hydra.sweeper.max_batch_size=3", "hydra.job.name=again"} <= set(kept)


def test_a_moved_sweep_goes_on_where_it_is(jobs, folder, tmp_path):
    jobs.failures[NAMES[3]] = ("the disk is full", True)
    assert sweep(*SWEEP, f"hydra.sweep.dir={folder}") == 1
    moved = folder.rename(tmp_path / "a=b, c")
    jobs.failures, jobs.lines = {}, []
    assert sweep(f"resume={moved}") == 0
    assert jobs.lines == [["fit", f"resume='{moved}/{NAMES[3]}'"]]


def test_a_folder_in_which_a_process_is_at_work_is_left_alone(jobs, folder, capfd):
    (folder / NAMES[0]).mkdir(parents=True)
    (folder / NAMES[0] / "metrics.csv").touch()
    with claimed(folder / NAMES[0]):
        assert sweep(*SWEEP, f"hydra.sweep.dir={folder}", f"resume={folder}") == 1
    assert len(jobs.lines) == 3
    assert f"{folder}/{NAMES[0]}: another process is at work in this folder" in capfd.readouterr().err
    assert (folder / NAMES[0] / "metrics.csv").exists()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("resume={tmp}/nowhere", "resume={tmp}/nowhere: the folder of a multirun (with multirun.yaml) expected"),
        ("resume={folder} steps=3", "steps=3 would make other jobs; that sweep has ablation=grpo,full seed=0,1: give"),
        ("resume={folder} hydra.sweep.dir={tmp}", "hydra.sweep.dir={tmp} resume={folder}: one folder expected"),
        ("resume={folder} seed=0,x ablation=bogus", "ablation=bogus: one of "),
    ],
)
def test_what_a_sweep_cannot_go_on_with_is_one_line(line, message, jobs, folder, tmp_path, capfd):
    assert sweep(*SWEEP, f"hydra.sweep.dir={folder}") == 0
    jobs.lines = []
    capfd.readouterr()
    assert sweep(*line.format(tmp=tmp_path, folder=folder).split()) == 1
    err = capfd.readouterr().err
    assert message.format(tmp=tmp_path, folder=folder) in err
    assert err.count("\n") == 1
    assert jobs.lines == []


def test_what_is_refused_does_not_stand_in_the_record_of_the_sweep(jobs, folder):
    assert sweep(*SWEEP, f"hydra.sweep.dir={folder}") == 0
    assert sweep("ablation=grpo,bogus", f"resume={folder}") == 1
    assert sweep("seed=0,1,2", f"resume={folder}") == 0
    assert len(jobs.lines) == 6


def test_other_jobs_under_the_same_name_are_refused(jobs, folder, capfd):
    named = ("hydra.sweep.subdir=${hydra.job.num}", f"hydra.sweep.dir={folder}", f"resume={folder}")
    assert sweep("ablation=grpo,full", *named) == 0
    assert sweep("ablation=sft,full", *named) == 1
    assert f"{folder}/0 is that of ablation=grpo; set hydra.sweep.dir or hydra.sweep.subdir" in capfd.readouterr().err


def test_a_multirun_given_to_a_single_run_and_another_commands_multirun_are_told_apart(jobs, folder, capfd):
    assert sweep(*SWEEP, f"hydra.sweep.dir={folder}") == 0
    assert hydra_app.run("fit", [f"resume={folder}"], fit) == 1
    assert f"that is a multirun; go on with it by edge-lightning fit -m resume={folder}" in capfd.readouterr().err
    assert hydra_app.run("validate", ["-m", f"resume={folder}"], None) == 1
    assert "that multirun is of edge-lightning fit; go on with it by that" in capfd.readouterr().err


def test_control_c_stops_the_sweep_with_one_line(jobs, folder, monkeypatch, capfd):
    def interrupted(line, log, *, label):
        raise KeyboardInterrupt

    monkeypatch.setattr(multirun, "run_process", interrupted)
    assert sweep(*SWEEP, f"hydra.sweep.dir={folder}") == 130
    err = capfd.readouterr().err
    assert err == f"edge-lightning fit: interrupted; go on with edge-lightning fit -m resume={shortest(folder)}\n"


@pytest.mark.parametrize(
    ("status", "seen", "told"),
    [
        (1, ["edge-lightning fit: no key bogus", "some later noise"], "no key bogus"),
        (
            1,
            ["Traceback (most recent call last):", "  line", "RuntimeError: the disk is full", ""],
            "RuntimeError: the disk is full",
        ),
        (-9, ["step 25/150"], "killed by SIGKILL"),
        (3, [], "exit status 3"),
    ],
)
def test_the_line_that_says_why_a_job_failed(status, seen, told):
    assert why(status, seen, "fit") == told


def test_a_job_is_a_process_whose_lines_are_shown_under_its_label_and_kept(tmp_path, capfd):
    log = tmp_path / "job.log"
    log.write_text("from before\n")
    assert run_process(["fit", "bogus=1"], log, label="job 7: ").startswith("no key bogus; ")
    kept = log.read_text().splitlines()
    assert kept[0] == "from before"
    assert kept[1].startswith("edge-lightning fit: no key bogus; ")
    assert capfd.readouterr().err == f"job 7: {kept[1]}\n"
    assert run_process(["fit", "--cfg", "job"], log, label="job 8: ") is None


def test_a_claim_ends_with_its_holder_and_ranks_share_one(tmp_path, monkeypatch):
    with claimed(tmp_path):
        with pytest.raises(UserError, match="another process is at work in this folder"), claimed(tmp_path):
            pass
        monkeypatch.setenv("LOCAL_RANK", "1")
        with claimed(tmp_path):
            pass
        monkeypatch.setenv("LOCAL_RANK", "0")
    with claimed(tmp_path):
        pass


@pytest.mark.slow
@pytest.mark.parametrize(
    "launcher",
    [
        (),
        ("hydra/launcher=joblib", "hydra.launcher.n_jobs=2"),
        ("hydra/launcher=submitit_local", "hydra.launcher.timeout_min=5"),
    ],
    ids=["one at a time", "joblib", "submitit_local"],
)
def test_a_real_sweep_goes_on_by_any_launcher(launcher, tmp_path):
    """One job fails, for want of a file, one finishes; then the file is there."""
    if launcher:
        pytest.importorskip(f"hydra_plugins.hydra_{launcher[0].split('=')[1].split('_')[0]}_launcher")
    row = {
        "problem": "Start with 1. Add 1. What is the result?",
        "answer": 2,
        "solution": "1 + 1 = 2. The answer is \\boxed{2}.",
    }
    files = [tmp_path / name for name in ("here.jsonl", "there.jsonl")]
    files[0].write_text(json.dumps(row) + "\n")
    line = [f"data.problem_set.path={','.join(map(str, files))}", "data=math_json", "data.problem_set.held_out_share=0"]
    line += ["engine=hf", "steps=1", "evaluation=none", "rollout.problems_per_step=1", "rollout.group_size=2"]
    line += ["hydra.sweep.subdir=${hydra.job.num}", f"hydra.sweep.dir={tmp_path / 'sweep'}", *launcher]
    _, err = finish(process("fit", "-m", *line), status=1)
    assert "there.jsonl: a readable file expected, No such file" in err
    assert f"({shortest(tmp_path / 'sweep' / '1' / 'job.log')})" in err
    assert summary(tmp_path / "sweep" / "0")["status"] == "finished"
    begun = summary(tmp_path / "sweep" / "0")
    files[1].write_text(json.dumps(row) + "\n")
    out, _ = finish(process("fit", "-m", f"resume={tmp_path / 'sweep'}"))
    assert [line.split()[0] for line in out.splitlines()[-2:]] == ["finished", "finished"]
    assert summary(tmp_path / "sweep" / "0") == begun
    assert (tmp_path / "sweep" / "1-1" / "job.log").exists()


@pytest.mark.slow
def test_control_c_reaches_the_job_which_ends_in_order(tmp_path):
    started = process(
        "fit", "-m", "ablation=grpo,full", "steps=5000", "engine=hf", "evaluation=none", f"hydra.sweep.dir={tmp_path}"
    )
    first = tmp_path / "ablation=grpo,engine=hf,evaluation=none,steps=5000"
    while not (first / "metrics.csv").exists() or len((first / "metrics.csv").read_text().splitlines()) < 2:
        assert started.poll() is None
    started.send_signal(signal.SIGINT)
    _, err = finish(started, status=130)
    assert (
        err.splitlines()[-1]
        == f"edge-lightning fit: interrupted; go on with edge-lightning fit -m resume={shortest(tmp_path)}"
    )
    assert summary(first)["status"] == "interrupted"
    assert f"go on with edge-lightning fit resume={first}" in (first / "job.log").read_text()
    assert [path.name for path in Path(tmp_path).iterdir() if path.is_dir()] == [first.name]
