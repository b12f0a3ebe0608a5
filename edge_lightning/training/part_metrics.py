"""The figures of a step split by what became of the responses and by who wrote the tokens.

Names are group/figure/part, where a part is a provenance (sampled, reflected, answer_injected, reference) or an origin
(sampled_tokens, wrong_prefix_tokens, injected_tokens; see parts.py).
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from edge_lightning.experience import Rollout
from edge_lightning.training.parts import by_origin, by_provenance
from edge_lightning.training.update import Update
from edge_lightning.types import Provenance


def part_metrics(rollout: Rollout, update: Update) -> dict[str, float]:
    """Figures of responses by provenance, and of tokens by provenance and by origin."""
    responses, response_N = rollout.responses, update.response_N
    metrics = provenance_metrics(rollout, update)
    for name, of_it_N in by_provenance(responses, response_N).items():
        metrics |= token_metrics(name, of_it_N, update)
    rewards_B = torch.tensor([r.grade.reward for r in responses], dtype=torch.float64)
    for name, of_it_N in by_origin(responses, response_N).items():
        metrics |= {
            f"reward/mean/{name}": float(rewards_B[response_N][of_it_N].mean()),
            f"advantage/mean/{name}": float(rollout.advantages_B[response_N][of_it_N].mean()),
            **token_metrics(name, of_it_N, update),
        }
    return metrics


def provenance_metrics(rollout: Rollout, update: Update) -> dict[str, float]:
    """Means over the responses of each provenance; advantages and relative entropies as they are before and in credit."""
    phat_B = update.constants.relative_entropy_B
    metrics = {}
    for provenance in Provenance:
        places = [i for i, response in enumerate(rollout.responses) if response.provenance is provenance]
        if not places:
            continue
        of_it = [rollout.responses[i] for i in places]
        metrics |= {
            f"reward/mean/{provenance}": _mean(r.grade.reward for r in of_it),
            f"accuracy/corrected/{provenance}": _mean(float(r.grade.right) for r in of_it),
            f"length/mean/{provenance}": _mean(float(len(r.completion_ids)) for r in of_it),
            f"advantage/mean/{provenance}": float(rollout.advantages_B[places].mean()),
        }
        if phat_B is not None:
            metrics |= known_mean(f"relative_entropy/mean/{provenance}", phat_B[places])
    return metrics


def token_metrics(name: str, of_it_N: Tensor, update: Update) -> dict[str, float]:
    """Means over the tokens of a part; of the ratio the maximum too."""
    ratio_N = update.ratio_N[of_it_N]
    metrics = {f"credit/token_advantage_mean/{name}": float(update.token_advantages_N[of_it_N].mean())}
    if update.complete:  # else only trained responses have entropies, and their mean is another figure
        metrics |= known_mean(f"entropy/mean/{name}", update.entropies_N[of_it_N])
    metrics |= known_mean(f"logprob/mean/{name}", update.logprobs_N[of_it_N])
    metrics |= known_mean(f"ratio/mean/{name}", ratio_N)
    metrics |= known_mean(f"clip/fraction/{name}", update.clipped_N[of_it_N])
    known_N = ratio_N[~ratio_N.isnan()]
    return metrics | ({f"ratio/max/{name}": float(known_N.max())} if len(known_N) else {})


def known_mean(name: str, values: Tensor) -> dict[str, float]:
    """The mean of the values that a pass computed; nothing where none did."""
    known = values[~values.isnan()]
    return {name: float(known.mean())} if len(known) else {}


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found)
