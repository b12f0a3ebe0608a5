r"""The last closed \boxed{...} of a text."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_lightning.rewards.boxed import last_boxed


@pytest.mark.parametrize(
    ("text", "content"),
    [
        (r"\boxed{7}", "7"),
        (r"first \boxed{5}, no: \boxed{7}.", "7"),
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed {7}", "7"),
        ("\\boxed\n{7}", "7"),
        (r"\boxed{ 7 }", " 7 "),
        (r"\boxed{}", ""),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"\boxed{\{1}", r"\{1"),
        (r"\boxed{5} then \boxed{6", "5"),
        (r"\boxed{\boxed{7}}", "7"),
        (r"\boxed{6 or \boxed{7}", "7"),
        (r"{ \boxed{7}", "7"),
        (r"} \boxed{7} }", "7"),
        (r"\boxed{8", None),
        (r"\boxed 7", None),
        (r"\fbox{7}", None),
        (r"\boxeds{7}", None),
        ("\\\\boxed{7}", None),  # a line break and the word
        ("no box", None),
        ("", None),
        ("\\", None),
    ],
)
def test_the_last_closed_box_counts(text, content):
    assert last_boxed(text) == content


@given(st.text(alphabet="\\boxed{} 7\n"))
def test_what_is_found_stands_in_a_box(text):
    content = last_boxed(text)
    if content is not None:
        assert "{" + content + "}" in text
        assert last_boxed("\\boxed{" + content + "}") is not None


@given(st.text(), st.text(alphabet="abc 7"))
def test_a_closed_box_at_the_end_is_found_after_any_text(before, content):
    assert last_boxed(f"{before} \\boxed{{{content}}}") == content


@pytest.mark.parametrize("piece", ["\\boxed{", "\\boxed", "\\boxed ", "{", "}", "\\", "{}", "\\boxed{}", " "])
def test_time_is_linear_in_the_text(piece):
    text = "\\boxed" + piece * 300_000
    start = time.perf_counter()
    last_boxed(text)
    assert time.perf_counter() - start < 2.0  # 0.2 s or less; a quadratic search takes minutes
