"""A file imports from lower floors and from its own package; stages never import each other."""

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "edge_lightning"
STAGES = ("data", "prompts", "rewards", "correction", "advantage", "credit", "objective")
FLOORS = {
    0: (
        *("types", "tokens", "masking", "order_statistics", "seeds", "errors"),
        *("stopwatch", "collective", "versions", "whole", "hub"),
    ),
    1: STAGES,
    2: ("engine", "policy", "attention", "head", "packing", "padding", "scoring", "tiny", "lora", "layers", "sharding"),
    3: ("experience", "curation", "screening"),
    4: ("training", "evaluation"),
    5: ("analysis", "report", "inspection", "cli", "__main__"),
}
FLOOR = {name: floor for floor, names in FLOORS.items() for name in names}


def files():
    return [path for path in PACKAGE.rglob("*.py") if path.name != "__init__.py" or path.parent != PACKAGE]


def unit(path):
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imports(path):
    """Names imported anywhere in a file, those under TYPE_CHECKING left out."""
    tree = ast.parse(path.read_text())
    hidden = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in hidden:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def test_every_file_has_a_floor():
    assert {unit(path) for path in files()} - FLOOR.keys() == set()


def test_imports_go_down():
    for path in files():
        here = unit(path)
        for name in imports(path):
            parts = name.split(".")
            if parts[0] != "edge_lightning" or len(parts) == 1 or parts[1] == here:
                continue
            there = parts[1]
            lower = FLOOR[there] < FLOOR[here]
            beside = FLOOR[there] == FLOOR[here] and here not in STAGES
            assert lower or beside, f"{path.relative_to(ROOT)} imports {name}"


def test_heavy_libraries_stay_where_they_belong():
    homes = {"lightning": ("training", "cli"), "vllm": ("engine/vllm.py",), "hydra": ("cli",), "peft": ("lora.py",)}
    for path in files():
        place = str(path.relative_to(PACKAGE))
        for name in imports(path):
            for library, allowed in homes.items():
                if name.split(".")[0] == library:
                    assert place.startswith(allowed), f"{place} imports {name}"


def test_pure_stages_know_no_ranks():
    for path in files():
        if FLOOR[unit(path)] <= 1:
            assert not any(name.startswith("torch.distributed") for name in imports(path)), path


def test_files_stay_short():
    long = {str(path.relative_to(ROOT)): n for path in files() if (n := len(path.read_text().splitlines())) > 300}
    assert long == {}
