"""Terms that nobody could follow cannot be written."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fedwqcp.errors import InputError
from fedwqcp.wire.round import Choice, Round, choice_of

ROUND = Round("ab", Choice("fedwq-cp"), Choice("aps"), (0.1,), ("a", "b"), 2)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"version": 1}, "must be 2, which this software reads, got 1: run the round again"),
        ({"alphas": ()}, "at least one"),
        ({"alphas": (0.1, 0.1)}, "each may occur once"),
        ({"alphas": (5.0,)}, "strictly between 0 and 1"),
        ({"agents": ()}, "at least one"),
        ({"agents": ("a", "a")}, "each name may occur once"),
        ({"agents": ("a", "../b")}, "letters, digits"),
        ({"agents": ("a", "")}, "letters, digits"),
        ({"agents": ("a", "x" * 65)}, "1 to 64"),
        ({"quorum": 0}, "from 1 to 2"),
        ({"quorum": 3}, "from 1 to 2"),
        ({"max_n": 0}, "at least 1"),
    ],
)
def test_bad_terms_are_refused(change, says):
    with pytest.raises(InputError, match=says):
        replace(ROUND, **change)


def test_a_setting_must_be_able_to_travel():
    assert choice_of("x", {"a": (0.5, 0.5)}).settings == {"a": (0.5, 0.5)}
    with pytest.raises(InputError, match="cannot travel: list"):
        choice_of("x", {"a": [1]})
