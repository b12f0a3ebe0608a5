"""Every option of every group composes, and builds what it names."""

import pytest
from hydra import compose, initialize_config_dir
from hydra.utils import get_object, instantiate
from omegaconf import OmegaConf

from edge_lightning.cli import COMMANDS
from edge_lightning.cli.hydra_app import CONF
from edge_lightning.cli.schema import check


def composed(name, *overrides):
    with initialize_config_dir(str(CONF), version_base=None):
        return compose(name, list(overrides))


def options():
    return [(path.parent.name, path.stem) for path in sorted(CONF.glob("*/*.yaml"))]


MISSING = {("model", "local"): "model.path=x", ("data", "math_json"): "data.problem_set.path=x"}


@pytest.mark.parametrize(("group", "option"), options(), ids=str)
def test_every_option_composes_and_has_the_arguments_of_its_constructor(group, option):
    name = next(name for name in COMMANDS if f"  - {group}:" in (CONF / f"{name}.yaml").read_text())
    of_command = {"screen": ["data.problem_set.path=x", "model.path=x"], "analyze": ["ckpt=x"]}
    given = of_command.get(name, [MISSING.get((group, option))])
    cfg = composed(name, f"{group}={option}", *filter(None, given))
    check(cfg)
    if group in ("ablation", "fidelity", "run_folder", "strategy", "rollout"):
        return
    node = OmegaConf.to_container(cfg, resolve=True)[group if group != "experiment" else "ablation"]
    assert node["name"] if group in ("model", "data", "evaluation", "experiment") else targets(node), "builds nothing"
    for target in targets(node):
        get_object(target)


def targets(node):
    if isinstance(node, dict):
        yield from [node["_target_"]] if "_target_" in node else []
        for value in node.values():
            yield from targets(value)


CHEAP = ("prompt", "correction", "advantage", "credit", "objective", "reward", "optimizer", "schedule", "engine")


@pytest.mark.parametrize(("group", "option"), [o for o in options() if o[0] in CHEAP], ids=str)
def test_every_stage_can_be_built_as_it_stands(group, option):
    built = instantiate(composed("fit", f"{group}={option}")[group])
    assert callable(built.prepare if group == "credit" else built)


@pytest.mark.parametrize("option", sorted(path.stem for path in (CONF / "evaluation").glob("*.yaml")))
def test_every_evaluation_can_be_built_as_it_stands(option):
    cfg = composed("fit", f"evaluation={option}")
    for name, node in cfg.evaluation.benchmarks.items():
        node.problem_set = None  # the public data may not be here; tests/test_benchmark.py reads them
        assert instantiate(node, _convert_="all").name == name
        assert cfg.evaluation.monitor.split("/")[1] in (name, "average")


@pytest.mark.parametrize("name", ["default", "paper"])
def test_a_group_on_the_command_line_wins_over_the_ablation(name):
    cfg = composed("fit", "ablation=grpo", "credit=eda", f"rollout={name}")
    assert cfg.credit._target_.endswith("EntropyDrivenAdvantage")
    assert cfg.correction._target_.endswith("NoCorrection")
