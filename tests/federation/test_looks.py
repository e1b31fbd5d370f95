"""Records that nothing can be advised on are refused, each for its reason."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import numpy as np
import pytest

import fedwqcp as fw
from fedwqcp.errors import InputError, RecordError
from fedwqcp.federation.looks import check_look, thresholds_in
from fedwqcp.methods._counts import Counts
from fedwqcp.wire.payload import LocalQuantile


def scores(names="abc"):
    """Return some agents."""
    rng = np.random.default_rng(0)
    return {name: rng.uniform(size=200) for name in names}


def record(method="fedwq-cp", **options):
    """Return the record of a round."""
    return fw.calibrate(scores(), **{"method": method, "alpha": 0.1, "score": "aps", **options})


def test_thresholds_are_those_that_were_sent():
    look = record(alpha=(0.1, 0.3))
    check_look(look)
    own = {name: float(fw.conformal_quantile(each, 0.3)) for name, each in scores().items()}
    assert thresholds_in(look, 0.3) == {name: LocalQuantile(q, 200) for name, q in own.items()}


@pytest.mark.parametrize("combine", ["fedwq-cp", "weighted-median-cp"])
def test_a_private_round_stays_private(combine):
    look = record(fw.methods.get("private-fedwq-cp", epsilon=5.0, combine=combine))
    with pytest.raises(InputError, match=r"not private\. Stay with it.* combine="):
        check_look(look)


@pytest.mark.parametrize("method", ["fedwq-cp", "fcp"])
def test_a_masked_round_stays_masked(method):
    for look in (masked := record(method, secure=True), masked.public()):
        with pytest.raises(InputError, match=r"totals alone.*Stay with this method"):
            check_look(look)


def test_what_has_no_threshold_of_all_points_is_refused():
    with pytest.raises(InputError, match="thresholds or class sketches"):
        check_look(record("split-cp"))
    with pytest.raises(InputError, match="give the server's record, not the release"):
        check_look(record().public())
    labelled = {
        name: fw.Calibration(each, np.arange(200) % 2, n_classes=2)
        for name, each in scores().items()
    }
    with pytest.raises(InputError, match="without groups"):
        check_look(fw.calibrate(labelled, alpha=0.1, score="aps", by="label"))
    with pytest.raises(InputError, match="one column"):
        check_look(fw.calibrate({"a": np.zeros((50, 2)), "b": np.ones((50, 2))}, alpha=0.1))


def test_an_agent_without_points_is_no_damage():
    look = fw.calibrate({**scores(), "none": []}, alpha=0.1, score="aps")
    check_look(look)
    assert thresholds_in(look, 0.1)["none"] == LocalQuantile(inf, 0)


@pytest.mark.parametrize(
    ("received", "says"),
    [
        ({"a": ()}, "agent 'a': answers: must hold one summary for each question"),
        ({"a": (None,)}, "agent 'a': answers: must hold one summary for each question"),
        ({"a": (LocalQuantile(0.5, 9),) * 2}, "agent 'a': answers: must hold one summary"),
        ({"a": (LocalQuantile(7.0, 9),)}, "agent 'a': threshold: must lie between 0 and 1"),
        ({"a": (LocalQuantile(-0.1, 9),)}, "agent 'a': threshold: must lie between 0 and 1"),
        ({"a": (LocalQuantile(0.5, 201),)}, "agent 'a': n: must be an integer from 0 to 200"),
        ({"a": (Counts(9),)}, "all agents must have answered alike"),
        ({"stranger": (LocalQuantile(0.5, 9),)}, "and of no others; see stranger"),
    ],
)
def test_a_damaged_record_is_refused(received, says):
    look = record()
    damaged = replace(look, received={**look.received, **received})
    with pytest.raises(RecordError, match="is damaged") as found:
        check_look(damaged)
    assert says in str(found.value)


def test_an_answer_that_is_gone_is_missed():
    look = record()
    left = {name: sent for name, sent in look.received.items() if name != "b"}
    with pytest.raises(RecordError, match="see b"):
        check_look(replace(look, received=left))
