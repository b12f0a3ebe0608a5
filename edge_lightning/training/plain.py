"""Pickles that hold nothing but values: torch.distributed.checkpoint unpickles what says where its shards lie."""

from __future__ import annotations

import pickle
from pathlib import Path

VALUES = {
    "pathlib": {"PosixPath", "PurePosixPath"},
    "torch.distributed.checkpoint.filesystem": {"_StorageInfo"},
    "torch.distributed.checkpoint.metadata": {
        "BytesStorageMetadata",
        "ChunkStorageMetadata",
        "Metadata",
        "MetadataIndex",
        "StorageMeta",
        "TensorProperties",
        "TensorStorageMetadata",
        "_MEM_FORMAT_ENCODING",
    },
    "torch.serialization": {"_get_layout"},
}
TORCH_VALUES = {"Size", "bfloat16", "bool", "float16", "float32", "float64", "int16", "int32", "int64", "int8", "uint8"}


class _Values(pickle.Unpickler):
    def find_class(self, module: str, name: str):
        if name in VALUES.get(module, TORCH_VALUES if module == "torch" else ()):
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"{module}.{name}")


def refuse_code(path: Path) -> None:
    """Raise pickle.UnpicklingError for a pickle that names anything beside the values of such a record."""
    with path.open("rb") as file:
        _Values(file).load()
