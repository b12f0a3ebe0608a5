"""A few hundred texts and files that nobody wrote; tests/faults/fuzz.py runs as many as one likes."""

import pytest

from tests.faults.fuzz import TARGETS, fuzz


@pytest.mark.parametrize("name", TARGETS)
def test_strangers_text_is_read_or_refused(name):
    fuzz(name, 150)
