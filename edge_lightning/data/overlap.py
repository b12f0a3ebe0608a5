"""Problems that stand in two places: twice in a set, or in a training set and a benchmark.

Exact: the same letters and digits, whatever the case, spacing, punctuation, LaTeX commands and [b]BBCode[/b] tags; some
word 4-gram must be the same too. Near: the word 4-grams of the two texts, taken as sets, have a Jaccard index
|A & B| / |A | B| of at least 0.4; a text of fewer than 4 words is one gram. On DeepScaleR's Hard-1K against the five
benchmarks every pair above .5 is the same problem and every pair below .33 another one, or the same in other words,
which is beyond n-grams.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from edge_lightning.types import Problem

NEAR = 0.4
_GRAM = 4
_MARKUP = re.compile(r"\\[a-zA-Z]+|\[/?[a-zA-Z]+\]")
_WORD = re.compile(r"[^\W\d_]+|\d+")


@dataclass(frozen=True, slots=True)
class Overlap:
    """Two problems that are the same or nearly so: ids, and the Jaccard index of their 4-grams (1 where exact)."""

    problem: str
    other: str
    similarity: float
    exact: bool


def duplicates(problems: Sequence[Problem]) -> list[list[str]]:
    """The ids of problems with exactly the same text, group by group, in order."""
    groups: dict[str, list[str]] = defaultdict(list)
    for problem in problems:
        groups[" ".join(problem.text.split())].append(problem.id)
    return [ids for ids in groups.values() if len(ids) > 1]


class OverlapIndex:
    """Finds which of these problems overlap with problems of other sets."""

    def __init__(self, problems: Sequence[Problem]):
        self.problems = problems
        self._texts: list[str] = []
        self._grams: list[frozenset] = []
        self._holders: dict[tuple[str, ...], list[int]] = defaultdict(list)
        for i, problem in enumerate(problems):
            words = _words(problem.text)
            self._texts.append("".join(words))
            self._grams.append(_grams(words))
            for gram in self._grams[-1]:
                self._holders[gram].append(i)

    def overlaps(self, other: Problem) -> list[Overlap]:
        """The problems here that are exactly or nearly the other one, the most similar first."""
        words = _words(other.text)
        text, grams = "".join(words), _grams(words)
        shared = Counter(i for gram in grams for i in self._holders.get(gram, ()))
        found = []
        for i, count in shared.items():
            exact = self._texts[i] == text
            similarity = 1.0 if exact else count / (len(grams) + len(self._grams[i]) - count)
            if similarity >= NEAR:
                found.append(Overlap(self.problems[i].id, other.id, similarity, exact))
        return sorted(found, key=lambda overlap: -overlap.similarity)


def _words(text: str) -> list[str]:
    return _WORD.findall(_MARKUP.sub(" ", text).lower())


def _grams(words: Sequence[str]) -> frozenset[tuple[str, ...]]:
    return frozenset(tuple(words[i : i + _GRAM]) for i in range(max(1, len(words) - _GRAM + 1))) if words else frozenset()
