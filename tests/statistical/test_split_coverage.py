"""Coverage of split conformal prediction against its exact distribution.

With k = conformal_rank(n, alpha) and independent, untied scores, the hits among m test points that
share one calibration sample of n follow BetaBinomial(m, k, n + 1 - k), whatever the model is worth.
"""

import numpy as np
import numpy.typing as npt
import pytest
from scipy import fft, stats

from fedwqcp.quantile import conformal_quantile, conformal_rank
from fedwqcp.scores import IntervalScore, LabelScore, Score
from fedwqcp.scores.absolute_residual import AbsoluteResidual
from fedwqcp.scores.aps import APS
from fedwqcp.scores.cqr import CQR
from fedwqcp.scores.lac import LAC
from fedwqcp.scores.normalized_residual import NormalizedResidual
from fedwqcp.scores.ordinal_aps import OrdinalAPS
from fedwqcp.scores.raps import RAPS
from fedwqcp.scores.saps import SAPS

pytestmark = pytest.mark.slow

LABEL = [LAC(), APS(), RAPS(penalty=0.05), SAPS(), OrdinalAPS(randomized=True)]
INTERVAL = [AbsoluteResidual(), NormalizedResidual(), CQR(), CQR(symmetric=False)]
LEVELS = [(19, 0.1), (99, 0.05), (50, 0.3)]
DRAWS, TESTS = 400, 50

Array = npt.NDArray[np.float64]


def classification(rng: np.random.Generator, n: int) -> tuple[Array, npt.NDArray[np.int64], Array]:
    """Probabilities of a model that is wrong about its labels, labels, uniforms."""
    logits = rng.normal(size=(n, 5)) * rng.gamma(2.0, size=(n, 1))
    probs = np.exp(logits)
    probs /= probs.sum(axis=1, keepdims=True)
    labels = (0.4 * logits + rng.gumbel(size=(n, 5))).argmax(axis=1)
    return probs, labels, rng.uniform(size=n)


def regression(rng: np.random.Generator, n: int, width: int) -> tuple[Array, Array]:
    """Outputs of a model that is wrong about noise and spread, and y."""
    x = rng.uniform(-2, 2, size=n)
    y = np.sin(x) + (0.2 + np.abs(x)) * rng.standard_t(4, size=n)
    prediction, spread = 0.7 * x, 0.5 + 0.3 * np.abs(x)
    return (prediction if width == 1 else np.column_stack([prediction, spread])), y


def hits(score: Score, rng: np.random.Generator, n: int, alpha: float, m: int) -> list[int]:
    """Calibrate on n points and count the covered ones of m others, for each column."""
    if isinstance(score, LabelScore):
        probs, labels, uniform = classification(rng, n + m)
        u = uniform if score.randomized else None
        v = score.of(probs[:n], labels[:n], u=None if u is None else u[:n])
        assert len(np.unique(v)) == n
        q = conformal_quantile(v, alpha)
        sets = score.invert(probs[n:], q, u=None if u is None else u[n:])
        return [int(sets.cover(labels[n:]).sum())]
    assert isinstance(score, IntervalScore)
    outputs, y = regression(rng, n + m, score.width)
    columns = score.of(outputs[:n], y[:n]).reshape(n, -1).T
    found = []
    for column, v in enumerate(columns):
        q = np.full(score.columns, np.inf)
        q[column] = conformal_quantile(v, alpha)
        found.append(int(score.invert(outputs[n:], q).cover(y[n:]).sum()))
    return found


def distribution_of_a_sum(n: int, alpha: float, m: int, draws: int) -> Array:
    """Probabilities of every number of hits in independent draws, as a power of one draw's."""
    k = conformal_rank(n, alpha)
    one = stats.betabinom(m, k, n + 1 - k).pmf(np.arange(m + 1))
    size = draws * m + 1
    return np.clip(fft.irfft(fft.rfft(one, size) ** draws, size), 0, None)


def assert_within(exact: Array, found: int) -> None:
    """Neither tail at the number found is below 1e-6."""
    assert exact[: found + 1].sum() > 1e-6
    assert exact[found:].sum() > 1e-6


@pytest.mark.guarantee("split-cp", "1 - alpha <= P(Y in C_k(X))")
@pytest.mark.parametrize("score", [*LABEL, *INTERVAL], ids=repr)
@pytest.mark.parametrize(("n", "alpha"), LEVELS)
def test_hits_follow_the_beta_binomial_distribution(score: Score, n: int, alpha: float) -> None:
    rng = np.random.default_rng(2024)
    single, total = (
        distribution_of_a_sum(n, alpha, TESTS, 1),
        distribution_of_a_sum(n, alpha, TESTS, DRAWS),
    )
    counts = np.array([hits(score, rng, n, alpha, TESTS) for _ in range(DRAWS)])
    assert counts.shape[1] == score.columns
    for column in counts.T:
        assert_within(total, int(column.sum()))
        for found in column:
            tails = single[: found + 1].sum(), single[found:].sum()
            assert min(tails) > 1e-6 / DRAWS


@pytest.mark.parametrize("score", [APS(), AbsoluteResidual()], ids=repr)
def test_one_large_sample_follows_it_too(score: Score) -> None:
    n, alpha, m = 2000, 0.1, 20_000
    (found,) = hits(score, np.random.default_rng(7), n, alpha, m)
    k = conformal_rank(n, alpha)
    low, high = stats.betabinom(m, k, n + 1 - k).ppf([1e-6, 1 - 1e-6])
    assert low <= found <= high


def test_a_rank_that_is_off_by_one_is_noticed() -> None:
    rng = np.random.default_rng(3)
    n, alpha = 19, 0.1
    exact, k = distribution_of_a_sum(n, alpha, TESTS, DRAWS), conformal_rank(n, alpha)
    samples, tests = np.sort(rng.uniform(size=(DRAWS, n))), rng.uniform(size=(DRAWS, TESTS))
    assert_within(exact, int((tests <= samples[:, [k - 1]]).sum()))
    for wrong in (k - 2, k):
        with pytest.raises(AssertionError):
            assert_within(exact, int((tests <= samples[:, [wrong]]).sum()))
