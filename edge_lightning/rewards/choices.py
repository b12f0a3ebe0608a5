r"""The letter of a multiple choice and what it stands for: (C) 7, \textbf{(C)}\ 7, 7 \Rightarrow C.

Left out: letters behind F.
"""

from __future__ import annotations

import re

from edge_lightning.rewards.brackets import COMMAS, Tokens

_OPTION = re.compile(r'"\(([A-F])\)?[.:]?|"([A-F])[).:]')
_CHOICE = re.compile(r'"?\(?([A-F])\)?[.:]?')
_ARROWS = frozenset(["\\Rightarrow", "\\Longrightarrow", "\\implies", "\\to", "\\quad"])


def chosen(tokens: Tokens) -> tuple[str, Tokens] | None:
    r"""The letter and the rest of (C) 7, \text{C. } 7, 7 \textbf{(C)}, 7 \Rightarrow C, and 7, \text{C}.

    None if the rest names a choice too: who gives several letters has not chosen.
    """
    found = _letter_and_rest(tokens)
    if not found:
        return None
    rest = found[1]
    bare = [token in "ABCDEF" or bool(_CHOICE.fullmatch(token) or _OPTION.match(token)) for token in rest]
    beside = {"(", ")", *COMMAS, *_ARROWS}
    for at, named in enumerate(bare):
        alone = {*rest[max(0, at - 1) : at], *rest[at + 1 : at + 2]} <= beside
        if named and (alone or rest[at][0] == '"'):
            return None
    return found


def _letter_and_rest(tokens: Tokens) -> tuple[str, Tokens] | None:
    first, last = _OPTION.fullmatch(tokens[0]), _OPTION.fullmatch(tokens[-1])
    if first and len(tokens) > 1:
        return first[1] or first[2], tokens[1:]
    if last and len(tokens) > 1:
        return last[1] or last[2], tokens[: -2 if tokens[-2] in _ARROWS else -1]
    opened = len(tokens) > 3 and tokens[0] == "(" and tokens[2] == ")" and tokens[1] in "ABCDEF"
    if opened and re.match(r'[\d"]|\\[$fs]', tokens[3]):
        return tokens[1], tokens[3:]
    if len(tokens) > 2 and (tokens[-2] in _ARROWS or (tokens[-2] in COMMAS and tokens[-1][0] == '"')):
        letter = _CHOICE.fullmatch(tokens[-1])
        return (letter[1], tokens[:-2]) if letter else None
    return None
