"""A release predicts with its own score, key, rule and groups; and it prints."""

from __future__ import annotations

import pickle
from copy import copy
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedwqcp as fw
from changed import replace
from fedwqcp.errors import ClassesError, InputError
from fedwqcp.federation.predict import calibration_of
from fedwqcp.federation.release import agent_table
from fedwqcp.metrics import Rate
from fedwqcp.wire.release import AgentRecord
from refusals import raises

RNG = np.random.default_rng(4)
PROBS = RNG.dirichlet([1, 2, 3], size=120)
LABELS = np.array([RNG.choice(3, p=p) for p in PROBS])
IDS = [f"p{i}" for i in range(120)]
SITE = fw.Outputs(PROBS[:60], LABELS[:60], IDS[:60])
NEW, Y, NEW_IDS = PROBS[60:], LABELS[60:], IDS[60:]


@pytest.mark.parametrize(
    "score", [fw.APS(), fw.APS(randomized=False), fw.LAC(), fw.RAPS(), fw.SAPS()], ids=repr
)
@pytest.mark.parametrize("rule", ["leq", "leq_top1"])
def test_the_sets_are_those_of_the_score_threshold_key_and_rule_by_hand(score, rule):
    release = fw.calibrate(
        {"a": SITE}, method="fedwq-cp", alpha=0.2, score=score, rule=rule, key="k"
    )
    u = fw.uniforms("k", NEW_IDS) if score.randomized else None
    by_hand = score.invert(NEW, release.threshold("a"), rule, u)
    sets = release.predict_set("a", NEW, ids=NEW_IDS)
    np.testing.assert_array_equal(sets.mask, by_hand.mask)
    u = fw.uniforms("k", IDS[:60]) if score.randomized else None
    scored = fw.calibrate(
        {"a": score.of(*(PROBS[:60], LABELS[:60]), u=u)}, method="fedwq-cp", alpha=0.2, score=score
    )
    assert scored.threshold("a") == release.threshold("a")
    assert release.score == score


def test_each_round_has_a_key_of_its_own_unless_one_is_given():
    first, second = (
        fw.calibrate({"a": SITE}, method="fedwq-cp", alpha=0.2).round.key for _ in range(2)
    )
    assert len(first) == 16
    assert first != second
    assert fw.calibrate({"a": SITE}, method="fedwq-cp", alpha=0.2, key="").round.key == ""


@given(ids=st.lists(st.integers(-9, 999), min_size=60, max_size=60, unique=True))
def test_an_id_is_the_same_as_a_number_and_as_text(ids):
    release = fw.calibrate({"a": SITE}, method="fedwq-cp", alpha=0.2, key="k")
    numbers, texts = (
        release.predict_set("a", NEW, ids=each) for each in (ids, list(map(str, ids)))
    )
    np.testing.assert_array_equal(numbers.mask, texts.mask)


def test_measure_is_coverage_size_and_the_exact_interval():
    release = fw.calibrate({"a": SITE}, method="fedwq-cp", alpha=0.4, key="k")
    sets = release.predict_set("a", NEW, ids=NEW_IDS)
    found = release.measure("a", NEW, Y, ids=NEW_IDS, level=0.9)
    rate = Rate(n=60, hits=int(sets.cover(Y).sum()), level=0.9)
    assert (found.n, found.hits, found.low, found.high) == (60, rate.hits, rate.low, rate.high)
    assert (found.coverage, found.size) == (sets.cover(Y).mean(), sets.sizes().mean())
    assert found.empty == (sets.sizes() == 0).mean() > 0
    assert f"{found.coverage:.4f}" in str(found)
    assert f"{found.low:.4f}" in str(found)
    assert f"{found.high:.4f}" in str(found)


def test_class_names_reach_sets_and_measures():
    names = ["benign", "melanoma", "other"]
    release = fw.calibrate({"a": SITE}, method="fedwq-cp", alpha=0.2, classes=names, key="k")
    sets = release.predict_set("a", NEW, ids=NEW_IDS)
    assert sets.names(0) == tuple(names[label] for label in sets[0])
    assert "row 0: " + ", ".join(sets.names(0)) in str(sets)
    by_name = np.array(names)[Y]
    by_number = release.measure("a", NEW, Y, ids=NEW_IDS)
    assert release.measure("a", NEW, by_name, ids=NEW_IDS) == by_number


