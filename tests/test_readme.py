"""What the README says is there is there."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()


def test_every_module_is_on_the_map():
    for path in (ROOT / "edge_lightning").rglob("*.py"):
        if path.stem.startswith("__"):
            continue
        folder = path.parent.relative_to(ROOT / "edge_lightning")
        assert path.name in README, f"{folder / path.name} is missing from the map"


def test_every_option_is_in_the_table():
    table = README.split("## Options")[1].split("## ")[0]
    for path in (ROOT / "conf").rglob("*.yaml"):
        if path.parent.name not in ("conf", "run_folder"):
            assert f"`{path.stem}`" in table, f"{path.parent.name}={path.stem} is missing from the table of options"


def test_paths_that_it_names_exist():
    for name in re.findall(r"\b(?:docs|scripts|conf|tests)/[\w/.]*\w", README):
        assert (ROOT / name).exists(), name


def test_each_decision_has_a_number_of_its_own():
    numbers = [path.name[:4] for path in (ROOT / "docs" / "decisions").glob("*.md")]
    assert len(set(numbers)) == len(numbers)
    assert all(number.isdecimal() for number in numbers)
