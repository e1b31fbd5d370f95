"""Regression on tensors is numpy's, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedwqcp as fw
from strategies import real_arrays

torch = pytest.importorskip("torch", reason="fedwqcp.torch needs the extra 'torch'")

from fedwqcp.errors import InputError  # noqa: E402
from fedwqcp.scores.custom import Custom  # noqa: E402
from fedwqcp.torch import TensorIntervalScore  # noqa: E402

SCORES = [fw.AbsoluteResidual(), fw.NormalizedResidual(), fw.CQR(), fw.CQR(symmetric=False)]


@pytest.mark.parametrize("score", SCORES)
@given(data=st.data())
def test_scores_and_intervals_are_those_of_numpy(score, data) -> None:
    n = data.draw(st.integers(1, 5))
    out = data.draw(real_arrays(n if score.width == 1 else (n, 2)))
    if isinstance(score, fw.NormalizedResidual):
        out[:, 1] = np.abs(out[:, 1])
    y = data.draw(real_arrays(n))
    tensor_score = TensorIntervalScore(score)
    outputs, values = torch.from_numpy(out), torch.from_numpy(y)
    expected = score.of(out, y)
    np.testing.assert_array_equal(tensor_score.of(outputs, values).numpy(), expected)
    own = expected[0] if score.columns == 2 else expected[:, None]
    for q in (own, 1.5, np.inf, -0.5, -np.inf):
        found, sets = tensor_score.invert(outputs, q), score.invert(out, q)
        np.testing.assert_array_equal(found.lower.numpy(), sets.lower)
        np.testing.assert_array_equal(found.upper.numpy(), sets.upper)
        covered, sizes = tensor_score.measure(outputs, values, q)
        np.testing.assert_array_equal(covered.numpy(), sets.cover(y))
        if np.isfinite(q).all():
            np.testing.assert_array_equal(sizes.numpy(), sets.sizes())


def test_what_does_not_fit_is_refused() -> None:
    score = TensorIntervalScore(fw.AbsoluteResidual())
    one, two = torch.tensor([1.0]), torch.tensor([1.0, 2.0])
    for work, reason in (
        (lambda: score.of(one, two), "y must be a tensor of shape"),
        (lambda: score.of(torch.tensor([np.inf]), one), "row 0 is not"),
        (lambda: score.invert(one, np.nan), "NaN"),
        (lambda: score.invert(one, two), "does not fit"),
        (lambda: TensorIntervalScore(Custom()), "arrays alone"),
    ):
        with pytest.raises(InputError, match=reason):
            work()
    spread = TensorIntervalScore(fw.NormalizedResidual())
    with pytest.raises(InputError, match="row 0 is negative"):
        spread.of(torch.tensor([[1.0, -1.0]]), one)
