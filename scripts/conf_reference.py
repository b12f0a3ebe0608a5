"""Write docs/conf.md from the files in conf/: python scripts/conf_reference.py. A test fails where the two differ."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LINE = re.compile(r"^(?P<indent> *)(?P<key>[\w@/]+):(?: +(?P<value>[^#\s].*?))?(?: +# (?P<comment>.*))?$")
HEAD = """\
# Configuration groups

Made from the files in conf/ by scripts/conf_reference.py; don't edit it. An option is chosen by `group=option`, a key is set
by `group.key=value`, and `edge-lightning fit --cfg job` prints what a run would have. `${...}` follows another key.
"""


def entries(path: Path) -> list[tuple[str, str, str]]:
    """Dotted key, value as it is written, comment; without what Hydra alone reads, of every key that has a value."""
    found, above = [], {}
    for line in path.read_text().splitlines():
        match = LINE.match(line)
        if match is None or match["key"] in ("defaults", "hydra", "_target_", "_partial_"):
            continue
        depth = len(match["indent"])
        above = {d: key for d, key in above.items() if d < depth} | {depth: match["key"]}
        if match["value"] is not None:
            key = ".".join(above[d] for d in sorted(above))
            found.append((key, match["value"].strip(), match["comment"] or ""))
    return found


def about(path: Path) -> str:
    """The comment that a file begins with."""
    lines = []
    for line in path.read_text().splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.removeprefix("#").strip())
    return " ".join(line for line in lines if not line.startswith("@package"))


def section(folder: Path) -> list[str]:
    """A group: its options, then its keys with the values that options give them."""
    name = folder.relative_to(ROOT / "conf").as_posix()
    options = {path.stem: path for path in sorted(folder.glob("*.yaml"))}
    text = [f"## {name}", "", "| option | is |", "|---|---|"]
    text += [f"| `{option}` | {cell(about(path))} |" for option, path in options.items()]
    keys: dict[str, dict[str, str]] = {}
    comments: dict[str, dict[str, str]] = {}
    for option, path in options.items():
        for key, value, comment in entries(path):
            keys.setdefault(key, {})[option] = value
            comments.setdefault(key, {}).update({option: comment} if comment else {})
    if keys:
        text += ["", f"| key of `{name}` | value | is |", "|---|---|---|"]
        text += [f"| `{key}` | {values(own, '`')} | {values(comments[key], '')} |" for key, own in keys.items()]
    return [*text, ""]


def values(by_option: dict[str, str], quote: str) -> str:
    """One value where all that have one agree, else each with its options; `quote` stands around a value."""
    alike: dict[str, list[str]] = {}
    for option, value in by_option.items():
        alike.setdefault(f"{quote}{cell(value)}{quote}", []).append(option)
    if len(alike) == 1:
        return next(iter(alike))
    return "; ".join(f"{', '.join(those)}: {value}" for value, those in alike.items())


def cell(text: str) -> str:
    return text.replace("|", r"\|")


def reference() -> str:
    """The whole page."""
    folders = sorted(folder for folder in (ROOT / "conf").rglob("*") if folder.is_dir() and any(folder.glob("*.yaml")))
    return "\n".join([HEAD, *(line for folder in folders for line in section(folder))])


if __name__ == "__main__":
    (ROOT / "docs" / "conf.md").write_text(reference())
