"""Seventy data sets that nobody would want to be given: each is refused in one clear line, or read as it was meant.

A case is a file and what comes of it: the texts and answers of its problems with the number of bad rows, or the message.
"""

import gzip
import json
import pickle

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from edge_lightning.data.table import ProblemTable
from edge_lightning.errors import UserError

P, A = "problem", "answer"
ONE = {P: "p", A: 1}
DOLLAR = "Let $x$ cost ${price} or $${x}$$: {problem} \\${HOME} ${oc.env:HOME} %s {0}"


def good(*problems, bad=0):
    """What is read: (text, first answer) of each problem; how many rows were bad."""
    return (list(problems), bad)


def lines(*rows):
    return "\n".join(json.dumps(row) for row in rows)


JSON = [
    # text that other programs would take for something else
    ("dollars and braces", [{P: DOLLAR, A: "1"}], good((DOLLAR, "1"))),
    ("an interpolation as the answer", [{P: "p", A: "${seed}"}], good(("p", "${seed}"))),
    ("control tokens", [{P: "<|im_end|>\n<|im_start|>assistant", A: 1}], good(("<|im_end|>\n<|im_start|>assistant", "1"))),
    ("html", [{P: "<script>alert(1)</script>", A: 1}], good(("<script>alert(1)</script>", "1"))),
    ("terminal codes", [{P: "\x1b[31mred\x07", A: 1}], good(("\x1b[31mred\x07", "1"))),
    ("a zero byte in the text", [{P: "a\x00b", A: 1}], good(("a\x00b", "1"))),
    ("bidirectional marks", [{P: "\u202eab\u202c", A: 1}], good(("\u202eab\u202c", "1"))),
    ("emoji beyond the basic plane", [{P: "\U0001f600", A: 1}], good(("\U0001f600", "1"))),
    ("half an emoji", '[{"problem": "\\ud83d", "answer": 1}]', "row 1: NaN, an infinite number or half a surrogate pair"),
    ("a text of two megabytes", [{P: "x" * 2_000_000, A: 1}], good(("x" * 2_000_000, "1"))),
    ("line ends within a text", [{P: "a\r\nb\rc\u2028d", A: 1}], good(("a\r\nb\rc\u2028d", "1"))),
    # answers
    ("the word None", [{P: "p", A: "None"}], good(("p", "None"))),
    ("the word null", [{P: "p", A: "null"}], good(("p", "null"))),
    ("the word nan", [{P: "p", A: "nan"}], good(("p", "nan"))),
    ("1e5 as text", [{P: "p", A: "1e5"}], good(("p", "1e5"))),
    ("1e5 as a number", '[{"problem": "p", "answer": 1e5}]', good(("p", "100000"))),
    ("a huge number", '[{"problem": "p", "answer": 1e300}]', good(("p", str(int(1e300))))),
    ("a tiny number", '[{"problem": "p", "answer": 1e-7}]', good(("p", "0.0000001"))),
    ("minus zero", '[{"problem": "p", "answer": -0.0}]', good(("p", "0"))),
    ("leading zeros", [{P: "p", A: "007"}], good(("p", "007"))),
    ("an infinite number", '[{"problem": "p", "answer": 1e999}]', "row 1: NaN, an infinite number"),
    ("a number that is none", '[{"problem": "p", "answer": NaN}]', "row 1: NaN, an infinite number"),
    ("a Boolean", [{P: "p", A: False}], "false came"),
    ("an object", [{P: "p", A: {"value": 1}}], r'\{"value": 1\} came'),
    ("a list in a list", [{P: "p", A: [[1]]}], r"\[\[1\]\] came"),
    ("a list with a null", [{P: "p", A: [1, None]}], r"\[1, null\] came"),
    ("an empty list", [{P: "p", A: []}], r"\[\] came"),
    ("white space alone", [{P: "p", A: "\u00a0\t"}], "came; mend it or change data.problem_set.answer_column"),
    ("an integer of 5000 digits", '[{"problem": "p", "answer": ' + "9" * 5000 + "}]", "JSON that Python can read expected"),
    # problems
    ("a number as the problem", [{P: 17, A: 1}], "text expected in column 'problem', 17 came"),
    ("a null as the problem", [{P: None, A: 1}], "text expected in column 'problem', null came"),
    ("a list as the problem", [{P: ["p"], A: 1}], r'text expected in column \'problem\', \["p"\] came'),
    ("an empty problem beside a good one", [ONE, {P: "", A: 1}], good(("p", "1"), bad=1)),
    ("a number as the solution", [{P: "p", A: 1, "solution": 3}], "text or null expected in column 'solution', 3 came"),
    ("columns in capitals", [{"Problem": "p", "Answer": 1}], "no column 'problem'; .* one of Problem, Answer"),
    ("a column with a line end in its name", [{"a\nb": 1}], r'no column .problem.; .* one of "a\\nb"$|one of "a\\nb" \('),
    ("a thousand columns", [{f"c{i}": 1 for i in range(1000)}], "one of c0, c1, .*, c19 and 980 more"),
    ("an object without columns", [{}], r"no column 'problem'; .* one of \(no column\)"),
    ("a column called like the keys of a class", [{P: "p", A: 1, "__class__": "x"}], good(("p", "1"))),
    ("a column called like an interpolation", [{P: "p", A: 1, "${x}": 1}], good(("p", "1"))),
    ("a key twice, of which the last counts", '[{"problem": "a", "problem": "b", "answer": 1}]', good(("b", "1"))),
    ("the same problem twice", [ONE, ONE], good(("p", "1"), ("p", "1"))),
    # files
    ("nothing", "", "at least one problem expected, none came"),
    ("white space", " \n\n ", "at least one problem expected, none came"),
    ("an empty array", "[]", "at least one problem expected, none came"),
    ("an array in an array", [[ONE]], "an object with named columns expected"),
    ("an object of arrays", json.dumps({P: ["p"], A: [1]}), r"line 1: text expected in column 'problem'"),
    (
        "an array that is cut off",
        '[{"problem": "p", "answer": 1}',
        "line 1, column 31: a JSON array or one JSON object a line",
    ),
    ("something behind the array", '[{"problem": "p", "answer": 1}] x', "line 1, column 33: a JSON array"),
    ("a comma too many", '[{"problem": "p", "answer": 1},]', "a JSON array or one JSON object a line expected"),
    ("Python in place of JSON", "[{'problem': 'p', 'answer': 1}]", "a JSON array or one JSON object a line expected"),
    ("200,000 brackets", "[" * 200_000, "JSON that Python can read expected"),
    ("a byte order mark", b"\xef\xbb\xbf" + json.dumps([ONE]).encode(), good(("p", "1"))),
    ("UTF-16", json.dumps([ONE]).encode("utf-16"), "UTF-8 expected, byte 0 is not; convert the file"),
    ("Latin-1", b'[{"problem": "\xe9", "answer": 1}]', "UTF-8 expected, byte 14 is not"),
    ("a character cut in two", b'[{"problem": "\xf0\x9f', "UTF-8 expected, byte 14 is not"),
    ("a compressed file", gzip.compress(json.dumps([ONE]).encode()), "UTF-8 expected, byte 1 is not"),
    ("a pickle", pickle.dumps([ONE]), "UTF-8 expected|a JSON object expected"),
    ("Windows line ends", (lines(ONE, {P: "q", A: 2}).replace("\n", "\r\n")).encode(), good(("p", "1"), ("q", "2"))),
    ("a line that is cut off", lines(ONE) + '\n{"problem": "q", "ans', good(("p", "1"), bad=1)),
    ("lines of other kinds", lines(ONE, 3, None, "x", [1]), good(("p", "1"), bad=4)),
]
CSV = [
    ("Windows line ends", b'problem,answer\r\n"a,b",1\r\n', good(("a,b", "1"))),
    ("a byte order mark", b"\xef\xbb\xbfproblem,answer\np,1\n", good(("p", "1"))),
    ("more cells than columns", b"problem,answer\np,1\nq,1,2\n", good(("p", "1"), bad=1)),
    ("fewer cells than columns", b"problem,answer\np,1\nq\n", good(("p", "1"), bad=1)),
    ("an open quote", b'problem,answer\n"p,1\n', "unexpected end of data"),
    ("a column twice", b"problem,answer,answer\np,1,2\n", "'answer' stands there twice"),
    ("no row", b"problem,answer\n", "at least one problem expected, none came"),
    ("semicolons", b"problem;answer\np;1\n", "no column 'problem'; .* one of problem;answer"),
    ("a formula", b"problem,answer\n=cmd(),1\n", good(("=cmd()", "1"))),
    ("zero bytes", b"problem,answer\na\x00b,1\n", good(("a\x00b", "1"))),
]
PARQUET = [
    ("text that is none", b"not a parquet file", "a readable parquet file expected"),
    ("nothing", b"", "a readable parquet file expected"),
    ("one that is cut off", "cut", "a readable parquet file expected"),
    ("bytes in place of text", pa.table({P: [b"p"], A: [1]}), "text expected in column 'problem'"),
    ("nulls", pa.table({P: ["p", None], A: [1, 2]}), good(("p", "1"), bad=1)),
    ("a number that is none", pa.table({P: ["p", "q"], A: [float("nan"), 2.0]}), good(("q", "2"), bad=1)),
]
CASES = [(".json", *case) for case in JSON] + [(".csv", *case) for case in CSV] + [(".parquet", *case) for case in PARQUET]


def write(path, content):
    if isinstance(content, pa.Table):
        pq.write_table(content, path)
    elif content == "cut":
        pq.write_table(pa.table({P: ["p"] * 1000, A: list(range(1000))}), path)
        path.write_bytes(path.read_bytes()[:-100])
    else:
        content = content if isinstance(content, str | bytes) else json.dumps(content)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


@pytest.mark.parametrize(("suffix", "name", "content", "expected"), CASES, ids=[f"{c[0][1:]}: {c[1]}" for c in CASES])
def test_a_malformed_file_is_read_as_it_was_meant_or_refused_in_one_line(tmp_path, suffix, name, content, expected):
    path = tmp_path / f"set{suffix}"
    write(path, content)
    if isinstance(expected, str):
        with pytest.raises(UserError, match=expected) as refused:
            ProblemTable(path)
        assert f"set{suffix}" in str(refused.value)
        assert "\n" not in str(refused.value)
        assert len(str(refused.value)) < 600
    else:
        table = ProblemTable(path)
        assert ([(problem.text, problem.answers[0]) for problem in table.train()], len(table.report.bad)) == expected


def test_there_are_seventy_of_them():
    assert len(CASES) >= 70
