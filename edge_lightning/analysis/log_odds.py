"""Words that one body of text has more of than another.

Source: Monroe, Colaresi & Quinn (2008), Fightin' Words, Political Analysis 16(4): the log-odds ratio with an informative
Dirichlet prior. Rare words are held back by the prior and by the variance, common ones do not win by being common.
"""

from __future__ import annotations

import math
from collections.abc import Mapping


def log_odds_z(ours: Mapping[str, int], theirs: Mapping[str, int], *, prior_words: float) -> dict[str, tuple[float, float]]:
    """Log-odds ratio of each word and its z-score; positive where `ours` has more of it.

        a_w = a_0 (y_w + y'_w) / (n + n')
        delta_w = log (y_w + a_w) / (n + a_0 - y_w - a_w) - log (y'_w + a_w) / (n' + a_0 - y'_w - a_w)
        z_w = delta_w / sqrt(1 / (y_w + a_w) + 1 / (y'_w + a_w))

    with y and n the counts of a word and of all words in `ours`, y' and n' those in `theirs`.

    Args:
        prior_words: a_0, the words that the prior is worth; it has the shares of both bodies together.
    Raises:
        ValueError: fewer than two different words came, whose odds are not defined.
    """
    everything = {word: ours.get(word, 0) + theirs.get(word, 0) for word in {**ours, **theirs}}
    if len(everything) < 2:
        raise ValueError(f"at least two different words expected, {len(everything)} came")
    n, n_theirs = sum(ours.values()), sum(theirs.values())
    found = {}
    for word, count in everything.items():
        a = prior_words * count / (n + n_theirs)
        y, y_theirs = ours.get(word, 0) + a, theirs.get(word, 0) + a
        delta = math.log(y / (n + prior_words - y)) - math.log(y_theirs / (n_theirs + prior_words - y_theirs))
        found[word] = delta, delta / math.sqrt(1 / y + 1 / y_theirs)
    return found
