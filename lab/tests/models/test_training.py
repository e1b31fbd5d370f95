from __future__ import annotations

import numpy as np
import pytest

from fedwqcp_lab.datasets.partition import stream
from fedwqcp_lab.models.engine import Engine
from fedwqcp_lab.models.networks import Classes, LargeCNN, Mean, Quantiles, VeryWeakLinear
from fedwqcp_lab.models.training import Stack, initial, train
from plain_models import plain, planes

torch = pytest.importorskip("torch", reason="the extra torch")


CPU = torch.device("cpu")


ARCHITECTURES = [
    LargeCNN((28, 28, 1), Classes(10)),
    LargeCNN((32, 32, 3), Classes(10)),
    LargeCNN((28, 28, 3), Mean(), averaging=True),
    LargeCNN((28, 28, 3), Quantiles((0.025, 0.975)), averaging=True),
    VeryWeakLinear((28, 28, 1), Classes(10)),
    VeryWeakLinear((28, 28, 3), Mean()),
]


def images_of(shape, n=5):
    return np.random.default_rng(4).integers(0, 256, (n, *shape), dtype=np.uint8)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_weights_are_named_and_shaped_as_in_a_plain_module(architecture):
    want = {name: tuple(w.shape) for name, w in plain(architecture).state_dict().items()}
    assert architecture.shapes() == want
    assert architecture.parameters == sum(w.numel() for w in plain(architecture).parameters())


@pytest.mark.parametrize("layout", ["windows", "grouped"])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_stack_says_what_its_models_say_alone(architecture, layout):
    images = images_of(architecture.shape)
    weights = initial(architecture, [stream(0, str(g)) for g in range(3)])
    stack = Stack(architecture, weights, Engine(layout=layout, chunk=2).on(CPU))
    said = stack.predict(images)
    assert said.dtype == np.float32
    for g in range(3):
        module = plain(architecture)
        module.load_state_dict({name: w[g] for name, w in stack.weights.items()})
        with torch.no_grad():
            want = architecture.head.finish(module(planes(images))[None])[0]
        assert np.allclose(said[g], want.numpy(), rtol=1e-4, atol=1e-5)


SHAPE = (8, 8, 1)
STRONG = LargeCNN(SHAPE, Classes(3))
WEAK = VeryWeakLinear(SHAPE, Classes(3))


def bars(n, seed=0):
    """Images with a bright bar in one of three places, under noise; the place is the label."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, n)
    images = rng.integers(0, 120, (n, 8, 8), dtype=np.uint8)
    for image, label in zip(images, labels, strict=True):
        image[:, 1 + 2 * label : 3 + 2 * label] += 120
    return images, labels


def streams(*names):
    return [stream(0, "train", name) for name in names]


@pytest.mark.parametrize("layout", ["windows", "grouped"])
@pytest.mark.parametrize("architecture", [STRONG, WEAK, LargeCNN(SHAPE, Mean(), averaging=True)])
def test_training_equals_plain_torch_with_adam(architecture, layout):
    images, labels = bars(40)
    rows = np.arange(30)[None]
    stack = train(
        architecture,
        images,
        labels,
        rows,
        streams("a"),
        epochs=2,
        batch=8,
        device="cpu",
        engine=Engine(layout=layout),
    )
    rng, module = stream(0, "train", "a"), plain(architecture)
    module.load_state_dict({n: w[0] for n, w in initial(architecture, [rng]).items()})
    adam = torch.optim.Adam(module.parameters(), lr=1e-3)
    targets = architecture.head.targets(labels)
    for _ in range(2):
        for batch in torch.from_numpy(rng.permutation(rows[0])).split(8):  # the last one has 6
            adam.zero_grad()
            outputs = module(planes(images)[batch])[None]
            architecture.head.loss(outputs, targets[batch][None]).sum().backward()
            adam.step()
    with torch.no_grad():
        want = architecture.head.finish(module(planes(images))[None])[0].numpy()
    assert np.abs(stack.predict(images)[0] - want).max() < 1e-4
    for name, weight in module.named_parameters():
        # Adam divides by the gradient's size, so rounding moves a gradient of nearly 0
        assert (stack.weights[name][0] - weight).abs().median() < 1e-6


@pytest.mark.parametrize("architecture", [STRONG, WEAK])
@pytest.mark.parametrize("layout", ["windows", "grouped"])
def test_a_model_alone_and_in_a_stack_is_the_same(architecture, layout):
    images, labels = bars(60)
    rows = np.stack([np.arange(40), np.arange(20, 60), np.arange(40)])

    def trained(rows, names, chunk):
        engine = Engine(layout=layout, chunk=chunk)
        return train(
            architecture,
            images,
            labels,
            rows,
            streams(*names),
            epochs=1,
            batch=16,
            device="cpu",
            engine=engine,
        ).predict(images)

    together = trained(rows, "abc", 3)
    assert np.abs(together - trained(rows, "abc", 2)).max() < 1e-4
    assert np.abs(together[1] - trained(rows[1:2], "b", 1)[0]).max() < 1e-4
    assert np.abs(together[0] - together[2]).max() > 1e-3  # same rows, other start and order


@pytest.mark.parametrize("strong", [False, True])
def test_quantile_heads_find_the_quantiles(strong):
    # y is uniform on 0 ... 1 + 2 where the image is bright: quantiles t and t (1 + 2)
    rng = np.random.default_rng(3)
    bright = rng.integers(0, 2, 4000)
    images = np.repeat(100 * bright + 50, 64).reshape(-1, 8, 8).astype(np.uint8)
    y = rng.uniform(0, 1 + 2 * bright)
    head = Quantiles((0.1, 0.9))
    architecture = LargeCNN(SHAPE, head, averaging=True) if strong else VeryWeakLinear(SHAPE, head)
    stack = train(
        architecture,
        images,
        y,
        np.arange(4000)[None],
        streams("a"),
        epochs=6 if strong else 12,
        batch=128,
        device="cpu",
    )
    dark, light = stack.predict(np.stack([np.full((8, 8), v, np.uint8) for v in (50, 150)]))[0]
    assert dark == pytest.approx([0.1, 0.9], abs=0.1)
    assert light == pytest.approx([0.3, 2.7], abs=0.15)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize("graph", [False, True])
def test_cuda_trains_what_the_cpu_trains(graph):
    images, labels = bars(200)
    rows = np.stack([np.arange(150), np.arange(50, 200)])
    engine = Engine(precision="fp32", graph=graph)

    def trained(device, engine):
        return train(
            STRONG, images, labels, rows, streams("a", "b"), epochs=2, device=device, engine=engine
        ).predict(images)

    here = trained("cuda", engine)
    assert np.abs(here - trained("cpu", None)).max() < 1e-2
    assert np.array_equal(here, trained("cuda", engine))
