"""offline=true: nothing is asked of another machine, and what would be is refused in one line; what is here goes on."""

import os
import socket
import subprocess
import sys

import pytest

from edge_lightning.cli.process import prepare
from edge_lightning.errors import UserError

CODE = """
import os, socket, sys
for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE"):
    os.environ.pop(name, None)
from edge_lightning.cli.process import prepare
prepare(1, offline=True)
listening = socket.create_server(("127.0.0.1", 0))
socket.create_connection(listening.getsockname()).close()
socket.getaddrinfo("localhost", 80)
for ask in (
    lambda: socket.create_connection(("192.0.2.1", 80), timeout=1),
    lambda: socket.create_connection(("2001:db8::1", 80), timeout=1),
    lambda: socket.getaddrinfo("huggingface.co", 443),
):
    try:
        ask()
    except ConnectionRefusedError as error:
        print(error)
{more}
"""


def run(more=""):
    done = subprocess.run([sys.executable, "-c", CODE.format(more=more)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_other_machines_are_refused_and_this_one_is_not():
    assert [line.split(" was asked for")[0] for line in run()] == [
        "offline=true: 192.0.2.1",
        "offline=true: 2001:db8::1",
        "offline=true: huggingface.co",
    ]


@pytest.mark.slow
def test_a_hub_id_is_one_line_and_the_hub_is_not_asked():
    more = """
from edge_lightning.data.table import ProblemTable
from edge_lightning.errors import UserError
from edge_lightning.policy import Policy
sys.addaudithook(lambda event, found: event in ("socket.connect", "socket.getaddrinfo") and print("ASKED", found))
for load in (lambda: ProblemTable("someone/a-set"), lambda: Policy.load("someone/a-model")):
    try:
        load()
    except UserError as error:
        print(error)
"""
    said = run(more)[3:]
    assert len(said) == 2, said
    assert (
        "someone/a-set: a file, a folder that datasets saved, or a data set of the hub expected, none was found" in said[0]
    )
    assert "model.path=someone/a-model: a transformers folder or hub id expected" in said[1]


def test_online_nothing_is_touched(monkeypatch):
    for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    prepare(1)
    assert "HF_DATASETS_OFFLINE" not in os.environ
    socket.getaddrinfo("127.0.0.1", 80)
    with pytest.raises(UserError, match="offline=perhaps: true or false expected"):
        prepare(1, offline="perhaps")
