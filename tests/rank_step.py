"""One training step of a policy in shards over two processes, started by tests/test_rank_step.py."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

import edge_lightning
from edge_lightning.collective import share_of
from edge_lightning.policy import Policy
from edge_lightning.sharding import shard, whole
from edge_lightning.training.metrics import step_metrics
from edge_lightning.training.process_ranks import ProcessRanks
from edge_lightning.training.whole_step import whole_step
from tests.test_module import Stand, rollout

ASSET = Path(edge_lightning.__file__).parent / "assets" / "tiny_hard"
SETTINGS = {"gradient_clip_norm": 0.01, "gradient_shares_every_n_steps": 1}
ROWS = (1, 10_000)  # tokens of a micro-batch: a response each, and all of a process in one


def a_step():
    """A group of four, two of them right, and one of two, tied: on two processes the first is on both."""
    return rollout((1, 0, 0, 1, 0, 0), (4, 2))


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


def main(rank: int, size: int, folder: Path) -> None:
    dist.init_process_group("gloo", store=dist.FileStore(str(folder / "store"), size), rank=rank, world_size=size)
    ranks = ProcessRanks()
    policy = Policy.load(ASSET)
    before = policy.checksum()
    shard(policy, init_device_mesh("cpu", (size,)))
    same = policy.checksum() == before
    merged = {name: weight.detach().clone() for name, weight in policy.merged_parameters()}
    steps = [step_of(policy, part_of(a_step(), ranks), rows, ranks) for rows in ROWS]
    norms = ranks.gather([float(g.norm()) for grads, _ in steps for g in grads.values()])
    if rank == 0:
        torch.save({"same": same, "merged": merged, "steps": steps, "agree": norms[0] == norms[1]}, folder / "found.pt")
    ranks.barrier()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
