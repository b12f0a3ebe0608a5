"""What a run tells tensorboard, read back; its names are those of docs/metrics.md."""

import re
from pathlib import Path

import pytest
from tensorboard.plugin_util import markdown_to_safe_html
from tensorboard.plugins.custom_scalar.layout_pb2 import Layout
from tensorboard.plugins.hparams.metadata import parse_session_end_info_plugin_data, parse_session_start_info_plugin_data

from edge_lightning.training.record import MetricsFile
from edge_lightning.training.sample_text import as_markdown
from edge_lightning.training.tensorboard import final_figures, layout
from edge_lightning.types import Grade
from tests.by_hand import PROBLEM
from tests.inspected_run import CUE, HOSTILE, member
from tests.run_record import TINY, curves, here, summary

DOCS = (Path(__file__).resolve().parents[1] / "docs" / "metrics.md").read_text()
PLACES = {
    "<provenance>": "(sampled|reflected|answer_injected|reference)",
    "<origin>": "(sampled|wrong_prefix|injected)_tokens",
    "<benchmark>": "[a-z0-9_]+",
    "<stage>": "(push|generate|grade|correct|score|train|gradient_shares|record)",
    "<figure>": "[a-z_]+",
    "<k>": "[0-9]+",
}


def documented() -> list[str]:
    """The names under 'Names in tensorboard', as patterns."""
    section = DOCS.split("# Names in tensorboard")[1]
    cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    names = [name for cell in cells for name in re.findall(r"`([^`]+)`", cell)]
    for i, name in enumerate(names):
        names[i] = re.escape(name)
        for place, pattern in PLACES.items():
            names[i] = names[i].replace(re.escape(place), pattern)
    return names


def undocumented(names) -> set[str]:
    patterns = documented()
    return {name for name in names if not any(re.fullmatch(pattern, name) for pattern in patterns)}


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tensorboard") / "run"
    assert here("fit", folder, *TINY, "steps=6", "credit.floor=0.2") == 0
    return folder


@pytest.mark.slow
def test_every_name_that_a_run_writes_is_documented(run_folder):
    tags = curves(run_folder).Tags()
    written = {*tags["scalars"], *tags["histograms"], *(t.removesuffix("/text_summary") for t in tags["tensors"])}
    written -= {t for t in written if t.startswith(("_hparams_", "custom_scalars"))}
    assert len(written) > 100
    assert undocumented(written) == set()
    found = [pattern for pattern in documented() if any(re.fullmatch(pattern, name) for name in written)]
    assert set(documented()) - set(found) == {"kl/mean"}  # there is no reference policy


def test_charts_are_of_documented_names():
    names = [n.strip("^$") for own in layout(["smoke", "average"]).values() for chart in own.values() for n in chart[1]]
    assert undocumented(names) == set()
    assert list(layout([])) == ["Learning", "Groups", "Correction", "Entropy", "Stability", "Speed", "Provenance"]


@pytest.mark.slow
def test_every_chart_has_a_curve(run_folder):
    read = curves(run_folder)
    (event,) = read.Tensors("custom_scalars__config__")
    told = Layout.FromString(event.tensor_proto.string_val[0])
    names = read.Tags()["scalars"]
    charts = [chart for own in told.category for chart in own.chart]
    empty = {c.title for c in charts if not any(re.match(tag, n) for tag in c.multiline.tag for n in names)}
    assert empty == {"divergence"}  # there is no reference policy


@pytest.mark.slow
def test_settings_and_final_figures_stand_beside_each_other(run_folder):
    read = curves(run_folder)
    start = parse_session_start_info_plugin_data(read.SummaryMetadata("_hparams_/session_start_info").plugin_data.content)
    assert start.hparams["credit.floor"].number_value == 0.2
    assert start.hparams["credit"].string_value == "EntropyDrivenAdvantage"
    assert "optimizer.lr" in start.hparams
    end = parse_session_end_info_plugin_data(read.SummaryMetadata("_hparams_/session_end_info").plugin_data.content)
    assert end.status == 1  # success
    (final,) = read.Scalars("final/smoke/accuracy")
    assert (final.step, final.value) == (6, pytest.approx(summary(run_folder)["after"]["smoke/accuracy"]))


@pytest.mark.slow
def test_histograms_count_every_response(run_folder):
    (first, second) = curves(run_folder).Histograms("advantage/of_responses")
    assert (first.step, second.step) == (0, 5)
    assert first.histogram_value.num == 8


def test_final_figures_are_means_over_the_last_steps(tmp_path):
    metrics = MetricsFile(tmp_path / "metrics.csv")
    for step in range(12):
        metrics.append(step, {"entropy/mean": float(step)})
    results = {0: {"smoke/accuracy": 0.1}, 12: {"smoke/accuracy": 0.5, "smoke/tokens": 9.0}}
    assert dict(final_figures(metrics, results)) == {"final/smoke/accuracy": 0.5, "final/entropy/mean": 6.5}
    assert dict(final_figures(MetricsFile(tmp_path / "none.csv"), {})) == {}


def test_a_sample_tells_who_wrote_what():
    made = member(PROBLEM, 3, "4", cue=CUE, rest=" 5", right=(False, True))
    text = as_markdown(made, lambda ids: f"{len(ids)} tokens")
    assert "🟨 **p**, response 3, reflected, ended by stop" in text
    rows = [line.split(" | ")[0].strip("| ") for line in text.splitlines() if " | <code>" in line]
    assert rows == ["problem", "🟦 sampled", "🟦 trained on, sampled", "🟨 trained on, put in", "🟦 trained on, sampled"]
    assert "reward 0 | <code>4" in text
    assert text.count("reward 1 ") == 3


def test_text_of_a_sample_is_no_markup():
    hostile = HOSTILE + " | *a* `b` [c](d) \n\n# e"
    made = member(PROBLEM, 0, hostile, right=(False, False), grade=Grade(0.0, False))
    shown = markdown_to_safe_html(as_markdown(made, lambda ids: hostile))
    assert not [tag for tag in ("<img", "<em>", "<h1>", "<a ") if tag in shown]
    assert shown.count("<tr>") == 1 + 2  # head, problem, the whole response
