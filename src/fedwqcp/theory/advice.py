"""Which method, score and overflow rule to use, told from a first look at the summaries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from fedwqcp.arrays import as_alpha
from fedwqcp.errors import InputError
from fedwqcp.theory._advice_rules import RULES, Advice, apart, unclipped
from fedwqcp.theory._evidence import Evidence
from fedwqcp.wire.payload import LocalQuantile


def advise(
    thresholds: Mapping[str, LocalQuantile],
    alpha: float,
    *,
    counts: Mapping[str, Sequence[int]] | None = None,
    score: str = "custom",
    bounds: tuple[float, float] | None = None,
) -> Advice:
    """Choose a method, a score and an overflow rule.

    Parameters
    ----------
    thresholds : mapping of str to LocalQuantile
        What each agent sent to FedWQ-CP: its threshold, +inf where it has too few points, and its
        size.
    alpha : float
        Miscoverage level.
    counts : mapping of str to sequence of int, optional
        Points of each class, where agents sent them.
    score : str, optional
        Name of the score.
    bounds : tuple of float, optional
        Range of the score, as ``score.bounds(C)`` gives it.

    Returns
    -------
    Advice
        What to use, why, and what it does to the size of sets. It looks at summaries alone;
        `diagnose` lists what they hide.

    Raises
    ------
    InputError
        If nobody sent anything, alpha is not between 0 and 1, or counts are of other agents.

    Notes
    -----
    The rules, in their order:

    - **no-data**: no agent has enough points, nor have all together for FCP. ``fedwq-cp``, +inf.
    - **single**: one agent has points. ``split-cp``.
    - **outlier**: at least four agents agree, and one is so far off that its misses at their
      threshold would be four times alpha or a fourth, beyond four standard deviations; or one has
      enough points and sent +inf. ``weighted-median-cp``, which no single message can move far.
    - **tiny**: agents with too few points for a finite threshold. If they hold at most a tenth of
      all points, and the others agree and have 4 (1 - alpha)/alpha points each, or if all together
      are too few for FCP, ``fedwq-cp`` with ``overflow="exclude"``; otherwise go on with methods
      that pool.
    - **alike**: the mean of thresholds is expected to miss at most 1.1 alpha. ``fedwq-cp``.
    - **label-shift**: it is expected to miss more, and label laws differ. ``fedls-cp``, which gives
      each agent a threshold for the common mixture of labels.
    - **models**: it is expected to miss more, label laws do not differ, and every agent has
      64 (1 - alpha)/alpha points. ``split-cp``: each its own threshold, whose coverage then has a
      standard deviation of alpha/8.
    - **spread**: it is expected to miss more, and counts are not known or an agent is smaller.
      ``fcp``; for LAC, whose scale is the model's confidence, randomised APS for the next round.

    ``fedls-cp`` and ``fcp`` are advised with ``floor=True``: no threshold is below FedWQ-CP's of
    the same scores, so every set contains FedWQ-CP's by the same rule, and no agent is covered
    less. Where agents have too few points that is FedWQ-CP with ``overflow="exclude"``. It is not
    so by construction for another score, for ``split-cp``, which may lower the threshold of an
    agent to its own, and for ``weighted-median-cp``, which a floor at the mean would open to the
    one that is far off.

    What the mean q of the thresholds q_k is expected to miss, as a multiple of alpha, is the
    size-weighted mean of (b - q)/(b - q_k) for a score with upper bound b, whose scores above q_k
    are taken to lie evenly up to b. It is never below 1: a mean of thresholds tends to miss too
    many. For a positive score without a bound it is the mean of alpha^(q/q_k - 1). Twice what
    chance gives like agents is taken off.

    Examples
    --------
    >>> alike = {"a": LocalQuantile(0.94, 800), "b": LocalQuantile(0.95, 900)}
    >>> advise(alike, 0.05, score="aps", bounds=(0.0, 1.0)).code
    'alike'
    >>> apart = {"strong": LocalQuantile(0.05, 800), "weak": LocalQuantile(0.9, 900)}
    >>> print(advise(apart, 0.05, score="lac", bounds=(0.0, 1.0)))  # doctest: +ELLIPSIS
    use fcp, floor=True on aps. Thresholds lie so far apart that their mean would miss about ...
    """
    if not thresholds:
        raise InputError("thresholds must hold at least one agent's summary, got none")
    if counts is not None and set(counts) != set(thresholds):
        raise InputError("counts must be of the same agents as thresholds")
    evidence = unclipped(Evidence(dict(thresholds), as_alpha(alpha), bounds))
    found = (rule(evidence, score) for rule in RULES)
    advice = next((each for each in found if each is not None), None)
    return replace(advice or apart(evidence, score, counts), alpha=evidence.alpha)
