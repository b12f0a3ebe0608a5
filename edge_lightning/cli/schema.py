"""Constructor signatures are the schema: configuration values are held against them before anything is built."""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hydra.utils import get_object
from omegaconf import DictConfig, OmegaConf

from edge_lightning.errors import UserError

CHECKED = (int, float, bool, str, type(None))
_REFERENCE = re.compile(r"\$\{([\w.]+)\}")


def check(cfg: DictConfig) -> None:
    """Check every `_target_` of a configuration.

    Raises:
        UserError: names the key, what came and what its constructor expects.
    """
    values = OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True)
    _walk(values, OmegaConf.to_container(cfg, resolve=False), "")


def check_call(target: Callable, node: Mapping, name: str, written: Mapping | None = None) -> None:
    """Check the values of `node` as arguments of `target`.

    Args:
        name: of the node, in front of its keys.
        written: the node before `${...}` was resolved, so that a key is named where the user sets it.
    """
    signature = inspect.signature(target).parameters
    takes_any = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in signature.values())
    try:
        hints = typing.get_type_hints(target.__init__ if inspect.isclass(target) else target)
    except NameError:  # another library names a type that it does not import
        hints = {}
    for key, value in node.items():
        if key.startswith("_"):
            continue
        if key not in signature and not takes_any:
            raise UserError(f"no key {_dotted(name, key)}; one of {', '.join(sorted(signature))} expected")
        if key in hints and not _fits(value, hints[key]):
            reference = _REFERENCE.fullmatch(str((written or {}).get(key)))
            place = reference[1] if reference else _dotted(name, key)
            raise UserError(f"{place}={value}: {_named(hints[key])} expected, {_named(type(value))} came")


def _walk(node: Any, written: Any, name: str) -> None:
    if isinstance(node, Mapping):
        written = written if isinstance(written, Mapping) else {}
        if "_target_" in node:
            check_call(target(node["_target_"], name), node, name, written)
        for key, value in node.items():
            _walk(value, written.get(key), _dotted(name, key))


def target(path: str, name: str) -> Callable:
    try:
        return get_object(path)
    except Exception as error:  # Hydra raises several kinds
        raise UserError(f"{name}._target_={path}: a class or function that can be imported expected") from error


def _fits(value: Any, hint: Any) -> bool:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        plain = [option for option in arguments if _is_plain(option)]  # what else stands there, no scalar is
        return any(_fits(value, option) for option in (plain if plain and isinstance(value, CHECKED) else arguments))
    if origin is typing.Literal:
        return value in arguments
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


def _is_plain(hint: Any) -> bool:
    return hint in CHECKED or typing.get_origin(hint) in (typing.Literal, Sequence, list, tuple)


def _dotted(name: str, key: str) -> str:
    return f"{name}.{key}" if name else key


def _named(hint: Any) -> str:
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        return " | ".join(_named(option) for option in typing.get_args(hint))
    if hint is type(None):
        return "null"
    if typing.get_origin(hint) is typing.Literal:
        return " | ".join(map(str, typing.get_args(hint)))
    return hint.__name__ if isinstance(hint, type) and not typing.get_args(hint) else str(hint)
