"""The one strategy that Lightning does not have by itself: its FSDP2 with all ranks sharing the weights.

ModelParallelStrategy wants to be told how many ranks those are, which is not known before the trainer has counted its
devices; the rest is Lightning's. `PolicyModule.configure_model` shards (sharding.py).
"""

from __future__ import annotations

from lightning.pytorch.strategies import ModelParallelStrategy


class FullySharded(ModelParallelStrategy):
    """Weights, gradients and optimizer states dealt out to all ranks.

    Args:
        sharded_checkpoints: every rank writes its own shards into a folder; False: rank 0 gathers them into one file, which
            any strategy and number of ranks reads. A folder is read by any number of ranks of this strategy.
    """

    def __init__(self, *, sharded_checkpoints: bool = False):
        self.sharded_checkpoints = sharded_checkpoints
        super().__init__(tensor_parallel_size=1, save_distributed_checkpoint=sharded_checkpoints)

    def setup_environment(self) -> None:
        self._data_parallel_size = self.num_nodes * self.num_processes
        super().setup_environment()
