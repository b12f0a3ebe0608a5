"""The report as one HTML file that needs nothing beside it: pictures are in it, and no network is asked."""

from __future__ import annotations

import base64
import html
import re

from markdown_it import MarkdownIt

from edge_lightning.report.style import DPI, Picture

STYLE = """
:root { color-scheme: light dark; --ink: #1f2328; --soft: #59636e; --line: #d9dee3; --paper: #fff; --tint: #f5f7f9;
  --link: #0a58ca; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ec; --soft: #9aa4ae; --line: #363d45; --paper: #14181c; --tint: #1c2127; --link: #7ab0ff; }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, "Segoe UI", "DejaVu Sans", sans-serif; }
.page { display: grid; grid-template-columns: 15rem minmax(0, 72rem); gap: 2.5rem; max-width: 92rem; margin: 0 auto;
  padding: 2rem; }
nav { position: sticky; top: 2rem; align-self: start; max-height: calc(100vh - 4rem); overflow-y: auto; font-size: .875rem; }
nav ol { list-style: none; margin: 0; padding: 0; }
nav li { margin: .15rem 0; }
nav .deep { padding-left: .9rem; }
nav a { color: var(--soft); text-decoration: none; }
nav a:hover { color: var(--link); }
h1 { font-size: 1.75rem; line-height: 1.2; margin: 0 0 1rem; }
h2 { font-size: 1.35rem; margin: 3rem 0 1rem; padding-bottom: .3rem; border-bottom: 1px solid var(--line); }
h3 { font-size: 1.1rem; margin: 2.2rem 0 .8rem; }
a { color: var(--link); }
code { background: var(--tint); border-radius: 4px; padding: .1em .35em; font-size: .875em; overflow-wrap: anywhere; }
.scroll { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; font-size: .875rem; font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .8rem; border-bottom: 1px solid var(--line); white-space: nowrap; text-align: left; }
th { color: var(--soft); font-weight: 600; border-bottom-width: 2px; }
tbody tr:hover { background: var(--tint); }
img { display: block; max-width: 100%; height: auto; background: #fff; border: 1px solid var(--line); border-radius: 8px;
  padding: 6px; }
em { color: var(--soft); font-size: .875rem; }
details { border: 1px solid var(--line); border-radius: 8px; padding: .5rem 1rem; margin: .6rem 0; }
summary { cursor: pointer; font-weight: 600; }
li { margin: .35rem 0; }
@media (max-width: 60rem) { .page { display: block; padding: 1rem; }
  nav { position: static; max-height: none; margin-bottom: 2rem; } }
@media print { nav { display: none; } .page { display: block; } }
"""


def page(markdown: str, pictures: list[Picture]) -> str:
    """A whole HTML document from the report's Markdown, in which names of runs are text, whatever signs they have."""
    sources = {picture.file: picture.png for picture in pictures}
    body = MarkdownIt("commonmark", {"html": False}).enable("table").render(markdown)
    body = re.sub(r"<p>&lt;details&gt;&lt;summary&gt;(.*?)&lt;/summary&gt;</p>", r"<details><summary>\1</summary>", body)
    body = body.replace("<p>&lt;/details&gt;</p>", "</details>")
    body = re.sub(r'<img src="([^"]+)"', lambda found: _inlined(found, sources), body)
    body = body.replace("<table>", '<div class="scroll"><table>').replace("</table>", "</table></div>")
    contents: list[str] = []

    def anchored(found: re.Match) -> str:
        level, text = found[1], found[2]
        anchor = f"s{len(contents)}"
        kind = "deep" if level == "3" else "top"
        contents.append(f'<li class="{kind}"><a href="#{anchor}">{text}</a></li>')
        return f'<h{level} id="{anchor}">{text}</h{level}>'

    body = re.sub(r"<h([23])>(.*?)</h\1>", anchored, body)
    title = html.escape(re.sub(r"\\(\W|_)", r"\1", markdown.split("\n", 1)[0].removeprefix("# ")))
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        f'<div class="page">\n<nav><ol>\n{chr(10).join(contents)}\n</ol></nav>\n'
        f"<main>\n{body}</main>\n</div>\n</body>\n</html>\n"
    )


def _inlined(found: re.Match, sources: dict[str, bytes]) -> str:
    """A picture's bytes, and 100 pixels of a page an inch, so that letters are equally large in all; others are left."""
    png = sources.get(html.unescape(found[1]))
    if png is None:
        return found[0]
    width = int.from_bytes(png[16:20], "big") * 100 // DPI
    return f'<img width="{width}" src="data:image/png;base64,{base64.b64encode(png).decode()}"'
