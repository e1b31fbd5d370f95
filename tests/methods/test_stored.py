"""Scores on disk answer as the same scores in memory do, whatever the ties, runs and parts."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedwqcp import methods
from fedwqcp.errors import InputError
from fedwqcp.federation.agent import Agent
from fedwqcp.federation.plan import new_round
from fedwqcp.methods import Calibration, _stored
from fedwqcp.methods._stored import ScoreStore
from fedwqcp.quantile import counts_up_to, finite_range, order_statistics
from fedwqcp.stored import BLOCK, SortedRun, StoredScores

ALPHAS = (0.05, 0.2)


def in_runs(folder: Path, *samples: np.ndarray) -> StoredScores:
    path = folder / "scores"
    np.concatenate([np.sort(sample) for sample in samples]).tofile(path)
    starts = np.cumsum([0, *map(len, samples)])
    file = path.open("rb")
    return StoredScores(
        [SortedRun(file, int(a), len(s)) for a, s in zip(starts, samples, strict=False)]
    )


@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.sampled_from([1, 3, 50, 10**9]))
def test_ranks_and_counts_are_those_of_an_array(tmp_path_factory, seed, runs, values):
    rng = np.random.default_rng(seed)
    samples = [
        rng.integers(values, size=rng.integers(3 * BLOCK)) / values * rng.choice([1, np.inf])
        for _ in range(runs)
    ]
    samples = [np.nan_to_num(sample, nan=0.5, posinf=np.inf) for sample in samples]
    array = np.concatenate(samples)
    stored = in_runs(tmp_path_factory.mktemp("s"), *samples)
    assert len(stored) == len(array)
    ranks = range(1, len(array) + 1, 7)
    assert order_statistics(stored, ranks) == order_statistics(array, ranks)
    points = [0.0, 0.5, 1.0, np.inf, *array[:5]]
    np.testing.assert_array_equal(counts_up_to(stored, points), counts_up_to(array, points))
    assert finite_range(stored) == finite_range(array)


def data(n: int = 3000) -> Calibration:
    rng = np.random.default_rng(3)
    scores, labels = np.round(rng.random(n), 3), rng.integers(4, size=n)
    labels[labels == 3] = np.where(rng.random((labels == 3).sum()) < 0.01, 3, 0)  # a small class
    groups = rng.choice(["a", "b"], n)
    return Calibration(scores, labels, n_classes=4, groups=groups)


def stored(folder: Path, cal: Calibration, rows: int = 700) -> ScoreStore:
    store = ScoreStore(folder, "test")
    for first in range(0, cal.n, rows):
        store.add(cal.take(slice(first, first + rows)))
        store.write()
    return store


NEED_ALL = {"cphet", "dp-fedcp", "fed-crc"}
"""These read features, weights or every score."""


@pytest.mark.parametrize("by", [None, "label", "group"])
@pytest.mark.parametrize("name", sorted(methods.available()))
def test_every_method_answers_alike_or_says_that_it_needs_them_all(tmp_path, name, by):
    cal = data()
    method = methods.get(name)
    try:
        round = new_round(
            ("here",), method, "aps", ALPHAS, n_classes=4, by=by,
            groups=("a", "b") if by == "group" else (),
        )  # fmt: skip
        answer = Agent("here", round, cal, allow_samples=True, rng=np.random.default_rng(0)).answer
        expected = answer()
    except InputError:
        pytest.skip("not of this round")
    with stored(tmp_path / "store", cal) as store:
        found = store.calibration()
        agent = Agent("here", round, found, allow_samples=True, rng=np.random.default_rng(0))
        if name in NEED_ALL:
            with pytest.raises(InputError):
                agent.answer()
        else:
            assert agent.answer() == expected
    assert not (tmp_path / "store").exists()


def test_two_columns(tmp_path):
    rng = np.random.default_rng(0)
    cal = Calibration(rng.random((500, 2)))
    with ScoreStore(tmp_path / "store", "test") as store:
        store.add(cal)
        found = store.calibration()
        assert (found.n, found.columns) == (500, 2)
        for k in range(2):
            assert found.column(k).n == 500
            assert found.column(k).scores.max() == cal.scores[:, k].max()
        assert np.array_equal(np.sort(cal.scores, axis=0), found.take(slice(None)).scores)


def test_some_of_the_rows(tmp_path):
    cal, rows = data(), np.random.default_rng(0).permutation(3000)[:1500]
    with stored(tmp_path / "store", cal) as store:
        some = store.calibration().take(rows)
    assert (some.n, some.n_classes) == (1500, 4)
    for c, g in product(range(4), "ab"):
        here, there = (each.part(label=c).part(group=g).scores for each in (some, cal))
        assert set(here) <= set(there)


def test_the_digest_knows_the_same_rows_in_another_order(tmp_path):
    cal = data(400)
    shuffled = cal.take(np.random.default_rng(1).permutation(400))
    other = Calibration(np.append(cal.scores[1:], 0.25), cal.labels, n_classes=4, groups=cal.groups)
    digests = []
    for at, (each, rows) in enumerate([(cal, 100), (shuffled, 150), (other, 100)]):
        with stored(tmp_path / str(at), each, rows) as store:
            digests.append(store.calibration().digest())
    assert digests[0] == digests[1] != digests[2]


def test_an_interrupted_store_goes_on_and_another_source_begins_anew(tmp_path, monkeypatch):
    cal, folder = data(), tmp_path / "store"
    monkeypatch.setattr(_stored, "ROWS", 1000)
    interrupted(folder, cal)
    assert (folder / "scores").stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700
    with ScoreStore(folder, "one") as store:
        assert store.state.rows == 1010
        store.add(cal.take(slice(1000, 3000)))
        assert store.calibration().scores.max() == cal.scores.max()
        assert store.calibration().n == 3000
    interrupted(folder, cal)
    with ScoreStore(folder, "two") as store:
        assert store.state.rows == 0
    assert not folder.exists()


def interrupted(folder: Path, cal: Calibration) -> None:
    store = ScoreStore(folder, "one")
    store.add(cal.take(slice(0, 1000)), 1010)  # ten were left out
    assert store.full
    store.write()
    store.add(cal.take(slice(1000, 1500)))  # not written
    store.__exit__(KeyboardInterrupt)
