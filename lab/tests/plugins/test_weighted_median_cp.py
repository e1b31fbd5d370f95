"""The weighted median of local thresholds."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import assume, given, reject
from hypothesis import strategies as st

from fedwqcp.errors import QuorumError
from fedwqcp.wire.messages import LocalQuantile
from fedwqcp_lab.plugins.robust import WeightedMedianCP

anything = st.builds(LocalQuantile, st.floats(-1e9, 1e9) | st.just(inf), st.integers(1, 10**9))


def median(pairs: list[tuple[float, int]], **settings: object) -> float:
    answers = [LocalQuantile(q, n) for q, n in pairs]
    return WeightedMedianCP(**settings).aggregate(answers, 0.1).value


@pytest.mark.parametrize(
    ("pairs", "settings", "expected"),
    [
        # sizes 10, 5, 20: the cap is 10, weights 10, 5, 10; 0.34 has 10 of 25, 0.45 has 15
        ([(0.9, 10), (0.45, 5), (0.34, 20)], {}, 0.45),
        # weights as claimed: 0.34 has 20 of 35
        ([(0.9, 10), (0.45, 5), (0.34, 20)], {"cap": 10**6}, 0.34),
        ([(0.1, 5), (0.9, 5)], {}, 0.9),  # half is not more than half
        ([(0.5, 7)], {}, 0.5),
        ([], {}, inf),
        # one +inf of three equal ones does not make it +inf, two do
        ([(0.2, 5), (0.4, 5), (inf, 5)], {}, 0.4),
        ([(0.2, 5), (inf, 5), (inf, 5)], {}, inf),
        ([(0.2, 5), (inf, 5), (inf, 5)], {"overflow": "exclude"}, 0.2),
    ],
)
def test_by_hand(pairs: list, settings: dict, expected: float) -> None:
    assert median(pairs, **settings) == expected


policies = st.sampled_from(["propagate", "exclude"])
empty = st.just(LocalQuantile(inf, 0))
caps = st.none() | st.integers(1, 10**9)


@given(st.data(), policies, caps, st.integers(0, 4))
def test_what_a_round_withstands_it_withstands(
    data: st.DataObject, overflow: str, cap: int | None, byzantine: int
) -> None:
    """Honest agents may be empty, excluded or huge; the others send what they like."""
    honest = data.draw(st.lists(anything | empty, min_size=1, max_size=8))
    claims = data.draw(st.lists(anything | empty, min_size=byzantine, max_size=byzantine))
    method = WeightedMedianCP(byzantine=byzantine, overflow=overflow, cap=cap)
    try:
        found = method.aggregate([*claims, *honest], 0.1)
    except QuorumError:
        reject()
    own = [s.threshold for s in honest if s.n and (overflow == "propagate" or s.threshold < inf)]
    assume(own)
    assert found.withstands >= byzantine
    assert min(own) <= found.value <= max(own)


@given(st.integers(3, 12), st.data())
def test_the_default_cap_withstands_so_many_whatever_sizes_are_claimed(
    M: int, data: st.DataObject
) -> None:
    byzantine = (M // 2 + 1) // 2  # 1 of 3, 2 of 6, 3 of 10
    claims = data.draw(st.lists(anything, min_size=byzantine, max_size=byzantine))
    honest = data.draw(st.lists(anything, min_size=M - byzantine, max_size=M - byzantine))
    found = WeightedMedianCP(byzantine=byzantine).aggregate([*claims, *honest], 0.1).value
    assert min(s.threshold for s in honest) <= found <= max(s.threshold for s in honest)
