"""Releases survive a file, and damaged files are not mistaken for missing ones."""

from __future__ import annotations

from math import inf

import pytest

from changed import replace
from fedwqcp import Calibration, calibrate, load, save
from fedwqcp.errors import InputError, RecordError
from fedwqcp.federation.predict import thresholds
from fedwqcp.methods.cphet import CPhet
from fedwqcp.wire.codec import encode
from fedwqcp.wire.messages import Local, SharedThreshold
from fedwqcp.wire.release import Guarantee

AGENTS = {
    "a": Calibration([0.1, 0.2, 0.3, 0.4], [0, 0, 1, 1], [[0.0], [0.1], [0.2], [0.3]], 2),
    "b": Calibration([0.3, 0.5], [0, 0], [[0.4], [0.5]], 2),
}
OWN = ["split-cp", "guarded-median-cp", CPhet(scope="local")]


@pytest.mark.parametrize("method", OWN)
def test_an_agents_own_threshold_is_in_no_file(tmp_path, method):
    release = calibrate(AGENTS, method=method, alpha=0.4)
    save(release, tmp_path / "r.json")
    again = load(tmp_path / "r.json")
    assert again == replace(release, local={})
    with pytest.raises(InputError):
        again.threshold("a")
    assert thresholds(again, "a", calibration=AGENTS["a"]) == release.threshold("a")
    (tmp_path / "r.json").write_bytes(encode(replace(again, local={"a": (0.01,), "b": (0.01,)})))
    with pytest.raises(RecordError):
        load(tmp_path / "r.json")


@pytest.mark.parametrize("method", ["split-cp", "guarded-median-cp"])
@pytest.mark.parametrize("value", [0.01, inf])
def test_an_outcome_that_the_method_never_ends_with_is_refused(tmp_path, method, value):
    release = calibrate(AGENTS, method=method, alpha=0.4)
    forged = replace(release, local={}, outcomes=(SharedThreshold(value),))
    (tmp_path / "r.json").write_bytes(encode(forged))
    with pytest.raises(RecordError):
        load(tmp_path / "r.json")


def test_in_a_group_that_nobody_has_the_outcome_is_infinite_and_nothing_else(tmp_path):
    path = tmp_path / "r.json"
    lone = {name: Calibration([0.1], [0], n_classes=2) for name in "ab"}
    release = calibrate(lone, method="guarded-median-cp", alpha=0.4, by="label")
    assert release.outcomes[1] == SharedThreshold(inf)
    save(release, path)
    assert load(path).outcomes == release.outcomes
    for forged in (SharedThreshold(0.01), Local()):
        outcomes = (release.outcomes[0], forged)
        path.write_bytes(encode(replace(release, local={}, outcomes=outcomes)))
        with pytest.raises(RecordError, match="outcomes"):
            load(path)


def test_an_outcome_that_is_missing_is_refused(tmp_path):
    path = tmp_path / "r.json"
    save(calibrate({"a": [0.1, 0.2]}, method="split-cp", alpha=0.4), path)
    path.write_bytes(path.read_bytes().replace(b'[{"kind":"local"}]', b"[null]"))
    with pytest.raises(RecordError):
        load(path)


@pytest.mark.guarantee("SECURITY.md", "is computed from its calibration data, never read.")
def test_a_local_threshold_is_not_taken_from_an_outcome_of_another_form():
    pooled = calibrate(AGENTS, method="cphet", target="mixture", alpha=0.4)
    local = calibrate(AGENTS, method=CPhet(scope="local"), alpha=0.4)
    forged = replace(local, local={}, outcomes=pooled.outcomes)
    assert forged.threshold("a") == pooled.threshold("a")
    with pytest.raises(InputError):
        thresholds(forged, "a")


def test_a_claim_that_the_method_does_not_make_is_refused(tmp_path):
    path = tmp_path / "r.json"
    release = calibrate(AGENTS, method="fedwq-cp", alpha=0.4)
    save(replace(release, guarantee=Guarantee("marginal-agent", "finite-sample")), path)
    with pytest.raises(RecordError):
        load(path)
    release = calibrate(AGENTS, method="fedls-cp", alpha=0.4)
    save(replace(release, guarantee=Guarantee("target-shift", "finite-sample")), path)
    with pytest.raises(RecordError):
        load(path)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"version":3', b'"version":2'),
        (b'"rounds":1', b'"rounds":"1"'),
        (b'"name":"fedwq-cp"', b'"name":"nope"'),
        (b"{", b""),
        (b'"value":0.2}', b'"value":0.2},{"kind":"shared-threshold","value":0.2}'),
    ],
)
def test_a_damaged_file_is_told_from_a_missing_one(tmp_path, old, new):
    path = tmp_path / "r.json"
    with pytest.raises(InputError) as missing:
        load(path)
    assert not isinstance(missing.value, RecordError)
    release = calibrate({"a": [0.1, 0.2]}, method="fedwq-cp", alpha=0.4)
    save(release, path)
    assert load(path) == release
    assert old in path.read_bytes()
    path.write_bytes(path.read_bytes().replace(old, new))
    with pytest.raises(RecordError):
        load(path)
