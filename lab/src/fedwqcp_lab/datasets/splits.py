"""The official training rows, divided into those that train and those that calibrate."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from fedwqcp.demo.partition import Indices, iid
from fedwqcp.demo.streams import stream
from fedwqcp.errors import InputError

TRAIN_SHARE = 0.7
"""The share of the official training split that trains, as in the paper; the rest calibrates."""


@dataclass(frozen=True, eq=False)
class Split:
    """Which rows train and which calibrate.

    Parameters
    ----------
    train : Indices
        Rows that models are trained on.
    calibration : Indices
        Rows that are divided between the agents.
    held_out : Indices, optional
        Rows that neither train nor calibrate; settings are tuned on them.
    """

    train: Indices
    calibration: Indices
    held_out: Indices = field(default_factory=lambda: np.zeros(0, dtype=np.int64))


def split(
    n: int, dataset: str, seed: int, *, share: float = TRAIN_SHARE, held_out: float = 0.0
) -> Split:
    """Divide rows at random into training and calibration.

    Parameters
    ----------
    n : int
        Number of rows of the official training split.
    dataset : str
        Its name; each dataset has a stream of its own.
    seed : int
        Seed of the run; the same seed gives the same rows.
    share : float, optional
        Share that trains, strictly between 0 and 1; rounded to whole rows.
    held_out : float, optional
        Share of those that train which is kept out of training, from 0 to below 1. The
        calibration rows do not depend on it.

    Returns
    -------
    Split
        Every row is in exactly one part.

    Raises
    ------
    InputError
        If there are fewer than two rows, a share is not within its bounds, or one of the parts that
        ``held_out`` makes is empty.

    Examples
    --------
    >>> rows = split(1080, "retinamnist", seed=0)
    >>> len(rows.train), len(rows.calibration)
    (756, 324)
    """
    if n < 2:
        raise InputError(f"n must be at least 2 rows, got {n}")
    if not 0 < share < 1:
        raise InputError(f"share must be strictly between 0 and 1, got {share}")
    if not 0 <= held_out < 1:
        raise InputError(f"held_out must be from 0 to below 1, got {held_out}")
    rows, calibration = iid(n, (share, 1 - share), stream(seed, "split", dataset))
    shares = (1 - held_out, held_out)
    train, kept = iid(len(rows), shares, stream(seed, "held out", dataset))
    if held_out and not (len(train) and len(kept)):
        raise InputError(
            f"held_out must leave rows to train on and rows to test on, got {held_out} of "
            f"{len(rows)} rows"
        )
    return Split(rows[train], calibration, rows[kept])
