"""Where vLLM's log goes."""

import logging
from pathlib import Path

import pytest

from edge_lightning.engine.engine_log import LAST_LINES, EngineLog


@pytest.fixture
def log(tmp_path, monkeypatch):
    for name in ("VLLM_CONFIGURE_LOGGING", "VLLM_LOGGING_CONFIG_PATH", "VLLM_LOGGING_LEVEL"):
        monkeypatch.delenv(name, raising=False)
    made = EngineLog(tmp_path / "vllm.log")
    yield made
    made.close()


def test_it_goes_into_the_file_and_not_on_the_terminal(log, capfd):
    logging.getLogger("vllm.engine").info("loaded")
    logging.getLogger("vllm.engine").debug("too much")
    assert log.path.read_text().endswith("INFO vllm.engine: loaded\n")
    assert capfd.readouterr() == ("", "")


def test_a_logger_that_was_disabled_before_is_heard(tmp_path, monkeypatch):
    monkeypatch.setattr(logging.getLogger("vllm"), "disabled", True)
    made = EngineLog(tmp_path / "vllm.log")
    logging.getLogger("vllm").info("loaded")
    made.close()
    assert made.path.read_text().endswith("loaded\n")


def test_its_last_lines_are_shown_where_the_engine_fails(log, capfd):
    for number in range(LAST_LINES + 5):
        logging.getLogger("vllm").info("line %d", number)
    with pytest.raises(RuntimeError, match="gone"), log.shown_on_failure():
        raise RuntimeError("gone")
    shown = capfd.readouterr().err.splitlines()
    assert shown[0] == f"vLLM failed; the last lines of {log.path}:"
    assert [line.rsplit(" ", 1)[1] for line in shown[1:]] == [str(n) for n in range(5, LAST_LINES + 5)]


def test_where_nothing_fails_nothing_is_shown(log, capfd):
    logging.getLogger("vllm").info("loaded")
    with log.shown_on_failure():
        pass
    assert capfd.readouterr().err == ""


def test_a_closed_log_is_left_alone(log):
    log.close()
    logging.getLogger("vllm").warning("late")
    assert not log.path.exists()


def test_what_the_user_has_set_holds(tmp_path, monkeypatch):
    monkeypatch.setenv("VLLM_CONFIGURE_LOGGING", "1")
    assert EngineLog(tmp_path / "vllm.log").handler is None


def test_a_full_disk_stops_nothing_and_is_not_told_by_every_line(log, capfd):
    assert Path("/dev/full").is_char_device(), "else a file would be made there"
    log.path.symlink_to("/dev/full")
    for number in range(50):
        logging.getLogger("vllm").info("line %d", number)
    log.close()
    log.close()
    assert capfd.readouterr() == ("", "")


def test_a_log_that_cannot_be_opened_stops_nothing(log, capfd):
    log.path.mkdir()
    logging.getLogger("vllm").info("loaded")
    log.close()
    assert capfd.readouterr() == ("", "")
