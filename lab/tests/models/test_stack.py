import math

import numpy as np
import pytest

from fedwqcp.demo.streams import stream
from fedwqcp.errors import InputError
from plain_models import PlainCNN, plain, planes

torch = pytest.importorskip("torch", reason="the extra torch")

from fedwqcp_lab.models.cnn import LargeCNN  # noqa: E402
from fedwqcp_lab.models.engine import Engine  # noqa: E402
from fedwqcp_lab.models.heads import Classes, Mean, Quantiles  # noqa: E402
from fedwqcp_lab.models.linear import VeryWeakLinear  # noqa: E402
from fedwqcp_lab.models.stack import Stack, initial  # noqa: E402

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
        module.load_state_dict(stack.state(g))
        with torch.no_grad():
            want = architecture.head.finish(module(planes(images))[None])[0]
        assert np.allclose(said[g], want.numpy(), rtol=1e-4, atol=1e-5)


def test_each_model_may_see_rows_of_its_own():
    architecture = VeryWeakLinear((4, 4, 1), Classes(3))
    images = images_of((4, 4, 1), 9)
    stack = Stack(
        architecture, initial(architecture, [stream(0, "a"), stream(0, "b")]), Engine().on(CPU)
    )
    rows = np.array([[8, 0, 3], [1, 1, 7]])
    said, everything = stack.predict(images, rows), stack.predict(images[..., 0])
    for g in (0, 1):
        assert np.allclose(said[g], everything[g, rows[g]], atol=1e-6)


def test_initial_weights_follow_the_law_of_torch():
    architecture = LargeCNN((28, 28, 1), Classes(10))
    weights = initial(architecture, [stream(0, "a")])
    torch.manual_seed(0)
    for name, ours in weights.items():
        theirs = dict(PlainCNN((28, 28, 1), 10, False).named_parameters())[name]
        layer = dict(architecture.shapes())[name.replace("bias", "weight")]
        bound = 1 / math.sqrt(math.prod(layer[1:]))
        assert theirs.abs().max() <= bound
        assert ours.abs().max() <= bound
        if ours.numel() > 1000:
            assert ours.abs().max() > 0.99 * bound
            assert ours.std().item() == pytest.approx(theirs.std().item(), rel=0.05)


def test_a_models_first_weights_do_not_depend_on_the_others():
    architecture = VeryWeakLinear((4, 4, 1), Mean())
    both = initial(architecture, [stream(0, "a"), stream(0, "b")])
    alone = initial(architecture, [stream(0, "b")])
    assert torch.equal(both["fc.weight"][1], alone["fc.weight"][0])
    assert not torch.equal(both["fc.weight"][0], both["fc.weight"][1])


def test_wrong_images_and_rows_are_refused():
    architecture = VeryWeakLinear((4, 4, 1), Classes(3))
    stack = Stack(architecture, initial(architecture, [stream(0, "a")]), Engine().on(CPU))
    with pytest.raises(InputError, match="uint8"):
        stack.predict(np.zeros((2, 4, 4)))
    with pytest.raises(InputError, match="shape"):
        stack.predict(np.zeros((2, 4, 5), np.uint8))
    with pytest.raises(InputError, match="shape"):
        stack.predict(np.zeros(4, np.uint8))
    with pytest.raises(InputError, match="rows must be from 0 to 1"):
        stack.predict(np.zeros((2, 4, 4), np.uint8), np.array([[0, 2]]))
    with pytest.raises(InputError, match=r"shape \(1, n\)"):
        stack.predict(np.zeros((2, 4, 4), np.uint8), np.array([0, 1]))


def test_images_must_halve_twice():
    with pytest.raises(InputError, match="multiples of 4"):
        LargeCNN((30, 28, 1), Classes(3))
    assert len(Stack(ARCHITECTURES[5], initial(ARCHITECTURES[5], [stream(0, "a")]), Engine())) == 1
