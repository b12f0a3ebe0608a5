"""What a process keeps from step to step has a bound that does not depend on how many lengths its texts have had."""

import os
import re
import subprocess
import sys

import pytest

pytest.importorskip("torch")
PRODUCTS = """
from edge_lightning.cli.process import prepare
prepare(1)
import torch
weight = torch.ones(8, 8)
for rows in (*{lengths}, *{lengths}):
    torch.ops.mkldnn._linear_pointwise(torch.ones(rows, 8), weight, None, "none", [], "")
"""


def kept(lengths: range, **environment: str) -> tuple[int, int]:
    """Of two rounds over these lengths of text: matrix products that oneDNN made, and that it had kept."""
    line = [sys.executable, "-c", PRODUCTS.format(lengths=lengths)]
    said = subprocess.run(line, env={**os.environ, "ONEDNN_VERBOSE": "all", **environment}, capture_output=True, text=True)
    found = re.findall("primitive,create:cache_(hit|miss)", said.stdout)
    assert len(found) == 2 * len(lengths), said.stderr
    return found.count("miss"), found.count("hit")


def test_few_lengths_are_kept_and_many_are_not():
    assert kept(range(1, 17)) == (16, 16)
    assert kept(range(1, 101)) == (200, 0)  # the oldest goes, and it is the next


def test_who_sets_the_bound_has_it():
    assert kept(range(1, 101), ONEDNN_PRIMITIVE_CACHE_CAPACITY="1024") == (100, 100)
