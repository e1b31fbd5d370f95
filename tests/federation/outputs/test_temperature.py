"""Logits of an agent: held out, fitted, calibrated, and the same temperature when it predicts."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import fedwqcp as fw
from fedwqcp.errors import InputError, RecordError
from fedwqcp.federation.outputs import (
    Outputs,
    Temperature,
    for_calibration,
    for_prediction,
    held_out,
    load,
    load_outputs,
)
from fedwqcp.federation.predict import calibration_of, predict
from fedwqcp.wire.round import Choice, Round

ROUND = Round("r", Choice("fedwq-cp"), Choice("aps"), (0.1,), ("a", "b"), 1, key="k")


def site(n=400, seed=0, ids=True, scale=3.0):
    """Return logits that are too sure of themselves by a factor."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(n, 4)) * 1.5
    labels = (fw.softmax(logits).cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    names = np.array([f"p{i}" for i in range(n)]) if ids else None
    return Outputs(scale * logits, labels, names, logits=True)


def test_what_is_held_out_is_not_calibrated_on(tmp_path):
    outputs, path = site(), tmp_path / "a.temperature"
    used, own = for_calibration(ROUND, "a", outputs, 0.2, path)
    rows = held_out(ROUND, outputs, 0.2)
    assert 50 < own.fitted_on == rows.sum() < 110
    assert own.temperature == fw.fit_temperature(outputs.values[rows], outputs.labels[rows])
    assert own.temperature == pytest.approx(3.0, abs=0.8)
    assert not used.logits
    assert used.ids.tolist() == outputs.ids[~rows].tolist()
    np.testing.assert_array_equal(used.values, fw.softmax(outputs.values[~rows], own.temperature))
    assert calibration_of(ROUND, used).n == 400 - own.fitted_on
    assert load(path, ROUND, "a") == own


def test_the_choice_follows_the_row_and_grows_with_the_share():
    for ids in (True, False):
        outputs = site(ids=ids)
        rows = held_out(ROUND, outputs, 0.3)
        order = np.arange(400)[::-1]
        backwards = Outputs(
            outputs.values[order], None, outputs.ids[order] if ids else None, logits=True
        )
        np.testing.assert_array_equal(held_out(ROUND, backwards, 0.3), rows[order])
        assert (held_out(ROUND, outputs, 0.5) >= rows).all()
        assert not np.array_equal(held_out(replace(ROUND, key="other"), outputs, 0.3), rows)
        assert not held_out(ROUND, outputs, 0.0).any()


def test_a_later_step_uses_what_is_kept(tmp_path):
    path = tmp_path / "a.temperature"
    first, own = for_calibration(ROUND, "a", site(), 0.2, path)
    again, same = for_calibration(ROUND, "a", site(), None, path)
    assert same == own
    np.testing.assert_array_equal(first.values, again.values)
    with pytest.raises(InputError, match=r"was fitted on \d+ rows, a share of 0.2; to fit anew"):
        for_calibration(ROUND, "a", site(), 0.3, path)
    with pytest.raises(InputError, match="to fit anew, delete it and the answer"):
        for_calibration(ROUND, "a", site(n=300), None, path)


def test_logits_without_a_share_are_taken_as_they_are(tmp_path):
    outputs, path = site(ids=False), tmp_path / "a.temperature"
    used, own = for_calibration(ROUND, "a", outputs, None, path)
    assert own == Temperature("r", "a")
    np.testing.assert_array_equal(used.values, fw.softmax(outputs.values))
    assert for_prediction(ROUND, "a", outputs, path) == own
    assert for_prediction(ROUND, "a", Outputs(used.values), path) is None  # the same, at 1
    assert str(own) == "logits at temperature 1"


def test_probabilities_pass_untouched(tmp_path):
    probs, path = Outputs(np.array([[0.5, 0.5]])), tmp_path / "a.temperature"
    assert for_calibration(ROUND, "a", probs, None, path) == (probs, None)
    assert not path.exists()
    assert for_prediction(ROUND, "a", probs, path) is None
    with pytest.raises(InputError, match="a temperature needs logits, the file holds none"):
        for_calibration(ROUND, "a", probs, 0.2, path)


def test_predicting_needs_the_temperature_of_this_round_and_agent(tmp_path):
    path, outputs = tmp_path / "a.temperature", site()
    with pytest.raises(InputError, match=r"the outputs are logits, and .* is not there"):
        for_prediction(ROUND, "a", outputs, path)
    _, own = for_calibration(ROUND, "a", outputs, 0.2, path)
    assert for_prediction(ROUND, "a", outputs, path) == own
    later = replace(ROUND, id="s")
    with pytest.raises(InputError, match="is of round r and agent 'a', not of round s"):
        for_prediction(later, "a", outputs, path)
    with pytest.raises(InputError, match="is of round r and agent 'a', not of round r and agent"):
        for_prediction(ROUND, "b", outputs, path)
    probs = Outputs(fw.softmax(outputs.values))
    with pytest.raises(InputError, match="predict from logits too"):
        for_prediction(ROUND, "a", probs, path)
    assert for_prediction(later, "a", probs, path) is None  # that round had none


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"temperature": 0.0},
        {"temperature": float("inf")},
        {"share": 1.0},
        {"fitted_on": "9"},
        {"more": 1},
    ],
)
def test_a_damaged_file_is_refused(tmp_path, change):
    path = tmp_path / "a.temperature"
    for_calibration(ROUND, "a", site(), 0.2, path)
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(RecordError, match=r"a\.temperature is damaged"):
        load(path, ROUND, "a")
    path.write_text("[1")
    with pytest.raises(RecordError, match=r"a\.temperature is damaged"):
        load(path, ROUND, "a")


def test_a_private_round_takes_no_temperature(tmp_path):
    private = replace(ROUND, method=Choice("private-fedwq-cp", {"epsilon": 1.0}))
    with pytest.raises(InputError, match="would tell of the rows that it was fitted on"):
        for_calibration(private, "a", site(), 0.2, tmp_path / "a.temperature")
    assert not (tmp_path / "a.temperature").exists()


@pytest.mark.parametrize(
    ("round", "outputs", "share", "says"),
    [
        (replace(ROUND, score=Choice("absolute-residual")), site(), None, "does not read logits"),
        (ROUND, site(), 1.5, "must be between 0 and 1, got 1.5"),
        (ROUND, replace(site(), labels=None), 0.2, "needs labels"),
        (ROUND, site(n=3), 0.01, "right in all 0 rows"),
    ],
)
def test_what_cannot_be_done(tmp_path, round, outputs, share, says):
    with pytest.raises(InputError, match=says):
        for_calibration(round, "a", outputs, share, tmp_path / "a.temperature")
    assert not (tmp_path / "a.temperature").exists()


def test_errors_name_lines_of_the_whole_file(tmp_path):
    path = tmp_path / "cal.csv"
    path.write_text("z0,z1,label\n" + "1,0,0\n0,1,0\n" * 20 + "1,0,2\n")
    with pytest.raises(InputError, match="from 0 to 1, line 42 is outside"):
        for_calibration(ROUND, "a", load_outputs(path), 0.2, tmp_path / "a.temperature")


def test_logits_are_refused_where_no_temperature_is_known():
    with pytest.raises(InputError, match=r"give probabilities, fw\.softmax\(logits\)"):
        calibration_of(ROUND, site())
    release = fw.calibrate({"a": [0.1, 0.2, 0.3]}, alpha=0.5, score="lac")
    with pytest.raises(InputError, match="the outputs are logits"):
        predict(release, "a", site())
