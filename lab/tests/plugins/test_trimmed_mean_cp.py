"""The trimmed mean of local thresholds."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fedwqcp.errors import QuorumError
from fedwqcp.wire.messages import LocalQuantile
from fedwqcp_lab.plugins.robust import TrimmedMeanCP

anything = st.builds(LocalQuantile, st.floats(-1e9, 1e9) | st.just(inf), st.integers(1, 10**9))


def mean(pairs: list[tuple[float, int]], **settings: object) -> float:
    answers = [LocalQuantile(q, n) for q, n in pairs]
    return TrimmedMeanCP(**settings).aggregate(answers, 0.1).value


@pytest.mark.parametrize(
    ("pairs", "settings", "expected"),
    [
        # 0.25 and 4 are left out; the cap is 20: (10 * 0.5 + 20 * 1.0) / 30
        ([(0.25, 20), (0.5, 10), (1.0, 70), (4.0, 30)], {"byzantine": 1}, 25 / 30),
        ([(0.25, 20), (0.5, 10), (1.0, 70), (4.0, 30)], {"byzantine": 1, "cap": 100}, 75 / 80),
        # the default leaves (4 - 1) / 3 = 1 out at each end
        ([(0.25, 20), (0.5, 10), (1.0, 70), (4.0, 30)], {}, 25 / 30),
        ([(0.5, 10), (1.0, 10), (3.0, 10)], {}, 1.5),  # of three nobody
        ([(0.5, 10), (1.0, 10), (3.0, 10)], {"byzantine": 0}, 1.5),
        ([(0.5, 10), (1.0, 10), (3.0, 10)], {"byzantine": 1}, 1.0),
        ([], {"byzantine": 1}, inf),
        ([(0.5, 10), (1.0, 10), (inf, 10)], {"byzantine": 1}, 1.0),
        ([(0.5, 10), (inf, 10), (inf, 10)], {"byzantine": 1}, inf),
        ([(0.5, 10), (inf, 10), (inf, 10)], {"overflow": "exclude"}, 0.5),
    ],
)
def test_by_hand(pairs: list, settings: dict, expected: float) -> None:
    assert mean(pairs, **settings) == pytest.approx(expected, abs=1e-12)


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
        mean(pairs, **settings)


@given(
    st.lists(anything | st.just(LocalQuantile(inf, 0)), min_size=1, max_size=6),
    st.data(),
    st.sampled_from(["propagate", "exclude"]),
    st.none() | st.integers(1, 10**9),
)
def test_up_to_its_number_of_byzantine_agents_it_stays_between_honest_thresholds(
    honest: list, data: st.DataObject, overflow: str, cap: int | None
) -> None:
    """Honest agents may be empty, excluded or huge; the others send what they like."""
    byzantine = data.draw(st.integers(0, 4))
    claims = data.draw(st.lists(anything, min_size=byzantine, max_size=byzantine))
    method = TrimmedMeanCP(byzantine=byzantine, cap=cap, overflow=overflow)

    def count(sent: list) -> list:
        return [s for s in sent if s.n and (overflow == "propagate" or s.threshold < inf)]

    counts = count(honest)
    try:
        found = method.aggregate([*claims, *honest], 0.1).value
    except QuorumError:
        assert 0 < len(count([*claims, *honest])) <= 2 * byzantine
        return
    assume(counts)
    assert min(s.threshold for s in counts) <= found <= max(s.threshold for s in counts)
