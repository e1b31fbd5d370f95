"""Sixteen-lane vectors: a type for compiled loops, with the instructions they need.

A compiler finds the lanes of a processor in simple loops only. Here a vector is a type of its own:
sixteen numbers, or a mask of sixteen truths, with operators that work on every lane. Instructions
are emitted as LLVM's; LLVM splits them where a machine has narrower registers, so the same loops
run everywhere. `tests/vectors.py` says in numpy what each instruction means.

Loops pass pointers instead of arrays: passing an array counts references, which takes longer than a
short row. Whoever calls such a loop must keep the array alive, and an address is not checked:
the tests run the loops as Python, where reading beyond an array fails.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import reduce, wraps
from itertools import combinations
from typing import Any

from llvmlite import ir
from numba import types
from numba.core.cgutils import get_or_insert_function, pack_array
from numba.core.errors import TypingError
from numba.core.registry import cpu_target
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, models, register_model

from fedwqcp.kernels import LANES
from fedwqcp.kernels.numpy import network

__all__ = [
    "any_equal",
    "as_float32",
    "as_float64",
    "as_int64",
    "as_uint32",
    "bit_or",
    "broadcast",
    "compress",
    "convert_like",
    "count_ahead",
    "even_lanes",
    "expand",
    "floor",
    "fma",
    "full_like",
    "gather",
    "lane_index",
    "last_lane",
    "load",
    "logical_not",
    "lookup",
    "mask_to_int32",
    "mask_to_uint32",
    "masked_load",
    "movemask",
    "odd_lanes",
    "partial_sums",
    "pointer",
    "popcount",
    "prefix_sums",
    "read",
    "reduce_add",
    "reduce_max",
    "reduce_max_uint32",
    "round_fixed",
    "round_single",
    "row_sums",
    "select",
    "sign_bit",
    "sort_descending",
    "store",
    "stream",
    "table",
    "to_float32",
    "to_float64",
    "to_int64",
    "trailing_zeros",
    "transpose",
    "truncate",
    "uint_to_float32",
    "write",
]

I16, I32, I64 = ir.IntType(LANES), ir.IntType(32), ir.IntType(64)


class Vector(types.Type):
    """The numba type of sixteen numbers, or truths."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype
        super().__init__(name=f"Vector({dtype})")


MASK = Vector(types.boolean)


@register_model(Vector)
class VectorModel(models.PrimitiveModel):
    """A vector of LLVM; a truth takes one bit."""

    def __init__(self, dmm: Any, fe_type: Vector) -> None:
        truth = fe_type.dtype == types.boolean
        of = ir.IntType(1) if truth else dmm[fe_type.dtype].get_value_type()
        super().__init__(dmm, fe_type, ir.VectorType(of, LANES))


def instruction(result: Callable[..., Any]) -> Callable[[Callable[..., Any]], Any]:
    """Make a function of compiled loops from one that emits LLVM: (builder, *values) -> value.

    `result` gives the type of the result for the types of the arguments.
    """

    def decorate(emit: Callable[..., Any]) -> Any:
        def typed(_: Any, *kinds: Any) -> Any:
            taken = [types.intp if isinstance(k, types.IntegerLiteral) else k for k in kinds]

            def lower(context: Any, builder: Any, sig: Any, values: Any) -> Any:  # noqa: ARG001
                found = emit(builder, *values)
                return context.get_dummy_value() if found is None else found

            return signature(result(*taken), *taken), lower

        return intrinsic(wraps(emit)(typed))  # numba reads how many arguments there are

    return decorate


def _operator(op: Any, whole: str, real: str, compares: bool = False) -> None:
    """Let an operator work on vectors of one type, by the names of LLVM's instructions."""

    class Template(AbstractTemplate):
        def generic(self, kinds: Any, _: Any) -> Any:
            if isinstance(kinds[0], Vector) and kinds[0] == kinds[-1]:
                return signature(MASK if compares else kinds[0], *kinds)
            return None

    def lower(_: Any, builder: Any, sig: Any, values: Any) -> Any:
        dtype = sig.args[0].dtype
        floats = isinstance(dtype, types.Float)
        if not compares:
            return getattr(builder, real if floats else whole)(*values)
        if floats:
            return builder.fcmp_ordered(real, *values)
        return (builder.icmp_signed if dtype.signed else builder.icmp_unsigned)(whole, *values)

    infer_global(op)(Template)
    lower_builtin(op, Vector, Vector)(lower)
    _try_first(op, Template)


