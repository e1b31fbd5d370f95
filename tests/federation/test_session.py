"""How long a step waits."""

from __future__ import annotations

import pytest

from fedwqcp.errors import InputError
from fedwqcp.federation.transport import session
from fedwqcp.federation.transport.session import Timeouts, collect


@pytest.fixture
def clock(monkeypatch):
    """A clock that moves only when somebody sleeps."""
    now = [0.0]
    monkeypatch.setattr(session.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(session.time, "sleep", lambda s: now.__setitem__(0, now[0] + s))
    return now


def waited(clock, arrivals, quorum, timeouts):
    """How long a step takes when agents reply at the given times (negative: unsound)."""
    heard = set()

    def hear():
        for agent, at in arrivals.items():
            if agent not in heard and abs(at) <= clock[0]:
                heard.add(agent)
                yield agent, at >= 0

    collect(hear, ["a", "b", "c"], quorum, timeouts)
    return pytest.approx(clock[0], abs=0.3)


TIMEOUTS = Timeouts(deadline=90, grace=10, poll=0.25)


@pytest.mark.parametrize(
    ("arrivals", "quorum", "seconds"),
    [
        ({"a": 0, "b": 3, "c": 5}, 2, 5),  # all came
        ({"a": 0, "b": 3}, 2, 13),  # the quorum, then its grace
        ({"a": 0, "b": 3, "c": 12}, 2, 12),  # within the grace
        ({"a": 0}, 2, 90),  # the deadline
        ({}, 1, 90),
        ({"a": 0, "b": -3}, 2, 90),  # an unsound answer is no part of the quorum
        ({"a": 0, "b": -3, "c": -4}, 2, 4),  # nobody is left to wait for
        ({"a": 85, "b": 85}, 2, 90),  # the deadline ends the grace
    ],
)
def test_a_step_ends(clock, arrivals, quorum, seconds):
    assert waited(clock, arrivals, quorum, TIMEOUTS) == seconds


@pytest.mark.parametrize("bad", [{"deadline": 0}, {"grace": -1}, {"poll": 0}, {"grace": 1e999}])
def test_a_timeout_is_a_number_of_seconds(bad):
    with pytest.raises(InputError, match="must be a number of seconds"):
        Timeouts(**bad)
