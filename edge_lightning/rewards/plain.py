r"""What two texts have in common at a glance: their spelling but for spaces and typography, or the number they are.

All that the run's own process ever decides about an answer. Each function takes time linear in the text, calls itself
nowhere and counts no number of over 60 digits, so that no text can hang a run.
"""

from __future__ import annotations

import re
from fractions import Fraction

LONGEST = 1000  # characters of an answer that is read; a longer one is right only if it equals a gold as text

_DIGITS = 60
_DECIMAL = re.compile(rf"[-+]?(?:\d{{1,{_DIGITS}}}(?:\.\d{{0,{_DIGITS}}})?|\.\d{{1,{_DIGITS}}})", re.ASCII)
_FRACTION = re.compile(r"(-?)(?:\\frac\{(\d+)\}\{(\d+)\}|(\d+)/(\d+))", re.ASCII)
_TYPOGRAPHY = re.compile(r"\\(?:left|right)(?![a-zA-Z])|\\[,;:! ]|[$\s]|(?<=\\)[dt](?=frac)|\\(?=%)")


def stripped(text: str) -> str:
    """The text without the dollars and spaces around it, one space for each run of them, none around + and =."""
    text = " ".join(text.split())
    if len(text) > 2 and text[0] == text[-1] == "$" and "$" not in text[1:-1] and text[-2] != "\\":
        text = text[1:-1].strip()
    for dense, spaced in (("+", " + "), ("=", " = "), ("\\frac", "\\dfrac"), ("\\frac", "\\tfrac")):
        text = text.replace(spaced, dense)
    return text


def number(text: str) -> Fraction | None:
    r"""The value of a decimal, of a/b or of \frac{a}{b}; None for anything else, and for what takes long to count."""
    if len(text) > 3 * _DIGITS:
        return None
    text = stripped(text)
    if _DECIMAL.fullmatch(text):
        return Fraction(text.removesuffix("."))
    found = _FRACTION.fullmatch(text)
    if not found:
        return None
    top, bottom = int(found[2] or found[4]), int(found[3] or found[5])
    return Fraction(-top if found[1] else top, bottom) if bottom else None


def key(text: str) -> str:
    """What answers that look alike have in common: the number they are, or their text without spaces and typography."""
    text = text.strip().removesuffix(".")
    value = number(text)
    return _TYPOGRAPHY.sub("", text) if value is None else str(value)
