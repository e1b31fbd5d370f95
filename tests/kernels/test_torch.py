"""Plain torch operations give the integers of the numpy kernels, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from strategies import Labelled, labelled, probabilities

torch = pytest.importorskip("torch", reason="the kernels on tensors need the extra 'torch'")

from fedwqcp.kernels import Ranked  # noqa: E402
from fedwqcp.kernels import numpy as reference  # noqa: E402
from fedwqcp.kernels import torch as passes  # noqa: E402
from fedwqcp.scores.aps import APS  # noqa: E402
from fedwqcp.scores.lac import LAC  # noqa: E402
from fedwqcp.scores.raps import RAPS  # noqa: E402
from fedwqcp.scores.saps import SAPS  # noqa: E402

FIELDS = ("before", "upto", "rank", "top")
SCORES = [
    (APS(), passes.Formula("aps")),
    (APS(randomized=False), passes.Formula("aps")),
    (RAPS(penalty=0.013, k_reg=2), passes.Formula("raps", 0.013, 2)),
    (SAPS(penalty=0.07), passes.Formula("saps", 0.07)),
]


def assert_same(numpy_place: Ranked, place: passes.RankedTensors) -> None:
    for field in FIELDS:
        found = getattr(place, field).numpy()
        expected = getattr(numpy_place, field)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


@given(labelled())
def test_one_label_stands_where_numpy_puts_it(case: Labelled) -> None:
    probs, labels = torch.from_numpy(case.probs), torch.from_numpy(case.labels)
    assert_same(reference.rank_labels(case.probs, case.labels), passes.rank_labels(probs, labels))


@given(probabilities())
def test_every_label_stands_where_numpy_puts_it(probs) -> None:
    assert_same(reference.rank_every_label(probs), passes.rank_every_label(torch.from_numpy(probs)))


@pytest.mark.parametrize(("score", "formula"), SCORES)
@settings(max_examples=50)
@given(case=labelled())
def test_scores_and_sets_are_those_of_numpy(score, formula, case: Labelled) -> None:
    u = case.u if score.randomized else None
    probs, labels = torch.from_numpy(case.probs), torch.from_numpy(case.labels)
    share = None if u is None else torch.from_numpy(u)
    scores = score.of(case.probs, case.labels, u=u)
    place = passes.rank_labels(probs, labels)
    found = passes.score_places(formula, place, 1.0 if share is None else share)
    np.testing.assert_array_equal(found.numpy(), scores)
    per_label = np.resize(scores, case.probs.shape[1])
    for q in (scores[0], scores[:, None], per_label, np.inf, -1.0, 1.0):
        for rule in ("leq", "leq_top1", "until"):
            level = torch.as_tensor(q, dtype=torch.float64)
            mask = passes.sets(formula, probs, share, level, rule)
            np.testing.assert_array_equal(mask.numpy(), score.invert(case.probs, q, rule, u).mask)


@given(labelled())
def test_blocks_change_nothing(case: Labelled) -> None:
    probs, labels = torch.from_numpy(case.probs), torch.from_numpy(case.labels)
    whole = passes.rank_labels(probs, labels)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(passes.BLOCK, "cpu", 4)
        cut = passes.rank_labels(probs, labels)
    for field in FIELDS:
        assert torch.equal(getattr(whole, field), getattr(cut, field))


def test_no_rows() -> None:
    empty = torch.empty(0, 3)
    assert passes.rank_labels(empty, torch.empty(0, dtype=torch.int64)).rank.shape == (0,)
    mask = passes.sets(passes.Formula("aps"), empty, None, torch.tensor(0.5))
    assert mask.shape == (0, 3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@settings(max_examples=25)
@given(case=labelled())
def test_a_smallest_probability_says_what_the_score_says(dtype, case: Labelled) -> None:
    probs = case.probs.astype(dtype)
    scores = LAC().of_every_label(probs)
    for q in (*scores[0], 0.0, 1.0, -1e-300, np.nextafter(1.0, 0.0), 1e-20, np.inf):
        least = passes.lac_least(torch.tensor(q, dtype=torch.float64), torch.from_numpy(probs))
        found = torch.from_numpy(probs) >= least
        np.testing.assert_array_equal(found.numpy(), scores <= q)


def test_trap_many_small_probabilities_have_one_score() -> None:
    probs = torch.tensor([2.0**-53, 2.0**-54, 2.0**-55, 0.0], dtype=torch.float64)
    q = torch.tensor(np.nextafter(1.0, 0.0), dtype=torch.float64)
    assert (probs >= passes.lac_least(q, probs)).tolist() == [True, False, False, False]