def _try_first(op: Any, ours: type[AbstractTemplate]) -> None:
    """Let numba try vectors before its own types of operands, of which there are dozens."""
    context = cpu_target.typing_context
    context.refresh()
    templates = sorted(context._lookup_global(op).templates, key=lambda t: not issubclass(t, ours))
    context._remove_global(op)
    context._insert_global(op, types.Function(tuple(templates)))


_operator(operator.add, "add", "fadd")
_operator(operator.sub, "sub", "fsub")
_operator(operator.mul, "mul", "fmul")
_operator(operator.truediv, "", "fdiv")
_operator(operator.and_, "and_", "")
_operator(operator.or_, "or_", "")
_operator(operator.lt, "<", "<", compares=True)
_operator(operator.le, "<=", "<=", compares=True)
_operator(operator.gt, ">", ">", compares=True)
_operator(operator.ge, ">=", ">=", compares=True)
_operator(operator.eq, "==", "==", compares=True)


# Memory -------------------------------------------------------------------------------------------


def _pointer(_: Any, array: Any) -> Any:
    if array.layout != "C":
        raise TypingError("only a C-contiguous array has a pointer")

    def lower(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        return context.make_array(sig.args[0])(context, builder, values[0]).data

    return types.CPointer(array.dtype)(array), lower


pointer: Any = intrinsic(_pointer)
"""Where the numbers of a C-contiguous array begin."""


@instruction(lambda pointer, _: pointer.dtype)
def read(builder: Any, pointer: Any, at: Any) -> Any:
    """Return one number, or truth, which takes a byte in memory."""
    one = builder.load(builder.gep(pointer, [at]))
    return builder.trunc(one, ir.IntType(1)) if one.type == ir.IntType(8) else one


@instruction(lambda *_: types.void)
def write(builder: Any, pointer: Any, at: Any, x: Any) -> None:
    """Write one number, a truth as a byte; among floats, integers not below 0 become floats."""
    of, whole = pointer.type.pointee, isinstance(x.type, ir.IntType)
    if of != x.type:
        real = "fpext" if of == ir.DoubleType() else "fptrunc"
        how = "zext" if isinstance(of, ir.IntType) else "uitofp" if whole else real
        x = getattr(builder, how)(x, of)
    builder.store(x, builder.gep(pointer, [at]))


@instruction(lambda pointer, _: Vector(pointer.dtype))
def load(builder: Any, pointer: Any, at: Any) -> Any:
    """Return sixteen numbers that follow each other."""
    return builder.load(_at(builder, pointer, at), align=_bytes(pointer.type.pointee))


@instruction(lambda pointer, *_: Vector(pointer.dtype))
def masked_load(builder: Any, pointer: Any, at: Any, mask: Any) -> Any:
    """Return floats where a mask is true, and 0 elsewhere; nothing else is read."""
    size = _bytes(pointer.type.pointee)
    place, vector = _at(builder, pointer, at), ir.VectorType(pointer.type.pointee, LANES)
    name = f"llvm.masked.load.v{LANES}f{8 * size}.p0"
    zeros = ir.Constant(vector, None)
    return _call(builder, name, vector, place, ir.Constant(I32, size), mask, zeros)


@instruction(lambda pointer, _: Vector(pointer.dtype))
def gather(builder: Any, pointer: Any, at: Any) -> Any:
    """Return the numbers at sixteen indices."""
    return _gather(builder, pointer, at)


def _gather(builder: Any, pointer: Any, at: Any) -> Any:
    found = ir.Constant(ir.VectorType(pointer.type.pointee, LANES), ir.Undefined)
    for lane in range(LANES):
        where = builder.sext(builder.extract_element(at, ir.Constant(I32, lane)), I64)
        one = builder.load(builder.gep(pointer, [where]))
        found = builder.insert_element(found, one, ir.Constant(I32, lane))
    return found


@instruction(lambda pointer, _: types.UniTuple(Vector(pointer.dtype), 4))
def table(builder: Any, pointer: Any, at: Any) -> Any:
    """Return 64 float32 that follow each other, for `lookup`."""
    places = (builder.add(at, ir.Constant(I64, k)) for k in range(0, 4 * LANES, LANES))
    return pack_array(builder, [builder.load(_at(builder, pointer, k), align=4) for k in places])


@instruction(lambda table, *_: table.dtype)
def lookup(builder: Any, table: Any, pointer: Any, start: Any, at: Any) -> Any:
    """Return the numbers of a table at sixteen indices; it was read from a place of a pointer.

    With AVX-512 it stays in registers, otherwise numbers are read one by one.
    """
    if not _has_avx512():
        return _gather(builder, builder.gep(pointer, [start]), at)
    part, of = [builder.extract_value(table, k) for k in range(4)], table.type.element
    name = "llvm.x86.avx512.vpermi2var.ps.512"  # it takes the lowest five bits of an index
    first, second = (_call(builder, name, of, part[k], at, part[k + 1]) for k in (0, 2))
    upper = builder.icmp_unsigned(">", at, _constant(I32, [2 * LANES - 1] * LANES))
    return builder.select(upper, second, first)


@instruction(lambda *_: types.void)
def store(builder: Any, pointer: Any, at: Any, vector: Any) -> None:
    """Write sixteen numbers; truths as bytes."""
    place = _at(builder, pointer, at)
    if vector.type.element == ir.IntType(1):
        vector = builder.zext(vector, place.type.pointee)
    builder.store(vector, place, align=_bytes(pointer.type.pointee))


@instruction(lambda *_: types.void)
def compress(builder: Any, pointer: Any, at: Any, vector: Any, mask: Any) -> None:
    """Write the numbers where a mask is true, one after the other; up to sixteen are written.

    AMD's processors take over a hundred cycles to compress into memory, and three in a register.
    """
    if _bytes(pointer.type.pointee) == 4 and _has_avx512():
        name = f"llvm.x86.avx512.mask.compress.{_name(vector)}"
        packed = _call(builder, name, vector.type, vector, ir.Constant(vector.type, None), mask)
        builder.store(packed, _at(builder, pointer, at), align=4)
        return
    for lane in range(LANES):  # each is written, and the next one over it if it is not wanted
        one = builder.extract_element(vector, ir.Constant(I32, lane))
        builder.store(one, builder.gep(pointer, [at]))
        at = builder.add(at, _bit(builder, mask, lane))


@instruction(lambda *_: MASK)
def expand(builder: Any, pointer: Any, at: Any, mask: Any) -> Any:
    """Return truths, read one after the other where a mask is true; false elsewhere.

    The reverse of `compress`; up to sixteen are read.
    """
    whole, found = ir.VectorType(I32, LANES), ir.Constant(mask.type, ir.Undefined)
    if _has_avx512():
        packed = builder.zext(builder.load(_at(builder, pointer, at), align=1), whole)
        name, zeros = f"llvm.x86.avx512.mask.expand.v{LANES}i32", ir.Constant(whole, None)
        return builder.icmp_unsigned("!=", _call(builder, name, whole, packed, zeros, mask), zeros)
    for lane in range(LANES):
        index = ir.Constant(I32, lane)
        one = builder.trunc(builder.load(builder.gep(pointer, [at])), ir.IntType(1))
        one = builder.and_(one, builder.extract_element(mask, index))
        found, at = (
            builder.insert_element(found, one, index),
            builder.add(at, _bit(builder, mask, lane)),
        )
    return found


def _bit(builder: Any, mask: Any, lane: int) -> Any:
    """Return 1 where a lane of a mask is true, otherwise 0."""
    return builder.zext(builder.extract_element(mask, ir.Constant(I32, lane)), I64)


@instruction(lambda *_: types.void)
def stream(builder: Any, pointer: Any, at: Any, vector: Any) -> None:
    """Write sixteen float64 past the cache; the address must be a multiple of 16 bytes."""
    two = ir.VectorType(ir.DoubleType(), 2)
    for k in range(0, LANES, 2):
        place = builder.gep(pointer, [builder.add(at, ir.Constant(I64, k))])
        some = builder.shuffle_vector(vector, vector, _constant(I32, [k, k + 1]))
        done = builder.store(some, builder.bitcast(place, two.as_pointer()), align=16)
        done.set_metadata("nontemporal", builder.module.add_metadata([ir.Constant(I32, 1)]))


@instruction(lambda pointer, _, row: types.UniTuple(Vector(pointer.dtype), len(row)))
def transpose(builder: Any, source: Any, at: Any, row: Any) -> Any:
    """Return column 0 of sixteen rows that follow each other, column 1, and so on.

    Numbers have 4 bytes, and are read four at a time, beyond a row of fewer. The length of a row is
    that of a tuple: the compiler must know it.
    """
    n, columns = row.type.count, []
    for j in range(0, n, 4):
        some = builder.add(at, ir.Constant(I64, j))
        columns += _four_columns(builder, source, some, ir.Constant(I64, n))[: n - j]
    return pack_array(builder, columns)


def _four_columns(builder: Any, source: Any, at: Any, step: Any) -> list[Any]:
    """Return columns 0 to 3 of sixteen rows; rows begin ``step`` after each other."""
    four, rows = ir.VectorType(source.type.pointee, 4), []
    for _ in range(LANES):
        place = builder.bitcast(builder.gep(source, [at]), four.as_pointer())
        rows.append(builder.load(place, align=4))
        at = builder.add(at, step)
    # Vector k holds rows k, k + 4, k + 8 and k + 12; two rounds of interleaving within each four
    # numbers (unpack low, unpack high) turn rows into columns.
    mixed, fours = [_joined(builder, rows[k::4]) for k in range(4)], range(0, LANES, 4)
    low = _constant(I32, [x for k in fours for x in (k, LANES + k, k + 1, LANES + k + 1)])
    high = _constant(I32, [x for k in fours for x in (k + 2, LANES + k + 2, k + 3, LANES + k + 3)])
    for _ in range(2):
        mixed = [
            builder.shuffle_vector(a, b, part)
            for a, b in zip(mixed[:2], mixed[2:], strict=True)
            for part in (low, high)
        ]
    return mixed


def _joined(builder: Any, parts: list[Any]) -> Any:
    """Return vectors as one, one after the other."""
    while len(parts) > 1:
        at = _constant(I32, list(range(2 * parts[0].type.count)))
        pairs = zip(parts[::2], parts[1::2], strict=True)
        parts = [builder.shuffle_vector(a, b, at) for a, b in pairs]
    return parts[0]


def _at(builder: Any, pointer: Any, at: Any) -> Any:
    """Return the address of sixteen numbers."""
    vector = ir.VectorType(pointer.type.pointee, LANES)
    return builder.bitcast(builder.gep(pointer, [at]), vector.as_pointer())


def _has_avx512() -> bool:
    """Tell whether instructions of AVX-512 may be named."""
    return "+avx512f" in cpu_target.target_context.codegen().magic_tuple()[2]


def _bytes(of: Any) -> int:
    """Return how long one number is."""
    return {ir.FloatType(): 4, ir.DoubleType(): 8}.get(of) or int(of.width) // 8


# Lane by lane -------------------------------------------------------------------------------------


@instruction(Vector)
def broadcast(builder: Any, x: Any) -> Any:
    """Return one number sixteen times."""
    return _broadcast(builder, x)


@instruction(lambda vector, _: vector)
def full_like(builder: Any, vector: Any, x: Any) -> Any:
    """Return a float64 sixteen times, as floats of the type of a vector."""
    of = vector.type.element
    return _broadcast(builder, builder.fptrunc(x, of) if of == ir.FloatType() else x)


@instruction(lambda _, vector: vector)
def convert_like(builder: Any, x: Any, vector: Any) -> Any:
    """Return floats as floats of the type of another vector, which is not narrower."""
    return x if x.type == vector.type else builder.fpext(x, vector.type)


@instruction(lambda: Vector(types.int32))
def lane_index(_: Any) -> Any:
    """Return the integers from 0 to 15."""
    return _constant(I32, list(range(LANES)))


@instruction(lambda _, yes, __: yes)
def select(builder: Any, mask: Any, yes: Any, no: Any) -> Any:
    """Return the numbers of one vector where a mask is true, and of another elsewhere."""
    return builder.select(mask, yes, no)


@instruction(lambda a, _: a)
def even_lanes(builder: Any, a: Any, b: Any) -> Any:
    """Return numbers 0, 2, 4, ... of two vectors after each other."""
    return builder.shuffle_vector(a, b, _constant(I32, list(range(0, 2 * LANES, 2))))


@instruction(lambda a, _: a)
def odd_lanes(builder: Any, a: Any, b: Any) -> Any:
    """Return numbers 1, 3, 5, ... of two vectors after each other."""
    return builder.shuffle_vector(a, b, _constant(I32, list(range(1, 2 * LANES, 2))))


@instruction(lambda a, _: a)
def bit_or(builder: Any, a: Any, b: Any) -> Any:
    """Return floats whose bits are set where one of two has them set: a sign stays."""
    both = builder.or_(_as_integers(builder, a), _as_integers(builder, b))
    return builder.bitcast(both, a.type)


@instruction(lambda _: MASK)
def sign_bit(builder: Any, vector: Any) -> Any:
    """Return true where the sign of a float is set."""
    whole = _as_integers(builder, vector)
    return builder.icmp_signed("<", whole, ir.Constant(whole.type, None))


@instruction(lambda vector: vector)
def round_fixed(builder: Any, vector: Any) -> Any:
    """Return float64 up to 1 rounded to multiples of 2^-52, and float32 as they are."""
    if vector.type.element == ir.FloatType():
        return vector
    one = ir.Constant(vector.type, [1.0] * LANES)
    return builder.fsub(builder.fadd(vector, one), one)


@instruction(lambda _: Vector(types.float32))
def round_single(builder: Any, vector: Any) -> Any:
    """Return floats as float32, float64 up to 1 by way of multiples of 2^-52."""
    if vector.type.element == ir.FloatType():
        return vector
    one = ir.Constant(vector.type, [1.0] * LANES)
    fixed = builder.fsub(builder.fadd(vector, one), one)
    return builder.fptrunc(fixed, ir.VectorType(ir.FloatType(), LANES))


@instruction(lambda mask: mask)
def logical_not(builder: Any, mask: Any) -> Any:
    """Return true where a mask is false."""
    return builder.not_(mask)


@instruction(lambda vector: vector)
def floor(builder: Any, vector: Any) -> Any:
    """Return the largest integers that are not above, as floats."""
    return _call(builder, f"llvm.floor.{_name(vector)}", vector.type, vector)


@instruction(lambda vector, *_: vector)
def fma(builder: Any, a: Any, b: Any, c: Any) -> Any:
    """Return ``a b + c`` of float32, rounded once."""
    return _call(builder, f"llvm.fma.{_name(a)}", a.type, a, b, c)


def _conversion(how: str, dtype: Any, of: Any) -> Any:
    @instruction(lambda _: Vector(dtype))
    def convert(builder: Any, vector: Any) -> Any:
        return getattr(builder, how)(vector, ir.VectorType(of, LANES))

    return convert


as_uint32 = _conversion("bitcast", types.uint32, I32)
"""The bits of float32: without a sign, they are in the order of the numbers."""

as_float32 = _conversion("bitcast", types.float32, ir.FloatType())
"""The float32 of such bits."""

as_int64 = _conversion("bitcast", types.int64, I64)
"""The bits of float64."""

as_float64 = _conversion("bitcast", types.float64, ir.DoubleType())
"""The float64 of such bits."""

to_float64 = _conversion("fpext", types.float64, ir.DoubleType())
"""float32 as float64."""

to_float32 = _conversion("fptrunc", types.float32, ir.FloatType())
"""float64 rounded to float32."""

to_int64 = _conversion("sext", types.int64, I64)
"""int32 as int64."""

mask_to_int32 = _conversion("zext", types.int32, I32)
"""A mask as 1 and 0."""

mask_to_uint32 = _conversion("zext", types.uint32, I32)
"""The same without a sign."""

uint_to_float32 = _conversion("uitofp", types.float32, ir.FloatType())
"""uint32 as float32, rounded."""

truncate = _conversion("fptosi", types.int32, I32)
"""Floats without their fraction, as int32."""


def _broadcast(builder: Any, x: Any) -> Any:
    empty = ir.Constant(ir.VectorType(x.type, LANES), ir.Undefined)
    one = builder.insert_element(empty, x, ir.Constant(I32, 0))
    return builder.shuffle_vector(one, empty, _constant(I32, [0] * LANES))


def _as_integers(builder: Any, vector: Any) -> Any:
    of = I32 if vector.type.element == ir.FloatType() else I64
    return builder.bitcast(vector, ir.VectorType(of, LANES))


# Across lanes -------------------------------------------------------------------------------------


@instruction(lambda _: types.uint64)
def movemask(builder: Any, mask: Any) -> Any:
    """Return a mask as the bits of one integer, lane 0 lowest."""
    return builder.zext(builder.bitcast(mask, I16), I64)


@instruction(lambda _: types.int64)
def popcount(builder: Any, mask: Any) -> Any:
    """Return how many lanes of a mask are true."""
    return builder.ctpop(builder.zext(builder.bitcast(mask, I16), I64))


@instruction(lambda _: types.int64)
def trailing_zeros(builder: Any, found: Any) -> Any:
    """Return which bit is the lowest that is set, of an integer that is not 0."""
    return builder.cttz(found, ir.Constant(ir.IntType(1), 1))


@instruction(lambda vector: vector.dtype)
def reduce_add(builder: Any, vector: Any) -> Any:
    """Return the sum of sixteen floats, in whatever order is fastest."""
    of, name = vector.type.element, f"llvm.vector.reduce.fadd.{_name(vector)}"
    return _call(builder, name, of, ir.Constant(of, -0.0), vector, fastmath=("reassoc",))


@instruction(lambda vector: vector)
def prefix_sums(builder: Any, vector: Any) -> Any:
    """Return the sums of the first float, the first two, and so on."""
    zeros = ir.Constant(vector.type, [0.0] * LANES)
    for step in (1, 2, 4, 8):
        at = [LANES] * step + list(range(LANES - step))
        vector = builder.fadd(vector, builder.shuffle_vector(vector, zeros, _constant(I32, at)))
    return vector


@instruction(lambda vector: vector.dtype)
def last_lane(builder: Any, vector: Any) -> Any:
    """Return the last of sixteen numbers."""
    return builder.extract_element(vector, ir.Constant(I32, LANES - 1))


@instruction(lambda vector: vector.dtype)
def reduce_max(builder: Any, vector: Any) -> Any:
    """Return the largest of sixteen floats."""
    return _call(builder, f"llvm.vector.reduce.fmax.{_name(vector)}", vector.type.element, vector)


@instruction(lambda vector: vector.dtype)
def reduce_max_uint32(builder: Any, vector: Any) -> Any:
    """Return the largest of sixteen uint32."""
    return _call(builder, f"llvm.vector.reduce.umax.v{LANES}i32", I32, vector)


@instruction(lambda columns: columns)
def sort_descending(builder: Any, columns: Any) -> Any:
    """Sort the uint32 of each lane over several vectors, the largest first."""
    n = columns.type.count
    rows = [builder.extract_value(columns, k) for k in range(n)]
    for a, b in network(n).tolist():
        x, y = rows[a], rows[b]
        larger = builder.icmp_unsigned(">", x, y)
        rows[a], rows[b] = builder.select(larger, x, y), builder.select(larger, y, x)
    return pack_array(builder, rows)


@instruction(lambda columns: types.UniTuple(Vector(types.uint32), len(columns)))
def count_ahead(builder: Any, columns: Any) -> Any:
    """Return for each of at most 15 columns number and mass of those ahead of it, in each lane.

    Ahead are larger float32, and equal ones in earlier columns; none is signed, and their sum is
    below 2. The number is in units of 2^28, the mass in units of 2^-26, each part rounded down: one
    addition counts and weighs.
    """
    n, whole = columns.type.count, ir.VectorType(I32, LANES)
    x = [builder.extract_value(columns, k) for k in range(n)]
    unit, one, none = (
        ir.Constant(x[0].type, [2.0**26] * LANES),
        _constant(I32, [1 << 28] * LANES),
        ir.Constant(whole, None),
    )
    parts = [builder.add(builder.fptoui(builder.fmul(k, unit), whole), one) for k in x]
    keys, found = [builder.bitcast(k, whole) for k in x], [none] * n
    for a, b in combinations(range(n), 2):
        first = builder.icmp_signed(">=", keys[a], keys[b])
        found[a] = builder.add(found[a], builder.select(first, none, parts[b]))
        found[b] = builder.add(found[b], builder.select(first, parts[a], none))
    return pack_array(builder, found)


@instruction(lambda _: MASK)
def any_equal(builder: Any, columns: Any) -> Any:
    """Return in which lanes two of several columns of float32 are equal."""
    n = columns.type.count
    x = [builder.extract_value(columns, k) for k in range(n)]
    pairs = [builder.fcmp_ordered("==", x[a], x[b]) for a, b in combinations(range(n), 2)]
    return reduce(builder.or_, pairs, ir.Constant(ir.VectorType(ir.IntType(1), LANES), None))


@instruction(lambda a, *_: a)
def partial_sums(builder: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    """Return four partial sums of each of four rows: number 4 k + i is the k-th sum of row i."""
    return _added(builder, [a, b, c, d], 1)


@instruction(lambda pointer, _: Vector(pointer.dtype))
def row_sums(builder: Any, pointer: Any, at: Any) -> Any:
    """Return the sums of sixteen rows from four vectors in memory, as `partial_sums` gives them."""
    rows = []
    for k in range(0, LANES * 4, LANES):
        place = _at(builder, pointer, builder.add(at, ir.Constant(I64, k)))
        rows.append(builder.load(place, align=_bytes(pointer.type.pointee)))
    return _added(builder, rows, 4)


def _added(builder: Any, rows: list[Any], distance: int) -> Any:
    """Halve the number of vectors: add lanes a distance apart, then twice that, until one is left.

    Each step interleaves two vectors, so that their sums come to lie side by side.
    """
    while len(rows) > 1:
        first = [k // distance % 2 == 0 for k in range(LANES)]
        stay = [k if f else LANES + k for k, f in enumerate(first)]
        come = [k + distance if f else LANES + k - distance for k, f in enumerate(first)]
        rows = [
            builder.fadd(*(builder.shuffle_vector(a, b, _constant(I32, at)) for at in (stay, come)))
            for a, b in zip(rows[::2], rows[1::2], strict=True)
        ]
        distance *= 2
    return rows[0]


def _name(vector: Any) -> str:
    """Return what LLVM calls a vector of floats or int32."""
    names = {ir.FloatType(): "f32", ir.DoubleType(): "f64", I32: "i32"}
    return f"v{LANES}{names[vector.type.element]}"


def _constant(of: Any, values: list[int]) -> Any:
    return ir.Constant(ir.VectorType(of, len(values)), values)


def _call(
    builder: Any, name: str, result: Any, *values: Any, fastmath: tuple[str, ...] = ()
) -> Any:
    """Call a function of LLVM."""
    kind = ir.FunctionType(result, [value.type for value in values])
    return builder.call(
        get_or_insert_function(builder.module, kind, name), values, fastmath=fastmath
    )
