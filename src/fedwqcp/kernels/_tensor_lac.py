"""Triton programs for LAC, each reading tiles of ROWS by BLOCK probabilities once.

The score is one minus the probability in float64, and never fused with another operation.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
# ruff: noqa: PLR0917
import triton
import triton.language as tl

from fedwqcp.kernels._tensor_programs import report, sound


@triton.jit
def _scored(p):
    """One minus a probability, at least 0."""
    return tl.maximum(1.0 - p.to(tl.float64), 0.0)


@triton.jit
def score_labels(
    probs,
    labels,
    out,
    flag,
    n,
    row_stride,
    C: tl.constexpr,
    VEC: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Score one label of each row; the pass over the others only checks them."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    there = row < n
    start = tl.multiple_of(row * row_stride, VEC)
    y = tl.load(labels + row, mask=there, other=0)
    known = (y >= 0) & (y < C)
    own = tl.load(probs + start + y, mask=there & known, other=0.0)
    total = tl.zeros([ROWS], own.dtype)
    lowest = own
    for first in range(0, C, BLOCK):
        index = first + tl.arange(0, BLOCK)
        real = there[:, None] & (index < C)[None, :]
        p = tl.load(probs + start[:, None] + index[None, :], mask=real, other=0.0)
        total += tl.sum(p, 1)
        lowest = tl.minimum(lowest, tl.min(p, 1))
    tl.store(out + row, _scored(own), mask=there)
    report(flag, there & (~(known & sound(total, lowest))))


@triton.jit
def sets(
    probs,
    q,
    labels,
    mask,
    sizes,
    covered,
    flag,
    n,
    row_stride,
    q_stride,
    C: tl.constexpr,
    VEC: tl.constexpr,
    TOP: tl.constexpr,
    EACH: tl.constexpr,
    WRITE: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Write each row's mask, or its size and whether it holds a label; TOP adds the first."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    there = row < n
    start = tl.multiple_of(row * row_stride, VEC)
    index = tl.arange(0, BLOCK)[None, :]
    real = there[:, None] & (index < C)
    p = tl.load(probs + start[:, None] + index, mask=real, other=0.0)
    if EACH:  # a threshold for each label
        level = tl.load(q + (row * q_stride)[:, None] + index, mask=real, other=0.0)
    else:
        level = tl.load(q + row * q_stride, mask=there, other=0.0)[:, None]
    good = sound(tl.sum(p, 1), tl.min(p, 1))
    belongs = real & (_scored(p) <= level)
    if TOP:
        best = tl.min(tl.where(p == tl.max(p, 1)[:, None], index, BLOCK), 1)
        belongs = belongs | (index == best[:, None])
    if WRITE:
        tl.store(mask + (row * C)[:, None] + index, belongs.to(tl.int8), mask=real)
    else:
        y = tl.load(labels + row, mask=there, other=0)
        good = good & (y >= 0) & (y < C)
        held = tl.sum((belongs & (index == y[:, None])).to(tl.int32), 1)
        tl.store(covered + row, held.to(tl.int8), mask=there)
        tl.store(sizes + row, tl.sum(belongs.to(tl.int32), 1).to(tl.int64), mask=there)
    report(flag, there & (~good))
