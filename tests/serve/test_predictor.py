from __future__ import annotations

import json
from datetime import date

import msgspec
import numpy as np
import pytest

import fedwqcp as fw
from fedwqcp.errors import InputError, RecordError
from fedwqcp.federation.release import promise
from fedwqcp.serve import model_digest
from fedwqcp.serve.predictor import bound_to
from serve.cases import AGENTS, CLASSES, KINDS, arrays, predicted, released


@pytest.mark.parametrize("kind", KINDS)
def test_a_predictor_gives_the_release_s_sets_without_calibration_data(kind, tmp_path):
    release, cal, new = released(kind)
    fw.save(release.public(), tmp_path / "release.json")
    public = fw.load(tmp_path / "release.json")  # as a site has it: nothing that agents found
    for agent in AGENTS:
        own = public.predictor(agent, cal[agent]) if agent == "köln" else release.predictor(agent)
        own.save(tmp_path / "own.json")
        loaded = fw.load(tmp_path / "own.json")
        assert loaded == own
        two = new.values.shape[1] == 2
        predict = release.predict_interval if two else release.predict_set
        for alpha in release.round.alphas:
            found, wanted = predicted(loaded, new, alpha=alpha), predict(agent, new, alpha=alpha)
            for ours, theirs in zip(arrays(found), arrays(wanted), strict=True):
                assert np.array_equal(ours, theirs)


def test_a_file_holds_no_row(tmp_path):
    release, cal, _ = released("by-label")
    path = tmp_path / "st-mary.json"
    release.predictor("st-mary").save(path)
    assert path.stat().st_mode & 0o777 == 0o600
    text = path.read_text()
    assert len(text) < 3000
    assert not [id for id in cal["st-mary"].ids if id in text]
    (level,) = json.loads(text)["levels"]
    assert np.shape(level["thresholds"]) == (1, 3), "one number per label"


def test_measures_are_those_of_the_release():
    release, _, new = released("auto")
    found = release.predictor("st-mary").measure(new.values, new.labels, ids=new.ids)
    assert found == release.measure("st-mary", new)
    assert release.predictor("st-mary").levels[0].proved == release.proved("st-mary") == 0.8
    release, _, new = released("fed-crc")
    assert release.predictor("köln").measure(new.values, new.labels).risk == (
        release.measure("köln", new).risk
    )
    with pytest.raises(InputError):  # of four labels
        release.predictor("köln").predict_set([[0.5, 0.5]])


def test_a_site_that_joins_later_has_one_where_all_share_a_threshold():
    release, _, new = released("fcp")
    joined = release.predictor(None)
    assert joined.agent is None
    assert np.array_equal(joined.predict_set(new.values).mask, release.predict_set(None, new).mask)
    with pytest.raises(InputError):
        released("auto")[0].predictor(None)


@pytest.fixture(scope="module")
def bound():
    return released("auto")[0].predictor(
        "st-mary", model="net 3.1", data_period="2026-01 to 2026-06", valid_until="2099-12-31"
    )


P = [[0.2, 0.3, 0.5]]


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"model": "net 3.2"}, "model"),
        ({"classes": CLASSES[::-1]}, "classes"),
        ({"classes": ("a", "b", "c")}, "classes"),
        ({"groups": ["f"]}, "groups"),
        ({"alpha": 0.3}, "alpha"),
        ({"ids": None}, "ids"),
        ({"ids": ["a", "b"]}, "ids"),
    ],
)
def test_another_model_other_classes_and_wrong_rows_are_refused(bound, options, field):
    with pytest.raises(InputError) as error:
        bound.predict_set(P, **{"ids": ["p1"], **options})
    assert error.value.field == field


def test_a_model_s_file_is_known_by_its_digest(tmp_path):
    model = tmp_path / "model.onnx"
    model.write_bytes(b"weights")
    own = released("auto")[0].predictor("st-mary", model=model)
    assert own.provenance["model"] == model_digest(model)
    own.predict_set(P, ids=["p1"], model=model)
    model.write_bytes(b"other weights")
    with pytest.raises(InputError):
        own.predict_set(P, ids=["p1"], model=model)
    assert {"created", "software", "model", "calibration_points"} == set(own.provenance)
    assert own.calibrated_on == (60,)


def test_sizes_that_noise_hides_or_of_many_labels_are_not_in_a_predictor():
    rng = np.random.default_rng(0)
    method = fw.methods.get("private-fedwq-cp", epsilon=50.0, size_epsilon=0.5)
    cals = {name: rng.random(300) for name in "ab"}
    private = fw.calibrate(cals, method=method, score=fw.LAC(), alpha=0.1, rng=0)
    assert private.predictor("a").calibrated_on == ()
    assert len(bound_to(None, None, None, [10] * 21)["calibration_points"]) == 62
    assert bound_to(None, None, None, [10] * 22) == {}


def test_a_predictor_past_its_date_promises_nothing_now(bound):
    assert not bound.expired
    old = msgspec.structs.replace(
        bound, provenance=bound.provenance | {"valid_until": "2026-01-31"}
    )
    assert old.expired
    assert promise(old)[0] != promise(bound)[0]
    assert promise(old)[1:] == promise(bound)[1:]


def test_a_predictor_past_its_date_warns_and_still_predicts(bound):
    old = msgspec.structs.replace(
        bound, provenance=bound.provenance | {"valid_until": "2026-01-31"}
    )
    with pytest.warns(fw.ExpiredPredictorWarning):
        sets = old.predict_set(P, ids=["p1"], model="net 3.1")
    assert np.array_equal(sets.mask, bound.predict_set(P, ids=["p1"]).mask)
    with pytest.raises(InputError):
        released("auto")[0].predictor("st-mary", valid_until="next year")
    given = released("auto")[0].predictor("st-mary", valid_until=date(2030, 1, 2))
    assert given.provenance["valid_until"] == "2030-01-02"


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"more": 1},
        {"rule": "all"},
        {"score": {"name": "nobody", "settings": {}}},
        {"by": "group"},
        {"classes": ["a", "b"]},
        {"levels": []},
        {"levels": [{"alpha": 0.2, "thresholds": [[1.5]]}]},
        {"levels": [{"alpha": 0.2, "thresholds": [[0.5, 0.5]]}]},
        {"levels": [{"alpha": 0.2, "thresholds": [[0.5], [0.5]]}]},
        {"levels": [{"alpha": 2, "thresholds": [[0.5]]}]},
        {"levels": [{"alpha": 0.2, "thresholds": [[0.5]]}] * 2},
        {"guarantee": {"kind": "none", "strength": "finite-sample"}},
        {"provenance": {"valid_until": "soon"}},
        {"provenance": {"someone": "x"}},
    ],
)
def test_a_changed_file_is_refused(bound, change, tmp_path):
    path = tmp_path / "own.json"
    path.write_bytes(msgspec.json.encode(msgspec.to_builtins(bound) | change))
    with pytest.raises(RecordError):
        fw.load(path)
