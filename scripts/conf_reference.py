"""Write docs/conf.md from the files in conf/: python scripts/conf_reference.py. A test fails where the two differ."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
LINE = re.compile(r"^(?P<indent> *)(?P<key>[\w@/]+):(?: +(?P<value>[^#\s].*?))?(?: +# (?P<comment>.*))?$")
ALONE = ("model", "data", "evaluation", "evaluation/benchmark", "experiment")  # of so many options that all would be named
HEAD = """\
# Configuration

Made from the files in conf/ by scripts/conf_reference.py; don't edit it. An option is chosen by `group=option`, a key is set
by `group.key=value`, and `edge-lightning fit --cfg job` prints what a run would have. `${...}` follows another key. First
the commands with the keys that are in no group, then the groups.
"""


def entries(path: Path) -> list[tuple[str, str, str]]:
    """Dotted key, value as it is written, comment; of every key with one or the other that not only Hydra reads."""
    found, above = [], {}
    for line in path.read_text().splitlines():
        match = LINE.match(line)
        if match is None or match["key"] in ("_target_", "_partial_"):
            continue
        depth = len(match["indent"])
        above = {d: key for d, key in above.items() if d < depth} | {depth: match["key"]}
        if above[min(above)] in ("defaults", "hydra"):
            continue
        if match["value"] is not None or match["comment"]:
            key = ".".join(above[d] for d in sorted(above))
            found.append((key, (match["value"] or "").strip(), match["comment"] or ""))
    return found


def about(path: Path) -> str:
    """The comment that a file begins with."""
    lines = []
    for line in path.read_text().splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.removeprefix("#").strip())
    return " ".join(line for line in lines if not line.startswith("@package"))


def base(path: Path) -> str:
    """What an option says of the one that it is made from."""
    above = [name for name in (yaml.safe_load(path.read_text()) or {}).get("defaults", []) if isinstance(name, str)]
    named = [f"`{name}`" for name in above if name != "_self_" and path.with_name(f"{name}.yaml").exists()]
    return f" Else as {', '.join(named)}." if named else ""


def section(folder: Path) -> list[str]:
    """A group: its options, then its keys with the values that options give them."""
    name = folder.relative_to(ROOT / "conf").as_posix()
    options = {path.stem: path for path in sorted(folder.glob("*.yaml"))}
    text = [f"## {name}", "", "| option | is |", "|---|---|"]
    text += [f"| `{option}` | {cell(about(path) + base(path))} |" for option, path in options.items()]
    keys: dict[str, dict[str, str]] = {}
    comments: dict[str, dict[str, str]] = {}
    for option, path in options.items():
        for key, value, comment in entries(path):
            keys.setdefault(key, {})[option] = value
            comments.setdefault(key, {}).update({option: comment} if comment else {})
    if keys:
        text += ["", f"| key of `{name}` | value | is |", "|---|---|---|"]
        for key, own in keys.items():
            if any(value != option for option, value in own.items()):
                several = len(own) < len(options) and name not in ALONE
                text.append(f"| `{key}` | {values(own, '`', several=several)} | {values(comments[key], '')} |")
    return [*text, ""]


def command(path: Path) -> list[str]:
    """A command: what it is for, and its keys beside those of the groups."""
    usage, purpose = about(path).split(": ", 1)
    rows = [
        f"| `{key}` | {values({'': value}, '`')} | {cell(comment)} |"
        for key, value, comment in entries(path)
        if key != "command"
    ]
    return [f"## {usage}", "", purpose[0].upper() + purpose[1:], "", "| key | value | is |", "|---|---|---|", *rows, ""]


def values(by_option: dict[str, str], quote: str, *, several: bool = False) -> str:
    """One value where all agree, else each with its options; `quote` stands around a value.

    Args:
        several: name the options also where all that have one agree, since others have none.
    """
    alike: dict[str, list[str]] = {}
    for option, value in by_option.items():
        alike.setdefault(f"{quote}{cell(value)}{quote}" if value else "", []).append(option)
    if len(alike) == 1 and not several:
        return next(iter(alike))
    return "; ".join(f"{', '.join(those)}: {value}" for value, those in alike.items())


def cell(text: str) -> str:
    return text.replace("|", r"\|")


def reference() -> str:
    """The whole page."""
    folders = sorted(folder for folder in (ROOT / "conf").rglob("*") if folder.is_dir() and any(folder.glob("*.yaml")))
    commands = sorted((ROOT / "conf").glob("*.yaml"))
    parts = [*map(command, commands), *map(section, folders)]
    return "\n".join([HEAD, *(line for part in parts for line in part)])


if __name__ == "__main__":
    (ROOT / "docs" / "conf.md").write_text(reference())