def test_without_empty_sets_the_top_label_joins_and_nothing_else_changes():
    release = fw.calibrate({"a": SITE}, method="fedwq-cp", alpha=0.4, key="k")
    plain = release.predict_set("a", NEW, ids=NEW_IDS)
    full = release.predict_set("a", NEW, ids=NEW_IDS, allow_empty=False)
    empty = plain.sizes() == 0
    assert empty.any()
    np.testing.assert_array_equal(full.mask[~empty], plain.mask[~empty])
    np.testing.assert_array_equal(full.mask[empty].argmax(1), NEW[empty].argmax(1))
    assert set(full.sizes()[empty]) == {1}
    agreed = fw.calibrate(
        {"a": SITE}, method="fedwq-cp", alpha=0.4, rule="leq_top1", key=release.round.key
    )
    assert (agreed.round.rule, agreed.threshold("a")) == ("leq_top1", release.threshold("a"))
    np.testing.assert_array_equal(agreed.predict_set("a", NEW, ids=NEW_IDS).mask, full.mask)
    before, after = (
        release.measure("a", NEW, Y, ids=NEW_IDS, allow_empty=allowed) for allowed in (True, False)
    )
    right = (NEW.argmax(1) == Y)[empty].sum()
    assert after.empty == 0
    assert (after.hits, after.size) == (before.hits + right, before.size + before.empty)


def test_of_several_levels_one_must_be_named():
    release = fw.calibrate({"a": SITE}, method="fedwq-cp", alpha=[0.1, 0.3])
    small, large = (
        release.predict_set("a", NEW, ids=NEW_IDS, alpha=alpha) for alpha in (0.3, np.float64(0.1))
    )
    assert (small.mask <= large.mask).all()
    assert small.mask.sum() < large.mask.sum()
    for wrong in ({}, {"alpha": 0.2}, {"alpha": [0.1, 0.3]}):
        with pytest.raises(InputError):
            release.predict_set("a", NEW, ids=NEW_IDS, **wrong)


def test_intervals_by_hand():
    out, y = [1.0, 2.0, 3.0, 4.0], [1.5, 2.0, 2.0, 4.25]  # residuals 0.5, 0, 1, 0.25
    release = fw.calibrate(
        {"a": fw.Outputs(out, y)}, method="split-cp", alpha=[0.4, 0.25], score="absolute-residual"
    )
    found = {
        alpha: list(release.predict_interval("a", [10.0, 20.0], alpha=alpha))
        for alpha in (0.4, 0.25)
    }
    assert found == {
        0.4: [(9.5, 10.5), (19.5, 20.5)],  # rank ceil(5 * 0.6) = 3
        0.25: [(9.0, 11.0), (19.0, 21.0)],  # rank ceil(5 * 0.75) = 4
    }
    measured = release.measure("a", [10.0, 20.0], [10.75, 20.0], alpha=0.4)
    assert (measured.hits, measured.size, measured.empty) == (1, 1.0, 0.0)


def test_groups_and_labels_have_their_own_thresholds():
    groups = np.array(["f", "m"] * 30)
    site = fw.Outputs(PROBS[:60], LABELS[:60], groups=groups)
    release = fw.calibrate({"a": site}, method="fedwq-cp", alpha=0.3, by="group", score="lac")
    sets = release.predict_set("a", NEW, groups=groups)
    at = np.where(
        groups == "f", release.threshold("a", group="f"), release.threshold("a", group="m")
    )
    np.testing.assert_array_equal(sets.mask, at[:, None] >= 1 - NEW)
    with pytest.raises(InputError):
        release.predict_set("a", NEW)
    with raises(InputError, row=1):
        release.predict_set("a", NEW[:2], groups=["f", "x"])
    by_label = fw.calibrate({"a": site}, method="fedwq-cp", alpha=0.3, by="label", score="lac")
    np.testing.assert_array_equal(
        by_label.predict_set("a", NEW).mask, by_label.threshold("a") >= 1 - NEW
    )
    with pytest.raises(InputError):
        by_label.predict_set("a", NEW, groups=groups)


