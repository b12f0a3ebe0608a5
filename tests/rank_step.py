"""One training step of a policy in shards over two processes, started by tests/test_rank_step.py."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

import edge_lightning
from edge_lightning.collective import share_of
from edge_lightning.policy import Policy
from edge_lightning.sharding import shard, shard_of, whole
from edge_lightning.training.guards import UnusableStepError
from edge_lightning.training.metrics import step_metrics
from edge_lightning.training.process_ranks import ProcessRanks
from edge_lightning.training.whole_step import whole_step
from tests.faults.test_guards import Spoiling
from tests.test_module import Stand, rollout

ASSET = Path(edge_lightning.__file__).parent / "assets" / "tiny_hard"
SETTINGS = {"gradient_clip_norm": 0.01, "gradient_shares_every_n_steps": 1}
TOKEN = 413
ROWS = (1, 10_000)  # tokens of a micro-batch: a response each, and all of a process in one


def a_step():
    """A group of four, two of them right, and one of two, tied: on two processes the first is on both."""
    return rollout((1, 0, 0, 1, 0, 0), (4, 2))


def with_names(step):
    """Problems by name; TOKEN is one of the first response's, and of no other's, in the second half of the embeddings."""
    names = ["first"] * 4 + ["second"] * 2
    made = [replace(r, problem=replace(r.problem, id=name)) for r, name in zip(step.responses, names)]
    made[0] = replace(made[0], completion_ids=(TOKEN, *made[0].completion_ids[1:]))
    return replace(step, responses=made)


def step_of(policy, step, rows, ranks=None):
    """The gradient after clipping, whole, and the figures of the step, of all ranks."""
    module = Stand(policy, micro_batch_tokens=rows, **SETTINGS)
    if ranks is not None:
        module.ranks = ranks
    module.training_step(step, 0)
    step = replace(step, sampled_advantages_B=step.advantages_B)
    figures = whole_step(step, module.update, module.ranks)
    grads = {name: whole(p.grad).clone() for name, p in policy.named_parameters()}
    return grads, None if figures is None else step_metrics(*figures)


def part_of(step, ranks):
    mine = share_of(len(step.responses), ranks)
    return replace(
        step,
        responses=[step.responses[i] for i in mine],
        advantages_B=step.advantages_B[mine.start : mine.stop],
        group_B=step.group_B[mine.start : mine.stop],
    )


class Watched(Stand):
    """Notes whether the gradient of this rank's shards was finite when it came to be clipped."""

    finite = None

    def _clip(self):
        self.finite = all(torch.isfinite(shard_of(p.grad)).all().item() for p in self.policy.parameters())
        return super()._clip()


def guarded(policy, step, ranks, **settings):
    """What became of an update: what was said, whether the gradient here was finite, updates skipped, whether it is gone."""
    module = Watched(policy, gradient_clip_norm=1.0, **settings)
    module.ranks, said = ranks, ""
    try:
        module.training_step(step, 0)
    except UnusableStepError as error:
        said = str(error)
    return said, module.finite, module.update.skipped, all(p.grad is None for p in policy.parameters())


@contextmanager
def spoiled_row(policy, token):
    """The gradient of one row of the embeddings is no number wherever its token is read; every value of the pass is."""

    def spoil(module, given, made):
        here, spoiled = given[0] == token, made.clone()
        spoiled[here] = made[here] + (made[here] * 0.0).abs().sqrt()  # sqrt at 0; elsewhere 0 times infinity would be none
        return spoiled

    hook = policy.model.get_input_embeddings().register_forward_hook(spoil)
    yield
    hook.remove()


def unusable_updates(policy, ranks):
    """By name: see `guarded`."""
    step = part_of(with_names(a_step()), ranks)
    found = {}
    with spoiled_row(policy, TOKEN):
        found["gradient"] = guarded(policy, step, ranks, micro_batch_tokens=1)
        found["skipped"] = guarded(policy, step, ranks, on_unusable_update="skip")
    spoil = [0] if ranks.rank == 1 else []  # of its own three responses
    found["advantage"] = guarded(policy, step, ranks, credit=Spoiling(spoil, float("nan")))
    found["norm"] = guarded(policy, step, ranks, largest_gradient_norm=1e-3)
    found["none"] = guarded(policy, step, ranks)
    return found


def main(rank: int, size: int, folder: Path) -> None:
    dist.init_process_group("gloo", store=dist.FileStore(str(folder / "store"), size), rank=rank, world_size=size)
    ranks = ProcessRanks()
    policy = Policy.load(ASSET)
    before = policy.checksum()
    shard(policy, init_device_mesh("cpu", (size,)))
    same = policy.checksum() == before
    merged = {name: weight.detach().clone() for name, weight in policy.merged_parameters()}
    steps = [step_of(policy, part_of(a_step(), ranks), rows, ranks) for rows in ROWS]
    unusable = ranks.gather(unusable_updates(policy, ranks))
    norms = ranks.gather([float(g.norm()) for grads, _ in steps for g in grads.values()])
    if rank == 0:
        found = {"same": same, "merged": merged, "steps": steps, "agree": norms[0] == norms[1], "unusable": unusable}
        torch.save(found, folder / "found.pt")
    ranks.barrier()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
