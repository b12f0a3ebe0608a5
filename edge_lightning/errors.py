"""The one exception for what a user can cause and mend."""

from __future__ import annotations

from collections.abc import Sequence


class UserError(Exception):
    """Says in one line what came, what was expected and what to change; the command line prints it without a traceback."""


def require_at_least_one(key: str, value: int | None) -> None:
    """Raise UserError for a count below 1; None is no count."""
    if value is not None and value < 1:
        raise UserError(f"{key}={value}: at least 1 expected")


def require_file_name(key: str, name: object) -> None:
    """Raise UserError for what could not be the name of a file, or would lead out of its folder."""
    text = str(name)
    if not name or "/" in text or not text.isprintable() or len(text.encode(errors="replace")) > 100:
        raise UserError(
            f"{key}={name!r}: a name without / and control characters expected, of 1 to 100 bytes, since files bear it"
        )


def printable(text: str) -> str:
    """Letters as they are; what a terminal obeys, line ends among it, as its escape."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def named(names: Sequence[str], most: int = 5) -> str:
    """problem 'a', or problems 'a', 'b' and 3 more."""
    shown = ", ".join(map(repr, names[:most]))
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"problem{'s' if len(names) > 1 else ''} {shown}{more}"
