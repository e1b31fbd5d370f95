"""Masks: pixels scored in thousandths, the histogram of an image, and what it must not accept."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedwqcp as fw
from fedwqcp.errors import InputError
from fedwqcp.scores.mask import BINS

SCORE = fw.Mask()
EDGES = [k / 8 for k in range(9)] + [0.1, 0.3, 0.7, 0.9, 1e-9, 1 - 1e-9]


@settings(max_examples=60, deadline=None)
@given(data=st.data(), dtype=st.sampled_from([np.float64, np.float32, np.float16, np.uint8]))
def test_a_histogram_tells_the_loss_and_area_of_every_mask(data, dtype):
    shape = data.draw(st.sampled_from([(1, 1), (3, 4), (2, 3, 2)]))
    size = int(np.prod(shape))
    values = data.draw(
        st.lists(st.sampled_from(EDGES) | st.floats(0, 1), min_size=size, max_size=size)
    )
    p = np.array(values).reshape(shape)
    p = np.rint(p * 255).astype(dtype) if dtype is np.uint8 else p.astype(dtype)
    inside = np.array(data.draw(st.lists(st.booleans(), min_size=size, max_size=size)))
    inside = inside.reshape(shape)
    pixels, true = SCORE.counts(p, inside)
    shares = p / 255 if dtype is np.uint8 else p.astype(np.float64)
    for t in (*np.linspace(0, 1, 11), 0.3005, np.inf, -0.1):
        mask, marked = SCORE.invert(p, t), SCORE.grid <= t
        assert mask.shape == shape
        assert mask.sum() == pixels[marked].sum()
        assert (mask & inside).sum() == true[marked].sum()
        assert not (mask & (1 - shares > t)).any()  # a score is never rounded down
        assert (mask | (1 - shares > t - 1 / BINS - 1e-12)).all()  # and by at most a thousandth


def test_images_of_any_size_are_reduced_as_they_come():
    rng = np.random.default_rng(0)

    def pairs():
        for shape in ((4, 5), (3, 3, 3), (70, 900)):
            p = rng.random(shape)
            yield p, p > 0.5

    outputs = fw.MaskOutputs(pairs(), ids=["a", "b", "c"])
    assert outputs.values.sum(axis=1).tolist() == [20, 27, 63000]
    assert outputs.inside[:, BINS // 2 + 1 :].sum() == 0
    apart = fw.MaskOutputs(iter([[[0.9]], [[0.2, 0.1]]]), iter([[[1]], [[0, 0]]]))
    assert apart.empty.tolist() == [False, True]
    assert apart.values.shape == (2, BINS + 1)


@pytest.mark.parametrize(
    ("maps", "masks", "field"),
    [
        ([[[0.5, 1.5]]], [[[1, 0]]], "probability_map"),
        ([[[0.5, np.nan]]], [[[1, 0]]], "probability_map"),
        ([[0.5, 0.5]], [[1, 0]], "probability_map"),  # one row: no image
        ([[["a"]]], [[[1]]], "probability_map"),
        ([[[0.5, 0.5]]], [[[255, 0]]], "mask"),
        ([[[0.5, 0.5]]], [[[1]]], "mask"),
        ([[[0.5]], [[0.5]]], [[[1]]], "mask"),  # one mask too few
        ([[[0.5]]], [[[1]], [[1]]], "probability_map"),
        ([[[0.5]], [[0.5]]], None, ""),  # no pairs
    ],
)
def test_what_is_no_image_is_refused(maps, masks, field):
    with pytest.raises(InputError) as caught:
        fw.MaskOutputs(maps, masks)
    assert caught.value.field == field
