"""offline=true: nothing is asked of another machine, and what would be is refused in one line; what is here goes on."""

import os
import socket
import subprocess
import sys
import urllib.request

import pytest

from edge_lightning.cli.process import prepare
from edge_lightning.errors import UserError
from edge_lightning.hub import look_on_disk_where_nothing_answers

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
"""


def test_other_machines_are_refused_and_this_one_is_not():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert [line.split(" was asked for")[0] for line in done.stdout.splitlines()] == [
        "offline=true: 192.0.2.1",
        "offline=true: 2001:db8::1",
        "offline=true: huggingface.co",
    ]


HUB = """
import os, socket, sys
for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE", "http_proxy", "https_proxy", "all_proxy"):
    os.environ.pop(name, None)
    os.environ.pop(name.upper(), None)
asked = []
sys.addaudithook(lambda event, found: event in ("socket.connect", "socket.getaddrinfo") and asked.append(found))
from edge_lightning.cli.process import prepare
prepare(1, offline={offline})
import datasets  # before the hub's name is looked for
def nowhere(*given, **named):
    asked.append(given)
    raise socket.gaierror(-2, "Name or service not known")
socket.getaddrinfo = nowhere
from edge_lightning.data.table import ProblemTable
from edge_lightning.errors import UserError
from edge_lightning.policy import Policy
for load in (lambda: ProblemTable("someone/a-set"), lambda: Policy.load("someone/a-model")):
    try:
        load()
    except UserError as error:
        print(error)
print(len(asked))
"""


@pytest.mark.slow
@pytest.mark.parametrize(("offline", "times"), [(True, 0), (False, 1)], ids=["offline", "no network"])
def test_a_hub_id_is_one_line_and_the_hub_is_asked_once_at_most(offline, times):
    done = subprocess.run([sys.executable, "-c", HUB.format(offline=offline)], capture_output=True, text=True, timeout=300)
    of_data, of_model, asked = done.stdout.splitlines()
    assert of_data.startswith("someone/a-set: a file, a folder that datasets saved, or a data set of the hub expected, none")
    assert of_model.startswith("model.path=someone/a-model: a transformers folder or hub id expected")
    assert int(asked) == times
    assert "Retrying" not in done.stderr


@pytest.mark.parametrize("way", ["by name", "by proxy"])
def test_a_hub_that_may_answer_is_asked(monkeypatch, way):
    from huggingface_hub import constants

    known = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.1", 443))]
    asked = []

    def look_up(*given):
        asked.append(given)
        if way == "by proxy":
            raise socket.gaierror(-2, "Name or service not known")
        return known

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    monkeypatch.setattr(urllib.request, "getproxies", lambda: {"https": "http://proxy:80"} if way == "by proxy" else {})
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", "https://hub.example")
    look_on_disk_where_nothing_answers()
    assert constants.HF_HUB_OFFLINE is False
    assert asked == ([("hub.example", 443)] if way == "by name" else [])


def test_online_nothing_is_touched(monkeypatch):
    for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    prepare(1)
    assert "HF_DATASETS_OFFLINE" not in os.environ
    socket.getaddrinfo("127.0.0.1", 80)
    with pytest.raises(UserError, match="offline=perhaps: true or false expected"):
        prepare(1, offline="perhaps")