def test_a_method_that_needs_the_agents_data_takes_them_again(tmp_path):
    release = fw.calibrate({"a": SITE}, method="split-cp", alpha=0.2, key="k")
    fw.save(release, tmp_path / "r.json")
    read = fw.load(tmp_path / "r.json")
    with pytest.raises(InputError):
        read.predict_set("a", NEW, ids=NEW_IDS)
    for again in (SITE, calibration_of(read.round, SITE)):
        np.testing.assert_array_equal(
            read.predict_set("a", NEW, ids=NEW_IDS, calibration=again).mask,
            release.predict_set("a", NEW, ids=NEW_IDS).mask,
        )
    with pytest.raises(InputError):
        read.predict_set("b", NEW, ids=NEW_IDS, calibration=SITE)


def test_labels_that_occur_together_have_a_false_negative_rate():
    rng = np.random.default_rng(3)
    probs, there = rng.random((50, 3)), rng.integers(0, 2, (50, 3))
    site = fw.Outputs(probs, there)
    release = fw.calibrate({"a": site}, method="fed-crc", alpha=0.2, score="multi-label")
    np.testing.assert_array_equal(
        release.predict_set("a", probs).mask, 1 - probs <= release.threshold("a")
    )
    found = release.measure("a", probs, there)
    missed = (there.astype(bool) & (1 - probs > release.threshold("a"))).sum(1)
    assert found.risk == pytest.approx((missed / np.maximum(1, there.sum(1))).mean())
    assert f"{found.risk:.4f}" in str(found)
    with pytest.raises(InputError):
        release.predict_set("a", probs, allow_empty=False)


def test_wrong_calls_are_refused():
    release = fw.calibrate({"a": SITE, "b": SITE}, method="fedwq-cp", alpha=0.2)
    line = fw.Outputs([1.0, 2.0], [1.0, 2.5])
    regression = fw.calibrate({"a": line}, method="fedwq-cp", alpha=0.4, score="absolute-residual")
    for call in (
        lambda: release.predict_set("st-mary", NEW, ids=NEW_IDS),
        lambda: release.predict_set("a", NEW[:, :2], ids=NEW_IDS),
        lambda: release.predict_set("a", 100 * NEW, ids=NEW_IDS),
        lambda: release.predict_set("a", NEW, ids=NEW_IDS, alpha=0.3),
        lambda: release.predict_set("a", NEW),
        lambda: release.predict_interval("a", NEW[:, 0]),
        lambda: regression.predict_set("a", NEW),
        lambda: fw.calibrate({"a": (PROBS, LABELS)}, alpha=0.2),
        lambda: fw.calibrate({"a": fw.Outputs([1.0], [1.0])}, alpha=0.2),
        lambda: fw.calibrate({"a": fw.Outputs(PROBS, LABELS + 1)}, alpha=0.2),
    ):
        with pytest.raises(InputError):
            call()


@pytest.mark.parametrize("ids", [np.arange(60.0), [None] * 60, [True, False] * 30])
def test_ids_that_name_no_row_are_refused(ids):
    release = fw.calibrate({"a": SITE}, method="fedwq-cp", alpha=0.2)
    with pytest.raises(InputError):
        release.predict_set("a", NEW, ids=ids)
    texts = np.array(NEW_IDS, dtype=object)  # a column of a data frame
    by_text, by_object = (release.predict_set("a", NEW, ids=names) for names in (NEW_IDS, texts))
    np.testing.assert_array_equal(by_text.mask, by_object.mask)


def test_html_escapes_what_others_wrote():
    release = fw.calibrate({"a": [0.1, 0.2, 0.3]}, method="fedwq-cp", alpha=0.4)
    bad = replace(release, agents=(AgentRecord("a", "refused", "<script>x</script>"),))
    page = bad._repr_html_()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert "threshold" in page


@pytest.mark.filterwarnings("ignore::fedwqcp.InfiniteThresholdWarning")
def test_an_infinite_threshold_gives_whole_sets():
    release = fw.calibrate({"a": SITE}, method="fedwq-cp", alpha=0.01, score="lac")
    assert release.threshold("a") == inf
    assert release.predict_set("a", NEW).mask.all()
    assert release.measure("a", NEW, Y).full == 1


