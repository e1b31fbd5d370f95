import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedwqcp.kernels import selection
from strategies import scores

RNG = np.random.default_rng(0)
SAMPLES = {
    "normal": RNG.normal(size=3000),
    "ordered": np.sort(RNG.normal(size=3000)),
    "tied": RNG.integers(0, 3, 3000).astype(float),
    "equal": np.ones(3000),
    "infinite": np.where(RNG.random(3000) < 0.4, np.inf, RNG.normal(size=3000)),
    "piled up at the end": np.minimum(1.0, 1.5 * RNG.random(3000)),
    "one value amid others": np.where(RNG.random(3000) < 0.6, 0.25, RNG.normal(size=3000)),
    "far apart": RNG.choice([-1.7e308, 1.7e308], 3000) * RNG.random(3000),
    "close together": np.nextafter(0, 1) * RNG.integers(0, 9, 3000),
    "steep": np.exp(20 * RNG.normal(size=3000)),
    "beats with the sample": np.tile(np.arange(30.0), 100),
}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "LARGE", 200)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("kind", list(SAMPLES))
def test_it_is_the_value_at_that_place(backend: str, kind: str) -> None:
    values = SAMPLES[kind]
    ordered = np.sort(values)
    for rank in (1, 2, 30, 1500, 2700, 2999, 3000):
        assert selection.order_statistic(values, rank) == ordered[rank - 1]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(values=scores(1, 40, infinite=True), share=st.floats(0, 1))
def test_any_sample(values, share: float) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(selection, "LARGE", 8)
        ordered = np.sort(values)
        rank = 1 + int(share * (len(values) - 1))
        assert selection.order_statistic(values, rank) == ordered[rank - 1]


@pytest.mark.parametrize("kind", list(SAMPLES))
def test_a_weighted_quantile_is_the_first_value_with_its_share_at_or_below(kind: str) -> None:
    values, weights = SAMPLES[kind], RNG.integers(1, 9, 3000).astype(float)
    candidates, inverse = np.unique(values, return_inverse=True)
    reached = np.cumsum(np.bincount(inverse, weights))
    for share in (0.0, 1e-6, 0.1, 0.5, 0.9, 1.0):
        for beyond in (0.0, 5.0):
            enough = candidates[reached >= share * (weights.sum() + beyond)]
            first = enough[0] if len(enough) else np.inf
            assert selection.weighted_order_statistic(values, weights, share, beyond) == first
