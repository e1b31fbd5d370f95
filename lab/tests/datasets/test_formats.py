from __future__ import annotations

import lzma

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays as any_array

from fedwqcp.errors import InputError
from fedwqcp_lab.datasets import formats
from fedwqcp_lab.datasets.formats import read_cifar10
from made_data import arrays, write_cifar10

IMAGES = st.tuples(
    st.integers(0, 3), st.integers(1, 6), st.integers(1, 6), st.sampled_from([(), (3,)])
).flatmap(lambda s: any_array(np.uint8, (*s[:3], *s[3])))


def by_the_letter(left):
    """Decode as the format is written down: one sample after another."""
    n, planes, h, w = left.shape
    out = np.zeros((n, planes, h, w), dtype=int)
    for m, k, i, j in np.ndindex(*left.shape):
        a = out[m, k, i, j - 1] if j else None
        b = out[m, k, i - 1, j] if i else None
        if a is None or b is None:
            guess = 0 if a is b else a if b is None else b
        else:
            c = out[m, k, i - 1, j - 1]
            if c >= max(a, b):
                guess = min(a, b)
            elif c <= min(a, b):
                guess = max(a, b)
            else:
                guess = a + b - c
        green = out[m, 0, i, j] if k else 0
        out[m, k, i, j] = (int(left[m, k, i, j]) + guess + green) % 256 - green
    if planes == 1:
        return out[:, 0]
    return np.stack([out[:, 1] + out[:, 0], out[:, 0], out[:, 2] + out[:, 0]], axis=-1)


def test_a_grey_image_by_hand():
    # row 1: 10, 12 - 10, 11 - 12; row 2: 9 - 10, then the medians of (9, 12, 11) and (15, 11, 14)
    image = np.array([[[10, 12, 11], [9, 15, 200]]], dtype=np.uint8)
    left = formats.residuals(image)
    assert left.tolist() == [[[[10, 2, 255], [255, 4, 186]]]]
    assert formats.pixels(left).tolist() == image.tolist()


@given(IMAGES)
def test_images_come_back(images):
    assert np.array_equal(formats.pixels(formats.residuals(images)), images)


@given(st.sampled_from([1, 3]).flatmap(lambda p: any_array(np.uint8, (2, p, 4, 5))))
def test_any_residuals_decode_as_the_format_says(left):
    assert np.array_equal(formats.pixels(left), by_the_letter(left))


def test_a_file_comes_back(tmp_path):
    rng = np.random.default_rng(1)
    arrays = {
        "train_images": rng.integers(256, size=(5, 4, 4, 3), dtype=np.uint8),
        "train_labels": rng.integers(3, size=(5, 1), dtype=np.uint8),
        "train_class_position": rng.integers(99, size=5, dtype=np.int32),
    }
    path = tmp_path / "made.npz.xz"
    formats.write(path, arrays)
    back = formats.read(path)
    assert set(back) == set(arrays)
    assert all(np.array_equal(back[name], arrays[name]) for name in arrays)
    assert all(back[name].dtype == arrays[name].dtype for name in arrays)
    with lzma.open(path) as stream, np.load(stream) as stored:
        assert sorted(stored.files) == [
            "train_class_position",
            "train_images_med",
            "train_labels",
        ]


def test_nothing_is_unpickled(tmp_path):
    np.savez(tmp_path / "o.npz", train_images=np.array([print], dtype=object))
    with pytest.raises(InputError, match="allow_pickle"):
        formats.read(tmp_path / "o.npz")


def test_the_batches_of_cifar10_come_in_order_and_colour_last(tmp_path):
    made = arrays((32, 32, 3), n_train=10, n_test=4)
    write_cifar10(tmp_path / "c.tar.gz", made)
    back = read_cifar10(tmp_path / "c.tar.gz")
    assert set(back) == set(made)
    for key, array in back.items():
        assert np.array_equal(array, made[key].ravel() if "labels" in key else made[key])
