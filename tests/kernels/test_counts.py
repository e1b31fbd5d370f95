import numpy as np
import pytest

from fedwqcp.errors import InputError
from fedwqcp.kernels import counts
from fedwqcp.scores.lac import LAC


@pytest.mark.parametrize("n_classes", [2, 7, 15, 20])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sizes_and_coverage_of_lac_are_those_of_its_sets(backend, dtype, n_classes) -> None:
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.full(n_classes, 0.4), 50).astype(dtype)
    labels = rng.integers(0, n_classes, 50)
    for layout in (probs, np.asfortranarray(probs), probs[::-1, ::-1]):
        for q in (-1.0, 0.0, 0.6, 1 - float(probs[3, 1]), 0.95, 1.0, np.inf):
            for rule in ("leq", "leq_top1"):
                sets = LAC().invert(layout, q, rule)
                covered, sizes = LAC().measure(layout, labels, q, rule)
                assert sizes.tolist() == sets.sizes().tolist()
                assert covered.tolist() == sets.cover(labels).tolist()


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -1e-9, 2.0])
def test_rows_that_are_not_probabilities_are_refused(backend: str, wrong: float) -> None:
    probs = np.full((40, 4), 0.25, np.float32)
    probs[17, 2] = wrong
    with pytest.raises(InputError, match="row 17"):
        LAC().measure(probs, np.zeros(40, int), 0.9)


def test_a_least_probability_counts_itself(backend: str) -> None:
    probs = np.array([[0.5, 0.25, 0.25], [1.0, 0.0, 0.0], [0.5049, 0.5, 0.0]])
    covered, sizes = counts.from_least(probs, np.array([2, 2, 1]), np.float64(0.25))
    assert sizes.tolist() == [3, 1, 2]
    assert covered.tolist() == [True, False, True]
    with pytest.raises(InputError, match="row 0 holds a negative value"):
        counts.from_least(np.array([[1.5, -0.5]]), np.zeros(1, int), np.float64(0.25))
