"""What a job of a sweep writes to stderr is read to its end, whatever becomes of the log."""

import sys
from pathlib import Path
from threading import Thread

import pytest

from edge_lightning.cli import job_process

LINES = 2000
LINE = "x" * 100  # 200 KiB in all, and a pipe holds 64


@pytest.fixture
def talking(tmp_path, monkeypatch):
    """Jobs are a process that says LINES lines, whatever their command line is."""
    stand_in = tmp_path / "python"
    loop = f"for n in range({LINES}): print('{LINE}', file=sys.stderr)"
    stand_in.write_text(f"#!{sys.executable}\nimport sys\n{loop}\n")
    stand_in.chmod(0o755)
    monkeypatch.setattr(job_process.sys, "executable", str(stand_in))


def ended(log: Path) -> bool:
    """Whether the job ends within a minute."""
    job = Thread(target=lambda: job_process.run_process(["fit"], log, label="job: "), daemon=True)
    job.start()
    job.join(60)
    return not job.is_alive()


def test_what_a_job_says_is_kept_and_shown(talking, tmp_path, capfd):
    log = tmp_path / "job.log"
    log.write_text("before\n")
    assert ended(log)
    assert log.read_text() == "before\n" + f"{LINE}\n" * LINES
    assert capfd.readouterr().err == f"job: {LINE}\n" * LINES


@pytest.mark.parametrize("reason", ["No space left on device", "Is a directory"])
def test_a_log_that_cannot_be_written_holds_up_no_job_and_is_told_once(reason, talking, tmp_path, capfd):
    log = tmp_path / "job.log"
    if reason == "Is a directory":
        log.mkdir()
    else:
        assert Path("/dev/full").is_char_device(), "else a file would be made there"
        log.symlink_to("/dev/full")
    assert ended(log)
    said = capfd.readouterr().err.splitlines()
    told = [line for line in said if not line.startswith("job: ")]
    assert told == [f"{log}: a file that can be written expected; {reason}; the job goes on"]
    assert len(said) == LINES + 1
