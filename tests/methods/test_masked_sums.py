"""Numbers as whole words, which can be summed under masks."""

from __future__ import annotations

from fractions import Fraction
from math import inf, nextafter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedwqcp.errors import InputError
from fedwqcp.methods import FixedPoint
from fedwqcp.methods.fedwq_cp import weighted_mean


@pytest.mark.parametrize(
    ("agents", "bits"), [(3, 30), (4, 30), (5, 29), (6, 29), (8, 29), (300, 23)]
)
def test_a_word_has_the_most_bits_whose_sum_fits(agents, bits):
    scale = FixedPoint(0.0, 1.0, 100, agents)
    assert scale.bits == bits
    assert agents * 2**bits <= 2**32 < agents * 2 ** (bits + 1)
    assert agents * scale.word(100, 1.0) < 2**32, "the sum of the largest words does not wrap"


@st.composite
def federations(draw):
    """Thresholds and sizes within a range, with the scale they are sent in."""
    low = draw(st.floats(-1e6, 1e6))
    high = low + draw(st.floats(1e-3, 1e6))
    max_n = draw(st.integers(1, 10**6))
    agents = draw(
        st.lists(st.tuples(st.floats(low, high), st.integers(1, max_n)), min_size=1, max_size=9)
    )
    roster = max(3, len(agents)) + draw(st.integers(0, 20))
    return FixedPoint(low, high, max_n, roster), agents


@given(federations())
def test_the_mean_of_words_is_never_below_and_within_the_margin(case):
    scale, agents = case
    sizes = [n for _, n in agents]
    plain = weighted_mean([q for q, _ in agents], sizes)
    total = sum(scale.word(n, q) for q, n in agents)
    found = scale.mean(total, sum(sizes))
    margin = scale.margin(len(agents), sum(sizes))
    assert total < 2**32
    assert plain <= found <= scale.high
    exact = sum(n * Fraction(q) for q, n in agents) / sum(sizes)
    assert found <= nextafter(float(exact + Fraction(margin)), inf)


@pytest.mark.parametrize(
    ("weight", "value", "why"),
    [(11, 0.5, "n: "), (-1, 0.5, "n: "), (5, 1.1, "threshold: "), (5, inf, "threshold: ")],
)
def test_what_a_mask_would_hide_is_refused_before(weight, value, why):
    with pytest.raises(InputError, match=why) as caught:
        FixedPoint(0.0, 1.0, 10, 3).word(weight, value)
    assert "1.1" not in str(caught.value), "the agent's own number stays out of the message"


@pytest.mark.parametrize(
    "terms",
    [
        (0.0, inf, 10, 3),
        (1.0, 1.0, 10, 3),
        (0.0, 1.0, 0, 3),
        (0.0, 1.0, 2**30, 3),
    ],
)
def test_a_scale_that_cannot_be_is_refused(terms):
    with pytest.raises(InputError):
        FixedPoint(*terms)