def test_one_id_for_many_rows_is_refused_and_equal_rows_may_share_one():
    rng = np.random.default_rng(0)
    probs = rng.dirichlet([1, 2, 3], 50)
    labels = rng.integers(3, size=50)
    with raises(InputError, row=1):
        fw.calibrate(
            {"a": fw.Outputs(probs, labels, ids=["x"] * 50)},
            method="fedwq-cp",
            alpha=0.1,
            score="aps",
        )
    release = fw.calibrate(
        {"a": fw.Outputs(probs, labels, ids=np.arange(50))},
        method="fedwq-cp",
        alpha=0.1,
        score="aps",
    )
    with raises(InputError, row=1):
        release.predict_set("a", probs[:2], ids=["p", "p"])
    twice = np.repeat(probs[:3], 2, axis=0)
    assert len(release.predict_set("a", twice, ids=fw.scores.row_ids(twice))) == 6


MANY = {
    f"s{k}": fw.Outputs(PROBS[k::12], LABELS[k::12], IDS[k::12], classes=("a", "b", "c"))
    for k in range(12)
}


def test_a_site_that_took_no_part_predicts_with_a_shared_threshold(tmp_path):
    release = fw.calibrate(MANY, method="new-agent-cp", alpha=0.2, key="k")
    assert release.threshold(None) == release.threshold("s3")
    sets = release.predict_set(None, NEW, ids=NEW_IDS)
    by_hand = fw.APS().invert(NEW, release.threshold("s3"), u=fw.uniforms("k", NEW_IDS))
    np.testing.assert_array_equal(sets.mask, by_hand.mask)
    fw.save(release, tmp_path / "release.json")
    with pytest.raises(InputError):
        release.predict_set(None, NEW, ids=NEW_IDS, calibration=MANY["s0"])


@pytest.mark.parametrize("method", ["split-cp", "guarded-median-cp", "fedls-cp"])
def test_a_site_that_took_no_part_is_told_where_it_has_no_threshold(method):
    release = fw.calibrate(MANY, method=method, alpha=0.4, key="k")
    with pytest.raises(InputError):
        release.predict_set(None, NEW, ids=NEW_IDS)


def test_outputs_bring_their_parts_and_classes_are_checked():
    release = fw.calibrate(MANY, method="fedwq-cp", alpha=0.4, key="k")
    new = fw.Outputs(NEW, Y, NEW_IDS)
    np.testing.assert_array_equal(
        release.predict_set("s0", new).mask, release.predict_set("s0", NEW, ids=NEW_IDS).mask
    )
    assert release.measure("s0", new) == release.measure("s0", NEW, Y, ids=NEW_IDS)
    with pytest.raises(InputError):
        release.measure("s0", new, Y, ids=NEW_IDS)
    with pytest.raises(InputError):
        release.measure("s0", NEW, ids=NEW_IDS)
    for classes in ("cab", list("cab")):
        with pytest.raises(InputError):
            release.predict_set("s0", NEW, ids=NEW_IDS, classes=classes)
    wrong = fw.Outputs(NEW, Y, NEW_IDS, classes=list("cab"))
    with raises(ClassesError, field="classes"):
        release.predict_set("s0", wrong)
    plain = fw.calibrate({"a": SITE}, method="fedwq-cp", alpha=0.4)
    with raises(InputError, field="classes"):
        plain.predict_set("a", NEW, ids=NEW_IDS, classes=list("abc"))


def _caught(recwarn):
    """The warnings of test rows that calibrated, so far."""
    kind = fw.CalibrationRowsWarning
    return [w.message.findings for w in recwarn.list if issubclass(w.category, kind)]


@pytest.mark.parametrize("copied", [False, True])
@pytest.mark.parametrize("method", ["fedwq-cp", "split-cp"])
def test_coverage_on_rows_that_calibrated_is_warned_of_once(recwarn, method, copied):
    release = fw.calibrate({"a": SITE, "b": SITE}, alpha=[0.2, 0.4], method=method)
    tested = fw.Outputs(SITE.values.copy(), SITE.labels, SITE.ids) if copied else SITE
    release.measure("a", tested, alpha=0.2)
    ((finding,),) = _caught(recwarn)
    assert (finding.agents, finding.facts) == (("a",), {"rows": 60, "n": 60, "how": "ids"})


def test_only_the_rows_that_calibrated_are_counted(recwarn):
    release = fw.calibrate({"a": SITE}, method="fedwq-cp", alpha=0.2)
    release.measure("a", PROBS[40:100], LABELS[40:100], ids=IDS[40:100])
    assert _caught(recwarn)
    release.measure("a", NEW, Y, ids=NEW_IDS)
    release.measure("a", NEW, Y, ids=IDS[:60])  # numbered anew: other people under the same ids
    assert len(_caught(recwarn)) == 1


