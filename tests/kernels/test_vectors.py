"""Every instruction on vectors does what `tests/vectors.py` says in numpy."""

import inspect
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba")

import numba

import vectors
from fedwqcp.kernels import vectors as compiled

RNG = np.random.default_rng(0)
REAL = RNG.normal(size=64).astype(np.float32)
REAL[:4] = 0.0, -0.0, 1.0, 1 / 3


def with_module(program: Callable[..., Any], module: ModuleType) -> FunctionType:
    """The same program, with the instructions of another module."""
    return FunctionType(program.__code__, {"np": np, "vectors": module})


def numbers_in_and_out(x, y, out, truth):
    p, q, to = vectors.pointer(x), vectors.pointer(y), vectors.pointer(out)
    a, b = vectors.load(p, 3), vectors.load(q, 5)
    vectors.store(to, 0, a + b)
    vectors.store(to, 16, a - b)
    vectors.store(to, 32, a * b)
    vectors.store(to, 48, a / b)
    vectors.store(to, 64, vectors.select(a < b, a, b))
    vectors.store(to, 80, vectors.select((a >= b) | (a == b), a, vectors.full_like(a, 0.25)))
    vectors.store(to, 96, vectors.floor(a))
    vectors.store(to, 112, vectors.even_lanes(a, b))
    vectors.store(to, 128, vectors.odd_lanes(a, b))
    vectors.store(to, 144, vectors.bit_or(a, b))
    vectors.store(to, 160, vectors.round_fixed(a))
    vectors.store(to, 176, vectors.masked_load(p, 0, vectors.logical_not(a > b)))
    vectors.store(to, 192, vectors.gather(p, vectors.lane_index() + vectors.lane_index()))
    vectors.store(to, 208, vectors.broadcast(vectors.read(p, 7)))
    vectors.write(to, 224, vectors.reduce_add(vectors.full_like(a, 2.0)))
    vectors.write(to, 225, vectors.popcount(a <= b))
    vectors.write(to, 226, 0.1)
    vectors.write(to, 227, vectors.reduce_max(a))
    vectors.compress(to, 240, a, a < b)
    for k in range(vectors.popcount(a < b), 16):  # what it leaves there is not said
        vectors.write(to, 240 + k, 0.0)
    vectors.store(to, 256, vectors.convert_like(vectors.round_single(a), a))
    vectors.store(to, 272, vectors.prefix_sums(vectors.floor(a)))
    vectors.write(to, 288, vectors.last_lane(b))
    vectors.store(vectors.pointer(truth), 0, vectors.sign_bit(a) & (a > vectors.full_like(a, -9.0)))
    vectors.write(vectors.pointer(truth), 3, vectors.read(p, 0) < vectors.read(q, 0))
    return (
        vectors.movemask(a < b),
        vectors.trailing_zeros(vectors.movemask(a < b) | np.uint64(32768)),
        vectors.popcount(vectors.sign_bit(b)),
    )


def bits_and_back(x, whole, longs, doubles):
    a = vectors.load(vectors.pointer(x), 1)
    to, far = vectors.pointer(whole), vectors.pointer(longs)
    vectors.store(
        to, 0, vectors.as_uint32(a) + vectors.mask_to_uint32(a > vectors.full_like(a, 0.0))
    )
    third = vectors.to_float64(vectors.as_float32(vectors.as_uint32(a))) * vectors.broadcast(1 / 3)
    vectors.store(to, 16, vectors.as_uint32(vectors.to_float32(third)))
    positive = a > vectors.full_like(a, 0.0)
    vectors.compress(to, 32, vectors.lane_index(), positive)
    for k in range(vectors.popcount(positive), 16):
        vectors.write(to, 32 + k, np.uint32(0))
    vectors.store(
        far,
        0,
        vectors.to_int64(
            vectors.mask_to_int32(a > vectors.full_like(a, 0.0)) - vectors.truncate(a)
        ),
    )
    wide = vectors.to_float64(a)
    vectors.store(far, 16, vectors.as_int64(wide))
    vectors.store(vectors.pointer(doubles), 0, vectors.as_float64(vectors.as_int64(wide)))
    vectors.write(vectors.pointer(doubles), 32, vectors.read(vectors.pointer(x), 1))
    vectors.stream(vectors.pointer(doubles), 16, wide)
    vectors.store(
        vectors.pointer(doubles),
        33,
        vectors.convert_like(a, wide) + vectors.convert_like(wide, wide),
    )
    vectors.store(to, 48, vectors.as_uint32(vectors.uint_to_float32(vectors.as_uint32(a))))
    vectors.store(to, 64, vectors.as_uint32(vectors.fma(a, a, vectors.full_like(a, 0.1))))
    return vectors.reduce_max_uint32(vectors.as_uint32(a))


