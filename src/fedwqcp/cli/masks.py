"""``agent predict`` on images: a mask for each, and the share of true pixels that they miss."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedwqcp._io import make_folder, write_atomic
from fedwqcp._validation import Bools
from fedwqcp.cli.output import Output
from fedwqcp.errors import InputError
from fedwqcp.findings import Finding
from fedwqcp.metrics import MaskRisk
from fedwqcp.outputs import MaskOutputs
from fedwqcp.readers.images import images


def predict(
    mask_of: Callable[..., Bools],
    measure: Callable[..., Any],
    read: Path,
    out: Path,
    promised: Sequence[str],
    alpha: float,
    output: Output,
) -> None:
    """Write the mask of each image to a file of its name, reading every image once."""
    make_folder(out)
    names: list[str] = []
    groups: list[str] = []

    def _pairs() -> Iterator[tuple[npt.NDArray[Any], npt.NDArray[Any]]]:
        for name, arrays in images(read):
            group = str(arrays["group"].ravel()[0]) if "group" in arrays else None
            try:
                mask = mask_of(arrays["probs"], group=group)
            except InputError as error:
                raise error.within(f"{read}, {name}") from None
            buffer = io.BytesIO()
            np.savez_compressed(buffer, mask=mask)
            write_atomic(out / f"{name}.npz", buffer.getvalue())
            names.append(name)
            if "mask" in arrays:
                groups.extend([] if group is None else [group])
                yield arrays["probs"], arrays["mask"]

    masked = MaskOutputs(_pairs(), groups=groups or None)
    output.say(f"{len(names)} masks in {out}")
    for line in promised:
        output.say(line)
    risk: MaskRisk | None = None
    if len(masked.values) == len(names):
        risk = measure(masked)
        assert risk is not None  # one level gives one
        output.say(str(risk))
    findings = [Finding.of("risk-high", part=None, level=alpha)] * (
        risk is not None and risk.low > alpha
    )
    output.tell(findings)
    output.done(masks=out, n=len(names), measured=risk, findings=findings)
