"""What others have published on the five benchmarks of evaluation=paper_suite, to stand beside one's own results.

Source: EDGE-GRPO (arXiv:2507.21848), Tables 1 and 2: Qwen2.5-Math-1.5B and 7B, pass@1 at temperature 0.1, one response.
The printed average is weighted by problems; of 22 rows one differs from what its columns give (7B, Random-1K, EDGE-GRPO:
49.30 printed, 49.04 computed). Table 6 prints 53.01 for the 7B model that stands here with 53.21, as its columns give.
Left out: other papers' tables, whose benchmarks and sampling are not these.
"""

from __future__ import annotations

from dataclasses import dataclass

SIZES = {"aime": 30, "amc": 83, "math": 500, "minerva": 272, "olympiad_bench": 675}  # 1560 problems


@dataclass(frozen=True, slots=True)
class Published:
    """One row of a table, in percent.

    Attributes:
        model: "1.5B" or "7B".
        data: what it was trained on; None for the model as it came.
        average: as printed.
        accuracies: of each benchmark, in the order of SIZES.
    """

    model: str
    data: str | None
    method: str
    average: float
    accuracies: tuple[float, float, float, float, float]

    @property
    def weighted(self) -> float:
        """The average over all problems that the columns give: sum_b n_b accuracy_b / sum_b n_b."""
        return sum(n * accuracy for n, accuracy in zip(SIZES.values(), self.accuracies)) / sum(SIZES.values())

    @property
    def of_benchmarks(self) -> float:
        """The plain mean of the five columns, which the authors' script prints."""
        return sum(self.accuracies) / len(self.accuracies)


EDGE_GRPO = (
    Published("1.5B", None, "Base", 25.71, (6.67, 37.35, 34.60, 12.13, 24.00)),
    Published("1.5B", "Random-1K", "SFT", 30.13, (10.00, 30.12, 47.20, 14.71, 24.59)),
    Published("1.5B", "Random-1K", "GRPO", 40.32, (13.33, 39.76, 65.60, 19.49, 31.26)),
    Published("1.5B", "Random-1K", "Force-R", 42.63, (10.00, 36.14, 71.40, 21.69, 32.00)),
    Published("1.5B", "Random-1K", "Force-R & EDA", 45.83, (10.00, 37.35, 73.60, 23.90, 36.74)),
    Published("1.5B", "Random-1K", "EDGE-GRPO", 48.08, (13.33, 44.58, 76.40, 28.68, 36.89)),
    Published("1.5B", "Hard-1K", "SFT", 29.17, (6.67, 28.92, 46.40, 12.87, 24.00)),
    Published("1.5B", "Hard-1K", "GRPO", 40.26, (10.00, 46.99, 65.00, 20.59, 30.37)),
    Published("1.5B", "Hard-1K", "Force-R", 41.55, (13.33, 31.33, 70.00, 22.06, 30.81)),
    Published("1.5B", "Hard-1K", "Force-R & EDA", 42.44, (10.00, 34.94, 69.60, 23.53, 32.30)),
    Published("1.5B", "Hard-1K", "EDGE-GRPO", 47.24, (10.00, 44.58, 73.20, 29.04, 37.33)),
    Published("7B", None, "Base", 29.04, (10.00, 37.35, 53.40, 10.66, 18.22)),
    Published("7B", "Random-1K", "SFT", 41.99, (6.67, 43.37, 69.00, 22.06, 31.41)),
    Published("7B", "Random-1K", "GRPO", 46.47, (23.33, 55.42, 72.40, 27.94, 34.67)),
    Published("7B", "Random-1K", "Force-R", 47.76, (23.33, 53.01, 74.60, 23.16, 38.22)),
    Published("7B", "Random-1K", "Force-R & EDA", 45.71, (23.33, 49.40, 67.00, 32.35, 35.85)),
    Published("7B", "Random-1K", "EDGE-GRPO", 49.30, (16.67, 50.60, 75.60, 33.09, 37.04)),
    Published("7B", "Hard-1K", "SFT", 37.37, (3.33, 44.58, 68.00, 19.85, 22.37)),
    Published("7B", "Hard-1K", "GRPO", 47.69, (26.67, 53.01, 74.20, 25.74, 37.19)),
    Published("7B", "Hard-1K", "Force-R", 40.26, (13.33, 40.96, 67.60, 19.85, 29.33)),
    Published("7B", "Hard-1K", "Force-R & EDA", 45.19, (26.67, 50.60, 68.00, 28.68, 35.11)),
    Published("7B", "Hard-1K", "EDGE-GRPO", 53.21, (16.67, 53.01, 79.00, 36.03, 42.67)),
)
