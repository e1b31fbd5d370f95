"""Every instruction on lanes does what `tests/lanes.py` says in numpy."""

import inspect
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba")

import numba

import lanes as meaning
from fedwqcp.kernels import lanes as compiled
from lanes import (  # the programs below are written with these
    beside,
    bits,
    choose,
    count,
    double,
    either,
    evens,
    fixed,
    flags,
    floor,
    gather,
    index,
    largest,
    largest_float,
    like,
    load,
    load_some,
    long,
    long_bits,
    long_numbers,
    lowest,
    negate,
    numbers,
    odds,
    ones,
    put,
    signed,
    sort_beside,
    spread,
    start,
    store,
    stream,
    sums,
    total,
    truncated,
    unsigned_ones,
    value,
)

RNG = np.random.default_rng(0)
REAL = RNG.normal(size=64).astype(np.float32)
REAL[:4] = 0.0, -0.0, 1.0, 1 / 3


def with_names(program: Callable[..., Any], module: ModuleType) -> FunctionType:
    """The same program, with the instructions of a module."""
    names = {name: getattr(module, name) for name in compiled.__all__}
    return FunctionType(program.__code__, {"np": np, **names})


def numbers_in_and_out(x, y, out, truth):
    p, q, to = start(x), start(y), start(out)
    a, b = load(p, 3), load(q, 5)
    store(to, 0, a + b)
    store(to, 16, a - b)
    store(to, 32, a * b)
    store(to, 48, a / b)
    store(to, 64, choose(a < b, a, b))
    store(to, 80, choose((a >= b) | (a == b), a, like(a, 0.25)))
    store(to, 96, floor(a))
    store(to, 112, evens(a, b))
    store(to, 128, odds(a, b))
    store(to, 144, either(a, b))
    store(to, 160, fixed(a))
    store(to, 176, load_some(p, 0, negate(a > b)))
    store(to, 192, gather(p, index() + index()))
    store(to, 208, spread(value(p, 7)))
    put(to, 224, total(like(a, 2.0)))
    put(to, 225, count(a <= b))
    put(to, 226, 0.1)
    put(to, 227, largest_float(a))
    store(start(truth), 0, signed(a) & (a > like(a, -9.0)))
    put(start(truth), 3, value(p, 0) < value(q, 0))
    return flags(a < b), lowest(flags(a < b) | np.uint64(32768)), count(signed(b))


def bits_and_back(x, whole, longs, doubles):
    a = load(start(x), 1)
    to, far = start(whole), start(longs)
    store(to, 0, bits(a) + unsigned_ones(a > like(a, 0.0)))
    store(to, 16, bits(numbers(bits(a))))
    store(far, 0, long(ones(a > like(a, 0.0)) - truncated(a)))
    wide = double(a)
    store(far, 16, long_bits(wide))
    store(start(doubles), 0, long_numbers(long_bits(wide)))
    stream(start(doubles), 16, wide)
    return largest(bits(a))


def rows_beside_each_other(x, whole, out, side, sorted_side):
    beside(start(x), 0, 3, start(side), 16)
    sort_beside(start(whole), 0, (0, 0, 0), start(sorted_side), 16)
    store(start(out), 0, sums(start(side), 16))


def assert_same(program: Callable[..., Any], *arrays: Any) -> None:
    """Run a program both ways on copies of the same arrays."""
    both = []
    for module in (meaning, compiled):
        function = with_names(program, module)
        given = [np.array(array) for array in arrays]
        run = function if module is meaning else numba.njit(function)
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
    assert_same(bits_and_back, REAL, np.zeros(32, np.uint32), np.zeros(32, np.int64), np.zeros(32))


def test_rows() -> None:
    whole = RNG.integers(0, 2**32, 64, np.uint32)
    side = np.zeros(272, np.float32), np.zeros(80, np.uint32)
    assert_same(
        rows_beside_each_other, REAL * 0 + np.round(REAL), whole, np.zeros(16, np.float32), *side
    )


def test_every_instruction_has_a_meaning_and_is_tried() -> None:
    tried = "".join(
        map(inspect.getsource, (numbers_in_and_out, bits_and_back, rows_beside_each_other))
    )
    for name in compiled.__all__:
        assert hasattr(meaning, name)
        assert name == "LANES" or f"{name}(" in tried


def test_only_what_lies_in_a_row_has_a_start() -> None:
    begins = numba.njit(FunctionType((lambda x: value(start(x), 0)).__code__, vars(compiled)))
    with pytest.raises(numba.errors.TypingError, match="follow each other"):
        begins(np.arange(10.0)[::2])
