"""Figures by where a response came from, and by where a token came from."""

from __future__ import annotations

from edge_lightning.report.curve_pictures import Curve, Plan
from edge_lightning.report.curves import over_steps
from edge_lightning.report.methods import Method
from edge_lightning.report.tables import NOTHING, Table

PROVENANCES = ("sampled", "reflected", "answer_injected", "reference")  # of responses
ORIGINS = ("sampled_tokens", "wrong_prefix_tokens", "injected_tokens")  # of tokens
_LOOK = {
    "sampled": ("-", "#0072B2"),
    "reflected": ("--", "#E69F00"),
    "answer_injected": ("-.", "#D55E00"),
    "reference": (":", "#009E73"),
    "sampled_tokens": ("-", "#0072B2"),
    "wrong_prefix_tokens": ("--", "#CC79A7"),
    "injected_tokens": ("-.", "#D55E00"),
}
# heading, column, decimals, whether the largest of the steps is told in place of their mean
FIGURES = (
    ("responses a step", "count", 1, False),
    ("reward", "reward/mean", 3, False),
    ("advantage", "advantage/mean", 3, False),
    ("token advantage", "credit/token_advantage_mean", 3, False),
    ("entropy", "entropy/mean", 3, False),
    ("Phat", "relative_entropy/mean", 3, False),
    ("log-probability", "logprob/mean", 3, False),
    ("length", "length/mean", 1, False),
    ("ratio", "ratio/mean", 3, False),
    ("largest ratio", "ratio/max", 2, True),
    ("clipped", "clip/fraction", 3, False),
    ("gradient norm", "gradient/norm", 3, False),
    ("gradient share", "gradient/share", 3, False),
)


def look(kind: str) -> str:
    """The colour of a provenance or an origin, in every picture and view."""
    return _LOOK[kind][1]


def _curves(figure: str, kinds: tuple[str, ...]) -> tuple[Curve, ...]:
    return tuple(Curve(f"{figure}/{kind}", kind.replace("_", " "), *_LOOK[kind]) for kind in kinds)


def _plan(name: str, title: str, unit: str, figure: str, kinds: tuple[str, ...], **more) -> Plan:
    return Plan(name, title, unit, _curves(figure, kinds), beside_baseline=False, **more)


_SHARE = (
    "A sample of the steps is measured. Share: g_part . g / |g|^2, so the parts of a step sum to 1, and a part that pulls "
    "against the rest is below 0."
)
PICTURES = (
    _plan(
        "gradient_share",
        "Gradient by provenance",
        "share of gradient",
        "gradient/share",
        PROVENANCES,
        smooth=False,
        note=_SHARE,
    ),
    _plan(
        "gradient_share_tokens",
        "Gradient by origin of tokens",
        "share of gradient",
        "gradient/share",
        ORIGINS,
        smooth=False,
        note=_SHARE,
    ),
    _plan("advantage_provenance", "Advantage by provenance", "mean advantage", "advantage/mean", PROVENANCES),
    _plan("entropy_provenance", "Entropy by provenance", "nats a token", "entropy/mean", PROVENANCES),
    _plan(
        "relative_entropy_provenance",
        "Relative entropy (Phat) by provenance",
        "entropy / mean of group",
        "relative_entropy/mean",
        PROVENANCES,
        level=1.0,
    ),
    _plan("entropy_tokens", "Entropy by origin of tokens", "nats a token", "entropy/mean", ORIGINS),
    _plan("advantage_tokens", "Token advantage by origin", "mean advantage", "credit/token_advantage_mean", ORIGINS),
    _plan("logprob_tokens", "Log-probability by origin of tokens", "nats a token", "logprob/mean", ORIGINS),
)


def provenance_table(method: Method) -> Table | None:
    """A row a provenance of responses and an origin of tokens, a column a figure; None where a run has none of them.

    Each figure is the mean over the steps that have it, of all steps of a run, then over seeds. A column that no row has is
    left out, and so is a row without any figure.
    """
    kinds = [kind for kind in (*PROVENANCES, *ORIGINS) if any(_value(method, f, kind) for f in FIGURES if f[1] != "count")]
    figures = [f for f in FIGURES if any(_value(method, f, kind) for kind in kinds)]
    if not kinds:
        return None
    rows = []
    for kind in kinds:
        steps = max(value[1] for f in figures if f[1] != "count" and (value := _value(method, f, kind)))
        rows.append((kind.replace("_", " "), f"{steps:.0f}", *(_text(_value(method, f, kind), f[2]) for f in figures)))
    return Table(("", "steps", *(f[0] for f in figures)), tuple(rows))


def _value(method: Method, figure: tuple, kind: str) -> tuple[float, float] | None:
    return over_steps(method, f"{figure[1]}/{kind}", largest=figure[3])


def _text(value: tuple[float, float] | None, decimals: int) -> str:
    return NOTHING if value is None else f"{round(value[0], decimals) + 0.0:.{decimals}f}"  # no -0.000
