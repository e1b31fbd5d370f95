"""Named hypothesis strategies: levels, scores, probabilities, labels, real numbers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp


class Labelled(NamedTuple):
    """Class probabilities (n, C), one label per row, one uniform per row."""

    probs: npt.NDArray[np.floating]
    labels: npt.NDArray[np.int64]
    u: npt.NDArray[np.float64]


def alphas(digits: int = 6) -> st.SearchStrategy[float]:
    """Miscoverage levels: decimals of at most so many digits, strictly between 0 and 1."""
    return st.integers(1, digits).flatmap(
        lambda d: st.integers(1, 10**d - 1).map(lambda k: float(f"0.{k:0{d}d}"))
    )


def reals(bound: float = 1e12) -> st.SearchStrategy[float]:
    """Finite numbers of any size up to the bound: integers, decimals, subnormals, zeros."""
    return st.one_of(
        st.integers(-5, 5).map(float),
        st.integers(-1000, 1000).map(lambda k: k / 10),
        st.floats(-bound, bound, allow_nan=False),
    )


def real_arrays(
    shape: int | tuple[int, ...], bound: float = 1e12
) -> st.SearchStrategy[npt.NDArray[np.float64]]:
    """Arrays of `reals`."""
    return hnp.arrays(np.float64, shape, elements=reals(bound))


def scores(
    min_size: int = 0, max_size: int = 40, infinite: bool = False
) -> st.SearchStrategy[npt.NDArray[np.float64]]:
    """Score samples, tied as often as not; with some +inf where asked for."""
    elements = [st.integers(0, 10).map(lambda k: k / 10), st.floats(-10, 10)]
    if infinite:
        elements.append(st.just(np.inf))
    return hnp.arrays(np.float64, st.integers(min_size, max_size), elements=st.one_of(*elements))


def uniform_draws(n: int) -> st.SearchStrategy[npt.NDArray[np.float64]]:
    """One number in [0, 1] per row, both ends among them."""
    return hnp.arrays(np.float64, n, elements=st.sampled_from([0.0, 0.5, 1.0]) | st.floats(0, 1))


@st.composite
def probabilities(
    draw: st.DrawFn,
    n: st.SearchStrategy[int] | None = None,
    n_classes: st.SearchStrategy[int] | None = None,
) -> npt.NDArray[np.floating]:
    """Class probabilities (n, C) in float32 or float64: spread, tied and saturated rows."""
    rows = draw(n if n is not None else st.integers(1, 6))
    columns = draw(n_classes if n_classes is not None else st.integers(2, 7))
    seldom_tied, often_tied = st.integers(0, 2**50), st.integers(0, 4)
    saturated = st.sampled_from([0, 1, 2, 2**62])
    kinds = [draw(st.sampled_from([seldom_tied, often_tied, saturated])) for _ in range(rows)]
    drawn = [draw(st.lists(kind, min_size=columns, max_size=columns)) for kind in kinds]
    weights = np.array(drawn, np.float64).reshape(rows, columns)
    weights[~weights.any(axis=1), 0] = 1
    dtype = draw(st.sampled_from([np.float64, np.float32]))
    return (weights / weights.sum(axis=1, keepdims=True)).astype(dtype)


@st.composite
def distinct_probabilities(draw: st.DrawFn) -> npt.NDArray[np.float64]:
    """Class probabilities (n, C) whose rows hold no two equal values, by a wide margin."""
    rows, columns = draw(st.integers(1, 5)), draw(st.integers(2, 7))
    weights = st.lists(st.integers(1, 2**20), min_size=columns, max_size=columns, unique=True)
    drawn = np.array([draw(weights) for _ in range(rows)], np.float64)
    return drawn / drawn.sum(axis=1, keepdims=True)


@st.composite
def labelled(draw: st.DrawFn) -> Labelled:
    """Probabilities with a label and a uniform for each row."""
    probs = draw(probabilities())
    n, n_classes = probs.shape
    labels = draw(hnp.arrays(np.int64, n, elements=st.integers(0, n_classes - 1)))
    return Labelled(probs, labels, draw(uniform_draws(n)))
