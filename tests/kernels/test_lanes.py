"""Every instruction on lanes does what `tests/lanes.py` says in numpy."""

import inspect
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba")

import numba

import lanes
from fedwqcp.kernels import lanes as compiled

RNG = np.random.default_rng(0)
REAL = RNG.normal(size=64).astype(np.float32)
REAL[:4] = 0.0, -0.0, 1.0, 1 / 3


def with_room(program: Callable[..., Any], module: ModuleType) -> FunctionType:
    """The same program, with the instructions of another room."""
    return FunctionType(program.__code__, {"np": np, "lanes": module})


def numbers_in_and_out(x, y, out, truth):
    p, q, to = lanes.start(x), lanes.start(y), lanes.start(out)
    a, b = lanes.load(p, 3), lanes.load(q, 5)
    lanes.store(to, 0, a + b)
    lanes.store(to, 16, a - b)
    lanes.store(to, 32, a * b)
    lanes.store(to, 48, a / b)
    lanes.store(to, 64, lanes.choose(a < b, a, b))
    lanes.store(to, 80, lanes.choose((a >= b) | (a == b), a, lanes.like(a, 0.25)))
    lanes.store(to, 96, lanes.floor(a))
    lanes.store(to, 112, lanes.evens(a, b))
    lanes.store(to, 128, lanes.odds(a, b))
    lanes.store(to, 144, lanes.either(a, b))
    lanes.store(to, 160, lanes.fixed(a))
    lanes.store(to, 176, lanes.load_some(p, 0, lanes.negate(a > b)))
    lanes.store(to, 192, lanes.gather(p, lanes.index() + lanes.index()))
    lanes.store(to, 208, lanes.spread(lanes.value(p, 7)))
    lanes.put(to, 224, lanes.total(lanes.like(a, 2.0)))
    lanes.put(to, 225, lanes.count(a <= b))
    lanes.put(to, 226, 0.1)
    lanes.put(to, 227, lanes.largest_float(a))
    lanes.store(lanes.start(truth), 0, lanes.signed(a) & (a > lanes.like(a, -9.0)))
    lanes.put(lanes.start(truth), 3, lanes.value(p, 0) < lanes.value(q, 0))
    return (
        lanes.flags(a < b),
        lanes.lowest(lanes.flags(a < b) | np.uint64(32768)),
        lanes.count(lanes.signed(b)),
    )


def bits_and_back(x, whole, longs, doubles):
    a = lanes.load(lanes.start(x), 1)
    to, far = lanes.start(whole), lanes.start(longs)
    lanes.store(to, 0, lanes.bits(a) + lanes.unsigned_ones(a > lanes.like(a, 0.0)))
    lanes.store(to, 16, lanes.bits(lanes.numbers(lanes.bits(a))))
    lanes.store(far, 0, lanes.long(lanes.ones(a > lanes.like(a, 0.0)) - lanes.truncated(a)))
    wide = lanes.double(a)
    lanes.store(far, 16, lanes.long_bits(wide))
    lanes.store(lanes.start(doubles), 0, lanes.long_numbers(lanes.long_bits(wide)))
    lanes.put(lanes.start(doubles), 32, lanes.value(lanes.start(x), 1))
    lanes.stream(lanes.start(doubles), 16, wide)
    lanes.store(lanes.start(doubles), 33, lanes.widened(a, wide) + lanes.widened(wide, wide))
    return lanes.largest(lanes.bits(a))


def rows_beside_each_other(x, whole, out, side, sorted_side):
    columns = lanes.beside(lanes.start(whole), 1, (0, 0, 0, 0, 0))
    ordered = lanes.ordered(columns)
    for j in range(5):
        lanes.store(lanes.start(side), 16 * j, columns[j])
        lanes.store(lanes.start(sorted_side), 16 * j, ordered[j])
    p = lanes.start(x)
    lanes.store(lanes.start(out), 0, lanes.sums(p, 0))
    a, b, c, d = lanes.load(p, 0), lanes.load(p, 16), lanes.load(p, 32), lanes.load(p, 48)
    lanes.store(lanes.start(out), 16, lanes.quarters(a, b, c, d))


def assert_same(program: Callable[..., Any], *arrays: Any) -> None:
    """Run a program both ways on copies of the same arrays."""
    both = []
    for module in (lanes, compiled):
        function = with_room(program, module)
        given = [np.array(array) for array in arrays]
        run = function if module is lanes else numba.njit(function)
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
        np.zeros(240, dtype),
        np.zeros(16, np.bool_),
    )


def test_bits() -> None:
    assert_same(bits_and_back, REAL, np.zeros(32, np.uint32), np.zeros(32, np.int64), np.zeros(50))


def test_rows() -> None:
    whole = RNG.integers(0, 2**32, 84, np.uint32)  # three more than are used
    side = np.zeros(80, np.uint32), np.zeros(80, np.uint32)
    assert_same(
        rows_beside_each_other, REAL * 0 + np.round(REAL), whole, np.zeros(32, np.float32), *side
    )


def test_every_instruction_has_a_meaning_and_is_tried() -> None:
    tried = "".join(
        map(inspect.getsource, (numbers_in_and_out, bits_and_back, rows_beside_each_other))
    )
    for name in compiled.__all__:
        assert hasattr(lanes, name)
        assert name == "LANES" or f"lanes.{name}(" in tried


def test_only_what_lies_in_a_row_has_a_start() -> None:
    begins = numba.njit(with_room(lambda x: lanes.value(lanes.start(x), 0), compiled))
    with pytest.raises(numba.errors.TypingError, match="follow each other"):
        begins(np.arange(10.0)[::2])
