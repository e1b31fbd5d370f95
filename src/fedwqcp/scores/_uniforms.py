"""The random part of a score: one uniform per row, a keyed hash of the row's id."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

from fedwqcp._validation import (
    Floats,
    as_array,
    as_floats,
    as_ids,
    checked,
    fits,
    plain,
    shown,
)
from fedwqcp.errors import InputError
from fedwqcp.kernels import dispatch

_U64 = np.uint64


@checked
def uniforms(key: str | int, ids: npt.ArrayLike | Sequence[str]) -> Floats:
    """Return one number in [0, 1) per row id, always the same for the same key and id.

    Batch size, row order and repetition change nothing, and the same patient gets the same set
    twice. Use one key for a federation's round, and another one for an independent draw.

    Parameters
    ----------
    key : str or int
        Which family of uniforms.
    ids : array_like of int or sequence of str, shape (n,)
        One id per row. The integer 7 and the text "7" are different ids here; `Outputs`, files and
        streams read every id as text. For the uniforms of a release pass ``[str(i) for i in ids]``.

    Returns
    -------
    Floats, shape (n,)
        Multiples of 2^-53 in [0, 1).

    Raises
    ------
    InputError
        If ids are neither integers nor text.

    Examples
    --------
    >>> uniforms("ward-3", [4, 9]) == uniforms("ward-3", [9, 4])[::-1]
    array([ True,  True])
    """
    array = as_array(ids, "ids")
    if isinstance(ids, list | tuple) and array.dtype.kind == "U":
        array = np.array(ids, dtype=object)  # NumPy would write 1 as "1", which is another id
    if array.dtype == object and all(isinstance(text, str) for text in array.ravel()):
        array = array.astype(np.str_)  # a column of text from a data frame
    if array.ndim != 1:
        raise InputError(f"ids must have shape (n,), got shape {array.shape}")
    salt = key_digest(key)
    if array.size and array.dtype.kind in "US":
        bits = _keyed_hashes(salt, array)
    elif array.dtype == object and {isinstance(cell, str) for cell in array.flat} == {True, False}:
        raise InputError("ids must be integers in every row or text in every row, got both")
    elif array.size and array.dtype.kind not in "iu":
        raise InputError(f"ids must be integers or text, got an array of {array.dtype}")
    else:
        first, second = np.frombuffer(salt, dtype="<u8").astype(_U64)
        bits = _mix(_mix(array.astype(np.int64).view(_U64) ^ first) ^ second)
    return _as_numbers(bits)


def uniforms_of_rows(salt: bytes, values: npt.NDArray[Any], ids: npt.ArrayLike) -> Floats:
    """Return the uniforms of rows by their ids as text, each of which must name one row.

    ``salt`` is the `key_digest` of the key.
    """
    texts = text_ids(ids)
    if texts.shape != (len(values),):
        raise InputError(
            f"must have shape ({len(values)},), one for each row, got {texts.shape}", field="ids"
        )
    numbers = isinstance(ids, np.ndarray) and ids.dtype.kind in "iu"
    alike = np.asarray(ids) if numbers else texts  # numbers are compared sooner
    if (again := _repeated(alike, values)).size:
        raise InputError(
            f"an id must name one row; {again.size} of the rows repeat the id of a row with other "
            "values, this one first",
            row=int(again[0]),
        )
    return _as_numbers(_keyed_hashes(salt, texts) if texts.size else np.zeros(0, _U64))


def _repeated(ids: npt.NDArray[Any], values: npt.NDArray[Any]) -> npt.NDArray[np.intp]:
    """Return the rows that repeat the id of a row with other values; equal rows may share one.

    Rows of one id share a uniform: with one id for all rows, coverage would depend on one number.
    """
    if len(set(ids.tolist())) == len(ids):
        return np.empty(0, np.intp)
    _, first, which = np.unique(ids, return_index=True, return_inverse=True)
    same = values == values[first[which.reshape(-1)]]
    return np.flatnonzero(~same.reshape(len(ids), -1).all(axis=1))


def _as_numbers(bits: npt.NDArray[np.uint64]) -> Floats:
    """Return the upper 53 bits as numbers in [0, 1)."""
    return np.ldexp((bits >> _U64(11)).astype(np.float64), -53)


def key_digest(key: str | int) -> bytes:
    """Return sixteen bytes for a key of `uniforms`.

    Parameters
    ----------
    key : str or int
        Which family of uniforms; a number or text of NumPy is the same key as Python's own.

    Returns
    -------
    bytes
        Different for the integer 7 and the text "7".

    Raises
    ------
    InputError
        If the key is neither an integer nor text.
    """
    key = plain(key)
    if not (type(key) is str and key.isascii()) and not fits(key, str | int):
        raise InputError(f"key must be text or an integer, got {shown(key)}")
    kind = "str" if isinstance(key, str) else "int"
    return blake2b(f"{kind}:{key}".encode(), digest_size=16).digest()


def text_ids(ids: npt.ArrayLike) -> npt.NDArray[np.str_]:
    """Return ids as the text whose uniforms a round draws: 7 in one file is "7" in another.

    Parameters
    ----------
    ids : array_like of int or str, shape (n,)
        One id per row.

    Returns
    -------
    ndarray of str, shape (n,)
        The ids as text.

    Raises
    ------
    InputError
        If an id is missing, or neither an integer nor text: 7.0 would be another id than 7.

    Examples
    --------
    >>> text_ids([7, 12]).tolist()
    ['7', '12']
    """
    array = as_ids(ids)
    if array.dtype == object and not all(map(_is_id, array.flat)):
        raise InputError("ids must be integers or text in every row, got something else")
    if array.size and array.dtype.kind not in "iuUSOT":
        raise InputError(f"ids must be integers or text, got an array of {array.dtype}")
    try:
        return array.astype(np.str_)
    except UnicodeDecodeError:
        raise InputError("ids must be integers or text, got bytes that are not text") from None
    except ValueError:  # Python writes no integer of so many digits
        raise InputError("ids must be integers of at most 4,300 digits, or text") from None


def _is_id(value: object) -> bool:
    """Tell whether a value is an integer or text."""
    return isinstance(value, int | str | np.integer) and not isinstance(value, bool)


def row_ids(outputs: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Return an id for each row of model outputs, made of its content.

    For rows that carry no id of their own: equal rows get equal ids, so a uniform drawn from it is
    a function of the input, and a score that uses it is as exchangeable as the inputs are.

    Parameters
    ----------
    outputs : array_like, shape (n,) or (n, C)
        What a model put out.

    Returns
    -------
    ndarray of int64, shape (n,)
        The ids.
    """
    array = as_array(outputs, "outputs")
    if array.ndim not in (1, 2):
        raise InputError(f"outputs must have one or two axes, got shape {array.shape}")
    matrix = array if array.ndim == 2 else array[:, None]
    flat = np.ascontiguousarray(as_floats(matrix, "outputs", (None, None)), "<f8")
    if (hashes := dispatch.hash_rows(flat)) is not None:
        return hashes.view(np.int64)
    data, step = flat.reshape(-1).view(np.uint8).data, 8 * flat.shape[1]  # no copy of each row
    starts = range(0, step * len(flat), step) if step else [0] * len(flat)
    words = [blake2b(data[start : start + step], digest_size=8).digest() for start in starts]
    return np.frombuffer(b"".join(words), dtype="<i8").astype(np.int64)


def _keyed_hashes(salt: bytes, texts: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
    """Return eight bytes for each text; the state after the key is copied for each."""
    if texts.dtype.kind == "U" and (hashes := dispatch.hash_texts(texts, salt)) is not None:
        return hashes
    keyed, words = blake2b(digest_size=8, key=salt).copy, []
    try:
        for text in map(str.encode, map(str, texts.tolist())):
            state = keyed()
            state.update(text)
            words.append(state.digest())
    except UnicodeEncodeError:
        raise InputError("ids must be text that can be written as UTF-8") from None
    return np.frombuffer(b"".join(words), dtype="<u8").astype(_U64)


def _mix(x: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Scramble 64-bit words (the finaliser of SplitMix64, Steele, Lea and Flood 2014)."""
    x = x + _U64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> _U64(30))) * _U64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> _U64(27))) * _U64(0x94D049BB133111EB)
    return x ^ (x >> _U64(31))
