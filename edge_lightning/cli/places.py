"""Where a process stands among those that share a command, and the start of those that share one without a trainer."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from edge_lightning.cli.ranks import shares_run
from edge_lightning.errors import UserError, require_at_least_one


@dataclass(frozen=True)
class Place:
    """A process among those that share a command.

    Attributes:
        rank, size: which of them this is, of how many; local_rank: on its node.
        children: those that this process has started.
    """

    rank: int = 0
    local_rank: int = 0
    size: int = 1
    children: Sequence[subprocess.Popen] = ()

    @classmethod
    def of(cls, owner) -> Place:
        """That of this process in a Lightning trainer or Fabric."""
        return cls(owner.global_rank, owner.local_rank, owner.world_size, getattr(owner.strategy.launcher, "procs", ()))


def share_command(devices: int, num_nodes: int) -> Place:
    """Start the further processes of a command where no launcher has, and meet them; a process by itself needs nothing.

    Args:
        devices: processes of a node, a GPU each where there are any.
    Raises:
        UserError: the launcher has started another number.
    """
    for key, value in (("devices", devices), ("num_nodes", num_nodes)):
        require_at_least_one(key, value)
    if devices * num_nodes == 1 and not shares_run():
        return Place()
    from lightning import Fabric

    try:
        fabric = Fabric(accelerator="auto", devices=devices, num_nodes=num_nodes, strategy="ddp")
    except ValueError as error:  # of Lightning's environments
        said = " ".join(str(error).split())
        raise UserError(f"devices={devices} num_nodes={num_nodes}: as many as were launched expected; {said}") from error
    fabric.launch()
    return Place.of(fabric)
