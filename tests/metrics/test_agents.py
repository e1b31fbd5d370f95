from math import inf, sqrt

import numpy as np
import pytest

from fedwqcp.errors import InputError
from fedwqcp.metrics import AgentMetrics, Rate, across_agents, measure
from fedwqcp.sets import Intervals, LabelSets


def test_labels_by_hand() -> None:
    mask = np.array([[1, 0, 0], [1, 1, 0], [0, 0, 0], [1, 1, 1]], dtype=bool)
    found = measure("a", LabelSets(mask), [0, 2, 1, 2], level=0.9)
    assert (found.agent, found.n, found.hits, found.coverage) == ("a", 4, 2, 0.5)
    assert (found.size, found.empty, found.full, found.infinite) == (1.5, 0.25, 0.25, 0.0)
    rate = Rate(n=4, hits=2, level=0.9)
    assert (found.low, found.high) == (rate.low, rate.high)


def test_intervals_by_hand() -> None:
    sets = Intervals(np.array([0.0, 1.0, 2.0]), np.array([2.0, 0.0, 2.0]))
    found = measure("a", sets, [1.0, 0.5, 2.0])
    assert (found.hits, found.size) == (2, pytest.approx(2 / 3))
    assert (found.empty, found.full, found.infinite) == (pytest.approx(1 / 3), 0.0, 0.0)


def test_infinite_lengths_have_an_infinite_mean() -> None:
    sets = Intervals(np.array([-inf, 0.0, 0.0, 0.0]), np.array([inf, inf, 1.0, 1.0]))
    found = measure("a", sets, [9.0, 9.0, 0.5, 2.0])
    assert (found.coverage, found.size, found.full, found.infinite) == (0.75, inf, 0.25, 0.5)


@pytest.mark.parametrize(
    "sets", [LabelSets(np.empty((0, 3), dtype=bool)), Intervals(np.empty(0), np.empty(0))]
)
def test_no_test_points_are_refused(sets: LabelSets | Intervals) -> None:
    with pytest.raises(InputError, match="agent 'lakeside' has no test points"):
        measure("lakeside", sets, [])


def agent(name: str, hits: int, size: float) -> AgentMetrics:
    return AgentMetrics(agent=name, n=10, hits=hits, size=size, empty=0, full=0, infinite=0)


def test_across_agents_by_hand() -> None:
    found = across_agents([agent("a", 9, 1.0), agent("b", 6, 2.0), agent("c", 9, 6.0)])
    assert found.agents == 3
    assert found.coverage == pytest.approx(0.8)
    assert (found.worst, found.worst_agent) == (0.6, "b")
    assert found.spread == pytest.approx(0.3)
    assert found.deviation == pytest.approx(sqrt((0.01 + 0.04 + 0.01) / 3))
    assert found.size == 3.0


def test_the_first_of_several_worst_agents_is_named() -> None:
    assert across_agents([agent("b", 5, 1.0), agent("a", 5, 1.0)]).worst_agent == "b"


def test_one_infinite_agent_makes_the_mean_size_infinite() -> None:
    found = across_agents([agent("a", 9, inf)])
    assert (found.size, found.deviation, found.spread) == (inf, 0.0, 0.0)
    assert across_agents([agent("a", 9, inf), agent("b", 9, 1.0)]).size == inf


def test_no_agents_are_refused() -> None:
    with pytest.raises(InputError, match="at least one agent"):
        across_agents([])
