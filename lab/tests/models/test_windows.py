import pytest

torch = pytest.importorskip("torch", reason="the extra torch")

from fedwqcp_lab.models import layers, windows  # noqa: E402


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


@pytest.mark.parametrize("layer", [windows.conv_pool, layers.grouped_conv_pool])
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


def test_of_equal_values_the_first_gets_the_gradient():
    x = torch.ones(1, 1, 4, 4, 1, requires_grad=True)
    w = torch.zeros(1, 1, 1, 3, 3)
    w[..., 1, 1] = 1.0  # the identity: all four of each maximum are equal
    y = windows.conv_pool(x, w, torch.zeros(1, 1))
    (dx,) = torch.autograd.grad(y.sum(), x)
    want = torch.zeros(4, 4)
    want[::2, ::2] = 1.0
    assert torch.equal(dx[0, 0, :, :, 0], want)


def test_nothing_passes_where_the_output_is_zero():
    x, w, _ = case()
    low = torch.full((3, 7), -1e6, dtype=torch.float64, requires_grad=True)
    y = windows.conv_pool(x, w, low)
    assert (y == 0).all()
    for slope in torch.autograd.grad(y.sum(), (x, w, low)):
        assert (slope == 0).all()


def test_bfloat16_is_near():
    x, w, b = (t.detach().float() for t in case(n=2))
    exact = windows.conv_pool(x, w, b)
    rough = windows.conv_pool(x.bfloat16(), w, b)
    assert rough.dtype == torch.bfloat16
    assert (rough.float() - exact).norm() / exact.norm() < 1e-2
