"""Lies that an agent can tell: it runs the honest program on forged scores.

Every message of such an agent is well formed, and all its answers agree with one another, whatever
the method asks. Labels and features stay the agent's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf

import numpy as np

from fedwqcp.arrays import Floats
from fedwqcp.errors import InputError
from fedwqcp.methods import Calibration
from fedwqcp.quantile import conformal_quantile

TIMES = 100
"""How many times its own size an agent claims that lies about it."""

FAR = 1000.0
"""How many times the largest score of all is claimed where a score has no upper bound."""

KINDS = ("too high", "too low", "huge n", "colluding", "copying")
"""What liars do.

``too high``: every score is the largest that admission lets pass. ``too low``: every score is the
smallest of the agent's range of residuals or probabilities, 0. ``huge n``: the same, `TIMES` as
many. ``colluding``: all halve their scores alike, so that each is confirmed by the others.
``copying``: all send what the honest agent with the smallest threshold sends.
"""


def forged(
    kind: str,
    honest: Mapping[str, Calibration],
    liars: Sequence[str],
    *,
    alpha: float,
    highest: float,
) -> dict[str, Calibration]:
    """Return what every agent puts into the honest program.

    Parameters
    ----------
    kind : str
        One of `KINDS`.
    honest : mapping of str to Calibration
        What every agent has.
    liars : sequence of str
        Who lies.
    alpha : float
        Miscoverage level, by which copying agents choose whom to copy.
    highest : float
        Upper bound of the score.

    Returns
    -------
    dict of str to Calibration
        The honest agents' own, and the forged ones.

    Raises
    ------
    InputError
        If the kind is unknown.
    """
    if kind not in KINDS:
        raise InputError(f"a lie must be one of {', '.join(KINDS)}, got {kind!r}")
    if kind == "copying":
        others = [name for name in honest if name not in liars and honest[name].n]
        low = min(others, key=lambda name: conformal_quantile(honest[name].scores, alpha, "clip"))
        return {name: honest[low] if name in liars else cal for name, cal in honest.items()}
    if highest == inf:
        highest = FAR * max(float(cal.scores.max()) for cal in honest.values() if cal.n)
    lies: dict[str, Callable[[Floats], Floats]] = {
        "too high": lambda scores: np.full(len(scores), highest),
        "too low": np.zeros_like,
        "huge n": np.zeros_like,
        "colluding": lambda scores: scores / 2,
    }
    times = TIMES if kind == "huge n" else 1
    return {
        name: _claimed(cal, lies[kind], times) if name in liars else cal
        for name, cal in honest.items()
    }


def _claimed(cal: Calibration, lie: Callable[[Floats], Floats], times: int) -> Calibration:
    """Return a sample with other scores, several times."""
    return Calibration(
        np.tile(lie(cal.scores), times),
        None if cal.labels is None else np.tile(cal.labels, times),
        None if cal.features is None else np.tile(cal.features, (times, 1)),
        cal.n_classes,
    )
