import numpy as np
import pytest

from fedwqcp.errors import InputError
from fedwqcp_lab.datasets.splits import split


@pytest.mark.parametrize(
    ("n", "train"), [(60_000, 42_000), (1_080, 756), (90, 63), (7_007, 4_905), (2, 1)]
)
def test_seventy_percent_train_and_the_rest_calibrates(n, train):
    rows = split(n, "mnist", seed=0)
    assert len(rows.train) == train
    assert np.array_equal(np.sort(np.concatenate([rows.train, rows.calibration])), np.arange(n))


def test_seed_and_dataset_choose_the_rows_and_nothing_else_does():
    rows = split(100, "mnist", seed=3)
    assert np.array_equal(rows.train, split(100, "mnist", seed=3).train)
    assert not np.array_equal(rows.train, split(100, "mnist", seed=4).train)
    assert not np.array_equal(rows.train, split(100, "cifar10", seed=3).train)


def test_what_is_held_out_is_taken_from_what_trains():
    plain, held = split(100, "mnist", seed=3), split(100, "mnist", seed=3, held_out=0.2)
    assert np.array_equal(plain.calibration, held.calibration)
    assert (len(held.train), len(held.held_out), len(plain.held_out)) == (56, 14, 0)
    assert np.array_equal(np.sort(np.concatenate([held.train, held.held_out])), plain.train)


def test_rows_are_drawn_evenly_from_the_whole():
    # 2000 draws of 70 out of 100: each row's count has standard deviation 20.5; 6 of them is 123
    counts = np.zeros(100)
    for seed in range(2000):
        counts[split(100, "made", seed).train] += 1
    assert np.abs(counts - 1400).max() < 123


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"n": 1}, "n must be at least 2"),
        ({"share": 0.0}, "share must be strictly between 0 and 1"),
        ({"share": 70}, "share must be strictly between 0 and 1, got 70"),
        ({"seed": -1}, "seed must be"),
        ({"held_out": 1.0}, "held_out must be from 0 to below 1"),
        ({"held_out": 0.01}, "held_out must leave rows to train on and rows to test on"),
        ({"held_out": 0.99}, "held_out must leave rows .* got 0.99 of 7 rows"),
    ],
)
def test_wrong_settings_are_refused(settings, told):
    with pytest.raises(InputError, match=told):
        split(**{"n": 10, "dataset": "made", "seed": 0, **settings})
