"""What `fedwqcp.kernels.vectors` means, in numpy: on it, loops run as Python within arrays."""

from collections.abc import Callable
from typing import Any

import numpy as np

LANES = 16
Array = Any


def pointer(array: Array) -> Array:
    assert array.flags.c_contiguous
    return array.reshape(-1)


def read(pointer: Array, at: int) -> Any:
    assert 0 <= at < pointer.size
    return pointer[at]


def write(pointer: Array, at: int, x: Any) -> None:
    assert 0 <= at < pointer.size
    pointer[at] = x


def load(pointer: Array, at: int) -> Array:
    assert 0 <= at <= pointer.size - LANES
    return pointer[at : at + LANES].copy()


def masked_load(pointer: Array, at: int, mask: Array) -> Array:
    found = np.zeros(LANES, pointer.dtype)
    where = np.flatnonzero(mask)
    assert at >= 0
    found[where] = pointer[at + where]
    return found


def gather(pointer: Array, at: Array) -> Array:
    assert at.min() >= 0
    return pointer[at].copy()


def table(pointer: Array, at: int) -> Array:
    assert 0 <= at <= pointer.size - 4 * LANES
    return pointer[at : at + 4 * LANES].copy()


def lookup(table: Array, pointer: Array, start: int, at: Array) -> Array:
    np.testing.assert_array_equal(table, pointer[start : start + 4 * LANES])
    assert at.min() >= 0
    return table[at]


def store(pointer: Array, at: int, lanes: Array) -> None:
    assert 0 <= at <= pointer.size - LANES
    pointer[at : at + LANES] = lanes


def compress(pointer: Array, at: int, lanes: Array, mask: Array) -> None:
    assert 0 <= at <= pointer.size - LANES  # so many may be written
    some = lanes[mask]
    pointer[at : at + len(some)] = some


def expand(pointer: Array, at: int, mask: Array) -> Array:
    assert 0 <= at <= pointer.size - LANES  # so many may be read
    found = np.zeros(LANES, pointer.dtype)
    found[mask] = pointer[at : at + np.count_nonzero(mask)]
    return found


def stream(pointer: Array, at: int, lanes: Array) -> None:
    assert (pointer.ctypes.data + at * pointer.itemsize) % 16 == 0
    store(pointer, at, lanes)


def transpose(source: Array, at: int, row: tuple[int, ...]) -> tuple[Array, ...]:
    n = len(row)
    assert 0 <= at <= source.size - 15 * n - -(-n // 4) * 4  # four numbers at a time
    return tuple(source[at : at + LANES * n].reshape(LANES, n).T.copy())


def fma(a: Array, b: Array, c: Array) -> Array:
    return (a.astype(np.float64) * b + c).astype(np.float32)  # a product of float32 is exact


def sort_descending(columns: tuple[Array, ...]) -> tuple[Array, ...]:
    return tuple(np.sort(np.stack(columns), axis=0)[::-1].copy())


def count_ahead(columns: tuple[Array, ...]) -> tuple[Array, ...]:
    x = np.stack(columns)
    parts = (x * np.float32(2.0**26)).astype(np.uint32) + np.uint32(1 << 28)
    at = np.arange(len(x))[:, None]
    ahead = [(x > x[j]) | ((x == x[j]) & (at < j)) for j in range(len(x))]
    return tuple(np.where(some, parts, 0).sum(axis=0).astype(np.uint32) for some in ahead)


def any_equal(columns: tuple[Array, ...]) -> Array:
    ordered = np.sort(np.stack(columns), axis=0)
    return (ordered[1:] == ordered[:-1]).any(axis=0)


def partial_sums(a: Array, b: Array, c: Array, d: Array) -> Array:
    return np.stack([x.reshape(4, 4).sum(axis=1) for x in (a, b, c, d)], axis=1).reshape(-1)


def row_sums(pointer: Array, at: int) -> Array:
    assert 0 <= at <= pointer.size - 4 * LANES
    four = pointer[at : at + 4 * LANES].reshape(4, 4, 4)  # some rows, a quarter, one of the rows
    return four.sum(axis=1).reshape(-1)


def broadcast(x: Any) -> Array:
    return np.full(LANES, x)


def prefix_sums(lanes: Array) -> Array:
    return np.cumsum(lanes)


def last_lane(lanes: Array) -> Any:
    return lanes[-1]


def full_like(lanes: Array, x: float) -> Array:
    return np.full(LANES, x, lanes.dtype)


def convert_like(x: Array, lanes: Array) -> Array:
    assert x.itemsize <= lanes.itemsize
    return x.astype(lanes.dtype)


def floor(lanes: Array) -> Array:
    return np.floor(lanes)


def lane_index() -> Array:
    return np.arange(LANES, dtype=np.int32)


def select(mask: Array, yes: Array, no: Array) -> Array:
    assert yes.dtype == no.dtype
    return np.where(mask, yes, no)


def even_lanes(a: Array, b: Array) -> Array:
    return np.concatenate([a, b])[::2].copy()


def odd_lanes(a: Array, b: Array) -> Array:
    return np.concatenate([a, b])[1::2].copy()


def bit_or(a: Array, b: Array) -> Array:
    whole = np.dtype(f"i{a.itemsize}")
    return (a.view(whole) | b.view(whole)).view(a.dtype)


def sign_bit(lanes: Array) -> Array:
    return np.signbit(lanes)


def round_fixed(lanes: Array) -> Array:
    return lanes if lanes.dtype == np.float32 else (lanes + 1) - 1


def round_single(lanes: Array) -> Array:
    return round_fixed(lanes).astype(np.float32)


def logical_not(mask: Array) -> Array:
    return ~mask


def _viewed(kind: type) -> Callable[[Array], Array]:
    return lambda lanes: lanes.view(kind)


def _converted(kind: type) -> Callable[[Array], Array]:
    return lambda lanes: lanes.astype(kind)


as_uint32, as_float32 = _viewed(np.uint32), _viewed(np.float32)
as_int64, as_float64 = _viewed(np.int64), _viewed(np.float64)
to_float64, to_int64 = _converted(np.float64), _converted(np.int64)
to_float32 = _converted(np.float32)
mask_to_int32, mask_to_uint32 = _converted(np.int32), _converted(np.uint32)
truncate, uint_to_float32 = _converted(np.int32), _converted(np.float32)


def movemask(mask: Array) -> int:
    return sum(1 << int(i) for i in np.flatnonzero(mask))


def popcount(mask: Array) -> np.int64:
    return np.int64(np.count_nonzero(mask))


def trailing_zeros(found: int) -> int:
    return (int(found) & -int(found)).bit_length() - 1


def reduce_add(lanes: Array) -> Any:
    return lanes.sum()


def reduce_max(lanes: Array) -> Any:
    return lanes.max()


reduce_max_uint32 = reduce_max
