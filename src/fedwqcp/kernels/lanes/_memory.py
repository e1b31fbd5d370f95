"""How lanes come from memory and go back to it.

Loops hand on where an array starts instead of the array: handing on an array counts references,
which takes longer than a short row. Whoever calls such a loop must hold the array.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core.cgutils import pack_array
from numba.core.errors import TypingError
from numba.extending import intrinsic

from fedwqcp.kernels.lanes._type import I32, I64, LANES, Lanes, call, constant, instruction
from fedwqcp.kernels.networks import network


def _start(_: Any, array: Any) -> Any:
    if array.layout != "C":
        raise TypingError("only an array whose numbers follow each other has a start")

    def lower(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        return context.make_array(sig.args[0])(context, builder, values[0]).data

    return types.CPointer(array.dtype)(array), lower


start: Any = intrinsic(_start)
"""Where an array begins whose numbers lie one after the other."""


def _at(builder: Any, pointer: Any, at: Any) -> Any:
    """Return where sixteen numbers begin."""
    vector = ir.VectorType(pointer.type.pointee, LANES)
    return builder.bitcast(builder.gep(pointer, [at]), vector.as_pointer())


def _bytes(of: Any) -> int:
    """Return how long one number is."""
    return {ir.FloatType(): 4, ir.DoubleType(): 8}.get(of) or int(of.width) // 8


@instruction(lambda pointer, _: pointer.dtype)
def value(builder: Any, pointer: Any, at: Any) -> Any:
    """Return one number."""
    return builder.load(builder.gep(pointer, [at]))


@instruction(lambda *_: types.void)
def put(builder: Any, pointer: Any, at: Any, x: Any) -> None:
    """Write one number, a truth as a byte; among floats, integers not below 0 become floats."""
    of, whole = pointer.type.pointee, isinstance(x.type, ir.IntType)
    if of != x.type:
        real = "fpext" if of == ir.DoubleType() else "fptrunc"
        how = "zext" if isinstance(of, ir.IntType) else "uitofp" if whole else real
        x = getattr(builder, how)(x, of)
    builder.store(x, builder.gep(pointer, [at]))


@instruction(lambda pointer, _: Lanes(pointer.dtype))
def load(builder: Any, pointer: Any, at: Any) -> Any:
    """Return sixteen numbers."""
    return builder.load(_at(builder, pointer, at), align=_bytes(pointer.type.pointee))


@instruction(lambda pointer, *_: Lanes(pointer.dtype))
def load_some(builder: Any, pointer: Any, at: Any, mask: Any) -> Any:
    """Return floats where a mask is true, and 0 elsewhere; nothing else is read."""
    size = _bytes(pointer.type.pointee)
    place, vector = _at(builder, pointer, at), ir.VectorType(pointer.type.pointee, LANES)
    name = f"llvm.masked.load.v{LANES}f{8 * size}.p0"
    zeros = ir.Constant(vector, None)
    return call(builder, name, vector, place, ir.Constant(I32, size), mask, zeros)


@instruction(lambda pointer, _: Lanes(pointer.dtype))
def gather(builder: Any, pointer: Any, at: Any) -> Any:
    """Return one number for each of sixteen places."""
    found = ir.Constant(ir.VectorType(pointer.type.pointee, LANES), ir.Undefined)
    for lane in range(LANES):
        where = builder.sext(builder.extract_element(at, ir.Constant(I32, lane)), I64)
        one = builder.load(builder.gep(pointer, [where]))
        found = builder.insert_element(found, one, ir.Constant(I32, lane))
    return found


@instruction(lambda *_: types.void)
def store(builder: Any, pointer: Any, at: Any, lanes: Any) -> None:
    """Write sixteen numbers; truths as bytes."""
    place = _at(builder, pointer, at)
    if lanes.type.element == ir.IntType(1):
        lanes = builder.zext(lanes, place.type.pointee)
    builder.store(lanes, place, align=_bytes(pointer.type.pointee))


@instruction(lambda *_: types.void)
def stream(builder: Any, pointer: Any, at: Any, lanes: Any) -> None:
    """Write sixteen float64 past the cache; the place must be a multiple of 16 bytes."""
    two = ir.VectorType(ir.DoubleType(), 2)
    for k in range(0, LANES, 2):
        place = builder.gep(pointer, [builder.add(at, ir.Constant(I64, k))])
        some = builder.shuffle_vector(lanes, lanes, constant(I32, [k, k + 1]))
        done = builder.store(some, builder.bitcast(place, two.as_pointer()), align=16)
        done.set_metadata("nontemporal", builder.module.add_metadata([ir.Constant(I32, 1)]))


def _joined(builder: Any, parts: list[Any]) -> Any:
    """Return vectors as one, one after the other."""
    while len(parts) > 1:
        at = constant(I32, list(range(2 * parts[0].type.count)))
        pairs = zip(parts[::2], parts[1::2], strict=True)
        parts = [builder.shuffle_vector(a, b, at) for a, b in pairs]
    return parts[0]


def _four_beside(builder: Any, source: Any, at: Any, step: Any) -> list[Any]:
    """Return number j of sixteen rows, for j from 0 to 3; rows begin ``step`` after each other."""
    four, rows = ir.VectorType(source.type.pointee, 4), []
    for _ in range(LANES):
        place = builder.bitcast(builder.gep(source, [at]), four.as_pointer())
        rows.append(builder.load(place, align=4))
        at = builder.add(at, step)
    mixed, fours = [_joined(builder, rows[k::4]) for k in range(4)], range(0, LANES, 4)
    low = constant(I32, [x for k in fours for x in (k, LANES + k, k + 1, LANES + k + 1)])
    high = constant(I32, [x for k in fours for x in (k + 2, LANES + k + 2, k + 3, LANES + k + 3)])
    for _ in range(2):  # in each four, one half is riffled into the other, as one does with cards
        mixed = [
            builder.shuffle_vector(a, b, part)
            for a, b in zip(mixed[:2], mixed[2:], strict=True)
            for part in (low, high)
        ]
    return mixed


@instruction(lambda pointer, _, row: types.UniTuple(Lanes(pointer.dtype), len(row)))
def beside(builder: Any, source: Any, at: Any, row: Any) -> Any:
    """Return the first number of sixteen rows that follow each other, the second, and so on.

    Numbers are of 4 bytes, and are read four at a time, beyond a row of fewer. How long a row is,
    is the length of a tuple: the compiler must know it.
    """
    n, columns = row.type.count, []
    for j in range(0, n, 4):
        some = builder.add(at, ir.Constant(I64, j))
        columns += _four_beside(builder, source, some, ir.Constant(I64, n))[: n - j]
    return pack_array(builder, columns)


@instruction(lambda columns: columns)
def ordered(builder: Any, columns: Any) -> Any:
    """Return the largest of each row of uint32, the second largest, and so on."""
    n = columns.type.count
    rows = [builder.extract_value(columns, k) for k in range(n)]
    for a, b in network(n).tolist():
        x, y = rows[a], rows[b]
        larger = builder.icmp_unsigned(">", x, y)
        rows[a], rows[b] = builder.select(larger, x, y), builder.select(larger, y, x)
    return pack_array(builder, rows)


def _added(builder: Any, rows: list[Any], distance: int) -> Any:
    """Add numbers a distance apart, of one row beside the next, until one row is left."""
    while len(rows) > 1:
        first = [k // distance % 2 == 0 for k in range(LANES)]
        stay = [k if f else LANES + k for k, f in enumerate(first)]
        come = [k + distance if f else LANES + k - distance for k, f in enumerate(first)]
        rows = [
            builder.fadd(*(builder.shuffle_vector(a, b, constant(I32, at)) for at in (stay, come)))
            for a, b in zip(rows[::2], rows[1::2], strict=True)
        ]
        distance *= 2
    return rows[0]


@instruction(lambda a, *_: a)
def quarters(builder: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    """Return the sum of the first four floats of each of four rows, of the second four, and so on.

    Number 4 k + i is of row i.
    """
    return _added(builder, [a, b, c, d], 1)


@instruction(lambda pointer, _: Lanes(pointer.dtype))
def sums(builder: Any, pointer: Any, at: Any) -> Any:
    """Return the sums of sixteen rows, of which four quarters follow each other in memory."""
    rows = []
    for k in range(0, LANES * 4, LANES):
        place = _at(builder, pointer, builder.add(at, ir.Constant(I64, k)))
        rows.append(builder.load(place, align=_bytes(pointer.type.pointee)))
    return _added(builder, rows, 4)
