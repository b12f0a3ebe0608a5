"""How different the answers to a problem are: normalised answer entropy and collision rate.

Source: EAPO (arXiv:2609.33781), which reports both and defines neither; the definitions here are this project's own.

Which answers are the same. All right ones are, however they are written. Wrong ones are where they are the same plain number
or the same text without spaces and typography. All responses without a box count as one answer, "none":
a policy gains no diversity by not answering.
Left out: reading wrong answers as the grader does and comparing them by computer algebra, n(n-1)/2 comparisons a problem.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from edge_lightning.rewards.plain import key


def answer_key(answer: str | None, *, right: bool) -> tuple[str, str]:
    """What two responses have in common if, and only if, they give the same answer.

    Args:
        answer: what stands in the box; None for a response without one.
    """
    if right:
        return "right", ""
    return ("none", "") if answer is None else ("wrong", key(answer))


def collision_rate(answers: Sequence[object]) -> float:
    """Share of the n(n-1)/2 pairs of a problem's responses that give the same answer.

        sum_a m_a (m_a - 1) / (n (n - 1)),   m_a responses with answer a

    0 where all differ, 1 where all agree.

    Raises:
        ValueError: fewer than two answers.
    """
    n = _at_least_two(answers)
    return sum(m * (m - 1) for m in Counter(answers).values()) / (n * (n - 1))


def answer_entropy(answers: Sequence[object]) -> float:
    """Entropy of a problem's answers over the most that n responses can have.

        -sum_a (m_a / n) log(m_a / n) / log n,   m_a responses with answer a

    1 where all differ, 0 where all agree.

    Raises:
        ValueError: fewer than two answers.
    """
    n = _at_least_two(answers)
    return sum(m / n * math.log(n / m) for m in Counter(answers).values()) / math.log(n)


def _at_least_two(answers: Sequence[object]) -> int:
    if len(answers) < 2:
        raise ValueError(f"at least 2 answers of a problem expected, {len(answers)} came")
    return len(answers)
