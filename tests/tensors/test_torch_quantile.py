"""Thresholds and uniforms on tensors are numpy's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedwqcp as fw
from strategies import alphas, scores

torch = pytest.importorskip("torch", reason="fedwqcp.torch needs the extra 'torch'")

from fedwqcp.errors import InputError  # noqa: E402
from fedwqcp.torch import conformal_quantile, uniforms  # noqa: E402
from fedwqcp.torch.quantile import _on_device  # noqa: E402


@given(scores(infinite=True), alphas(3), st.sampled_from(["propagate", "clip", "exclude"]))
def test_thresholds_are_exact(values, alpha, overflow) -> None:
    tensor = torch.from_numpy(values)
    expected = fw.conformal_quantile(values, alpha, overflow)
    assert conformal_quantile(tensor, alpha, overflow) == expected
    assert _on_device(tensor, alpha, overflow) == expected


@given(st.lists(st.integers(-(2**63), 2**63 - 1)), st.text() | st.integers())
def test_uniforms_are_those_of_numpy(ids, key) -> None:
    array = np.array(ids, np.int64)
    np.testing.assert_array_equal(
        uniforms(key, torch.from_numpy(array)).numpy(), fw.uniforms(key, array)
    )


def test_unsound_input_is_refused() -> None:
    for way in (conformal_quantile, lambda s, alpha: _on_device(s, alpha, "clip")):
        with pytest.raises(InputError, match="NaN"):
            way(torch.tensor([np.nan]), 0.1)
        with pytest.raises(InputError, match="shape"):
            way(torch.zeros(2, 2), 0.1)
    with pytest.raises(InputError, match="integers"):
        uniforms("key", torch.tensor([0.5]))
