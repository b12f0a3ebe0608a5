"""The fuzzing of fuzz.py, guided by which lines of our readers were reached: atheris mutates what led to new ones.

pip install atheris; python -m tests.faults.guided TARGET RUNS [SEED]
"""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["edge_lightning"]):
    from hypothesis import HealthCheck, given, settings

    from tests.faults.fuzz import TARGETS


def main(name: str, runs: int, seed: int) -> None:
    """Ends the process: with 0 behind so many runs without a finding."""
    strategy, target = TARGETS[name]
    unlimited = settings(deadline=None, database=None, suppress_health_check=list(HealthCheck))
    test = unlimited(given(strategy)(target))
    count = {"runs": 0, "examples": 0}

    def one(data: bytes) -> None:
        """Hypothesis makes a value of the strategy of the bytes; where they don't suffice it is no example."""
        count["runs"] += 1
        count["examples"] += test.hypothesis.fuzz_one_input(data) is not None
        if count["runs"] == runs:
            print(f"{name}: {runs} runs, {count['examples']} examples, no finding", flush=True)

    atheris.Setup([sys.argv[0], f"-runs={runs}", f"-seed={seed}", "-max_len=2048", "-len_control=0", "-verbosity=0"], one)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 1)
