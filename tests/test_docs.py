"""Pages that are made from other files are as those are now, and what pages name is there."""

import re
import runpy
from pathlib import Path

import pytest
import yaml

from edge_lightning.cli.hydra_app import run
from edge_lightning.errors import UserError
from tests.credit_steps import scored, weigh

ROOT = Path(__file__).resolve().parents[1]


def test_the_reference_of_the_configuration_is_made_from_the_files():
    made = runpy.run_path(str(ROOT / "scripts" / "conf_reference.py"))["reference"]()
    assert (ROOT / "docs" / "conf.md").read_text() == made, "run python scripts/conf_reference.py"
    for path in (ROOT / "conf").rglob("*/*.yaml"):
        assert f"| `{path.stem}` |" in made, path
    assert "| `steps` | `150` | rollouts, each" in made
    assert "every wrong response reflects. Else as `gec`. |" in made
    assert "| `floor` | eda: `${fidelity.relative_entropy_floor}` | bounds on Phat; null: none; 1: only damp" in made


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


def test_the_credit_that_is_added_on_a_page_does_what_the_page_says():
    """Of A = 1 and -1 with two and three tokens the first halves are one token and two."""
    page = (ROOT / "docs" / "adding_a_credit.md").read_text()
    code, conf = (re.search(rf"```{kind}\n(.*?)```", page, re.DOTALL)[1] for kind in ("python", "yaml"))
    made = {"__name__": "first_half"}
    exec(compile(code, "first_half.py", "exec"), made)
    asked = yaml.safe_load(conf)
    assert asked.pop("_target_") == "edge_lightning.credit.first_half.FirstHalf"
    step = scored([1.0, -1.0], [0.1] * 5)
    assert weigh(made["FirstHalf"](**asked), step).tolist() == [2.0, 1.0, -2.0, -2.0, -1.0]
    with pytest.raises(UserError, match=r"credit.weight=-1.0: at least 0 expected"):
        made["FirstHalf"](weight=-1.0)