def test_without_ids_rows_are_known_by_their_outputs_if_at_least_half_of_them_calibrated(recwarn):
    cal = fw.Outputs(PROBS[:60], LABELS[:60])
    release = fw.calibrate({"a": cal}, method="fedwq-cp", alpha=0.2, score="lac")
    release.measure("a", PROBS[31:91], LABELS[31:91])
    assert not _caught(recwarn)
    release.measure("a", PROBS[30:90], LABELS[30:90])
    assert _caught(recwarn)


def test_equal_outputs_of_different_people_are_no_calibration_rows(recwarn):
    """A tree gives many people the same outputs; ids tell them apart where they are known."""
    leaves = PROBS[:6].repeat(10, axis=0)
    cal = fw.Outputs(leaves, LABELS[:60], IDS[:60])
    release = fw.calibrate({"a": cal}, method="fedwq-cp", alpha=0.2)
    test = fw.Outputs(leaves.copy(), LABELS[60:], IDS[60:])
    release.measure("a", test)
    release.measure("a", test, calibration=cal)
    assert not _caught(recwarn)
    again = fw.Outputs(leaves.copy(), LABELS[:60], IDS[:60])
    release.measure("a", again, calibration=cal)
    assert _caught(recwarn)


@pytest.mark.parametrize("scored", [False, True])
def test_calibration_data_that_are_given_again_are_compared(recwarn, scored):
    """Of another process nothing is known; scores are compared where no outputs are there."""
    here = fw.calibrate({"a": SITE}, method="fedwq-cp", alpha=0.2, score=fw.LAC())
    other = replace(here, round=replace(here.round, id="elsewhere"))
    own = calibration_of(here.round, SITE) if scored else SITE
    other.measure("a", PROBS[20:80], LABELS[20:80])
    assert not _caught(recwarn)
    other.measure("a", PROBS[20:80], LABELS[20:80], calibration=own)
    assert _caught(recwarn)


@pytest.mark.parametrize("with_ids", [False, True])
def test_an_agent_without_calibration_rows_is_measured(recwarn, tmp_path, with_ids):
    """No row calibrated, whether the empty part is known from `calibrate` or given again."""
    none = fw.Outputs(PROBS[:0], LABELS[:0], IDS[:0] if with_ids else None)
    test = fw.Outputs(PROBS[:60], LABELS[:60], IDS[:60] if with_ids else None)
    some = fw.Outputs(PROBS[60:], LABELS[60:], IDS[60:] if with_ids else None)
    release = fw.calibrate({"a": none, "b": some}, alpha=0.2, method="fcp", score="lac")
    alone = release.measure("a", test)
    assert alone.n == 60
    for again in (none, calibration_of(release.round, none)):
        assert release.measure("a", test, calibration=again) == alone
    assert release.report(tmp_path / "page.html", {"a": test}).exists()
    line = fw.Outputs(PROBS[:0, 0], PROBS[:0, 1])
    there = fw.Outputs(PROBS[:60, 0], PROBS[:60, 1])
    band = fw.calibrate({"a": line, "b": there}, alpha=0.2, method="fcp", score="absolute-residual")
    assert band.measure("a", there, calibration=line).n == 60
    several = fw.Outputs(PROBS[:60], PROBS[:60] > 0.3)
    risk = fw.calibrate({"a": several}, alpha=0.3, method="fed-crc", score="multi-label")
    with pytest.raises(InputError):
        risk.measure("a", PROBS[:0], PROBS[:0] > 0.3, calibration=several)
    assert not _caught(recwarn)


@pytest.mark.parametrize("method", ["split-cp", "guarded-median-cp", "fedwq-cp"])
@pytest.mark.parametrize("scored", [False, True])
def test_calibration_data_of_another_agent_are_refused(method, scored):
    """They would give its threshold, where a method needs an agent's own data once more."""
    sites = {"a": SITE, "b": fw.Outputs(NEW, Y, NEW_IDS)}
    if scored:
        sites = {name: fw.Calibration(fw.LAC().of(s.values, s.labels)) for name, s in sites.items()}
    release = fw.calibrate({**sites, "c": sites["a"]}, alpha=0.2, method=method, score="lac")
    for name in ("a", "c"):  # both have these data
        again = release.predict_set(name, NEW, calibration=sites["a"])
        np.testing.assert_array_equal(again.mask, release.predict_set(name, NEW).mask)
    says = r"calibration must be the data that agent 'a' calibrated with, got those of agent 'b': "
    with pytest.raises(InputError, match=says):
        release.predict_set("a", NEW, calibration=sites["b"])
    with pytest.raises(InputError, match=says):
        release.measure("a", NEW, Y, calibration=sites["b"])


