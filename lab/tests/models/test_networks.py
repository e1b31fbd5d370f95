from __future__ import annotations

import numpy as np
import pytest

from fedwqcp_lab.models import networks
from fedwqcp_lab.models.networks import Classes, Mean, Quantiles

torch = pytest.importorskip("torch", reason="the extra torch")


def test_cross_entropy_by_hand():
    logits = torch.tensor([[[0.0, 0.0], [np.log(3.0), 0.0]], [[0.0, 0.0], [0.0, 0.0]]])
    labels = torch.tensor([[0, 1], [0, 0]])
    want = [(np.log(2) + np.log(4)) / 2, np.log(2)]
    assert Classes(2).loss(logits, labels).numpy() == pytest.approx(want, rel=1e-6)
    assert Classes(2).finish(logits) is logits


def test_squared_error_by_hand():
    outputs, truth = torch.tensor([[[1.0], [4.0]]]), torch.tensor([[0.0, 2.0]])
    assert Mean().loss(outputs, truth).item() == pytest.approx((1 + 4) / 2)
    assert Mean().finish(outputs).tolist() == [[1.0, 4.0]]


def test_pinball_by_hand():
    head = Quantiles((0.1, 0.9))
    outputs, truth = torch.tensor([[[1.0, 3.0], [2.0, 1.0]]]), torch.tensor([[2.0, 0.0]])
    # row 1: error 1 at 0.1 costs 0.1, error -1 at 0.9 costs 0.1; row 2: -2 costs 1.8, -1 costs 0.1
    assert head.loss(outputs, truth).item() == pytest.approx((0.2 + 1.9) / 2)


def test_crossing_quantiles_are_sorted():
    said = Quantiles((0.1, 0.9)).finish(torch.tensor([[[2.0, 1.0], [0.0, 5.0]]]))
    assert said.tolist() == [[[1.0, 2.0], [0.0, 5.0]]]


def case(seed=0, G=3, n=4, H=8, W=12, c=5, o=7, dtype=torch.float64):
    rng = torch.Generator().manual_seed(seed)
    x, w, b = (
        torch.randn(shape, generator=rng, dtype=dtype).requires_grad_()
        for shape in ((G, n, H, W, c), (G, o, c, 3, 3), (G, o))
    )
    return x, w, b


def plain(x, w, b):
    each = []
    for image, weight, bias in zip(x, w, b, strict=True):
        z = torch.conv2d(image.permute(0, 3, 1, 2), weight, bias, padding=1)
        each.append(torch.max_pool2d(torch.relu(z), 2).permute(0, 2, 3, 1))
    return torch.stack(each)


@pytest.mark.parametrize("layer", [networks.conv_pool, networks.grouped_conv_pool])
@pytest.mark.parametrize("channels", [1, 5, 9])
def test_output_and_gradient_equal_plain_torch(layer, channels):
    inputs = case(c=channels)
    want, got = plain(*inputs), layer(*inputs)
    assert torch.allclose(got, want, atol=1e-12)
    direction = torch.randn(want.shape, generator=torch.Generator().manual_seed(1)).double()
    for a, b in zip(
        torch.autograd.grad((want * direction).sum(), inputs),
        torch.autograd.grad((got * direction).sum(), inputs),
        strict=True,
    ):
        assert torch.allclose(a, b, rtol=1e-5, atol=1e-5)  # biases are summed in float32
