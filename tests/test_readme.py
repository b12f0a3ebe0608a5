"""What the README, the map and the table of options name is there; their figures are those of the pages behind."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
README, MAP, OPTIONS = ((ROOT / name).read_text() for name in ("README.md", "docs/map.md", "docs/options.md"))


def test_every_module_is_on_the_map():
    for path in (ROOT / "edge_lightning").rglob("*.py"):
        if path.stem.startswith("__"):
            continue
        folder = path.parent.relative_to(ROOT / "edge_lightning")
        assert path.name in MAP, f"{folder / path.name} is missing from docs/map.md"


def test_every_option_is_in_the_table():
    for path in (ROOT / "conf").rglob("*.yaml"):
        if path.parent.name not in ("conf", "run_folder"):
            assert f"`{path.stem}`" in OPTIONS, f"{path.parent.name}={path.stem} is missing from docs/options.md"


def test_paths_that_it_names_exist():
    for name in re.findall(r"\b(?:docs|scripts|conf|tests|edge_lightning)/[\w/.]*\w", README):
        assert (ROOT / name).exists(), name


def test_headings_that_links_lead_to_exist():
    for place, heading in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", README):
        text = (ROOT / (place or "README.md")).read_text()
        headings = [line.lstrip("# ").lower().replace(" ", "-") for line in text.splitlines() if line.startswith("#")]
        assert heading in headings, (place, heading)


def test_figures_of_the_study_are_those_of_its_page():
    told = re.findall(r"\.\d{3} ± \.\d{3}", README.split("## What it found")[1].split("## ")[0])
    study = (ROOT / "docs" / "study" / "README.md").read_text()
    assert len(told) == 8
    assert [figure for figure in told if figure not in study] == []


def test_figures_of_speed_are_those_of_the_benchmark():
    rows = {}
    for line in (ROOT / "docs" / "bench" / "README.md").read_text().splitlines():
        name, *cells = [cell.strip() for cell in line.strip("|").split("|")]
        rows.setdefault(name, []).append(cells)
    beside = {name: next(c for c in rows[name] if len(c) == 9) for name in ("smollm2-grpo-all", "tiny-grpo-all")}
    (_, ratio, training, *_, trl, ours, _, _) = beside["smollm2-grpo-all"]
    spread = ratio.partition(" ")[2]
    assert f"| {float(ours):.1f} s | {float(trl):.1f} s: {float(ratio.split()[0]):.1f} times {spread} |" in README
    assert f"takes {float(training.split()[0]):.1f} times ours" in README
    ratio, ours = beside["tiny-grpo-all"][1], beside["tiny-grpo-all"][6]
    assert f"| {float(ours):.2f} s | {float(ratio.split()[0]):.1f} times {ratio.partition(' ')[2]} |" in README
    left_out = next(c for c in rows["smollm2-grpo-left-out"] if len(c) == 9)
    assert f"| {float(left_out[6]):.1f} s | {float(left_out[1].split()[0]):.1f} times |" in README
    ours, trl = (float(rows[f"as-it-is-{name}"][0][1]) / 1024 for name in ("ours", "trl"))
    assert f"| {ours:.1f} GiB | {trl:.1f} GiB |" in README


def test_each_decision_has_a_number_of_its_own():
    numbers = [path.name[:4] for path in (ROOT / "docs" / "decisions").glob("*.md")]
    assert len(set(numbers)) == len(numbers)
    assert all(number.isdecimal() for number in numbers)
