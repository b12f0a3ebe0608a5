"""The figures of one step, from a filled rollout and the update made with it.

Names are group/figure; part_metrics.py has those that are split by provenance and origin. A figure that this step has no
value for is absent. Entropies and log-probabilities are nats.
"""

from __future__ import annotations

import torch
from torch import Tensor

from edge_lightning.advantage.grpo import tied_groups
from edge_lightning.collective import Ranks
from edge_lightning.experience import Rollout
from edge_lightning.masking import segment_count, segment_sum
from edge_lightning.training.part_metrics import known_mean, part_metrics
from edge_lightning.training.update import Update
from edge_lightning.types import Provenance, Response


def step_metrics(rollout: Rollout, update: Update) -> dict[str, float]:
    """All figures of a step."""
    return {
        **reward_metrics(rollout),
        **token_counts(rollout.responses, rollout.dropped),
        **update_metrics(rollout, update),
        **part_metrics(rollout, update),
        **update.gradient_shares,
        **engine_gap(rollout.responses, update),
        **{f"seconds/{stage}": seconds for stage, seconds in {**rollout.seconds, **update.seconds}.items()},
    }


def reward_metrics(rollout: Rollout) -> dict[str, float]:
    """Reward, accuracy and group figures before correction (`sampled`) and after it (`corrected`).

    Groups that were dropped count before correction, since the policy sampled them too, and not after it.
    """
    metrics = {"group/dropped": len(rollout.dropped) * len(rollout.problems) / len(rollout.responses)}
    for stage, grades in (
        ("sampled", [r.sampled_grade for r in (*rollout.responses, *rollout.dropped)]),
        ("corrected", [r.grade for r in rollout.responses]),
    ):
        groups = len(grades) * len(rollout.problems) // len(rollout.responses)
        group_B = torch.arange(groups).repeat_interleave(len(grades) // groups) if rollout.dropped else rollout.group_B
        size_P = segment_count(group_B, groups)
        reward_B = torch.tensor([g.reward for g in grades], dtype=torch.float64)
        right_B = torch.tensor([float(g.right) for g in grades])
        right_P = segment_sum(right_B, group_B, groups)
        metrics |= {
            f"reward/mean_{stage}": float(reward_B.mean()),
            f"accuracy/{stage}": float(right_B.mean()),
            f"group/zero_variance_{stage}": float(tied_groups(reward_B, group_B, groups).float().mean()),
            f"group/all_wrong_{stage}": float((right_P == 0).float().mean()),
            f"group/all_right_{stage}": float((right_P == size_P).float().mean()),
        }
    metrics["reward/mean"] = metrics["reward/mean_corrected"]
    return metrics


def token_counts(responses: list[Response], dropped: list[Response]) -> dict[str, float]:
    """Lengths, truncation, and tokens by origin.

    `tokens/sampled` counts first answers, also those that correction replaced or that were dropped, `tokens/regenerated`
    what reflections added (dropped ones too), `tokens/injected` what was put in and not sampled.
    """
    made = [*responses, *dropped]
    lengths = [len(r.completion_ids) for r in responses]
    counts = {
        "length/mean": sum(lengths) / len(lengths),
        "length/max": float(max(lengths)),
        "truncation/fraction": sum(r.finish_reason == "length" for r in responses) / len(responses),
        "correction/fraction": sum(r.text != r.sampled_text for r in responses) / len(responses),
        "tokens/sampled": float(sum(r.sampled_tokens for r in made)),
        "tokens/regenerated": float(sum(sum(r.sampled_mask) - _tokens_before_injection(r) for r in made)),
        "tokens/injected": float(sum(len(r.sampled_mask) - sum(r.sampled_mask) for r in responses)),
    }
    for provenance in Provenance:
        counts[f"count/{provenance}"] = float(sum(r.provenance == provenance for r in responses))
    return counts


def update_metrics(rollout: Rollout, update: Update) -> dict[str, float]:
    """Advantages, entropy, Phat, ratio, gradient."""
    advantages_N = update.token_advantages_N
    metrics = {
        "advantage/variance": float(rollout.advantages_B.var(correction=0)),
        "advantage/variance_sampled": float(rollout.sampled_advantages_B.var(correction=0)),
        "advantage/abs_max": float(rollout.advantages_B.abs().max()),
        "credit/token_advantage_abs_max": float(advantages_N.abs().max()),
        "credit/token_advantage_variance": float(advantages_N.var(correction=0)),
        "responses/trained": float(update.trained_responses),
        "gradient/norm": update.gradient_norm,
        "loss/value": update.loss,
        "learning_rate": update.learning_rate,
        "update/skipped": float(update.skipped),
    }
    if update.complete:
        metrics["entropy/mean"] = float(update.entropies_N.mean())
    phat_B = update.constants.relative_entropy_B
    if phat_B is not None and not phat_B.isnan().all():
        known_B = ~phat_B.isnan()
        metrics |= {
            "relative_entropy/min": float(phat_B[known_B].min()),
            "relative_entropy/max": float(phat_B[known_B].max()),
            "relative_entropy/clamped_fraction": float(update.constants.clamped_B[known_B].float().mean()),
        }
    for name, values_N in (("ratio/mean", update.ratio_N), ("clip/fraction", update.clipped_N), ("kl/mean", update.kl_N)):
        metrics |= known_mean(name, values_N)
    return metrics


def engine_gap(responses: list[Response], update: Update) -> dict[str, float]:
    """Absolute difference between the engine's and the policy's log-probability of the sampled tokens, nats."""
    known_N = _engine_gaps(responses, update)
    if not len(known_N):
        return {}
    return {"engine_gap/mean": float(known_N.mean()), "engine_gap/max": float(known_N.max())}


def mean_engine_gap(responses: list[Response], update: Update, ranks: Ranks) -> float | None:
    """The mean of engine_gap over the tokens of all ranks, for all of them; None where no rank has such a token."""
    known_N = _engine_gaps(responses, update).double()
    total, tokens = map(sum, zip(*ranks.gather((float(known_N.sum()), len(known_N)))))
    return total / tokens if tokens else None


def _engine_gaps(responses: list[Response], update: Update) -> Tensor:
    """Of each token that both have a log-probability of, in no order."""
    nan = float("nan")
    engine_N = torch.tensor([nan if value is None else value for r in responses for value in r.engine_logprobs])
    gap_N = (engine_N - update.logprobs_N).abs()
    return gap_N[~gap_N.isnan()]


def _tokens_before_injection(response: Response) -> int:
    mask = response.sampled_mask
    return mask.index(False) if False in mask else len(mask)
