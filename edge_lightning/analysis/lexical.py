"""Lexical analysis: which words stand where the policy is least, and where it is most sure.

The words (or tokens) of all responses are put in the order of their entropies; the 10 % at either end are each held against
all the others by log-odds with an informative Dirichlet prior. A word has the entropy of its first token, which is where the
policy decides for it.
Source: EAPO (arXiv:2609.33781), which shows such words; what is published of it does not say how over-representation is
measured.
"""

from __future__ import annotations

import csv
import io
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from edge_lightning.analysis.base import Findings, Measured, Tools
from edge_lightning.analysis.lexical_picture import Bar, lexical_picture
from edge_lightning.analysis.log_odds import log_odds_z
from edge_lightning.analysis.positions import share_of
from edge_lightning.analysis.words import pieces, words
from edge_lightning.errors import UserError, require_at_least_one
from edge_lightning.report.tables import Table
from edge_lightning.seeds import counter_seed

ENDS = ("highest", "lowest")


@dataclass(frozen=True)
class WordFigures:
    """What is known of one word.

    Attributes:
        count: how often it stands in the responses; of_end: how often among those of either end.
        entropy: its mean, nats.
        log_odds, z: of either end against all the rest.
    """

    word: str
    count: int
    entropy: float
    of_end: dict[str, int]
    log_odds: dict[str, float]
    z: dict[str, float]


class Lexical:
    """Counts words at both ends of the entropies.

    Args:
        unit: "word", or "token": each token's own text.
        share: of the words, at either end.
        top: the words that are shown for an end.
        minimum_count: a rarer word is counted, and not shown.
        prior_words: what the prior is worth; see log_odds_z.
    Raises:
        UserError: a count is below 1, the share is none or has both ends overlap, or the prior is worth nothing.
    """

    def __init__(
        self,
        *,
        name: str,
        unit: Literal["word", "token"] = "word",
        share: float = 0.1,
        top: int = 15,
        minimum_count: int = 10,
        prior_words: float = 500.0,
    ):
        if not 0 < share <= 0.5:
            raise UserError(f"analysis.share={share}: above 0 and at most 0.5 expected, since there are two ends")
        if not prior_words > 0:
            raise UserError(f"analysis.prior_words={prior_words}: above 0 expected")
        require_at_least_one("analysis.top", top)
        require_at_least_one("analysis.minimum_count", minimum_count)
        self.name, self.unit, self.share, self.top = name, unit, share, top
        self.minimum_count, self.prior_words = minimum_count, prior_words

    def __call__(self, measured: Sequence[Measured], tools: Tools) -> Findings:
        """Raises UserError where there are too few words, or none that is frequent enough."""
        said, entropies = [], []
        for it in measured:
            parts = pieces(tools.policy.tokenizer, it.response.completion_ids)
            for text, place in words(parts) if self.unit == "word" else parts:
                said.append(text)
                entropies.append(it.entropies_T[place])
        if len(said) < 3 or len(set(said)) < 2:
            raise UserError(
                f"{len(said)} {self.unit}s came, 3 and two different ones expected; raise problems or rollout.group_size"
            )
        ends = ends_of(np.asarray(entropies), self.share, seed=counter_seed(tools.seed, "lexical"))
        figures = word_figures(said, entropies, ends, prior_words=self.prior_words)
        shown = {end: top_words(figures, end, self.top, self.minimum_count) for end in ENDS}
        if not any(shown.values()):
            raise UserError(
                f"analysis.minimum_count={self.minimum_count}: none of {len(figures)} different {self.unit}s that an end "
                "has more of is so frequent; lower it, or raise problems"
            )
        return self._findings(figures, shown, len(said), {end: len(places) for end, places in ends.items()})

    def _findings(
        self, figures: Sequence[WordFigures], shown: dict[str, list[WordFigures]], count: int, of_ends: dict[str, int]
    ) -> Findings:
        tables = {f"{end} {100 * self.share:.3g} %": _table(shown[end], end, self.unit) for end in ENDS}
        told = (
            f"{count:,} {self.unit}s, {len(figures):,} different ones; z: of the log-odds of an end against all other "
            f"{self.unit}s, with a prior of {self.prior_words:g}; shown: those that come {self.minimum_count} times or more"
        )
        note = "a word has the entropy of its first token" if self.unit == "word" else "a token is shown with its spaces"
        bars = {end: [Bar(visible(it.word), it.z[end], it.of_end[end], it.count) for it in shown[end]] for end in ENDS}
        picture = lexical_picture(bars, unit=self.unit, share=self.share, words=count, file=f"{self.name}.png")
        parts = [f"# Words by entropy\n\n{told}; {note}.\n\n![{picture.alt}]({picture.file})\n\n{picture.caption}"]
        parts += [f"## Over-represented among the {title}\n\n{table.markdown()}" for title, table in tables.items()]
        numbers = {
            "words": count,
            "different": len(figures),
            "of_ends": of_ends,
            "unit": self.unit,
            "share": self.share,
            "top": {end: [{"word": it.word, "z": it.z[end]} for it in shown[end]] for end in ENDS},
        }
        files = {
            picture.file: picture.png,
            f"{self.name}.csv": _csv(figures),
            f"{self.name}.md": ("\n\n".join(parts) + "\n").encode(),
        }
        return Findings(tables, [told, note], numbers, files)


