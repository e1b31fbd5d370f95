"""Triton programs for scores, each reading a tile of ROWS by BLOCK probabilities once.

A probability in units of 2^-52 stays in its own float type, where it is a whole number; the bits of
such floats are ordered as the floats are. Exact sums are float64. No product may be fused with a
sum (``enable_fp_fusion=False``): scores are those of the other backends to the last bit. A function
returns once, at its end: Triton reads on after a return inside an ``if``.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
# ruff: noqa: PLR0917
import triton
import triton.language as tl


@triton.jit
def whole(p, WIDE: tl.constexpr):
    """Round to a whole number of units, half to even, by an addition that leaves no fraction."""
    x = p * 4503599627370496.0
    if WIDE:
        y = tl.where(x < 4503599627370496.0, (x + 4503599627370496.0) - 4503599627370496.0, x)
    else:
        y = tl.where(x < 8388608.0, (x + 8388608.0) - 8388608.0, x)
    return y


@triton.jit
def bits_of(x, WIDE: tl.constexpr):
    """The bits of a float as an integer; those of floats of at least 0 have their order."""
    return x.to(tl.int64, bitcast=True) if WIDE else x.to(tl.int32, bitcast=True)


@triton.jit
def value_of(bits, WIDE: tl.constexpr):
    """The float that has these bits, in double precision."""
    if WIDE:
        value = bits.to(tl.float64, bitcast=True)
    else:
        value = bits.to(tl.float32, bitcast=True).to(tl.float64)
    return value


@triton.jit
def score(before, upto, rank, top, u, penalty, k_reg, KIND: tl.constexpr):
    """The formulas of `tensors.scored`: 0 is aps, 1 raps, 2 saps."""
    if KIND == 2:
        steps = (rank - 2).to(tl.float64) + u
        value = tl.where(rank == 1, u * top, top + steps * penalty)
    else:
        value = before + u * (upto - before)
        if KIND == 1:
            value = value + penalty * tl.maximum(rank - k_reg, 0).to(tl.float64)
    return value


@triton.jit
def inside(before, upto, rank, top, u, q, penalty, k_reg, KIND: tl.constexpr, RULE: tl.constexpr):
    """Whether a label belongs to its set, masses in units; 0 is leq, 1 leq_top1, 2 until."""
    unit = 2.220446049250313e-16
    b = tl.minimum(before, 4503599627370496.0) * unit
    a = tl.minimum(upto, 4503599627370496.0) * unit
    belongs = score(b, a, rank, top, u, penalty, k_reg, KIND) <= q
    if RULE > 0:
        belongs = belongs | (rank == 1)
    if RULE == 2:
        one = u * 0.0 + 1.0
        belongs = belongs | (score(b, b, rank - 1, top, one, penalty, k_reg, KIND) < q)
    return belongs


@triton.jit
def unsound(total, lowest):
    """Whether a row is no distribution; a NaN makes the first comparison fail."""
    close = tl.abs(total * 2.220446049250313e-16 - 1.0) <= 1e-3
    return ((~close) | (lowest < 0)).to(tl.int8)


@triton.jit
def score_labels(
    probs,
    labels,
    u,
    settings,
    out,
    flags,
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
    known = there & (y >= 0) & (y < C)
    own = whole(tl.load(probs + start + y, mask=known, other=0.0), WIDE)
    before = tl.zeros([ROWS], tl.float64)
    total = tl.zeros([ROWS], tl.float64)
    rank = tl.full([ROWS], 1, tl.int32)
    mine = bits_of(own, WIDE)
    top = own
    lowest = own
    for first in range(0, C, BLOCK):
        index = first + tl.arange(0, BLOCK)
        real = there[:, None] & (index < C)[None, :]
        p = tl.load(probs + start[:, None] + index[None, :], mask=real, other=0.0)
        x = whole(p, WIDE)
        # more probable, or as probable and before it in the row
        ahead = bits_of(x, WIDE) >= mine[:, None] + (index[None, :] >= y[:, None]).to(mine.dtype)
        exact = x.to(tl.float64)
        before += tl.sum(tl.where(ahead, exact, 0.0), 1)
        total += tl.sum(exact, 1)
        rank += tl.sum(ahead.to(tl.int32), 1)
        top = tl.maximum(top, tl.max(x, 1))
        lowest = tl.minimum(lowest, tl.min(p, 1))
    unit = 2.220446049250313e-16
    largest = tl.minimum(top.to(tl.float64), 4503599627370496.0) * unit
    upto = tl.minimum(before + own.to(tl.float64), 4503599627370496.0) * unit
    upto = tl.where(rank == C, 1.0, upto)
    rho = tl.minimum(before, 4503599627370496.0) * unit
    share = tl.load(u + row * u_stride, mask=there, other=1.0)
    penalty = tl.load(settings)
    k_reg = tl.load(settings + 1).to(tl.int32)
    value = score(rho, upto, rank, largest, share, penalty, k_reg, KIND)
    tl.store(out + row, value, mask=there)
    tl.store(flags + row, tl.where(known, unsound(total, lowest), 1), mask=there)
