"""Triton programs for scores, each reading tiles of ROWS by BLOCK probabilities once.

A probability rounded to a multiple of 2^-52 stays in its own float type. Exact sums are float64.
float32 above 2^-29 (EDGE) needs no rounding: labels at least as probable as one above it are
summed and compared as they are. No product may be fused with a sum (``enable_fp_fusion=False``):
scores are those of the other backends to the last bit. A function returns once, at its end: Triton
reads on after a return inside an ``if``.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
# ruff: noqa: PLR0917
import triton
import triton.language as tl

EDGE = tl.constexpr(2.0**-29)


@triton.jit
def whole(p, WIDE: tl.constexpr):
    """Round to a multiple of 2^-52, half to even, by an addition that leaves nothing finer."""
    edge = 1.0 if WIDE else EDGE
    return tl.where(p < edge, (p + edge) - edge, p)


@triton.jit
def score(before, upto, rank, top, u, penalty, k_reg, KIND: tl.constexpr):
    """The formulas of `tensors.scored`: 0 is aps, 1 raps, 2 saps."""
    if KIND == 2:
        steps = (rank - 2).to(u.dtype) + u
        value = tl.where(rank == 1, u * top, top + steps * penalty)
    else:
        value = before + u * (upto - before)
        if KIND == 1:
            value = value + penalty * tl.maximum(rank - k_reg, 0).to(u.dtype)
    return value


@triton.jit
def inside(before, upto, rank, top, u, q, penalty, k_reg, KIND: tl.constexpr, RULE: tl.constexpr):
    """Whether a label belongs to its set; 0 is leq, 1 leq_top1, 2 until."""
    b = tl.minimum(before, 1.0)
    a = tl.minimum(upto, 1.0)
    belongs = score(b, a, rank, top, u, penalty, k_reg, KIND) <= q
    if RULE > 0:
        belongs = belongs | (rank == 1)
    if RULE == 2:
        one = u * 0.0 + 1.0
        belongs = belongs | (score(b, b, rank - 1, top, one, penalty, k_reg, KIND) < q)
    return belongs


@triton.jit
def settled(settings, KIND: tl.constexpr):
    """The penalty and the ranks free of it; aps has none."""
    penalty = tl.load(settings) if KIND > 0 else 0.0
    k_reg = tl.load(settings + 1).to(tl.int32) if KIND > 0 else 0
    return penalty, k_reg


@triton.jit
def sound(total, lowest):
    """Whether a row seems a distribution; a NaN fails the first comparison.

    The sum may be rounded: rows near the tolerance count as unsound, and the caller looks closer.
    """
    return (tl.abs(total - 1.0) <= 0.00099) & (lowest >= 0)


@triton.jit
def report(flag, bad):
    """Say that some row needs a closer look; programs that say so write the same number."""
    if tl.max(bad.to(tl.int32), 0) > 0:
        tl.store(flag, 1)


@triton.jit
def score_labels(
    probs,
    labels,
    u,
    settings,
    out,
    flag,
    n,
    row_stride,
    u_stride,
    C: tl.constexpr,
    VEC: tl.constexpr,
    WIDE: tl.constexpr,
    KIND: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Score one label of each row in one pass."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    there = row < n
    start = tl.multiple_of(row * row_stride, VEC)
    y = tl.load(labels + row, mask=there, other=0)
    known = (y >= 0) & (y < C)
    own = whole(tl.load(probs + start + y, mask=there & known, other=0.0), WIDE)
    # of float32, what stands before a label above the edge needs no rounding
    fine = True if WIDE else tl.min(own, 0) <= EDGE
    before = tl.zeros([ROWS], tl.float64)
    total = tl.zeros([ROWS], own.dtype)
    rank = tl.full([ROWS], 1, tl.int32)
    top = own
    lowest = own
    for first in range(0, C, BLOCK):
        index = first + tl.arange(0, BLOCK)
        real = there[:, None] & (index < C)[None, :]
        p = tl.load(probs + start[:, None] + index[None, :], mask=real, other=0.0)
        total += tl.sum(p, 1)
        lowest = tl.minimum(lowest, tl.min(p, 1))
        if fine:
            p = whole(p, WIDE)
        # more probable, or as probable and before it in the row
        tied = (p == own[:, None]) & (index[None, :] < y[:, None])
        ahead = (p > own[:, None]) | tied
        before += tl.sum(tl.where(ahead, p, 0.0).to(tl.float64), 1)
        rank += tl.sum(ahead.to(tl.int32), 1)
        top = tl.maximum(top, tl.max(p, 1))
    upto = tl.where(rank == C, 1.0, tl.minimum(before + own.to(tl.float64), 1.0))
    share = tl.load(u + row * u_stride, mask=there, other=1.0)
    penalty, k_reg = settled(settings, KIND)
    largest = tl.minimum(top.to(tl.float64), 1.0)
    value = score(tl.minimum(before, 1.0), upto, rank, largest, share, penalty, k_reg, KIND)
    tl.store(out + row, value, mask=there)
    good = known & sound(total, lowest) & (share >= 0.0) & (share <= 1.0)
    report(flag, there & (~good))
