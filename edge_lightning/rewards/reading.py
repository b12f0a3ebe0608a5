r"""An answer as a flat list of tokens in one spelling: `\dfrac34 \,\text{ cm}.` and `\frac{3}{4}cm` read the same.

A token is a number, a letter, a command, a sign, or words, which begin with a quotation mark. Braces are left only
around the arguments of commands, exponents and indices. What can't be read (braces that do not pair, a fraction
without a denominator) is None. Left out: what the tokens mean, which is `forms.py`.
"""

from __future__ import annotations

import re

from edge_lightning.rewards import upright
from edge_lightning.rewards.brackets import Tokens
from edge_lightning.rewards.characters import fold
from edge_lightning.rewards.groups import DEEPEST, Group, Piece, grouped, source
from edge_lightning.rewards.plain import LONGEST
from edge_lightning.rewards.thousands import with_groups_joined
from edge_lightning.rewards.vocabulary import (
    ARGUMENTS,
    BASES,
    DROPPED,
    DROPPED_WITH_ARGUMENT,
    FUNCTIONS,
    PLAIN,
    SAME,
    TEXT,
    UNITS,
    UNWRAPPED,
)

_NUMERIC = re.compile(r"\d*\.?\d+", re.ASCII)
_WORDY = re.compile(r"[^\W\d_]{2}")
_HAS_MATH = re.compile(r"[\d=<>+^_\\/|*{}]")
_NEGATED = {("=",): "\\ne", ("\\in",): "\\notin", ("\\mid",): "\\nmid"}
_INVISIBLE = frozenset(
    ["\\,", "\\;", "\\:", "\\ ", "\\\n", "\\(", "\\)", "\\[", "\\]", "$", "~", '"', "`", "\\/", "\\-", "\\@"]
)
_AFTER_A_VALUE = re.compile(r"[\d.]+|[})\]'!a-zA-Z]|\\%|\\degree|\\pi")
_NAMED = {"pi": "\\pi", "infty": "\\infty", "infinity": "\\infty", "inf": "\\infty", "oo": "\\infty"}
_NAMED |= {"percent": "\\%", "percentage": "\\%", "pct": "\\%", "and": '"and', "or": '"or'}


class _Malformed(Exception):
    pass


def read(text: str) -> Tokens | None:
    """The tokens of an answer; None if it can't be read."""
    if len(text) > LONGEST:
        return None
    pieces = grouped(fold(text))
    if pieces is None:
        return None
    try:
        tokens = with_groups_joined(_Reader().read(pieces))
    except _Malformed:
        return None
    while tokens and tokens[-1] in (".", ",", ", ", ";", ":"):
        tokens.pop()
    while tokens and tokens[0] in (",", ", ", ":", ".", "="):
        tokens.pop(0)
    if tokens.count("|") == 1:  # the other spelling of "divides"
        tokens[tokens.index("|")] = "\\mid"
    return tuple(tokens)


