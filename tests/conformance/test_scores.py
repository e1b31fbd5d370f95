"""What every score promises, over all that are available."""

import dataclasses
import pickle
from itertools import pairwise, product

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from changed import replace
from fedwqcp import scores
from fedwqcp.scores import IntervalScore, LabelScore, Score
from fedwqcp.scores._base import RankedScore
from fedwqcp.scores.aps import APS
from fedwqcp.scores.normalized_residual import NormalizedResidual
from fedwqcp.scores.ordinal_aps import OrdinalAPS
from strategies import Labelled, distinct_probabilities, labelled, real_arrays, uniform_draws

Array = npt.NDArray[np.float64]


def variants(name: str) -> list[Score]:
    """A score under all its switches."""
    fields = dataclasses.fields(type(scores.get(name)))
    switches = [field.name for field in fields if isinstance(field.default, bool)]
    choices = product([True, False], repeat=len(switches))
    return [scores.get(name, **dict(zip(switches, values, strict=True))) for values in choices]


NAMES = [name for name in scores.available() if name != "custom"]
EVERY = [score for name in NAMES for score in variants(name)]
EVERY += [APS(precision="float32"), APS(precision="float32", randomized=False)]
LABEL = [score for score in EVERY if isinstance(score, LabelScore)]
RANKED = [score for score in LABEL if isinstance(score, RankedScore)]
INTERVAL = [score for score in EVERY if isinstance(score, IntervalScore)]

search = settings(max_examples=40, deadline=None)  # for each of some fifteen scores
every = pytest.mark.parametrize("score", EVERY, ids=repr)
label = pytest.mark.parametrize("score", LABEL, ids=repr)
ranked = pytest.mark.parametrize("score", RANKED, ids=repr)
interval = pytest.mark.parametrize("score", INTERVAL, ids=repr)


def drawn(score: LabelScore, u: Array) -> Array | None:
    """The uniforms, where the score takes them."""
    return u if score.randomized else None


def thresholds(found: Array, more: float) -> list[float]:
    """A number, and scores themselves with their neighbours: where rounding decides."""
    some = np.unique(found[np.isfinite(found)])[:6]
    near = (some, np.nextafter(some, np.inf), np.nextafter(some, -np.inf))
    return [more, -1.0, 0.0, 1.0, np.inf, *np.concatenate(near).tolist()]


@st.composite
def regressions(draw: st.DrawFn, score: IntervalScore) -> tuple[Array, Array]:
    """Outputs that the score takes, and y."""
    n = draw(st.integers(1, 5))
    outputs = draw(real_arrays(n if score.width == 1 else (n, score.width)))
    if isinstance(score, NormalizedResidual):
        outputs[:, 1] = np.abs(outputs[:, 1])
    return outputs, draw(real_arrays(n))


@every
def test_settings_survive_pickle_and_the_registry(score: Score) -> None:
    assert pickle.loads(pickle.dumps(score)) == score
    assert hash(pickle.loads(pickle.dumps(score))) == hash(score)
    fields = {f.name: getattr(score, f.name) for f in dataclasses.fields(score)}
    assert scores.get(scores.name_of(score), **fields) == score


@every
def test_it_is_frozen(score: Score) -> None:
    for name in [*(field.name for field in dataclasses.fields(score)), "new"]:
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(score, name, 0.5)


@label
@search
@given(case=labelled(), more=st.floats(-0.5, 2))
def test_a_label_is_covered_where_its_score_is_at_most_q(
    score: LabelScore, case: Labelled, more: float
) -> None:
    u = drawn(score, case.u)
    of = score.of(case.probs, case.labels, u=u)
    for q in thresholds(of, more):
        cover = score.invert(case.probs, q, "leq", u=u).cover(case.labels)
        assert cover.tolist() == (of <= q).tolist()


@label
@search
@given(case=labelled())
def test_one_score_is_picked_from_all(score: LabelScore, case: Labelled) -> None:
    u = drawn(score, case.u)
    every_label = score.of_every_label(case.probs, u=u)
    picked = every_label[np.arange(len(case.labels)), case.labels]
    assert score.of(case.probs, case.labels, u=u).tolist() == picked.tolist()


