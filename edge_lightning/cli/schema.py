"""Constructor signatures are the schema: configuration values are held against them before anything is built."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hydra.utils import get_object

from edge_lightning.errors import UserError

CHECKED = (int, float, bool, str, type(None))


def check(node: Any, name: str) -> None:
    """Check every `_target_` below a resolved configuration node.

    Raises:
        UserError: names the key, what came and what its constructor expects.
    """
    if isinstance(node, Mapping):
        if "_target_" in node:
            _check_call(get_object(node["_target_"]), node, name)
        for key, value in node.items():
            check(value, f"{name}.{key}" if name else key)


def _check_call(target: Callable, node: Mapping, name: str) -> None:
    if not getattr(target, "__module__", "").startswith("edge_lightning"):
        return  # other libraries check their own
    parameters = inspect.signature(target).parameters
    hints = typing.get_type_hints(target.__init__ if inspect.isclass(target) else target)
    for key, value in node.items():
        if key.startswith("_"):
            continue
        if key not in parameters:
            raise UserError(f"no key {name}.{key}; one of {', '.join(sorted(parameters))} expected")
        hint = hints.get(key)
        if hint is not None and not _fits(value, hint):
            raise UserError(f"{name}.{key}={value}: {_named(hint)} expected, {type(value).__name__} came")


def _fits(value: Any, hint: Any) -> bool:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return any(_fits(value, option) for option in arguments)
    if origin in (Sequence, list, tuple):
        kinds = [a for a in arguments if a is not Ellipsis]
        return isinstance(value, list) and all(_fits(v, kinds[0]) for v in value)
    if hint not in CHECKED:
        return True
    if hint is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, hint)


def _named(hint: Any) -> str:
    return "null" if hint is type(None) else str(getattr(hint, "__name__", hint)).replace("None", "null")
