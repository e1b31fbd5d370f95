"""From outputs that are read in batches to calibration data on disk."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from hashlib import sha256
from pathlib import Path
from secrets import token_hex

import numpy as np

from fedwqcp._versions import __version__
from fedwqcp.errors import InputError
from fedwqcp.federation.inspection import agreement_of
from fedwqcp.federation.plan import Plan
from fedwqcp.federation.predict import calibration_of, named_rows
from fedwqcp.methods import Calibration
from fedwqcp.methods._stored import ScoreStore, StoredCalibration
from fedwqcp.outputs import Outputs
from fedwqcp.readers import check_different
from fedwqcp.readers.batches import OutputBatches
from fedwqcp.scores import LabelScore, text_ids, uniforms
from fedwqcp.wire.codec import encode
from fedwqcp.wire.messages import Round
from fedwqcp.words import rounds as words

Progress = Callable[[int, int | None], None]
"""Is told how many rows are scored, and how many there are if that is known."""
_MOST_IDS = 2**18
"""Ids that are compared with those of other batches: those of the smallest hashes."""


def log_progress(rows: int, of: int | None) -> None:
    """Log how far a reader is, at level INFO."""
    logging.getLogger("fedwqcp").info(words.progress(rows, of))


@contextmanager
def stored_calibration(
    source: OutputBatches,
    scored: Callable[[Outputs], Calibration],
    folder: Path,
    terms: str,
    progress: Progress = log_progress,
) -> Iterator[StoredCalibration]:
    """Score every batch, and keep the scores in a folder as long as they are used.

    Interrupted, it goes on from the rows that were kept, if ``terms`` and source are the same.
    """
    version = source.version or token_hex()
    digest = sha256(f"{__version__} {terms} {version}".encode()).hexdigest()
    with ScoreStore(folder, digest) as store:
        ids = _Ids(store.state.ids)
        if store.state.rows:
            progress(store.state.rows, source.rows)
        for first, outputs in source.batches(store.state.rows):
            try:
                check_different(outputs)
                ids.check(outputs)
                cal = scored(outputs)
            except InputError as error:  # a row of a text file is named by its line
                shifted = error.shifted(0 if outputs.first_line else first)
                raise shifted.within(source.name) from None
            rows = len(outputs.values)
            if counts := agreement_of(outputs, cal):
                store.count(counts)
            store.add(cal, rows)
            if store.full:
                store.state.ids = ids.kept()
                store.write()
                progress(store.state.rows, source.rows)
        yield store.calibration()


def calibration_in_batches(
    round: Round, source: OutputBatches, folder: Path, progress: Progress = log_progress
) -> AbstractContextManager[StoredCalibration]:
    """Score an agent's calibration points with the round's score, batch by batch."""
    scored = calibration_from_scores if source.scores else calibration_of
    return stored_calibration(
        source, lambda outputs: scored(round, outputs), folder, encode(round).hex(), progress
    )


def calibration_from_scores(round: Round, outputs: Outputs) -> Calibration:
    """Read scores that were made elsewhere with the round's score and key."""
    plan = Plan.of(round)
    if outputs.values.ndim != 1:
        raise InputError("a score must be one number per row")
    named = isinstance(plan.score, LabelScore)
    outputs, by_name = named_rows(round, outputs)
    if named and outputs.labels is not None and round.n_classes is None:
        raise InputError(
            "must be a term of the round: scores alone do not tell how many classes there are",
            field="n_classes",
            cure=("open a round with n_classes or classes",) * 2,
        )
    cal = Calibration(
        outputs.values,
        outputs.labels if named else None,
        n_classes=round.n_classes if named else None,
        groups=outputs.groups,
        classes=round.classes if by_name else None,  # numbers have no names of the site's own
    )
    plan.check(cal)
    return cal


class _Ids:
    """Finds an id that two batches share, by the ids of the smallest hashes.

    Of so many rows that all would not fit, a share is compared: a few repeated ids may pass, ids
    that repeat throughout do not.
    """

    def __init__(self, kept: bytes) -> None:
        numbers = np.frombuffer(kept or np.float64(1.0).tobytes(), np.float64)
        self._below, self._kept = float(numbers[0]), numbers[1:]

    def check(self, outputs: Outputs) -> None:
        """Refuse a batch with an id of an earlier one."""
        if outputs.ids is None:
            return
        hashes = uniforms("ids", text_ids(outputs.ids))
        rows = np.flatnonzero(hashes < self._below)
        places = np.searchsorted(self._kept, hashes[rows])
        known = np.append(self._kept, np.inf)[places] == hashes[rows]
        if known.any():
            raise InputError(
                "an id must name one row, this one is that of an earlier row",
                row=int(rows[known.argmax()]),
                cure=("give each row an id of its own",) * 2,
            )
        self._kept = np.sort(np.concatenate([self._kept, hashes[rows]]), kind="stable")
        if len(self._kept) > _MOST_IDS:
            self._below = float(self._kept[_MOST_IDS // 2])
            self._kept = self._kept[: _MOST_IDS // 2]

    def kept(self) -> bytes:
        """Return what an interrupted reader needs to go on."""
        return np.concatenate([[self._below], self._kept]).tobytes()
