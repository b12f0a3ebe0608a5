"""The program as a process: its status, its help, and the configuration that it prints."""

import re
import subprocess
import sys

import pytest
import yaml

from edge_lightning.cli import COMMANDS, USAGE, hydra_app
from edge_lightning.cli.hydra_app import CONF, help_text

ABLATIONS = sorted(path.stem for path in CONF.glob("ablation/*.yaml"))
TASKS = ("fit", "validate", "analyze", "screen", "grade", "report", "inspect")


def command(*arguments):
    return subprocess.run([sys.executable, "-m", "edge_lightning", *arguments], capture_output=True, text=True)


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (
            ["train"],
            2,
            "edge-lightning: no command 'train'; one of fit, validate, analyze, screen, grade, report, inspect expected\n",
        ),
        (
            ["fit", "ablation=none"],
            1,
            f"edge-lightning fit: ablation=none: one of {', '.join(ABLATIONS)} expected\n",
        ),
    ],
)
def test_a_process_that_refuses_says_so_in_one_line(arguments, status, message):
    done = command(*arguments)
    assert (done.returncode, done.stdout, done.stderr) == (status, "", message)


@pytest.mark.slow
def test_a_process_that_refuses_after_it_has_loaded_everything_says_one_line_too(tmp_path):
    done = command("fit", "rollout.group_size=1", f"hydra.run.dir={tmp_path}")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("edge-lightning fit: rollout.group_size=1: at least 2 expected")
    assert done.stderr.count("\n") == 1


def test_help_of_the_program_is_short_and_names_every_command():
    done = command("--help")
    assert (done.returncode, done.stdout) == (0, USAGE)
    assert len(USAGE.splitlines()) < 50
    named = re.findall(r"^  (\w+) {2,}", USAGE, re.MULTILINE)
    assert named == list(TASKS) == list(COMMANDS)
    assert {*named, "analyze_records"} == {path.stem for path in CONF.glob("*.yaml")}  # that one is analyze of a folder


def listed(name):
    if "groups:\n" not in help_text(name):
        return {}
    groups = help_text(name).split("groups:\n")[1].split("\n\n")[0]
    return {line.split()[0]: line.split(maxsplit=1)[1].split(", ") for line in groups.splitlines()}


@pytest.mark.parametrize("name", TASKS)
def test_help_of_a_command_is_short_and_lists_what_there_is(name, capfd):
    assert hydra_app.run(name, ["--help"], None) == 0
    assert capfd.readouterr().out == help_text(name)
    assert len(help_text(name).splitlines()) < 50
    defaults = [
        next(iter(entry)) for entry in yaml.safe_load((CONF / f"{name}.yaml").read_text())["defaults"] if entry != "_self_"
    ]
    groups = {group for group in defaults if not group.startswith("override ")}
    assert listed(name).keys() == groups
    for group, options in listed(name).items():
        assert options == sorted(path.stem for path in (CONF / group).glob("*.yaml"))


def test_every_key_that_a_usage_line_shows_exists(capfd):
    for line in re.findall(rf"edge-lightning ({'|'.join(COMMANDS)}) (.*)", USAGE):
        overrides = [word for word in line[1].split() if "=" in word and not word.startswith("resume=")]
        overrides = [re.sub(",.*", "", word) for word in overrides]
        assert hydra_app.run(line[0], [*overrides, "--cfg", "job"], None) == 0
    capfd.readouterr()


def test_cfg_job_prints_the_whole_configuration_resolved(capfd):
    assert hydra_app.run("fit", ["--cfg", "job", "seed=3", "ablation=force_r"], None) == 0
    printed = capfd.readouterr().out
    assert "${" not in printed
    cfg = yaml.safe_load(printed)
    assert cfg["name"] == "force_r-arithmetic_hard-tiny-seed3"
    assert cfg["datamodule"]["seed"] == 3
    assert (cfg["correction"]["reflect"], cfg["correction"]["answer"]) == (1.0, 0.0)
    assert cfg["credit"] == {"_target_": "edge_lightning.credit.none.NoCredit"}
    assert cfg["correction"]["reflection_limit"] == cfg["rollout"]["reflection_limit"]
