import numpy as np
import pytest

from fedwqcp.errors import InputError

torch = pytest.importorskip("torch", reason="the extra torch")

from fedwqcp_lab.models.heads import Classes, Mean, Quantiles  # noqa: E402


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


def test_quantile_heads_start_at_the_quantiles_of_their_targets():
    start = Quantiles((0.25, 0.75)).start(torch.arange(5.0))
    assert start.tolist() == [1.0, 3.0]
    assert Mean().start(torch.arange(5.0)) is None
    assert Classes(2).start(torch.arange(2)) is None


def test_targets_keep_their_values():
    assert Classes(3).targets(np.array([[0], [2]], np.uint8)).tolist() == [0, 2]
    assert Mean().targets(np.array([[0], [4]], np.uint8)).dtype == torch.float32


@pytest.mark.parametrize("labels", [[0, 3], [-1, 0], [0.5, 1.0]])
def test_labels_that_are_no_class_are_refused(labels):
    with pytest.raises(InputError, match="labels must be whole numbers from 0 to 2"):
        Classes(3).targets(np.array(labels))


def test_targets_must_be_finite():
    with pytest.raises(InputError, match="finite"):
        Quantiles((0.5,)).targets(np.array([1.0, np.nan]))


@pytest.mark.parametrize("levels", [(), (0.0, 0.5), (0.5, 0.5), (0.9, 0.1), (0.5, 1.0)])
def test_levels_must_rise_inside_0_and_1(levels):
    with pytest.raises(InputError, match="levels"):
        Quantiles(levels)


@pytest.mark.parametrize("count", [1, True, 2.0])
def test_there_are_two_classes_at_least(count):
    with pytest.raises(InputError, match="count"):
        Classes(count)
