"""Payloads that break their own invariants cannot be built."""

from __future__ import annotations

from math import inf

import pytest

from fedwqcp.errors import InputError
from fedwqcp.wire.payload import Local, LocalQuantile, Outcome, Summary, ToAll, ToEach


def test_kinds_are_named_after_their_class():
    assert (LocalQuantile.kind, ToAll.kind, Local.kind) == ("local-quantile", "to-all", "local")


@pytest.mark.parametrize("n", [True, -1, 1.0, "3", None])
def test_a_sample_size_is_a_whole_number(n):
    with pytest.raises(InputError, match="n: must be an integer from 0 to"):
        LocalQuantile(0.5, n)


@pytest.mark.parametrize("q", [True, "0.5", None, (0.5,)])
def test_a_threshold_is_a_number(q):
    with pytest.raises(InputError, match="threshold: must be a number"):
        LocalQuantile(q, 3)


def test_an_empty_agent_has_no_finite_threshold():
    with pytest.raises(InputError, match=r"must be \+inf where n is 0"):
        LocalQuantile(0.5, 0)
    assert LocalQuantile(inf, 0).scores() == (inf,)


def test_what_a_summary_claims():
    assert LocalQuantile(0.5, 7).sizes() == (7,)
    assert (Summary().sizes(), Summary().scores()) == ((), ())


def test_outcomes_give_each_agent_its_threshold():
    assert ToAll(0.5).threshold(4) == 0.5
    assert ToEach((0.1, (0.2, 0.3))).threshold(1) == (0.2, 0.3)
    assert Local().threshold(0) is None
    assert Outcome().threshold(0) is None
    with pytest.raises(InputError):
        ToAll(float("nan"))
    with pytest.raises(InputError):
        ToEach((0.1, (0.2, -inf)))
