"""The LightningModule: owns the policy, credit (EDA among them) and loss, optimizer and schedule.

One batch is one rollout with its optimizer steps, under manual optimisation: scoring where something needs it, then
forward, credit, objective and backward for one micro-batch after the other. There is no branch on a method's name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal

import lightning as L
import torch
from torch import Tensor

from edge_lightning.advantage.grpo import tied_groups
from edge_lightning.collective import ALONE, Ranks
from edge_lightning.credit.base import Constants, Credit, Scored
from edge_lightning.errors import UserError, require_at_least_one
from edge_lightning.experience import Rollout
from edge_lightning.objective.base import Objective, StepTotals
from edge_lightning.policy import Policy
from edge_lightning.scoring import response_index, score
from edge_lightning.sharding import clip_gradients, is_sharded, shard
from edge_lightning.stopwatch import Stopwatch
from edge_lightning.tokens import Forward, TokenBatch
from edge_lightning.training import learning_rate
from edge_lightning.training.gradient_shares import gradient_shares
from edge_lightning.training.guards import UpdateGuard, refuse_rewards
from edge_lightning.training.lockstep import backward, level
from edge_lightning.training.parts import parts_of
from edge_lightning.training.passes import alive_with_others, scored_first, trained_of
from edge_lightning.training.reference_policy import ReferencePolicy
from edge_lightning.training.step_loss import ConstantsOf, Piece, StepLoss
from edge_lightning.training.update import Update


class PolicyModule(L.LightningModule):
    """Trains the policy on filled rollouts.

    Args:
        optimizer: parameters -> optimizer.
        schedule: optimizer -> learning-rate schedule, stepped once a rollout.
        gradient_clip_norm: None for no clipping.
        updates_per_rollout: optimizer steps on each rollout; the ratio is always to the policy that sampled.
        mini_batches: parts of whole groups that a rollout is split into; each update is over one of them, in turn, and its
            loss a mean over that part. With 1 each update is over all of it (mu of GRPO).
        entropy_every_n_steps: score every response each n steps for the entropy metrics, also where nothing else needs it;
            None: only where needed.
        leave_out_zero_advantage: spare responses the forward and backward pass that have no gradient: their group is tied.
            False changes no gradient.
        gradient_shares_every_n_steps: find out each n steps how much of the gradient comes from which responses and tokens,
            which takes a backward pass more for each kind; None: never.
        largest_gradient_norm: an update with a gradient beyond it, before clipping, is not made; None: none is too large.
        on_unusable_update: whether such an update, or one with what is no finite number, stops the run or is left out.
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
        updates_per_rollout: int = 1,
        mini_batches: int = 1,
        entropy_every_n_steps: int | None = 1,
        leave_out_zero_advantage: bool = True,
        gradient_shares_every_n_steps: int | None = None,
        largest_gradient_norm: float | None = None,
        on_unusable_update: Literal["stop", "skip"] = "stop",
    ):
        require_at_least_one("rollout.updates_per_rollout", updates_per_rollout)
        require_at_least_one("rollout.mini_batches", mini_batches)
        if updates_per_rollout % mini_batches:
            raise UserError(
                f"rollout.updates_per_rollout={updates_per_rollout} rollout.mini_batches={mini_batches}: as many updates "
                f"of each mini-batch expected; set rollout.updates_per_rollout={mini_batches} or a multiple of it"
            )
        require_at_least_one("module.entropy_every_n_steps", entropy_every_n_steps)
        require_at_least_one("module.gradient_shares_every_n_steps", gradient_shares_every_n_steps)
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
        self.updates_per_rollout = updates_per_rollout
        self.mini_batches = mini_batches
        self.entropy_every_n_steps = entropy_every_n_steps
        self.leave_out_zero_advantage = leave_out_zero_advantage
        self.gradient_shares_every_n_steps = gradient_shares_every_n_steps
        self.guard = UpdateGuard(largest_gradient_norm, on_unusable_update)
        self.reference = ReferencePolicy(policy) if objective.needs_reference or credit.needs_reference else None
        self.update: Update | None = None
        self.ranks: Ranks = ALONE

    def configure_model(self) -> None:
        """Deal the weights out to the ranks, where the strategy has a mesh of them."""
        if self.device_mesh is not None and not is_sharded(self.policy):
            shard(self.policy, self.device_mesh["data_parallel"])
            if self.reference is not None:
                self.reference.shard(self.device_mesh["data_parallel"])

    def configure_optimizers(self):
        optimizer = self.make_optimizer(self.policy.trained_parameters())
        return {"optimizer": optimizer, "lr_scheduler": self.make_schedule(optimizer=optimizer)}

    def on_load_checkpoint(self, checkpoint: dict) -> None:
        """The configured learning rate holds, also where the run began with another. Shards are loaded before this."""
        done = checkpoint["lr_schedulers"][0]["last_epoch"]
        parameters = self.policy.trained_parameters()
        rates = learning_rate.configured_rates(self.make_optimizer, self.make_schedule, parameters, done)
        learning_rate.hold(checkpoint, self.trainer.optimizers if is_sharded(self.policy) else (), rates)

    def transfer_batch_to_device(self, batch: Rollout, device: torch.device, dataloader_idx: int) -> Rollout:
        return batch  # the callback fills this very object; micro-batches move one by one

    def training_step(self, rollout: Rollout, batch_idx: int) -> None:
        refuse_rewards(rollout)
        clock = Stopwatch()
        alive_B = self.credit.alive(rollout.advantages_B)
        parts = rollout.mini_batches(self.mini_batches)
        trained = parts
        if self.leave_out_zero_advantage:
            wanted = [self.objective.wants(r, bool(alive)) for r, alive in zip(rollout.responses, alive_B)]
            trained = [trained_of(part, wanted, rollout.responses, self.ranks) for part in parts]
        batches = [self._micro_batches(rollout, some) for some in trained]
        with clock("score"):
            scored = self._score(rollout, self._scored_first(rollout, batches, alive_B))
        losses = [
            StepLoss(
                self.policy,
                self.credit,
                self.objective,
                scored,
                StepTotals.of(
                    scored.response_N, rollout.group_B, len(rollout.problems), self.ranks.all_reduce, counted=part
                ),
                self.device,
                self._padded_to(scored.response_N),
            )
            for part in parts
        ]
        self.update = Update.begin(scored, sum(len(_responses(part)) for part in batches))
        for number in range(self.updates_per_rollout):
            part = number % self.mini_batches
            self._update_once(number, rollout, losses[part], batches[part], clock)
        self.update.seconds = dict(clock.seconds)

    def _update_once(
        self, number: int, rollout: Rollout, step_loss: StepLoss, batches: list[TokenBatch], clock: Stopwatch
    ) -> None:
        update, optimizer, schedule = self.update, self.optimizers(), self.lr_schedulers()
        last = number == self.updates_per_rollout - 1
        with clock("train"):
            optimizer.zero_grad()
            update.losses.append(0.0)
            update.faults.clear()
            if number == 0:
                pieces = step_loss(batches, self._constants_while_scoring(step_loss.scored, batches))
            else:
                pieces = step_loss(batches, self._known_constants, update.logprobs_N)
            self._backward(map(update.take, pieces), len(batches))
            update.losses[-1] = self._summed(update.losses[-1])
            if number == 0:
                update.constants = self._prepare(step_loss.scored)
        every = self.gradient_shares_every_n_steps
        if number == 0 and every is not None and rollout.step % every == 0:
            with clock("gradient_shares"):
                update.gradient_shares = gradient_shares(
                    partial(self._pieces_of, rollout, step_loss),
                    _responses(batches),
                    update.response_N,
                    parts_of(rollout.responses, update.response_N),
                    self.policy.trained_parameters(),
                    self._backward,
                    self.ranks,
                )
        with clock("train"):
            update.gradient_norms.append(self._clip())
            self.guard(
                rollout,
                update,
                _responses(batches),
                self.policy.trained_parameters(),
                partial(self._add_gradient, rollout, step_loss),
                self.ranks,
            )
            if last:  # Lightning counts this one alone, so that its global step is the number of rollouts
                update.learning_rate = optimizer.param_groups[0]["lr"]
                optimizer.step()
                schedule.step()
            else:
                optimizer.optimizer.step()

    def _pieces_of(self, rollout: Rollout, step_loss: StepLoss, some: Sequence[int]) -> tuple[Iterator[Piece], int]:
        """The pieces of some responses of a step whose constants are known, and how many there are, on every rank alike."""
        batches = self._micro_batches(rollout, some)
        return step_loss(batches, self._known_constants), len(batches)

    def _add_gradient(self, rollout: Rollout, step_loss: StepLoss, some: Sequence[int]) -> None:
        """That of some responses of a step whose constants are known, and of those that other ranks ask for."""
        pieces, count = self._pieces_of(rollout, step_loss, some)
        self._backward((piece.loss.value for piece in pieces), count)

    def _backward(self, losses: Iterable[Tensor], count: int) -> None:
        backward(losses, count, self.ranks, getattr(self.trainer, "strategy", None), self.manual_backward)

    def _summed(self, value: float) -> float:
        """Over all ranks."""
        return float(self.ranks.all_reduce(torch.tensor(value, dtype=torch.float64), "sum"))

    def _constants_while_scoring(self, scored: Scored, batches: list[TokenBatch]) -> ConstantsOf:
        """Constants for the first update, whose forward pass scores what has no score yet."""
        unscored_N = scored.entropies_N.isnan()
        trained = torch.tensor(_responses(batches), dtype=torch.long)
        settled = self.credit.scope is None or not unscored_N[torch.isin(scored.response_N, trained)].any()
        settled = bool(self.ranks.all_reduce(torch.tensor(int(settled)), "min"))  # all take the same way
        once = self._prepare(scored) if settled else None

        def constants_of(forward: Forward) -> Constants:
            self.update.see(forward)
            return once if settled else self._prepare(scored)

        return constants_of

    def _known_constants(self, forward: Forward) -> Constants:
        return self.update.constants

    def _prepare(self, scored: Scored) -> Constants:
        """The credit's constants with all that has been scored so far."""
        update = self.update
        return self.credit.prepare(
            replace(scored, entropies_N=update.entropies_N, logprobs_N=update.logprobs_N), self.ranks.all_reduce
        )

    def _score(self, rollout: Rollout, responses: Sequence[int]) -> Scored:
        """The step with scores of some responses and NaN for the others."""
        response_N = response_index(rollout.responses)
        batches = self._micro_batches(rollout, responses)
        found = score(self.policy, batches, response_N, padded_to=self._padded_to(response_N))
        reference_N = None
        if self.reference is not None:
            everyone = range(len(rollout.responses))
            reference_N = self.reference.logprobs(self._micro_batches(rollout, everyone), response_N, self.device)
        rewards_B = torch.tensor([r.grade.reward for r in rollout.responses], dtype=torch.float64)
        return Scored(
            step=rollout.step,
            advantages_B=rollout.advantages_B,
            rewards_B=rewards_B,
            right_B=torch.tensor([r.grade.right for r in rollout.responses]),
            tied_B=tied_groups(rewards_B, rollout.group_B, len(rollout.problems), self.ranks.all_reduce)[rollout.group_B],
            group_B=rollout.group_B,
            groups=len(rollout.problems),
            response_N=response_N,
            entropies_N=found.entropies_N,
            logprobs_N=found.logprobs_N,
            reference_logprobs_N=reference_N,
            padding_entropy_B=found.padding_entropy_B,
        )

    def _scored_first(self, rollout: Rollout, batches: list[list[TokenBatch]], alive_B: Tensor) -> Sequence[int]:
        if self.credit.needs_padding:  # which the training pass can't see for others than its own
            return range(len(rollout.responses))
        every = self.entropy_every_n_steps
        return scored_first(
            self.credit.scope,
            [tokens.responses for part in batches for tokens in part],
            alive_B=alive_with_others(
                self.credit.scope, alive_B, rollout.group_B, len(rollout.problems), self.ranks.all_reduce
            ),
            group_B=rollout.group_B,
            later=[i for part in batches[1:] for i in _responses(part)],
            everyone=every is not None and rollout.step % every == 0,
            apart=self.ranks.size > 1 and len(batches[0]) > 1,
        )

    def _padded_to(self, response_N: Tensor) -> int | None:
        return int(response_N.bincount().max()) if self.credit.needs_padding else None

    def _micro_batches(self, rollout: Rollout, responses: Sequence[int]) -> list[TokenBatch]:
        """Of some responses of this rank; as many on every rank, which all call this together."""
        return level(self.trainer.datamodule.micro_batches(rollout.responses, responses), self.ranks)

    def _clip(self) -> float:
        """Clip the gradient's norm; returns the norm before clipping."""
        return clip_gradients(self.policy.trained_parameters(), self.gradient_clip_norm or torch.inf)


def _responses(batches: Sequence[TokenBatch]) -> list[int]:
    return [i for tokens in batches for i in tokens.responses]
