"""Reading an agent's files: model outputs in tables and arrays, with labels, ids and groups."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from fedwqcp._io import is_folder
from fedwqcp.errors import InputError
from fedwqcp.outputs import Outputs, in_file, named_by_line
from fedwqcp.readers.arrays import from_npz, one_array
from fedwqcp.readers.images import images, reduced
from fedwqcp.readers.parquet import from_parquet
from fedwqcp.readers.tables import csv_parts


def load_outputs(
    path: Path, labels: Path | None = None, classes: tuple[str, ...] | None = ()
) -> Outputs:
    """Read model outputs from .npz, .npy, .csv or .parquet; labels may be in an .npy file.

    A folder or a .zip holds images, an .npz for each.

    ``classes`` are those of the round, by which columns and labels may be named; None where the
    round is not known yet: `Outputs.in_classes` then puts them in its order.
    """
    if is_folder(path) or path.suffix == ".zip":
        if labels is not None:
            raise InputError("must be left out: each image holds its mask", field="labels")
        return reduced(path, images(path))
    match path.suffix:
        case ".npz":
            outputs = from_npz(path)
        case ".npy":
            outputs = Outputs(one_array(path))
        case ".csv":
            outputs = next(csv_parts(path, classes))
        case ".parquet":
            outputs = from_parquet(path, classes)
        case _:
            raise InputError(
                "outputs must be one of .npz, .npy, .csv, .parquet, or a folder or .zip of images, "
                f"got {path.name or path}"
            )
    with in_file(path):
        check_different(outputs)
    if labels is not None:
        beside = one_array(labels)
        with in_file(labels):
            outputs = replace(outputs, labels=beside)
    if classes is None:
        return outputs
    with in_file(path, labels):
        return named_by_line(Outputs.in_classes)(outputs, classes)


@named_by_line
def check_different(outputs: Outputs) -> None:
    """Refuse an id that names two rows."""
    if outputs.ids is None or not (again := outputs.ids.size - len(set(outputs.ids.tolist()))):
        return
    first = np.unique(outputs.ids, return_index=True)[1]
    raise InputError(
        f"an id must name one row; {again} of the rows {'repeats' if again == 1 else 'repeat'} "
        "an earlier id, this one first",
        row=int(np.setdiff1d(np.arange(outputs.ids.size), first)[0]),
        cure=("give each row an id of its own",) * 2,
    )
