"""How lanes come from memory and go back to it.

Loops hand on where an array starts instead of the array: handing on an array counts references,
which takes longer than a short row. Whoever calls such a loop must hold the array.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from fedwqcp.kernels._vectors import I32, I64, LANES, Lanes, call, constant, instruction


def _start(_: Any, array: Any) -> Any:
    def lower(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        return context.make_array(sig.args[0])(context, builder, values[0]).data

    return types.CPointer(array.dtype)(array), lower


start: Any = intrinsic(_start)
"""Where an array begins whose numbers lie one after the other."""


def _at(builder: Any, pointer: Any, at: Any) -> Any:
    """Return where sixteen numbers begin."""
    if isinstance(at, int):
        at = ir.Constant(I64, at)
    vector = ir.VectorType(pointer.type.pointee, LANES)
    return builder.bitcast(builder.gep(pointer, [at]), vector.as_pointer())


def _bytes(of: Any) -> int:
    """Return how long one number is."""
    return {ir.FloatType(): 4, ir.DoubleType(): 8}.get(of) or int(of.width) // 8


@instruction(lambda pointer, _: pointer.dtype)
def value(builder: Any, pointer: Any, at: Any) -> Any:
    """Return one number."""
    return builder.load(builder.gep(pointer, [at]))


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


@instruction(lambda *_: types.void)
def store(builder: Any, pointer: Any, at: Any, lanes: Any) -> None:
    """Write sixteen numbers; truths as bytes."""
    place = _at(builder, pointer, at)
    if lanes.type.element == ir.IntType(1):
        lanes = builder.zext(lanes, place.type.pointee)
    builder.store(lanes, place, align=_bytes(pointer.type.pointee))


@instruction(lambda *_: types.void)
def stream(builder: Any, pointer: Any, at: Any, lanes: Any) -> None:
    """Write sixteen float64 past the cache; the place is a multiple of 16 bytes, as any array's."""
    two = ir.VectorType(ir.DoubleType(), 2)
    for k in range(0, LANES, 2):
        place = builder.gep(pointer, [builder.add(at, ir.Constant(I64, k))])
        some = builder.shuffle_vector(lanes, lanes, constant(I32, [k, k + 1]))
        done = builder.store(some, builder.bitcast(place, two.as_pointer()), align=16)
        done.set_metadata("nontemporal", builder.module.add_metadata([ir.Constant(I32, 1)]))


@instruction(lambda *_: types.void)
def beside(  # noqa: PLR0917
    builder: Any, source: Any, at: Any, step: Any, target: Any, to: Any
) -> None:
    """Put sixteen rows of 4-byte numbers side by side: number j of row i goes to 16 j + i.

    Rows begin ``step`` after each other; sixteen numbers of each are read.
    """
    rows = []
    for _ in range(LANES):
        rows.append(builder.load(_at(builder, source, at), align=4))
        at = builder.add(at, step)
    half = LANES // 2
    low = constant(I32, [x for k in range(half) for x in (k, LANES + k)])
    high = constant(I32, [x for k in range(half, LANES) for x in (k, LANES + k)])
    for _ in range(4):  # one half is riffled into the other, as one does with cards
        rows = [
            builder.shuffle_vector(a, b, part)
            for a, b in zip(rows[:half], rows[half:], strict=True)
            for part in (low, high)
        ]
    for row in rows:
        builder.store(row, _at(builder, target, to), align=4)
        to = builder.add(to, ir.Constant(I64, LANES))


@instruction(lambda pointer: Lanes(pointer.dtype))
def sums(builder: Any, pointer: Any) -> Any:
    """Return the sum of the first sixteen floats, of the second sixteen, and so on."""
    size = _bytes(pointer.type.pointee)
    rows = [builder.load(_at(builder, pointer, LANES * i), align=size) for i in range(LANES)]
    even = constant(I32, list(range(0, 2 * LANES, 2)))
    odd = constant(I32, list(range(1, 2 * LANES, 2)))
    while len(rows) > 1:
        rows = [
            builder.fadd(builder.shuffle_vector(a, b, even), builder.shuffle_vector(a, b, odd))
            for a, b in zip(rows[::2], rows[1::2], strict=True)
        ]
    return rows[0]