class _Reader:
    """Walks over pieces, no deeper than `DEEPEST`: of groups, and of the brackets that exponents and roots may have."""

    def __init__(self):
        self._depth = 0
        self._in_unit = 0
        self._spaced = False  # whether a space came before the piece at hand

    def read(self, pieces: list[Piece]) -> list[str]:
        if self._depth > DEEPEST:
            raise _Malformed
        self._depth += 1
        try:
            return self._read(pieces)
        finally:
            self._depth -= 1

    def _read(self, pieces: list[Piece]) -> list[str]:
        for infix, command in (("\\over", "\\frac"), ("\\choose", "\\binom")):
            if infix in pieces:
                at = pieces.index(infix)
                return [command, "{", *self.read(pieces[:at]), "}", "{", *self.read(pieces[at + 1 :]), "}"]
        out: list[str] = []
        rest = list(reversed(pieces))
        while rest:
            self._next(rest, out)
        return out

    def _next(self, rest: list[Piece], out: list[str]) -> None:
        """Move one piece with its arguments from the end of `rest` to `out`."""
        piece = rest.pop()
        spaced, self._spaced = self._spaced, isinstance(piece, str) and (piece.isspace() or piece in _INVISIBLE)
        if isinstance(piece, Group):
            inner = [part for part in piece.pieces if not (isinstance(part, str) and part.isspace())]
            out.extend(["{,}"] if inner == [","] else self.read(piece.pieces))
        elif piece.isspace() or piece in _INVISIBLE:
            if out and out[-1] == ",":
                out[-1] = ", "
        elif piece == "\\!":
            if out and out[-1] == ",":
                out[-1] = "{,}"
        elif piece == "\\\\":
            out.append("\\\\")
            if len(rest) > 3 and rest[-1] == "[" and rest[-4] == "]":  # the gap before the next row
                del rest[-4:]
        elif piece[0] == "\\":
            self._command(piece, rest, out)
        elif piece in "^_":
            self._script(piece, rest, out)
        elif piece.isalpha():
            self._letters(piece, rest, out, spaced)
        elif piece == "*":
            if rest and rest[-1] == "*":
                rest.pop()
                self._script("^", rest, out)
            else:
                out.append("\\cdot")
        elif piece == "%":
            out.append("\\%")
        elif piece == "=" and out and out[-1] in ("<", ">", "!", "="):
            out[-1] = {"<": "\\le", ">": "\\ge", "!": "\\ne", "=": "="}[out[-1]]
        elif piece == ".":
            out.append(".")
            if out[-3:] == [".", ".", "."]:
                out[-3:] = ["\\ldots"]
        else:
            out.append(f"0{piece}" if piece[0] == "." else piece)

    def _command(self, piece: str, rest: list[Piece], out: list[str]) -> None:
        name = piece[1:]
        name = SAME.get(name, name)
        if name == "mod":  # x \equiv 3 \mod 7
            out.extend(["\\pmod", "{", *self._argument(rest), "}"])
        elif name in DROPPED:
            if name in ("left", "right") and rest and rest[-1] == ".":
                rest.pop()
        elif name in DROPPED_WITH_ARGUMENT:
            self._argument(rest)
        elif name in UNWRAPPED:
            for _ in range(UNWRAPPED[name]):
                self._argument(rest)
            out.extend(self._argument(rest))
        elif name in TEXT:
            self._skip_space(rest)
            self._text(self._pieces(rest), rest, out, symbols=name in ("mathrm", "operatorname"))
        elif name == "rm":  # over the next group, or all that follows
            self._skip_space(rest)
            pieces = self._pieces(rest) if rest and isinstance(rest[-1], Group) else [rest.pop() for _ in range(len(rest))]
            self._text(pieces, rest, out, symbols=True)
        elif name in PLAIN:
            out.append(PLAIN[name])
        elif name in ("begin", "end"):
            out.append(f"\\{name}{{{source(self._pieces(rest)).strip()}}}")
            if out[-1] == "\\begin{array}":
                self._argument(rest)
        elif name == "not":
            out.append(_NEGATED.get(tuple(self._argument(rest)), "\\not"))
        elif name in ARGUMENTS:
            out.append(f"\\{name}")
            self._skip_space(rest)
            if name == "sqrt" and rest and rest[-1] == "[":
                index = self._upto(rest, "[", "]")
                if index != ["2"]:
                    out.extend(["[", *index, "]"])
            units = name == "frac" and bool(out) and upright.is_fraction_of_units(rest)
            self._in_unit += units
            for _ in range(ARGUMENTS[name]):
                out.extend(["{", *self._argument(rest, digit=True), "}"])
            self._in_unit -= units
        else:
            out.append(f"\\{name}")

    def _script(self, sign: str, rest: list[Piece], out: list[str]) -> None:
        """An exponent or an index; degrees and primes are no exponents."""
        self._skip_space(rest)
        if sign == "^" and rest and rest[-1] == "(":
            content = self._upto(rest, "(", ")")
        elif rest and rest[-1] in ("-", "+"):
            content = [rest.pop(), *self._argument(rest)]
        else:
            content = self._argument(rest)
        if sign == "^" and content in (["\\degree"], ["\\circ"], ["o"]):
            out.append("\\degree")
        elif sign == "^" and content and set(content) == {"'"}:
            out.extend(content)
        elif content:
            base = BASES.get("".join(content).strip('"')) if sign == "_" else None
            out.extend([sign, "{", *([base] if base else content), "}"])
        elif sign == "^":
            raise _Malformed

    def _letters(self, piece: str, rest: list[Piece], out: list[str], spaced: bool) -> None:
        lower = piece.lower()
        if len(piece) == 1 and piece.isascii():
            if lower == "e" and out and _NUMERIC.fullmatch(out[-1]) and self._exponent(rest, out):
                return
            out.append(piece)
        elif lower == "sqrt":
            self._skip_space(rest)
            content = self._upto(rest, "(", ")") if rest and rest[-1] == "(" else self._argument(rest)
            out.extend(["\\sqrt", "{", *content, "}"])
        elif lower in _NAMED:
            out.append(_NAMED[lower])
        elif lower in FUNCTIONS and not (
            lower in upright.BARE_UNITS and spaced and not rest and self._is_word(piece, out, spaced)
        ):
            out.append(f"\\{lower}")
        elif self._is_word(piece, out, spaced):
            if out and out[-1][0] == '"' and out[-1] not in ('"and', '"or'):  # words in a row are one token
                out[-1] += f" {piece}"
            else:
                out.append(f'"{piece}')
        else:
            out.extend(piece)

    @staticmethod
    def _is_word(piece: str, out: list[str], spaced: bool) -> bool:
        """Whether letters in a row are a word: after a value and a space, a known unit; not right after a value or sign."""
        if not piece.isascii() or (out and out[-1][0] == '"'):
            return True
        if out and _AFTER_A_VALUE.fullmatch(out[-1]):
            return spaced and (
                piece.lower() in upright.BARE_UNITS or len(piece) >= 4 or (":" in out and piece in ("AM", "PM"))
            )
        return len(piece) >= 4 and not (out and out[-1] in ("+", "-", "/", "\\cdot"))

    def _exponent(self, rest: list[Piece], out: list[str]) -> bool:
        """3e8, 1.5E-10: the letter between a number and whole digits, with nothing between, is a power of ten."""
        signed = bool(rest) and rest[-1] in ("-", "+")
        digits = rest[-2 if signed else -1] if len(rest) > signed else ""
        if not isinstance(digits, str) or not digits.isdecimal():
            return False
        sign = ["-"] if signed and rest[-1] == "-" else []
        del rest[-2 if signed else -1 :]
        out.extend(["\\cdot", "10", "^", "{", *sign, digits, "}"])
        return True

    def _text(self, pieces: list[Piece], rest: list[Piece], out: list[str], symbols: bool) -> None:
        r"""\text{...}: words as one token, a unit as its parts, but mathematics and single letters as if outside."""
        words = upright.words_in(source(pieces))
        after_value = (
            self._in_unit or upright.unit_ended(out) or (bool(out) and _AFTER_A_VALUE.fullmatch(out[-1]) is not None)
        )
        plain = words.lower().removesuffix(".")
        leading = upright.LEADING.match(words)
        if plain in _NAMED or (plain in FUNCTIONS and plain not in UNITS):
            rest.append(plain)
        elif len(words) == 1 and words.isalpha() and not (after_value and words in upright.UNIT_LETTERS):
            out.append(words if symbols or after_value or words not in "ABCDEF" else f'"{words}')
        elif after_value and (unit := upright.unit_tokens(words)):
            out.extend(unit)
        elif leading:
            out.extend(self.read(grouped(leading[0]) or []))
            self._text(grouped(words[leading.end() :]) or [], rest, out, symbols)
        elif _HAS_MATH.search(words) or (words and not any(char.isalpha() for char in words)):
            out.extend(self.read(pieces))
        elif words:
            out.append(f'"{words}')

    def _upto(self, rest: list[Piece], opening: str, closing: str) -> list[str]:
        """What stands between the bracket at the end of `rest` and its partner."""
        depth, content = 0, []
        while rest:
            piece = rest.pop()
            depth += (piece == opening) - (piece == closing)
            if depth == 0:
                return self.read(content[1:])
            content.append(piece)
        raise _Malformed

    def _argument(self, rest: list[Piece], digit: bool = False) -> list[str]:
        return self.read(self._pieces(rest, digit))

    def _pieces(self, rest: list[Piece], digit: bool = False) -> list[Piece]:
        """The pieces of the next argument; without braces it is one letter or command, or one digit where TeX has it so."""
        self._skip_space(rest)
        if not rest:
            raise _Malformed
        piece = rest.pop()
        if isinstance(piece, Group):
            return piece.pieces
        if len(piece) > 1 and (piece.isalpha() or (digit and piece.isdecimal())):
            rest.append(piece[1:])
            return [piece[0]]
        if piece[0] == "\\" and SAME.get(piece[1:], piece[1:]) in ARGUMENTS:
            name = SAME.get(piece[1:], piece[1:])
            taken = [Group(self._pieces(rest, digit=True), 1) for _ in range(ARGUMENTS[name])]
            return [piece, *taken]
        return [piece]

    @staticmethod
    def _skip_space(rest: list[Piece]) -> None:
        while rest and isinstance(rest[-1], str) and (rest[-1].isspace() or rest[-1] in _INVISIBLE):
            rest.pop()
