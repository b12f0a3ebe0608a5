"""The LightningModule: owns the policy, credit (EDA among them) and loss, optimizer and schedule.

One batch is one rollout with its optimizer step, under manual optimisation: scoring where something needs it, then
forward, credit, objective and backward for one micro-batch after the other. There is no branch on a method's name.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import lightning as L
import torch
from torch import Tensor

from edge_lightning.collective import alone
from edge_lightning.credit.base import Constants, Credit, Scored
from edge_lightning.errors import UserError, require_at_least_one
from edge_lightning.experience import Rollout
from edge_lightning.objective.base import Objective, StepTotals
from edge_lightning.policy import Policy
from edge_lightning.scoring import flat_positions, response_index, score
from edge_lightning.stopwatch import Stopwatch


@dataclass
class Update:
    """What one optimizer step did, in the step's flat token order. NaN where no pass computed a value.

    Attributes:
        logprobs_N, entropies_N: under the policy that sampled, nats.
        token_advantages_N: after credit; 0 for responses left out of the forward pass.
        ratio_N, clipped_N: of the surrogate; NaN where the objective has none.
    """

    constants: Constants
    response_N: Tensor
    logprobs_N: Tensor
    entropies_N: Tensor
    token_advantages_N: Tensor
    ratio_N: Tensor
    clipped_N: Tensor
    scored: bool
    trained_responses: int
    loss: float
    gradient_norm: float
    learning_rate: float
    seconds: dict[str, float]


class PolicyModule(L.LightningModule):
    """Trains the policy on filled rollouts.

    Args:
        optimizer: parameters -> optimizer.
        schedule: optimizer -> learning-rate schedule, stepped once a rollout.
        gradient_clip_norm: None for no clipping.
        entropy_every_n_steps: score every response each n steps for the entropy metrics, also where no credit needs it;
            None: only where needed.
    """

    def __init__(
        self,
        *,
        policy: Policy,
        credit: Credit,
        objective: Objective,
        optimizer: Callable,
        schedule: Callable,
        gradient_clip_norm: float | None = 1.0,
        entropy_every_n_steps: int | None = 1,
    ):
        require_at_least_one("module.entropy_every_n_steps", entropy_every_n_steps)
        if gradient_clip_norm is not None and not gradient_clip_norm > 0:
            raise UserError(f"module.gradient_clip_norm={gradient_clip_norm}: above 0 expected, null for no clipping")
        super().__init__()
        self.automatic_optimization = False
        self.policy = policy
        self.credit = credit
        self.objective = objective
        self.make_optimizer = optimizer
        self.make_schedule = schedule
        self.gradient_clip_norm = gradient_clip_norm
        self.entropy_every_n_steps = entropy_every_n_steps
        self.update: Update | None = None

    def configure_optimizers(self):
        optimizer = self.make_optimizer(self.policy.parameters())
        return {"optimizer": optimizer, "lr_scheduler": self.make_schedule(optimizer=optimizer)}

    def on_load_checkpoint(self, checkpoint: dict) -> None:
        """The configured learning rate holds, also where the run began with another."""
        fresh = [group["lr"] for group in self.make_optimizer(self.policy.parameters()).param_groups]
        for optimizer in checkpoint["optimizer_states"]:
            for group, lr in zip(optimizer["param_groups"], fresh):
                if group["initial_lr"] not in (lr, 0):
                    group["lr"] *= lr / group["initial_lr"]
                    group["initial_lr"] = lr
        for schedule in checkpoint["lr_schedulers"]:
            schedule["base_lrs"] = fresh

    def transfer_batch_to_device(self, batch: Rollout, device: torch.device, dataloader_idx: int) -> Rollout:
        return batch  # the callback fills this very object; micro-batches move one by one

    def training_step(self, rollout: Rollout, batch_idx: int) -> None:
        clock = Stopwatch()
        optimizer, schedule = self.optimizers(), self.lr_schedulers()
        with clock("score"):
            scored = self._score(rollout)
        constants = self.credit.prepare(scored, alone)
        with clock("train"):
            self.update = self._accumulate_gradients(rollout, scored, constants)
            self.update.gradient_norm = self._clip()
            self.update.learning_rate = optimizer.param_groups[0]["lr"]
            refuse_non_finite(rollout.step, self.update)
            optimizer.step()
            schedule.step()
        self.update.seconds = dict(clock.seconds)

    def _score(self, rollout: Rollout) -> Scored:
        response_N = response_index(rollout.responses)
        every = self.entropy_every_n_steps
        wanted = self.credit.needs_scores or (every is not None and rollout.step % every == 0)
        found = None
        if wanted:
            batches = self.trainer.datamodule.micro_batches(rollout.responses, range(len(rollout.responses)))
            found = score(self.policy, batches, response_N)
        return Scored(
            advantages_B=rollout.advantages_B,
            group_B=rollout.group_B,
            groups=len(rollout.problems),
            response_N=response_N,
            entropies_N=found.entropies_N if found else None,
            logprobs_N=found.logprobs_N if found else None,
        )

    def _accumulate_gradients(self, rollout: Rollout, scored: Scored, constants: Constants) -> Update:
        responses, response_N = rollout.responses, scored.response_N
        chosen = self._chosen(rollout, constants)
        totals = StepTotals(responses=len(responses), tokens=len(response_N))
        nothing_N = torch.full((len(response_N),), torch.nan)
        update = Update(
            constants=constants,
            response_N=response_N,
            logprobs_N=nothing_N.clone() if scored.logprobs_N is None else scored.logprobs_N.clone(),
            entropies_N=nothing_N.clone() if scored.entropies_N is None else scored.entropies_N.clone(),
            token_advantages_N=torch.zeros(len(response_N)),
            ratio_N=nothing_N.clone(),
            clipped_N=nothing_N.clone(),
            scored=scored.logprobs_N is not None,
            trained_responses=len(chosen),
            loss=0.0,
            gradient_norm=0.0,
            learning_rate=0.0,
            seconds={},
        )
        here = constants.to(self.device)
        self.optimizers().zero_grad()
        for tokens in self.trainer.datamodule.micro_batches(responses, chosen):
            tokens = tokens.to(self.device)
            forward = self.policy(tokens)
            advantages_N = self.credit.weigh(here, forward)
            loss = self.objective(forward, advantages_N, tokens, totals)
            self.manual_backward(loss.value)
            place_N = flat_positions(tokens, response_N)
            update.loss += float(loss.value.detach())
            update.token_advantages_N[place_N] = advantages_N.detach().cpu()
            if not update.scored:
                update.logprobs_N[place_N] = forward.logprobs_N.detach().cpu()
                update.entropies_N[place_N] = forward.entropies_N.detach().cpu()
            if loss.ratio_N is not None:
                update.ratio_N[place_N] = loss.ratio_N.cpu()
                update.clipped_N[place_N] = loss.clipped_N.float().cpu()
        return update

    def _chosen(self, rollout: Rollout, constants: Constants) -> list[int]:
        """Responses that get a forward pass: those with a possible gradient, or the shortest where none has one.

        That one's gradient is 0, which the optimizer must see: its moments decay as they would without leaving out.
        """
        alive = constants.alive_B.tolist()
        wanted = [i for i, response in enumerate(rollout.responses) if self.objective.wants(response, alive[i])]
        return wanted or [min(range(len(alive)), key=lambda i: len(rollout.responses[i].completion_ids))]

    def _clip(self) -> float:
        """Clip the gradient's norm; returns the norm before clipping."""
        limit = torch.inf if self.gradient_clip_norm is None else self.gradient_clip_norm
        return float(torch.nn.utils.clip_grad_norm_(self.policy.parameters(), limit))


def refuse_non_finite(step: int, update: Update) -> None:
    """Raise UserError before a step that would ruin the weights; those of the step before stay."""
    if not (math.isfinite(update.loss) and math.isfinite(update.gradient_norm)):
        raise UserError(
            f"step {step}: loss {update.loss:g} and gradient norm {update.gradient_norm:g}, finite ones expected; "
            "the weights were left as they were; lower optimizer.lr, or set credit.floor where relative entropy can be 0"
        )
