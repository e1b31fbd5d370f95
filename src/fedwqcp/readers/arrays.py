"""Model outputs in files of NumPy: an array, or an archive of arrays."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedwqcp._io import opened
from fedwqcp.errors import InputError
from fedwqcp.outputs import Outputs, in_file
from fedwqcp.readers.tables import OUTPUT_BYTES, check_meant, no_memory
from fedwqcp.scores import softmax


def from_npz(path: Path) -> Outputs:
    """Read an archive of arrays, which names its own classes."""
    arrays = _load_numpy(path)
    with in_file(path):
        if isinstance(arrays, np.ndarray):
            raise InputError("must be an archive of arrays; rename a single array to .npy")
        kind = next((key for key in ("probs", "outputs", "logits") if key in arrays), None)
        if kind is None:
            known = ", ".join(sorted(arrays)) or "nothing"
            raise InputError(f"must hold 'probs', 'outputs' or 'logits', got {known}")
        labels = next((arrays[key] for key in ("labels", "label", "y") if key in arrays), None)
        ids, groups = arrays.get("ids", arrays.get("id")), groups_in(arrays)
        read = {"id": ids, "label": labels, "group": groups}
        check_meant(arrays | {n: a for n, a in read.items() if a is not None}, "array")
        classes = arrays.get("classes", np.empty(0, np.str_))
        if classes.ndim != 1 or classes.dtype.kind != "U":
            raise InputError("'classes' must be a list of names, one for each column")
        return Outputs(
            softmax(arrays[kind]) if kind == "logits" else arrays[kind],
            labels,
            ids,
            features=arrays.get("features"),
            groups=groups,
            classes=tuple(map(str, classes)),
        )


def groups_in(arrays: Mapping[str, npt.NDArray[Any]]) -> Any:
    """Return the groups of an archive: one array, or one of each kind, ``group:sex``."""
    kinds = [name for name in arrays if name.startswith("group:")]
    if kinds:
        return {name.removeprefix("group:"): arrays[name].ravel() for name in kinds}
    return arrays.get("groups", arrays.get("group"))


def one_array(path: Path) -> npt.NDArray[Any]:
    array = _load_numpy(path)
    if isinstance(array, dict):
        cure = (
            "save the one that is meant as .npy" if path.suffix == ".npz" else "rename it to .npz"
        )
        raise InputError(f"{path} must hold one array; it is an archive of arrays: {cure}")
    return array


def mapped(path: Path) -> npt.NDArray[Any]:
    """Map an array into memory, which is read where it is touched."""
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise InputError(f"{path} must be a .npy file; it does not exist") from None
    except (ValueError, OSError, EOFError):
        raise InputError(f"{path} must be a .npy file without objects; it cannot be read") from None
    if not isinstance(array, np.ndarray):
        raise InputError(f"{path} must be a .npy file: an archive cannot be mapped into memory")
    return array


def _load_numpy(path: Path) -> npt.NDArray[Any] | dict[str, npt.NDArray[Any]]:
    with opened(path, OUTPUT_BYTES) as file:
        return load_numpy(file, str(path))


def load_numpy(file: Any, source: str) -> npt.NDArray[Any] | dict[str, npt.NDArray[Any]]:
    """Read a NumPy file, an array or an archive of arrays, without running any code in it."""
    where, name, arrays = source, "array", {}
    try:
        loaded = np.load(file, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return loaded
        for name in loaded.files:
            where = f"{source}: array {name!r}"
            arrays[name] = loaded[name]
    except MemoryError:
        raise no_memory(source) from None
    except Exception as error:  # NumPy raises many kinds on bytes that it did not write
        raise InputError(f"{where} {_why_unread(error, name)}") from None
    return arrays


def _why_unread(error: Exception, name: str) -> str:
    """Say why NumPy does not read an array: objects could run code, and text of pandas is one."""
    if "Object arrays" in str(error):
        save = f"{name}.astype(str) for text, or {name}.astype(int) for whole numbers"
        if name in ("probs", "outputs", "logits", "features"):
            save = f"{name}.astype(float)"
        elif name == "array":
            save += ", or array.astype(float) for others"
        return (
            "holds objects, which are not read; a column of pandas with text is of objects: save "
            f"{save}"
        )
    return "must be what NumPy saved; it cannot be read"
