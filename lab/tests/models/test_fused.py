"""Triton's kernels against plain torch: on CUDA where there is one, else interpreted."""

import os

import pytest

torch = pytest.importorskip("torch", reason="the extra torch")
if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # read when triton is imported
pytest.importorskip("triton", reason="kernels for CUDA")

from fedwqcp_lab.models import fused, networks  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SHAPES = [(2, 3, 8, 12, 3, 4), (2, 2, 4, 8, 1, 32), (1, 2, 4, 4, 32, 8)]


def drawn(*shape):
    rng = torch.Generator().manual_seed(0)
    return torch.randn(shape, generator=rng).round(decimals=1).to(DEVICE)  # rounded: with ties


@pytest.mark.parametrize(("G", "n", "H", "W", "c", "o"), SHAPES)
def test_each_kernel_equals_plain_torch(G, n, H, W, c, o):
    x = drawn(G, n, H, W, c)
    patches = networks._windows(x)
    assert torch.equal(fused.windows(x), patches)
    z, bias = drawn(G, n * H * W // 4, 4 * o), drawn(G, o)
    y, winner = networks._pool(z, bias)
    for ours, plain in zip(fused.pool(z, bias), (y, winner), strict=True):
        assert torch.equal(ours, plain)
    grad = drawn(*y.shape)
    assert torch.equal(fused.unpool(grad, winner), networks._unpool(grad, winner))
    weighed = drawn(*patches.shape)
    assert torch.allclose(fused.fold(weighed, x.shape), networks._fold(weighed, x.shape), atol=1e-5)


def test_without_cuda_they_are_not_used():
    assert not fused.works(torch.device("cpu"))


def test_the_layer_and_its_gradient_are_the_same():
    x, w, b = (drawn(*s).requires_grad_() for s in ((2, 2, 4, 8, 3), (2, 8, 3, 3, 3), (2, 8)))
    ours, plain = (networks.conv_pool(x, w, b, fuse=fuse) for fuse in (True, False))
    assert torch.allclose(ours, plain)
    for a, c in zip(
        torch.autograd.grad(ours.square().sum(), (x, w, b)),
        torch.autograd.grad(plain.square().sum(), (x, w, b)),
        strict=True,
    ):
        assert torch.allclose(a, c, rtol=1e-4, atol=1e-4)
