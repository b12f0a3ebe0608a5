r"""Unicode to the ASCII and LaTeX that mean the same: `−½·７²` becomes `-\frac{1}{2}\cdot 7^{2}`.

Left out: NFKC as a whole, which makes x² into x2.
"""

from __future__ import annotations

import re
import unicodedata

_PLAIN = {
    "-": "−–—‐‑‒―﹣－",
    " ": "\u00a0\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000\u2028\u2029\x85",
    "": "\u200b\u200c\u200d\u200e\u200f\u2060\ufeff\u00ad\u202a\u202b\u202c\u202d\u202e",
    "'": "′‘’ʹ＇",
    '"': "“”„«»",
    ",": "，、",
    ".": "。．",
    ";": "；",
    ":": "：∶",
    "(": "（",
    ")": "）",
    "[": "［【",
    "]": "］】",
    "+": "＋",
    "=": "＝",
    "/": "／⁄∕÷",
    "*": "＊∗",
    "<": "＜",
    ">": "＞",
    "|": "｜∥",
    "%": "％",
    "!": "！",
    "?": "？",
}
_COMMANDS = {
    "cdot": "·⋅∙•",
    "times": "×",
    "pm": "±",
    "mp": "∓",
    "le": "≤⩽≦",
    "ge": "≥⩾≧",
    "ne": "≠",
    "approx": "≈",
    "equiv": "≡",
    "infty": "∞",
    "cup": "∪",
    "cap": "∩",
    "in": "∈",
    "notin": "∉",
    "mid": "∣",
    "nmid": "∤",
    "ldots": "…⋯",
    "degree": "°º˚",
    "emptyset": "∅",
    "setminus": "∖",
    "to": "→",
    "angle": "∠",
    "langle": "⟨〈",
    "rangle": "⟩〉",
    "lfloor": "⌊",
    "rfloor": "⌋",
    "lceil": "⌈",
    "rceil": "⌉",
    "hbar": "ℏ",
    "pounds": "£",
    "euro": "€",
    "pi": "π",
}
_GREEK = (
    "alpha α beta β gamma γ delta δ epsilon εϵ zeta ζ eta η theta θϑ iota ι kappa κ lambda λ mu μµ nu ν xi ξ rho ρ sigma σ "
    "tau τ upsilon υ phi φϕ chi χ psi ψ omega ω Gamma Γ Delta Δ Theta Θ Lambda Λ Xi Ξ Pi Π Sigma Σ Phi Φ Psi Ψ Omega Ω"
)
_TABLE = {ord(char): plain for plain, chars in _PLAIN.items() for char in chars}
_TABLE |= {ord(char): f"\\{name} " for name, chars in _COMMANDS.items() for char in chars}
_TABLE |= {ord(char): f"\\{name} " for name, chars in zip(*[iter(_GREEK.split())] * 2) for char in chars}

_RAISED = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ]+")
_LOWERED = re.compile("[₀₁₂₃₄₅₆₇₈₉₊₋ₙ]+")
_SCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ₀₁₂₃₄₅₆₇₈₉₊₋ₙ", "0123456789+-n0123456789+-n")
_FRACTION = re.compile("[¼½¾⅐-⅞]")
_HIGHER_ROOT = re.compile(r"([∛∜]) ?(\d+|[a-zA-Z])", re.ASCII)
_OTHERS = re.compile(r"[^\x00-\x7f]")
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


def fold(text: str) -> str:
    """The text in ASCII as far as it has a meaning there. Control characters become spaces: 1, NUL, 2 is not 12."""
    text = _CONTROLS.sub(" ", text)
    if text.isascii():
        return text
    text = _RAISED.sub(lambda run: "^{" + run[0].translate(_SCRIPTS) + "}", text)
    text = _LOWERED.sub(lambda run: "_{" + run[0].translate(_SCRIPTS) + "}", text)
    text = _FRACTION.sub(_as_fraction, text)
    text = _HIGHER_ROOT.sub(lambda root: rf"\sqrt[{'∛∜'.index(root[1]) + 3}]{{{root[2]}}}", text)
    return _OTHERS.sub(_as_ascii, text.replace("√", " sqrt ").translate(_TABLE))  # of all digits behind it: √13


def _as_fraction(match: re.Match) -> str:
    top, _, bottom = unicodedata.normalize("NFKD", match[0]).partition("⁄")
    return rf"\frac{{{top}}}{{{bottom}}}"


def _as_ascii(match: re.Match) -> str:
    """A digit of any script and a letter in any face (𝟕, ７, ٧, 𝑥) in ASCII; anything else as it is."""
    digit = unicodedata.decimal(match[0], None)
    if digit is not None:
        return str(digit)
    plain = unicodedata.normalize("NFKC", match[0])
    return plain if len(plain) == 1 and plain.isascii() and plain.isalpha() else match[0]
