"""``agent predict`` on images: a mask for each, and the share of true pixels that they miss."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from fedwqcp._io import make_folder, write_atomic
from fedwqcp._validation import Bools
from fedwqcp.errors import InputError
from fedwqcp.metrics import MaskRisk
from fedwqcp.readers.images import Image, images, reduced
from fedwqcp.serve import Predictor


def write(
    predictor: Predictor, read: Path, out: Path, alpha: float | None
) -> tuple[int, MaskRisk | None]:
    """Write the mask of each image to a file of its name, once all images were found sound.

    Return how many there are, and the share of true pixels that is missed where all are labelled.
    """
    names: list[str] = []

    def _labelled() -> Iterator[Image]:
        for image, _ in _masks(predictor, read, alpha):
            names.append(image.name)
            if image.mask is not None:
                yield image

    labelled = reduced(read, _labelled())
    risk: MaskRisk | None = None
    if len(labelled.values) == len(names) and not labelled.empty.all():
        risk = predictor.measure(labelled, alpha=alpha)
    make_folder(out)
    for image, mask in _masks(predictor, read, alpha):
        buffer = io.BytesIO()
        np.savez_compressed(buffer, mask=mask)
        write_atomic(out / f"{image.name}.npz", buffer.getvalue())
    return len(names), risk


def _masks(predictor: Predictor, read: Path, alpha: float | None) -> Iterator[tuple[Image, Bools]]:
    """Read one image after another, each with its predicted mask."""
    for image in images(read):
        group = image.groups if predictor.by == "group" else None
        try:
            mask = predictor.predict_mask(image.probs, group=group, alpha=alpha)
        except InputError as error:
            raise error.within(f"{read}, {image.name}") from None
        yield image, mask
