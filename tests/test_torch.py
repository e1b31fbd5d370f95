"""The adapter gives numpy's scores, sets and coverage on tensors, and refuses what it does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedwqcp as fw
from fedwqcp.errors import InputError
from fedwqcp.kernels import numpy as reference
from refusals import raises
from strategies import Labelled, alphas, labelled, scores

torch = pytest.importorskip("torch", reason="fedwqcp.torch needs the extra 'torch'")

from fedwqcp import torch as adapter  # noqa: E402
from fedwqcp.torch import (  # noqa: E402
    TensorLabelScore,
    _quantile_on_device,
    conformal_quantile,
    uniforms,
)

SCORES = [
    fw.LAC(),
    fw.APS(),
    fw.APS(randomized=False),
    fw.RAPS(penalty=0.013, k_reg=2),
    fw.SAPS(penalty=0.07),
]


@pytest.fixture(params=["numpy", "torch"])
def way(request, monkeypatch: pytest.MonkeyPatch) -> str:
    """Let numpy read the memory of CPU tensors, or treat them as those of any other device."""
    if request.param == "torch":
        monkeypatch.setattr(adapter, "_on_cpu", lambda p: False)
    return request.param


def tensors_of(case: Labelled, score) -> tuple:
    u = torch.from_numpy(case.u) if score.randomized else None
    return torch.from_numpy(case.probs), torch.from_numpy(case.labels), u


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("on_cpu", [True, False])
@settings(max_examples=30)
@given(case=labelled())
def test_results_are_those_of_numpy(score, on_cpu, case: Labelled) -> None:
    probs, y, u = tensors_of(case, score)
    share = case.u if score.randomized else None
    tensor_score = TensorLabelScore(score)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(adapter, "_on_cpu", lambda p: on_cpu)
        scores = tensor_score.of(probs, y, u)
        expected = score.of(case.probs, case.labels, u=share)
        np.testing.assert_array_equal(scores.numpy(), expected)
        rules = ("leq", "leq_top1") if isinstance(score, fw.LAC) else ("leq", "leq_top1", "until")
        per_label = np.resize(expected, case.probs.shape[1])
        for at, q in enumerate((float(expected[0]), expected[:, None], per_label, np.inf)):
            rule = rules[at % len(rules)]
            sets = score.invert(case.probs, q, rule, share)
            mask = tensor_score.invert(probs, q, rule, u)
            np.testing.assert_array_equal(mask.numpy(), sets.mask)
            covered, sizes = tensor_score.measure(probs, y, q, rule, u)
            np.testing.assert_array_equal(covered.numpy(), sets.cover(case.labels))
            np.testing.assert_array_equal(sizes.numpy(), sets.sizes())


def test_half_precision_is_read_as_it_is(way: str) -> None:
    probs = torch.tensor([[0.5, 0.25, 0.25]], dtype=torch.bfloat16)
    aps = TensorLabelScore(fw.APS(randomized=False))
    assert aps.of(probs, torch.tensor([1])).tolist() == [0.75]


@pytest.mark.parametrize("row", [[0.5, 0.2, 0.1], [1.5, -0.5, 0.0], [np.nan, 0, 1]])
def test_rows_that_are_no_distributions_are_refused(way: str, row) -> None:
    probs = torch.tensor([[0.5, 0.25, 0.25], row], dtype=torch.float64)
    aps = TensorLabelScore(fw.APS(randomized=False))
    for work in (
        lambda: aps.of(probs, torch.tensor([0, 0])),
        lambda: aps.invert(probs, 0.5),
        lambda: aps.measure(probs, torch.tensor([0, 0]), 0.5),
    ):
        with raises(InputError, row=1):
            work()


def test_what_does_not_fit_is_refused(way: str) -> None:
    probs, y = torch.tensor([[0.5, 0.5]]), torch.tensor([0])
    lac = TensorLabelScore(fw.LAC())
    for work, reason in (
        (lambda: lac.of(probs, torch.tensor([2])), "from 0 to 1"),
        (lambda: lac.of(probs, torch.tensor([-1])), "from 0 to 1"),
        (lambda: lac.of(probs, torch.tensor([0, 1])), "shape"),
        (lambda: lac.of(probs, torch.tensor([0.0])), "integers"),
        (lambda: lac.of(probs, torch.tensor([True])), "integers"),
        (lambda: lac.of(probs[0], y), "two classes"),
        (lambda: lac.of(torch.tensor([[1, 0]]), y), "floats"),
        (lambda: lac.of(probs, y, torch.tensor([0.5])), "takes no u"),
        (lambda: TensorLabelScore(fw.APS()).of(probs, y), "needs one uniform"),
        (lambda: TensorLabelScore(fw.APS()).of(probs, y, torch.tensor([2.0])), "between 0 and 1"),
        (lambda: TensorLabelScore(fw.APS()).of(probs, y, torch.tensor([np.nan])), "finite"),
        (lambda: TensorLabelScore(fw.APS()).of(probs, y, torch.tensor([0.1, 0.2])), "shape"),
        (lambda: lac.invert(probs, np.nan), "NaN"),
        (lambda: lac.invert(probs, "high"), "number"),
        (lambda: lac.invert(probs, torch.zeros(3)), "does not fit"),
        (lambda: lac.invert(probs, 0.5, "until"), "does not fit"),
        (lambda: lac.invert(probs, 0.5, "all"), "one of"),
    ):
        with pytest.raises(InputError, match=reason):
            work()


def test_a_score_without_a_formula_stays_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    probs, y = torch.tensor([[0.25, 0.125, 0.5, 0.125]]), torch.tensor([0])
    ordinal = TensorLabelScore(fw.OrdinalAPS())
    assert ordinal.of(probs, y).tolist() == [0.875]
    monkeypatch.setattr(adapter, "_on_cpu", lambda p: False)
    with pytest.raises(InputError, match="CPU alone"):
        ordinal.of(probs, y)


@given(scores(infinite=True), alphas(3), st.sampled_from(["propagate", "clip", "exclude"]))
def test_thresholds_are_exact(values, alpha, overflow) -> None:
    tensor = torch.from_numpy(values)
    expected = fw.conformal_quantile(values, alpha, overflow)
    assert conformal_quantile(tensor, alpha, overflow) == expected
    assert _quantile_on_device(tensor, alpha, overflow) == expected


@given(st.lists(st.integers(-(2**63), 2**63 - 1)), st.text() | st.integers())
def test_uniforms_are_those_of_numpy(ids, key) -> None:
    array = np.array(ids, np.int64)
    np.testing.assert_array_equal(
        uniforms(key, torch.from_numpy(array)).numpy(), fw.uniforms(key, array)
    )


@settings(max_examples=30)
@given(case=labelled())
def test_blocks_and_a_compiled_pass_change_nothing(case: Labelled) -> None:
    probs, labels = torch.from_numpy(case.probs), torch.from_numpy(case.labels)
    whole, _ = adapter.rank_labels(probs, labels, None)
    expected = reference.rank_labels(case.probs, case.labels)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(adapter.BLOCK, "cpu", 4)
        cut, _ = adapter.rank_labels(probs, labels, None)
    for field in whole._fields:
        assert torch.equal(getattr(whole, field), getattr(cut, field))
        np.testing.assert_array_equal(getattr(whole, field).numpy(), getattr(expected, field))


def test_what_torch_compiles_is_what_it_runs() -> None:
    rng = np.random.default_rng(0)
    for n in (3, 50):
        probs = torch.from_numpy(rng.dirichlet(np.ones(7), n))
        labels = torch.from_numpy(rng.integers(0, 7, n))
        own = probs.gather(1, labels[:, None])[:, 0]
        u = torch.from_numpy(rng.random(n))
        found = adapter._compiled(adapter._ahead)(probs, labels, own, u)
        for one, other in zip(found, adapter._ahead(probs, labels, own, u), strict=True):
            assert torch.equal(one, other)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@settings(max_examples=25)
@given(case=labelled())
def test_a_smallest_probability_says_what_the_score_says(dtype, case: Labelled) -> None:
    probs = case.probs.astype(dtype)
    scores = fw.LAC().of_every_label(probs)
    for q in (*scores[0], 0.0, 1.0, -1e-300, np.nextafter(1.0, 0.0), 1e-20, np.inf):
        least = adapter.lac_least(torch.tensor(q, dtype=torch.float64), torch.from_numpy(probs))
        found = torch.from_numpy(probs) >= least
        np.testing.assert_array_equal(found.numpy(), scores <= q)
