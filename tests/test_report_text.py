"""Texts from outside stand in a report letter for letter, whatever Markdown and HTML would make of them."""

import html
import json
import re

import pytest
from markdown_it import MarkdownIt

from edge_lightning.report.page import page
from edge_lightning.report.style import Picture
from edge_lightning.report.text import cell, code, plain
from tests.report_records import CURVES, write_run, written

HOSTILE = (
    "![](fig1.png)",
    "![a][b] [b](http://x) <http://x>",
    "[x]: http://y",
    "<b>bold</b> <!-- gone --> <?php ?> &lt; &#60;",
    "a | b\n--- | ---\n1 | 2",
    "`code` ``more`` `",
    "**loud** _soft_ __x__ ~~no~~ a_b_c",
    r"\[x](y) \| \<b> \\",
    "# heading",
    "- item",
    "> said",
    "ends\r\n\n# so",
)
CONTROLS = "\x1b[2J\x07\x9b\u202e"


def rendered(markdown):
    return MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(markdown)


def words(text):
    return " ".join(text.split())


@pytest.mark.parametrize("text", HOSTILE)
def test_a_text_is_shown_letter_for_letter(text):
    assert rendered(f"- {plain(text)}") == f"<ul>\n<li>{html.escape(words(text)).replace('&#x27;', chr(39))}</li>\n</ul>\n"
    assert rendered(code(text)) == f"<p><code>{html.escape(words(text))}</code></p>\n"


@pytest.mark.parametrize("text", HOSTILE)
def test_a_cell_stays_a_cell_without_links_and_html(text):
    body = rendered(f"| a | b |\n| --- | --- |\n| {cell(text)} | second |")
    assert body.count("<td>") == 2
    tags = set(re.findall(r"<(\w+)", body))
    assert tags <= {"table", "thead", "tbody", "tr", "th", "td", "strong", "em", "s"}
    assert words(text) == words(html.unescape(re.sub(r"<.*?>", "", body.split("<td>")[1]))) or tags & {"strong", "em", "s"}


def test_control_characters_are_spelled_out():
    for made in (plain, code, cell):
        assert made(f"a{CONTROLS}b").replace("\\\\", "\\").replace(r"\[", "[").strip("`") == r"a\x1b[2J\x07\x9b\u202eb"


def test_a_picture_that_is_not_the_reports_own_is_left_alone():
    body = page("# t\n\n![](fig1.png)\n\n![](own.png)", [Picture("own.png", bytes(24), "", "")])
    assert '<img src="fig1.png"' in body
    assert body.count('src="data:image/png;base64,') == 1


def test_a_log_and_a_damaged_record_with_markup_are_text(tmp_path):
    write_run(tmp_path / "good", metrics=CURVES)
    failed = write_run(tmp_path / "failed", seed=1, status="![s](s.png)", metrics=CURVES)
    (failed / "job.log").write_text("edge-lightning fit: ![](fig1.png) <img src=x> [a](http://b)\n")
    damaged = write_run(tmp_path / "a`![](d.png)`b", seed=2, metrics=CURVES)
    (damaged / "summary.json").write_text(json.dumps({"seconds": {"![](fig2.png)<i>": None}}))
    write_run(tmp_path / "named", ablation="![n](n.png) [l](http://l)", metrics=CURVES)
    written(tmp_path)
    body = (tmp_path / "report" / "report.html").read_text()
    assert all(source.startswith("data:image/png") for source in re.findall(r'<img [^>]*src="([^"]*)"', body))
    assert all(target.startswith("#") for target in re.findall(r'href="([^"]*)"', body))
    assert "![](fig1.png) &lt;img src=x&gt; [a](http://b)" in body
    assert "![](fig2.png)&lt;i&gt;" in body
    assert "<code>a`![](d.png)`b/summary.json</code>" in body
    assert "![n](n.png) [l](http://l)" in body
