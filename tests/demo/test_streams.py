import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedwqcp.demo.streams import stream
from fedwqcp.errors import InputError

names = st.lists(st.text(max_size=5), max_size=3)


def draws(seed, *parts):
    return stream(seed, *parts).integers(2**63, size=4).tolist()


@given(st.integers(0, 2**64), names)
def test_same_seed_and_names_give_the_same_numbers(seed, parts):
    assert draws(seed, *parts) == draws(seed, *parts)


@given(st.integers(0, 2**64), names, names)
def test_other_names_give_other_numbers(seed, one, other):
    assert (draws(seed, *one) == draws(seed, *other)) == (one == other)


def test_where_a_name_ends_matters():
    assert draws(0, "ab", "c") != draws(0, "a", "bc")


def test_other_seeds_give_other_numbers():
    assert draws(0, "a") != draws(1, "a")


def test_streams_are_uncorrelated():
    one, other = stream(0, "train", "a"), stream(0, "train", "b")
    n = 10_000
    correlation = np.corrcoef(one.random(n), other.random(n))[0, 1]
    assert abs(correlation) < 5 / np.sqrt(n)


@pytest.mark.parametrize("seed", [-1, 1.5, True, "0"])
def test_a_seed_is_a_whole_number(seed):
    with pytest.raises(InputError, match="seed must be a whole number of at least 0"):
        stream(seed, "a")
