"""Numbers whose digits stand in groups of three: 1,234,567 and 1 234 567."""

from __future__ import annotations

import re

from edge_lightning.rewards.brackets import COMMAS, Tokens, depths


def with_groups_joined(tokens: list[str]) -> list[str]:
    """Digits in groups of three, parted by a space or by a comma that TeX sets as part of a number, are one number."""
    out: list[str] = []
    at = 0
    while at < len(tokens):
        number, end = tokens[at], at + 1
        if number.isdecimal() and len(number) <= 3 and number != "0" and not (out and out[-1] in ("{,}", "_")):
            while True:
                here = end + (end < len(tokens) and tokens[end] == "{,}")
                if here == len(tokens) or not re.fullmatch(r"\d{3}(\.\d+)?", tokens[here], re.ASCII):
                    break
                number, end = number + tokens[here], here + 1
                if "." in number:
                    break
        out.append(number)
        at = end
    return out


def with_thousands_joined(tokens: Tokens) -> Tokens:
    """1,234,567 is a number where its commas are the only ones of the answer and no space follows them."""
    commas = [at for at, depth in enumerate(depths(tokens)) if depth == 0 and tokens[at] in COMMAS]
    if not commas or any(tokens[at] != "," for at in commas):
        return tokens
    first, last = commas[0] - 1, commas[-1] + 1
    if first < 0 or last >= len(tokens) or commas != list(range(first + 1, last, 2)):
        return tokens
    groups = tokens[first : last + 1 : 2]
    if re.fullmatch(r"[1-9]\d?\d?", groups[0], re.ASCII) and all(
        re.fullmatch(r"\d{3}" if at < len(groups) - 1 else r"\d{3}(\.\d+)?", group, re.ASCII)
        for at, group in enumerate(groups)
        if at
    ):
        return (*tokens[:first], "".join(groups), *tokens[last + 1 :])
    return tokens
