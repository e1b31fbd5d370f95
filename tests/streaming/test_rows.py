"""Scores, sets and coverage of batches are those of all rows at once."""

from __future__ import annotations

import numpy as np
import pytest

import fedwqcp as fw
from fedwqcp.errors import InputError
from fedwqcp.scores.custom import Custom
from fedwqcp.streaming import Arrays, conformal_quantiles, evaluate, predict, scores_of

RNG = np.random.default_rng(0)
PROBS = RNG.dirichlet(np.ones(4), 100)
LABELS = RNG.integers(0, 4, 100)
IDS = np.arange(100)
SOURCE = Arrays(PROBS, LABELS, IDS, rows=17)
U = fw.uniforms("key", IDS.astype(str))


def test_thresholds_from_batches_of_outputs():
    aps = fw.APS()
    whole = aps.of(PROBS, LABELS, u=U)
    found = list(scores_of(SOURCE, aps, key="key"))
    np.testing.assert_array_equal(np.concatenate(found), whole)
    (q,) = conformal_quantiles(scores_of(SOURCE, aps, key="key"), [0.1])
    assert q == fw.conformal_quantile(whole, 0.1)


def test_rows_without_ids_are_known_by_their_content():
    aps = fw.APS()
    bare = Arrays(PROBS, LABELS, rows=30)
    u = fw.uniforms("", fw.scores.row_ids(PROBS))
    found = np.concatenate(list(scores_of(bare, aps)))
    np.testing.assert_array_equal(found, aps.of(PROBS, LABELS, u=u))


@pytest.mark.parametrize("rule", ["leq", "leq_top1", "until"])
def test_sets_and_coverage_of_batches(rule):
    aps = fw.APS()
    whole = aps.invert(PROBS, 0.6, rule, U)
    parts = list(predict(SOURCE, aps, 0.6, rule=rule, key="key"))
    np.testing.assert_array_equal(np.concatenate([part.mask for part in parts]), whole.mask)
    seen: list[int] = []
    found = evaluate(SOURCE, aps, 0.6, rule=rule, key="key", progress=seen.append)
    assert (found.rate.n, found.rate.hits) == (100, whole.cover(LABELS).sum())
    assert found.mean_size == pytest.approx(whole.sizes().mean())
    assert found.empty == (whole.sizes() == 0).sum()
    assert seen == [17, 34, 51, 68, 85, 100]


def test_regression():
    out, y = RNG.normal(size=100), RNG.normal(size=100)
    source, score = Arrays(out, y, rows=9), fw.AbsoluteResidual()
    np.testing.assert_array_equal(np.concatenate(list(scores_of(source, score))), score.of(out, y))
    whole = score.invert(out, 1.0)
    lower = np.concatenate([part.lower for part in predict(source, score, 1.0)])
    np.testing.assert_array_equal(lower, whole.lower)
    found = evaluate(source, score, 1.0)
    assert found.rate.hits == whole.cover(y).sum()
    assert found.mean_size == pytest.approx(2.0)


def test_no_rows():
    found = evaluate([], fw.LAC(), 0.5)
    assert found.rate.n == 0
    assert np.isnan(found.mean_size)


def test_what_cannot_be_done_is_refused():
    for work in (scores_of, lambda s, score: [evaluate(s, score, 0.5)]):
        with pytest.raises(InputError, match="needs labels"):
            list(work([PROBS], fw.LAC()))
    with pytest.raises(InputError, match="caller's own"):
        list(scores_of(SOURCE, Custom()))


def test_a_pytorch_loader():
    torch = pytest.importorskip("torch", reason="a DataLoader is PyTorch's")
    data = torch.utils.data.TensorDataset(torch.from_numpy(PROBS), torch.from_numpy(LABELS))
    loader = torch.utils.data.DataLoader(data, batch_size=32)
    found = np.concatenate(list(scores_of(loader, fw.LAC())))
    np.testing.assert_array_equal(found, fw.LAC().of(PROBS, LABELS))


def test_an_error_says_where_its_batch_begins():
    probs = PROBS.copy()
    probs[40, 2] = np.nan
    source = Arrays(probs, LABELS, rows=17)
    message = "in the batch that begins with row 34: .*row 6 holds NaN"
    lac = fw.LAC()
    for work in (
        lambda: list(scores_of(source, lac)),
        lambda: list(predict(source, lac, 0.5)),
        lambda: evaluate(source, lac, 0.5),
    ):
        with pytest.raises(InputError, match=message):
            work()


def test_scores_can_be_read_again_if_their_source_can():
    aps = fw.APS(randomized=False)
    whole = aps.of(PROBS, LABELS)
    exact = fw.conformal_quantile(whole, 0.5)
    again = scores_of(SOURCE, aps)
    assert conformal_quantiles(again, [0.5], capacity=2) == (exact,)
    assert conformal_quantiles(again, [0.5]) == (exact,)
    with pytest.raises(InputError, match="pass capacity="):
        conformal_quantiles(scores_of(iter(list(SOURCE)), aps), [0.5], capacity=2)