def rows_and_columns(x, whole, out, side, sorted_side):
    columns = vectors.transpose(vectors.pointer(whole), 1, (0, 0, 0, 0, 0))
    ordered = vectors.sort_descending(columns)
    for j in range(5):
        vectors.store(vectors.pointer(side), 16 * j, columns[j])
        vectors.store(vectors.pointer(sorted_side), 16 * j, ordered[j])
    p = vectors.pointer(x)
    vectors.store(vectors.pointer(out), 0, vectors.row_sums(p, 0))
    a, b, c, d = vectors.load(p, 0), vectors.load(p, 16), vectors.load(p, 32), vectors.load(p, 48)
    vectors.store(vectors.pointer(out), 16, vectors.partial_sums(a, b, c, d))


def columns_beside_each_other(x, counts, equal):
    columns = vectors.transpose(vectors.pointer(x), 0, (0, 0, 0, 0, 0))
    ahead = vectors.count_ahead(columns)
    for j in range(5):
        vectors.store(vectors.pointer(counts), 16 * j, ahead[j])
    vectors.store(vectors.pointer(equal), 0, vectors.any_equal(columns))


def tables_and_lists(x, out, truth):
    p, to, flags = vectors.pointer(x), vectors.pointer(out), vectors.pointer(truth)
    at = vectors.lane_index() + vectors.lane_index() + vectors.lane_index()
    for start in (0, 5):
        table = vectors.table(p, start)
        for k in range(3):  # indices 0 to 45, 9 to 54 and 18 to 63
            place = at + vectors.broadcast(np.int32(9 * k))
            vectors.store(to, 48 * (start > 0) + 16 * k, vectors.lookup(table, p, start, place))
    a = vectors.load(p, 7)
    vectors.store(flags, 32, vectors.expand(flags, 3, a > vectors.full_like(a, 0.0)))
    vectors.write(flags, 2, vectors.read(flags, 4))


def assert_same(program: Callable[..., Any], *arrays: Any) -> None:
    """Run a program both ways on copies of the same arrays."""
    both = []
    for module in (vectors, compiled):
        function = with_module(program, module)
        given = [np.array(array) for array in arrays]
        run = function if module is vectors else numba.njit(function)
        with np.errstate(all="ignore"):
            both.append((run(*given), given))
    assert both[0][0] == both[1][0]
    for one, other in zip(both[0][1], both[1][1], strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_numbers(dtype: type) -> None:
    assert_same(
        numbers_in_and_out,
        REAL[:32].astype(dtype),
        REAL[32:].astype(dtype),
        np.zeros(289, dtype),
        np.zeros(16, np.bool_),
    )


def test_bits() -> None:
    assert_same(bits_and_back, REAL, np.zeros(80, np.uint32), np.zeros(32, np.int64), np.zeros(50))


def test_rows() -> None:
    whole = RNG.integers(0, 2**32, 84, np.uint32)  # three more than are used
    side = np.zeros(80, np.uint32), np.zeros(80, np.uint32)
    assert_same(rows_and_columns, REAL * 0 + np.round(REAL), whole, np.zeros(32, np.float32), *side)


def test_columns() -> None:
    x = np.append(RNG.dirichlet([1.0] * 5, 16).astype(np.float32), [0.0, 0.0, 0.0])
    x[[0, 3]], x[[5, 6, 9]], x[[10, 14]] = x[0], 0.25, (0.0, 1.0)
    x = x.astype(np.float32)
    assert vectors.any_equal(tuple(x[:80].reshape(16, 5).T)).sum() == 2
    assert_same(columns_beside_each_other, x, np.zeros(80, np.uint32), np.zeros(16, np.bool_))


def test_tables_and_lists() -> None:
    truth = np.append(RNG.random(32) < 0.5, np.zeros(16, np.bool_))
    x = RNG.normal(size=69).astype(np.float32)
    assert_same(tables_and_lists, x, np.zeros(96, np.float32), truth)


def test_every_instruction_has_a_meaning_and_is_tried() -> None:
    programs = numbers_in_and_out, bits_and_back, rows_and_columns, columns_beside_each_other
    programs += (tables_and_lists,)
    tried = "".join(map(inspect.getsource, programs))
    for name in compiled.__all__:
        assert hasattr(vectors, name)
        assert f"vectors.{name}(" in tried


def test_only_a_contiguous_array_has_a_pointer() -> None:
    begins = numba.njit(with_module(lambda x: vectors.read(vectors.pointer(x), 0), compiled))
    with pytest.raises(numba.errors.TypingError, match="C-contiguous"):
        begins(np.arange(10.0)[::2])