def test_what_is_known_of_calibration_rows_stays_in_this_process(recwarn):
    release = fw.calibrate({"a": SITE}, method="fedwq-cp", alpha=0.2)
    copies = [pickle.loads(pickle.dumps(release)), copy(release), replace(release)]
    for one in copies:
        one.measure("a", SITE)
    assert not _caught(recwarn)


def in_parts(top):
    parts = np.repeat([0, 1], [9, 18])
    scores = np.concatenate([np.linspace(0, top, 9), np.linspace(0, top + 1, 18)])
    return fw.Calibration(scores, labels=parts, n_classes=2, groups=parts.astype(str))


def test_by_label_points_are_totals_and_thresholds_a_range():
    cals = {"a": in_parts(1.0), "b": in_parts(3.0)}
    release = fw.calibrate(cals, method="fedwq-cp", alpha=0.1, by="label")
    table = agent_table(release)
    assert (table["points"], table["sent"]) == ([27, 27], [(1.0, 2.0), (3.0, 4.0)])
    assert (release.points("a"), release.points("a", 1)) == (27, 18)
    with raises(InputError, field="agent"):
        release.points(["a"])


def test_by_group_each_has_a_line_with_its_points_and_what_they_prove():
    cals = {"a": in_parts(1.0), "b": in_parts(3.0)}
    table = agent_table(fw.calibrate(cals, method="fedwq-cp", alpha=0.1, by="group"))
    assert table["group"] == ["0", "1", "0", "1"]
    assert table["points"] == [9, 18, 9, 18]
    assert table["sent"] == [(1.0,), (2.0,), (3.0,), (4.0,)]
    some = [{"f", "old"}] * 4 + [{"old"}] * 23
    cals = {name: replace(cal, groups=some) for name, cal in cals.items()}
    release = fw.calibrate(cals, alpha=0.1, by="group")
    table = agent_table(release)
    assert table["points"] == [4, 27, 4, 27]
    assert table["proved"] == pytest.approx([0.8, 0.9, 0.8, 0.9])
    assert release.points("a") is None, "points of several groups would count twice"
    sent = release.public()
    assert (sent.points("a", "f"), sent.proved("a", group="f")) == (None, None)


def test_of_thousands_of_agents_the_unused_come_first():
    names = tuple(f"a{k:04d}" for k in range(1000))
    release = fw.calibrate({name: [0.1] * 9 for name in names}, method="fedwq-cp", alpha=0.1)
    last = replace(release.agents[-1], status="refused", reason="n: too large")
    text = str(replace(release, agents=(*release.agents[:-1], last), received={}))
    assert "n: too large" in text
    assert "980 more agents" in text
    assert "a0500" not in text


@pytest.mark.parametrize("method", ["auto", "split-cp", "fcp"])
def test_sets_that_hold_every_label_are_found_with_their_cause(method):
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(4), 60)
    labels = probs.argmax(axis=1)
    probs[np.arange(21), labels[:21]] = 0
    probs /= probs.sum(axis=1, keepdims=True)
    agents = {"a": fw.Outputs(probs, labels, ids=np.arange(60))}
    with pytest.warns(fw.errors.FindingWarning) as said:
        release = fw.calibrate(agents, method=method, alpha=0.1)
    (found,) = (one for one in release.findings if one.code == "full-sets")
    assert found in said[0].message.findings
    assert (found.agents, found["zeros"], found["n"]) == (("a",), 21, 60)
    assert release.predict_set("a", probs, ids=np.arange(60)).mask.all()
    smooth = {"a": fw.Outputs(0.9 * probs + 0.025, labels, ids=np.arange(60))}
    findings = fw.calibrate(smooth, method=method, alpha=0.1).findings
    assert "full-sets" not in [one.code for one in findings]
