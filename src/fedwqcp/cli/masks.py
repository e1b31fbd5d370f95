"""``agent predict`` on images: a mask for each, and the share of true pixels that they miss."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from fedwqcp._io import make_folder, write_atomic
from fedwqcp._validation import Bools
from fedwqcp.cli.output import Output
from fedwqcp.errors import InputError
from fedwqcp.findings import Finding
from fedwqcp.metrics import MaskRisk
from fedwqcp.readers.images import Image, images, reduced
from fedwqcp.serve import Predictor


def predict(
    predictor: Predictor,
    read: Path,
    out: Path,
    promised: Sequence[str],
    output: Output,
    alpha: float | None,
    earlier: Sequence[Finding],
) -> None:
    """Write the mask of each image to a file of its name, once all images were found sound."""
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
    output.say(f"{len(names)} masks in {out}")
    for line in promised:
        output.say(line)
    findings = [*earlier]
    if risk is not None:
        output.say(str(risk))
        level = predictor.level(alpha).alpha
        findings += [Finding.of("risk-high", part=None, level=level)] * (risk.low > level)
    output.tell(findings)
    output.done(masks=out, n=len(names), measured=risk, findings=findings)


def _masks(predictor: Predictor, read: Path, alpha: float | None) -> Iterator[tuple[Image, Bools]]:
    """Read one image after another, each with its predicted mask."""
    for image in images(read):
        group = image.groups if predictor.by == "group" else None
        try:
            mask = predictor.predict_mask(image.probs, group=group, alpha=alpha)
        except InputError as error:
            raise error.within(f"{read}, {image.name}") from None
        yield image, mask
