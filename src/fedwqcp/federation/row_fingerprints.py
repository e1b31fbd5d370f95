"""Whether test rows are among the rows that calibrated: keyed hashes of both, and no row."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fedwqcp.errors import InputError
from fedwqcp.federation.plan import Plan
from fedwqcp.federation.predict import scored
from fedwqcp.findings import Finding
from fedwqcp.methods import Calibration
from fedwqcp.outputs import ROWS, Outputs
from fedwqcp.wire.messages import Round
from fedwqcp.wire.release import ReleaseRecord

_KEPT = "_fingerprints"
"""Attribute of a release with the fingerprints of its calibration rows; in no file and no copy."""
_ENOUGH = 10
"""So many rows without ids must be alike before it is said: fewer may be chance."""
_SECRET = int.from_bytes(os.urandom(8), "big")
"""Key of the fingerprints of this process."""


class Fingerprints(NamedTuple):
    """Keyed hashes of an agent's rows: they find equal rows in this process and reveal none."""

    values: npt.NDArray[np.uint64]
    ids: npt.NDArray[np.int64] | None
    of_scores: bool


def fingerprints(data: Outputs | Calibration) -> Fingerprints:
    """Return the hash of each row's outputs (of its scores in a `Calibration`), and of its id."""
    rows = _table(data)
    hashes, by = np.empty(len(rows), np.uint64), _multipliers(rows.shape[1])
    for start in range(0, len(rows), ROWS):
        words = np.ascontiguousarray(rows[start : start + ROWS], np.float64).view(np.uint64)
        words = words ^ (words >> np.uint64(32))  # short numbers end in zeros
        np.einsum("ij,j->i", words, by, out=hashes[start : start + ROWS])
    ids = None if isinstance(data, Calibration) else data.ids
    if ids is not None:  # str: 7 in one file, "7" in another
        ids = np.fromiter(map(hash, map(str, ids.tolist())), np.int64, len(ids))
    return Fingerprints(hashes, ids, isinstance(data, Calibration))


def calibration_rows(
    round: Round, new: Outputs, known: Outputs | Calibration | Fingerprints | None
) -> Finding | None:
    """Count the test rows that are like rows of an agent's calibration data; None without any.

    With ids on both sides, rows are alike that have the same id and outputs. Without, nobody
    knows: those count whose outputs (scores, where calibration data are scores) have more than six
    decimals and occur once on each side, if they are half of the test rows and at least `_ENOUGH`.
    """
    n = len(new.values)
    if known is None or not n:
        return None
    if isinstance(known, Outputs):
        known = known.in_classes(round.classes)
    there = known if isinstance(known, Fingerprints) else fingerprints(known)
    data: Outputs | Calibration = new.in_classes(round.classes)
    if there.of_scores and isinstance(data, Outputs):
        data = scored(Plan.of(round).score, round.key, data)
    here = fingerprints(data)
    if here.ids is not None and there.ids is not None:
        pairs = here.values ^ here.ids.view(np.uint64), there.values ^ there.ids.view(np.uint64)
        count = int(np.count_nonzero(np.isin(*pairs)))
        how = "ids"
    else:
        rows = _table(data).astype(np.float64, copy=False)
        long = (np.round(rows, 6) != rows).any(axis=1)
        count = len(np.intersect1d(_once(here.values[long]), _once(there.values)))
        count = count if count >= max(_ENOUGH, n / 2) else 0
        how = "scores" if there.of_scores else "outputs"
    return Finding.of("calibration-rows", rows=count, n=n, how=how) if count else None


def _table(data: Outputs | Calibration) -> npt.NDArray[Any]:
    """Return what a model put out, or its scores, as a table."""
    values = data.scores if isinstance(data, Calibration) else data.values
    return values.reshape(len(values), math.prod(values.shape[1:]))


@cache
def _multipliers(columns: int) -> npt.NDArray[np.uint64]:
    """Return a random odd number for each column, the same ones throughout the process."""
    drawn = np.random.default_rng(_SECRET).integers(2**64, size=columns, dtype=np.uint64)
    return drawn | np.uint64(1)


def _once(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    different, counts = np.unique(values, return_counts=True)
    alone: npt.NDArray[np.uint64] = different[counts == 1]
    return alone


def keep_fingerprints(release: ReleaseRecord, data: Mapping[str, Outputs | Calibration]) -> None:
    """Keep fingerprints of the calibration rows for `known_rows`, and none of the rows."""
    vars(release)[_KEPT] = {name: fingerprints(part) for name, part in data.items()}


def points_of(release: ReleaseRecord, agent: str) -> int | None:
    """Return how many points an agent calibrated with, where that was in this process."""
    known: dict[str, Fingerprints] = vars(release).get(_KEPT, {})
    return len(known[agent].values) if agent in known else None


def check_own(release: ReleaseRecord, agent: str, calibration: Calibration | Outputs) -> None:
    """Refuse calibration data that are another agent's, where the round was held here."""
    known: dict[str, Fingerprints] = vars(release).get(_KEPT, {})
    if agent not in known:
        return
    given = fingerprints(calibration)
    whose = [
        name
        for name, there in known.items()
        if there.of_scores == given.of_scores and np.array_equal(there.values, given.values)
    ]
    if whose and agent not in whose:
        raise InputError(
            f"calibration must be the data that agent {agent!r} calibrated with, got those of "
            f"agent {whose[0]!r}: pass {agent!r}'s own, or leave calibration out"
        )


def known_rows(
    release: ReleaseRecord,
    agent: str | None,
    new: Outputs,
    calibration: Calibration | Outputs | None = None,
) -> Finding | None:
    """Count test rows that are like calibration rows, given or of this process."""
    known: dict[str | None, Fingerprints] = vars(release).get(_KEPT, {})
    there = known.get(agent) if calibration is None else calibration
    return calibration_rows(release.round, new, there)