@label
@search
@given(case=labelled(), qs=st.tuples(st.floats(-0.5, 2), st.floats(-0.5, 2)))
def test_sets_grow_with_the_threshold_and_the_rule(
    score: LabelScore, case: Labelled, qs: tuple[float, float]
) -> None:
    u = drawn(score, case.u)
    rules = ("leq", "leq_top1", "until") if isinstance(score, RankedScore) else ("leq", "leq_top1")
    small, large = (
        [score.invert(case.probs, q, rule, u=u).mask for rule in rules] for q in sorted(qs)
    )
    for one, other in zip(small, large, strict=True):
        assert (one <= other).all()
    for masks in (small, large):
        for one, other in pairwise(masks):
            assert (one <= other).all()
        assert masks[1].any(axis=1).all()


@ranked
@search
@given(case=labelled(), q=st.floats(-0.5, 2))
def test_until_reads_labels_in_order_to_the_first_that_reaches_q(
    score: RankedScore, case: Labelled, q: float
) -> None:
    whole = replace(score, randomized=False)
    orders = np.argsort(whole._places(case.probs).rank, axis=1)
    inclusive = whole.of_every_label(case.probs)
    for threshold in thresholds(inclusive, q):
        sets = whole.invert(case.probs, threshold, "until")
        for row, order in enumerate(orders):
            reached = np.flatnonzero(inclusive[row, order] >= threshold)
            read = order[: reached[0] + 1] if len(reached) else order
            expected = {*read.tolist(), *np.flatnonzero(inclusive[row] <= threshold).tolist()}
            assert set(sets[row]) == expected


@label
@search
@given(case=labelled())
def test_scores_lie_in_their_bounds_where_the_set_is_full(
    score: LabelScore, case: Labelled
) -> None:
    u = drawn(score, case.u)
    low, high = score.bounds(case.probs.shape[1])
    found = score.of_every_label(case.probs, u=u)
    assert np.isfinite(high)
    assert (found >= low).all()
    assert (found <= high).all()
    for q in (high, np.inf):
        assert score.invert(case.probs, q, u=u).mask.all()


@label
@search
@given(case=labelled(), random=st.randoms(use_true_random=False), q=st.floats(0, 1.5))
def test_neither_batch_nor_order_of_rows_matters(
    score: LabelScore, case: Labelled, random, q: float
) -> None:
    u = drawn(score, case.u)
    at_once = score.of(case.probs, case.labels, u=u)
    masks = score.invert(case.probs, q, u=u).mask
    rows = list(range(len(case.labels)))
    random.shuffle(rows)
    for row in rows:
        one = slice(row, row + 1)
        alone = None if u is None else u[one]
        assert score.of(case.probs[one], case.labels[one], u=alone)[0] == at_once[row]
        assert score.invert(case.probs[one], q, u=alone)[0] == tuple(np.flatnonzero(masks[row]))
    turned = score.of(case.probs[rows], case.labels[rows], u=None if u is None else u[rows])
    assert turned.tolist() == at_once[rows].tolist()


@label
@search
@given(probs=distinct_probabilities(), q=st.floats(0, 1.5), data=st.data())
def test_relabelling_classes_relabels_the_sets(
    score: LabelScore, probs: Array, q: float, data: st.DataObject
) -> None:
    n, n_classes = probs.shape
    turned = list(range(n_classes))[::-1]  # the only other order that keeps neighbours
    if not isinstance(score, OrdinalAPS):
        turned = data.draw(st.permutations(range(n_classes)))
    u = drawn(score, data.draw(uniform_draws(n)))
    for rule in ("leq", "leq_top1"):
        mask = score.invert(probs, q, rule, u=u).mask
        assert (score.invert(probs[:, turned], q, rule, u=u).mask == mask[:, turned]).all()


