"""The weighted median and the trimmed mean of local thresholds."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fedwqcp.errors import QuorumError
from fedwqcp.wire.messages import LocalQuantile
from fedwqcp_lab.plugins.robust import TrimmedMeanCP, WeightedMedianCP

anything = st.builds(LocalQuantile, st.floats(-1e9, 1e9) | st.just(inf), st.integers(1, 10**9))
empty = st.just(LocalQuantile(inf, 0))


def value(kind: type, pairs: list[tuple[float, int]], **settings: object) -> float:
    answers = [LocalQuantile(q, n) for q, n in pairs]
    return kind(**settings).aggregate(answers, 0.1).value


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
def test_a_median_by_hand(pairs: list, settings: dict, expected: float) -> None:
    assert value(WeightedMedianCP, pairs, **settings) == expected


FOUR = [(0.25, 20), (0.5, 10), (1.0, 70), (4.0, 30)]


@pytest.mark.parametrize(
    ("pairs", "settings", "expected"),
    [
        # 0.25 and 4 are left out; the cap is 20: (10 * 0.5 + 20 * 1.0) / 30
        (FOUR, {"byzantine": 1}, 25 / 30),
        (FOUR, {"byzantine": 1, "cap": 100}, 75 / 80),
        (FOUR, {}, 25 / 30),  # the default leaves (4 - 1) / 3 = 1 out at each end
        ([(0.5, 10), (1.0, 10), (3.0, 10)], {}, 1.5),  # of three nobody
        ([(0.5, 10), (1.0, 10), (3.0, 10)], {"byzantine": 0}, 1.5),
        ([(0.5, 10), (1.0, 10), (3.0, 10)], {"byzantine": 1}, 1.0),
        ([], {"byzantine": 1}, inf),
        ([(0.5, 10), (1.0, 10), (inf, 10)], {"byzantine": 1}, 1.0),
        ([(0.5, 10), (inf, 10), (inf, 10)], {"byzantine": 1}, inf),
        ([(0.5, 10), (inf, 10), (inf, 10)], {"overflow": "exclude"}, 0.5),
    ],
)
def test_a_mean_by_hand(pairs: list, settings: dict, expected: float) -> None:
    assert value(TrimmedMeanCP, pairs, **settings) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("pairs", "settings"),
    [
        ([(0.5, 10), (1.0, 10), (3.0, 10)], {"byzantine": 2}),
        ([(0.5, 10), (1.0, 10)], {"byzantine": 1}),
        ([(0.5, 10), (1.0, 10), (inf, 0)], {"byzantine": 1}),  # the third has no points
        ([(0.5, 10), (1.0, 10), (inf, 5)], {"byzantine": 1, "overflow": "exclude"}),
    ],
)
def test_a_round_that_cannot_withstand_so_many_is_refused(pairs: list, settings: dict) -> None:
    with pytest.raises(QuorumError):
        value(TrimmedMeanCP, pairs, **settings)


@pytest.mark.parametrize("kind", [WeightedMedianCP, TrimmedMeanCP])
@given(
    data=st.data(),
    overflow=st.sampled_from(["propagate", "exclude"]),
    cap=st.none() | st.integers(1, 10**9),
    byzantine=st.integers(0, 4),
)
def test_up_to_its_number_of_byzantine_agents_it_stays_between_honest_thresholds(
    kind: type, data: st.DataObject, overflow: str, cap: int | None, byzantine: int
) -> None:
    """Honest agents may be empty, excluded or huge; the others send what they like."""
    honest = data.draw(st.lists(anything | empty, min_size=1, max_size=8))
    claims = data.draw(st.lists(anything | empty, min_size=byzantine, max_size=byzantine))
    method = kind(byzantine=byzantine, overflow=overflow, cap=cap)

    def counted(sent: list) -> list[float]:
        finite = overflow == "propagate"
        return [s.threshold for s in sent if s.n and (finite or s.threshold < inf)]

    try:
        found = method.aggregate([*claims, *honest], 0.1)
    except QuorumError:
        few = 0 < len(counted([*claims, *honest])) <= 2 * byzantine
        assert few or kind is WeightedMedianCP  # whose weights decide too
        return
    own = counted(honest)
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