def ends_of(entropies_W: np.ndarray, share: float, *, seed: int) -> dict[str, np.ndarray]:
    """The places of the words with the highest and with the lowest entropies, as many at either end; none is at both.

    Args:
        entropies_W: nats.
        seed: draws among equal ones.
    """
    count = min(share_of(share, len(entropies_W)), len(entropies_W) // 2)
    order = np.lexsort((np.random.default_rng(seed).random(len(entropies_W)), entropies_W))
    return {"highest": order[len(order) - count :], "lowest": order[:count]}


def word_figures(
    said: Sequence[str], entropies: Sequence[float], ends: dict[str, np.ndarray], *, prior_words: float
) -> list[WordFigures]:
    """Counts and log-odds of every word, the most frequent first, then by spelling.

    Args:
        said, entropies: word by word, in the same order.
        ends: places in it.
    """
    counts, of_end, odds = Counter(said), {}, {}
    for end, places in ends.items():
        of_end[end] = Counter(said[place] for place in places)
        odds[end] = log_odds_z(of_end[end], counts - of_end[end], prior_words=prior_words)
    values = defaultdict(list)
    for word, entropy in zip(said, entropies, strict=True):
        values[word].append(entropy)
    return [
        WordFigures(
            word,
            counts[word],
            float(np.mean(values[word])),
            {end: of_end[end][word] for end in ends},
            {end: odds[end][word][0] for end in ends},
            {end: odds[end][word][1] for end in ends},
        )
        for word in sorted(counts, key=lambda word: (-counts[word], word))
    ]


def top_words(figures: Sequence[WordFigures], end: str, top: int, minimum_count: int) -> list[WordFigures]:
    """The words that an end has most more of than the rest, by z; none that it has less of."""
    frequent = [it for it in figures if it.count >= minimum_count and it.z[end] > 0]
    return sorted(frequent, key=lambda it: (-it.z[end], it.word))[:top]


def visible(word: str) -> str:
    """A word whose spaces and line ends can be seen."""
    return word.translate({ord(" "): "␣", ord("\n"): "⏎", ord("\t"): "⇥"})


def _table(shown: Sequence[WordFigures], end: str, unit: str) -> Table:
    rows = [
        (
            visible(it.word),
            f"{it.z[end]:.1f}",
            f"{it.log_odds[end]:+.2f}",
            f"{it.of_end[end]:,}",
            f"{it.count:,}",
            f"{it.entropy:.3f}",
        )
        for it in shown
    ]
    return Table((unit, "z", "log-odds", "there", "in all", "mean entropy"), tuple(rows))


def _csv(figures: Sequence[WordFigures]) -> bytes:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    kinds = ("count", "log_odds", "z")
    writer.writerow(["word", "count", "mean_entropy", *(f"{kind}_{end}" for end in ENDS for kind in kinds)])
    for it in figures:
        values = (value for end in ENDS for value in (it.of_end[end], f"{it.log_odds[end]:.6g}", f"{it.z[end]:.6g}"))
        writer.writerow([it.word, it.count, f"{it.entropy:.6g}", *values])
    return out.getvalue().encode()