@label
@search
@given(case=labelled(), data=st.data())
def test_thresholds_per_label_and_per_row_are_read_entry_by_entry(
    score: LabelScore, case: Labelled, data: st.DataObject
) -> None:
    u = drawn(score, case.u)
    n, n_classes = case.probs.shape
    values = score.of_every_label(case.probs, u=u)
    for shape in ((n_classes,), (n, 1)):
        q = data.draw(hnp.arrays(np.float64, shape, elements=st.floats(-0.5, 2)))
        assert (score.invert(case.probs, q, u=u).mask == (values <= q)).all()


@label
def test_inputs_are_left_as_they_are(score: LabelScore) -> None:
    probs, labels = np.array([[0.5, 0.25, 0.25], [0.1, 0.1, 0.8]]), np.array([1, 2])
    u = drawn(score, np.array([0.25, 0.75]))
    kept = probs.copy(), labels.copy()
    for array in (probs, labels):
        array.flags.writeable = False
    score.of(probs, labels, u=u)
    score.invert(probs, 0.5, "leq_top1", u=u)
    assert (probs == kept[0]).all()
    assert (labels == kept[1]).all()


@label
def test_no_rows_give_no_sets(score: LabelScore) -> None:
    u = drawn(score, np.empty(0))
    assert score.of(np.empty((0, 3)), [], u=u).shape == (0,)
    assert score.invert(np.empty((0, 3)), 0.5, u=u).mask.shape == (0, 3)


@interval
@search
@given(data=st.data(), more=st.floats(allow_nan=False))
def test_a_value_is_covered_where_its_score_is_at_most_q(
    score: IntervalScore, data: st.DataObject, more: float
) -> None:
    outputs, y = data.draw(regressions(score))
    of = score.of(outputs, y).reshape(len(y), score.columns)
    for q in thresholds(of, more):
        cover = score.invert(outputs, q).cover(y)
        assert cover.tolist() == (of <= q).all(axis=1).tolist()
    for q in of:  # one threshold per column, the row's own
        cover = score.invert(outputs, q).cover(y)
        assert cover.tolist() == (of <= q).all(axis=1).tolist()


@interval
@search
@given(data=st.data())
def test_the_ends_of_an_interval_belong_to_it_and_nothing_beyond(
    score: IntervalScore, data: st.DataObject
) -> None:
    outputs, y = data.draw(regressions(score))
    q = data.draw(st.floats(0, 1e9))
    intervals = score.invert(outputs, q)
    for end, beyond in ((intervals.lower, -np.inf), (intervals.upper, np.inf)):
        assert (score.of(outputs, end) <= q).all()
        outside = score.of(outputs, np.nextafter(end, beyond)).reshape(len(y), score.columns)
        assert (outside > q).any(axis=1).all()


@interval
@search
@given(data=st.data(), qs=st.tuples(st.floats(allow_nan=False), st.floats(allow_nan=False)))
def test_intervals_grow_with_the_threshold(
    score: IntervalScore, data: st.DataObject, qs: tuple[float, float]
) -> None:
    outputs, _ = data.draw(regressions(score))
    small, large = (score.invert(outputs, q) for q in sorted(qs))
    assert (large.lower <= small.lower).all()
    assert (small.upper <= large.upper).all()
    assert (small.sizes() <= large.sizes()).all()


@interval
@search
@given(data=st.data())
def test_the_bound_gives_the_whole_line(score: IntervalScore, data: st.DataObject) -> None:
    outputs, y = data.draw(regressions(score))
    low, high = score.bounds()
    assert high == np.inf
    assert (score.of(outputs, y) >= low).all()
    whole = score.invert(outputs, high)
    assert (whole.lower == -np.inf).all()
    assert (whole.upper == np.inf).all()


@interval
@search
@given(data=st.data())
def test_rows_of_a_regression_stand_alone(score: IntervalScore, data: st.DataObject) -> None:
    outputs, y = data.draw(regressions(score))
    at_once, intervals = score.of(outputs, y), score.invert(outputs, 0.5)
    for row in range(len(y)):
        one = slice(row, row + 1)
        assert score.of(outputs[one], y[one]).tolist() == at_once[one].tolist()
        assert score.invert(outputs[one], 0.5)[0] == intervals[row]
    assert score.of(outputs[::-1], y[::-1]).tolist() == at_once[::-1].tolist()
