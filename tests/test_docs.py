"""Pages that are made from other files are as those are now, and what pages name is there."""

import re
import runpy
from pathlib import Path

import pytest

from edge_lightning.cli.hydra_app import run

ROOT = Path(__file__).resolve().parents[1]


def test_the_reference_of_the_configuration_is_made_from_the_files():
    made = runpy.run_path(str(ROOT / "scripts" / "conf_reference.py"))["reference"]()
    assert (ROOT / "docs" / "conf.md").read_text() == made, "run python scripts/conf_reference.py"
    for path in (ROOT / "conf").rglob("*/*.yaml"):
        assert f"| `{path.stem}` |" in made, path
    assert "| `floor` | `${fidelity.relative_entropy_floor}` | bounds on Phat; null: none; 1: only damp" in made


@pytest.mark.parametrize("page", ["tutorial.md", "adding_a_credit.md"])
def test_commands_of_a_page_are_understood(page, capfd):
    text = (ROOT / "docs" / page).read_text().replace("credit=first_half", "credit=none")  # the one that it adds
    lines = re.findall(r"^    edge-lightning (fit|validate|report|inspect|analyze|grade) (.*)$", text, re.MULTILINE)
    assert lines
    for command, rest in lines:
        words = [word.split(",")[0] for word in rest.split() if word != "-m"]
        command = "analyze_records" if command == "analyze" and "=" not in words[0] else command
        assert run(command, [*words, "--cfg", "job"], None) == 0, (page, rest, capfd.readouterr().err)


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", *(f"docs/{p.name}" for p in (ROOT / "docs").glob("*.md"))])
def test_links_lead_somewhere(page):
    place = ROOT / page
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", place.read_text()):
        assert (place.parent / target).exists(), target
