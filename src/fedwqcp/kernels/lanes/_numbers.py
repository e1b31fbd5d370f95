"""What can be done with lanes: fill them, choose between them, read them anew, sum them up."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types

from fedwqcp.kernels.lanes._type import (
    I16,
    I32,
    I64,
    LANES,
    TRUTHS,
    Lanes,
    call,
    constant,
    instruction,
)


def _spread(builder: Any, x: Any) -> Any:
    empty = ir.Constant(ir.VectorType(x.type, LANES), ir.Undefined)
    one = builder.insert_element(empty, x, ir.Constant(I32, 0))
    return builder.shuffle_vector(one, empty, constant(I32, [0] * LANES))


@instruction(Lanes)
def spread(builder: Any, x: Any) -> Any:
    """Return one number sixteen times."""
    return _spread(builder, x)


@instruction(lambda lanes, _: lanes)
def like(builder: Any, lanes: Any, x: Any) -> Any:
    """Return a float64 sixteen times, as floats of the same type as others."""
    of = lanes.type.element
    return _spread(builder, builder.fptrunc(x, of) if of == ir.FloatType() else x)


@instruction(lambda _, lanes: lanes)
def widened(builder: Any, x: Any, lanes: Any) -> Any:
    """Return floats as floats of the same type as others, which is not narrower."""
    return x if x.type == lanes.type else builder.fpext(x, lanes.type)


@instruction(lambda: Lanes(types.int32))
def index(_: Any) -> Any:
    """Return the integers from 0 to 15."""
    return constant(I32, list(range(LANES)))


@instruction(lambda _, yes, __: yes)
def choose(builder: Any, mask: Any, yes: Any, no: Any) -> Any:
    """Return the numbers of one where a mask is true, and of another elsewhere."""
    return builder.select(mask, yes, no)


@instruction(lambda a, _: a)
def evens(builder: Any, a: Any, b: Any) -> Any:
    """Return every second number of two lanes after each other, from the first on."""
    return builder.shuffle_vector(a, b, constant(I32, list(range(0, 2 * LANES, 2))))


@instruction(lambda a, _: a)
def odds(builder: Any, a: Any, b: Any) -> Any:
    """Return every second number of two lanes after each other, from the second on."""
    return builder.shuffle_vector(a, b, constant(I32, list(range(1, 2 * LANES, 2))))


def _as_integers(builder: Any, lanes: Any) -> Any:
    of = I32 if lanes.type.element == ir.FloatType() else I64
    return builder.bitcast(lanes, ir.VectorType(of, LANES))


@instruction(lambda a, _: a)
def either(builder: Any, a: Any, b: Any) -> Any:
    """Return floats whose bits are set where one of two has them set: a sign stays."""
    both = builder.or_(_as_integers(builder, a), _as_integers(builder, b))
    return builder.bitcast(both, a.type)


@instruction(lambda _: TRUTHS)
def signed(builder: Any, lanes: Any) -> Any:
    """Return true where floats have a sign."""
    whole = _as_integers(builder, lanes)
    return builder.icmp_signed("<", whole, ir.Constant(whole.type, None))


@instruction(lambda lanes: lanes)
def fixed(builder: Any, lanes: Any) -> Any:
    """Return float64 rounded to multiples of 2^-52, of numbers up to 1, and float32 as they are."""
    if lanes.type.element == ir.FloatType():
        return lanes
    one = ir.Constant(lanes.type, [1.0] * LANES)
    return builder.fsub(builder.fadd(lanes, one), one)


@instruction(lambda mask: mask)
def negate(builder: Any, mask: Any) -> Any:
    """Return true where a mask is false."""
    return builder.not_(mask)


def _converted(how: str, dtype: Any, of: Any) -> Any:
    @instruction(lambda _: Lanes(dtype))
    def convert(builder: Any, lanes: Any) -> Any:
        return getattr(builder, how)(lanes, ir.VectorType(of, LANES))

    return convert


bits = _converted("bitcast", types.uint32, I32)
"""The bits of float32: without a sign, they are in the order of the numbers."""

numbers = _converted("bitcast", types.float32, ir.FloatType())
"""The numbers of such bits."""

long_bits = _converted("bitcast", types.int64, I64)
"""The bits of float64."""

long_numbers = _converted("bitcast", types.float64, ir.DoubleType())
"""The numbers of such bits."""

double = _converted("fpext", types.float64, ir.DoubleType())
"""float32 as float64."""

long = _converted("sext", types.int64, I64)
"""int32 as int64."""

ones = _converted("zext", types.int32, I32)
"""Truths as 1 and 0."""

unsigned_ones = _converted("zext", types.uint32, I32)
"""The same without a sign."""

truncated = _converted("fptosi", types.int32, I32)
"""Floats without their fraction."""


@instruction(lambda _: types.uint64)
def flags(builder: Any, mask: Any) -> Any:
    """Return truths as the bits of one integer, the first one lowest."""
    return builder.zext(builder.bitcast(mask, I16), I64)


@instruction(lambda _: types.int64)
def count(builder: Any, mask: Any) -> Any:
    """Return how many truths are true."""
    return builder.ctpop(builder.zext(builder.bitcast(mask, I16), I64))


@instruction(lambda _: types.int64)
def lowest(builder: Any, found: Any) -> Any:
    """Return which bit is the lowest that is set, of an integer that is not 0."""
    return builder.cttz(found, ir.Constant(ir.IntType(1), 1))


def _name(lanes: Any) -> str:
    """Return what LLVM calls lanes of floats."""
    return f"v{LANES}{'f32' if lanes.type.element == ir.FloatType() else 'f64'}"


@instruction(lambda lanes: lanes)
def floor(builder: Any, lanes: Any) -> Any:
    """Return the largest whole numbers that are not above."""
    return call(builder, f"llvm.floor.{_name(lanes)}", lanes.type, lanes)


@instruction(lambda lanes: lanes.dtype)
def total(builder: Any, lanes: Any) -> Any:
    """Return the sum of sixteen floats, in whatever order is fastest."""
    of, name = lanes.type.element, f"llvm.vector.reduce.fadd.{_name(lanes)}"
    return call(builder, name, of, ir.Constant(of, -0.0), lanes, fastmath=("reassoc",))


@instruction(lambda lanes: lanes.dtype)
def largest(builder: Any, lanes: Any) -> Any:
    """Return the largest of sixteen uint32."""
    return call(builder, f"llvm.vector.reduce.umax.v{LANES}i32", I32, lanes)


@instruction(lambda lanes: lanes.dtype)
def largest_float(builder: Any, lanes: Any) -> Any:
    """Return the largest of sixteen floats."""
    return call(builder, f"llvm.vector.reduce.fmax.{_name(lanes)}", lanes.type.element, lanes)
