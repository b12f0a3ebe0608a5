"""The command line: `edge-lightning COMMAND [overrides]`."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path

COMMANDS = ("fit", "validate", "analyze", "screen", "grade", "report", "inspect")  # each a function in a module of its name

USAGE = """\
usage: edge-lightning COMMAND [overrides]

commands:
  fit        train a policy              edge-lightning fit ablation=full seed=0
             a sweep                     edge-lightning fit -m ablation=grpo,full seed=0,1,2
             go on with a run            edge-lightning fit resume=DIR
  validate   evaluate a checkpoint       edge-lightning validate ckpt=DIR
             on the five benchmarks      edge-lightning validate ckpt=DIR evaluation=paper_suite
             go on with a validation     edge-lightning validate resume=DIR
  analyze    look at token entropies     edge-lightning analyze ckpt=DIR analysis=resampling
             look at what runs have left edge-lightning analyze RUN
  screen     make a training set         edge-lightning screen data.problem_set.path=POOL model.path=DIR
  grade      rewards for a file          edge-lightning grade FILE.jsonl
  report     compare runs                edge-lightning report DIR
  inspect    a group token by token      edge-lightning inspect RUN step=10 problem=ID

edge-lightning COMMAND --help lists a command's options.
"""


def main() -> None:
    """Entry point. Exit status: 0 done, 1 failed with one line that says why, 2 no such command."""
    arguments = sys.argv[1:]
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE, end="")
        raise SystemExit(0 if arguments else 2)
    command, *rest = arguments
    if command not in COMMANDS:
        print(f"edge-lightning: no command {command!r}; one of {', '.join(COMMANDS)} expected", file=sys.stderr)
        raise SystemExit(2)
    if command == "analyze" and rest and (Path(rest[0]).is_dir() or not re.search("^-|=", rest[0])):
        command = "analyze_records"  # of a folder, where ckpt=... is of a policy
    task = getattr(import_module(f"edge_lightning.cli.{command}"), command)
    from edge_lightning.cli.hydra_app import run

    raise SystemExit(run(command, rest, task))
