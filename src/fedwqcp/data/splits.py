"""The official training rows, divided into those that train and those that calibrate."""

from __future__ import annotations

from dataclasses import dataclass

from fedwqcp.data.partition import Indices, iid
from fedwqcp.data.streams import stream
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
    """

    train: Indices
    calibration: Indices


def split(n: int, dataset: str, seed: int, *, share: float = TRAIN_SHARE) -> Split:
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

    Returns
    -------
    Split
        Every row is in exactly one part.

    Raises
    ------
    InputError
        If there are fewer than two rows, or the share is not strictly between 0 and 1.

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
    return Split(*iid(n, (share, 1 - share), stream(seed, "split", dataset)))
