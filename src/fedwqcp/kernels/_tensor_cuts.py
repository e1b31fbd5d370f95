"""Triton programs for sets: each reads a tile of ROWS by BLOCK probabilities once.

All that follows the read happens in registers: the range of values is halved until the one is left
at which a row's set ends. Columns beyond the last hold -1, which is below every probability.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
# ruff: noqa: PLR0917
import triton
import triton.language as tl

from fedwqcp.kernels._tensor_programs import EDGE, inside, report, settled, sound, whole


@triton.jit
def bits_of(x):
    """The bits of a float as an integer; those of floats of at least 0 have their order."""
    return x.to(tl.int64 if x.dtype == tl.float64 else tl.int32, bitcast=True)


@triton.jit
def _above(x, value, EXACT: tl.constexpr):
    """1 where a probability is larger than a value, and 0 elsewhere.

    A value above EDGE differs from others by at least 2^-52, so that 2^53 times the difference ends
    at 0 or 1: a product with saturation, of which a device does twice as many as of comparisons.
    """
    if EXACT:
        higher = (x > value[:, None]).to(x.dtype)
    else:
        scale = tl.full(x.shape, 9007199254740992.0, x.dtype)
        shift = tl.broadcast_to(value[:, None] * -9007199254740992.0, x.shape)
        higher = tl.clamp(tl.fma(x, scale, shift), 0.0, 1.0)
    return higher


@triton.jit
def _crossing(
    x,
    smallest,
    live,
    total,
    top,
    u,
    q,
    penalty,
    k_reg,
    C: tl.constexpr,
    KIND: tl.constexpr,
    RULE: tl.constexpr,
    EXACT: tl.constexpr,
):
    """Halve the range of values until one value with a label that may belong is left in it.

    The bracket (lo, hi] always holds the smallest value whose first label could belong by what
    stands before it alone. What stands above a value is at least the total less C times the value:
    smaller values need no look where masses count. It is done when it holds one label: by their
    number, or for aps, which needs no number, since its mass is less than twice its lower end.
    Unless EXACT, masses are summed in the type of the probabilities; the caller looks at the value
    found with exact sums.
    """
    kind = tl.float64 if EXACT else x.dtype
    v, level, most, sum_of_all = u.to(kind), q.to(kind), top.to(kind), total.to(kind)
    cost = (u * 0.0 + penalty).to(kind)
    lo = bits_of(smallest) - 1
    every = inside(sum_of_all, sum_of_all, lo * 0 + C, most, v, level, cost, k_reg, KIND, RULE)
    hi = tl.where(every, lo + 1, bits_of(tl.max(x, 1)))
    if KIND < 2:
        left = tl.maximum(sum_of_all - level, 0.0) * (0.999 / C)
        lo = tl.maximum(lo, tl.minimum(bits_of(left.to(x.dtype)), hi) - 1)
    beyond = v * 0.0
    least = sum_of_all if KIND == 0 else beyond + C
    second = (hi * 0).to(tl.int32) + 1
    open = live & (hi - lo > 1)
    while tl.max(open.to(tl.int32), 0) > 0:
        mid = lo + ((hi - lo) >> 1)
        higher = _above(x, mid.to(x.dtype, bitcast=True), EXACT)
        # below the largest value nobody is first, and aps asks no more of a rank
        count = tl.sum(higher, 1).to(tl.int32) if KIND > 0 else second
        mass = tl.sum((higher * x).to(kind), 1) if KIND < 2 else beyond
        may = inside(mass, mass, count + 1, most, v, level, cost, k_reg, KIND, RULE)
        ahead = mass if KIND == 0 else count.to(kind)
        hi = tl.where(open & may, mid, hi)
        lo = tl.where(open & (~may), mid, lo)
        beyond = tl.where(open & may, ahead, beyond)
        least = tl.where(open & (~may), ahead, least)
        two = lo.to(x.dtype, bitcast=True).to(kind) * 2.0 if KIND == 0 else beyond * 0.0 + 2.0
        open = open & (hi - lo > 1) & (~(least - beyond < two))
    return tl.max(tl.where(x <= hi.to(x.dtype, bitcast=True)[:, None], x, -1.0), 1)


@triton.jit
def _standing(x, value, EXACT: tl.constexpr):
    """How many labels stand before a value, their exact mass, and how many have it."""
    higher = _above(x, value, EXACT)
    mass = tl.sum((higher * x).to(tl.float64), 1)
    count = tl.sum(higher, 1).to(tl.int32)
    ties = tl.sum((x == value[:, None]).to(tl.int32), 1)
    return mass, count, ties


@triton.jit
def _settled(
    p,
    column,
    live,
    top,
    u,
    q,
    penalty,
    k_reg,
    C: tl.constexpr,
    KIND: tl.constexpr,
    RULE: tl.constexpr,
    WIDE: tl.constexpr,
):
    """Find the value at which a set ends; sums of float32 only guide, exact ones decide."""
    x = tl.where(column, whole(p, WIDE) if WIDE else p, -1.0)
    smallest = tl.min(tl.where(column, x, 1.0), 1)
    least = smallest if WIDE else tl.maximum(smallest, EDGE)
    mass = tl.sum(tl.where(column, x, 0.0), 1)
    value = _crossing(x, least, live, mass, top, u, q, penalty, k_reg, C, KIND, RULE, WIDE)
    mass, count, ties = _standing(x, value, WIDE)
    if not WIDE:
        after, later = mass + value.to(tl.float64) * ties, count + ties
        right = inside(mass, mass, count + 1, top, u, q, penalty, k_reg, KIND, RULE)
        past = inside(after, after, later + 1, top, u, q, penalty, k_reg, KIND, RULE)
        right = right & ((later >= C) | (~past)) & (value > EDGE)
        if tl.max((live & (~right)).to(tl.int32), 0) > 0:
            x = tl.where(column, whole(p, WIDE), -1.0)
            smallest = tl.min(tl.where(column, x, 1.0), 1)
            mass = tl.sum(tl.where(column, x, 0.0).to(tl.float64), 1)
            value = _crossing(
                x, smallest, live, mass, top, u, q, penalty, k_reg, C, KIND, RULE, True
            )
            mass, count, ties = _standing(x, value, True)
    return x, value, mass, count, ties


@triton.jit
def _equals(
    own,
    mass,
    count,
    ties,
    top,
    u,
    q,
    penalty,
    k_reg,
    C: tl.constexpr,
    KIND: tl.constexpr,
    RULE: tl.constexpr,
):
    """How many of the labels with the last value belong, by halving."""
    low, high = ties * 0, ties
    while tl.max((low < high).to(tl.int32), 0) > 0:
        mid = (low + high) >> 1
        before = mass + own * mid
        upto = tl.where(count + mid + 1 == C, 1.0, before + own)
        fits = inside(before, upto, count + mid + 1, top, u, q, penalty, k_reg, KIND, RULE)
        fits = fits & (low < high)
        high = tl.where(fits | (low >= high), high, mid)
        low = tl.where(fits, mid + 1, low)
    return low


@triton.jit
def cut(
    probs,
    q,
    u,
    settings,
    labels,
    mask,
    sizes,
    covered,
    flag,
    n,
    row_stride,
    q_stride,
    u_stride,
    C: tl.constexpr,
    VEC: tl.constexpr,
    WIDE: tl.constexpr,
    KIND: tl.constexpr,
    RULE: tl.constexpr,
    WRITE: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Find where each row's set ends; write its mask, or its size and whether it holds a label."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    there = row < n
    start = tl.multiple_of(row * row_stride, VEC)
    index = tl.arange(0, BLOCK)[None, :]
    column = index < C
    real = there[:, None] & column
    p = tl.load(probs + start[:, None] + index, mask=real, other=0.0)
    Q = tl.load(q + row * q_stride, mask=there, other=0.0)
    U = tl.load(u + row * u_stride, mask=there, other=1.0)
    penalty, k_reg = settled(settings, KIND)
    good = sound(tl.sum(p, 1), tl.min(p, 1)) & (U >= 0.0) & (U <= 1.0)
    top = tl.minimum(whole(tl.max(p, 1), WIDE).to(tl.float64), 1.0)
    none = U * 0.0
    first = (row * 0).to(tl.int32) + 1
    some = inside(none, none, first, top, U, Q, penalty, k_reg, KIND, RULE)
    x, value, mass, count, ties = _settled(
        p, column, there & some, top, U, Q, penalty, k_reg, C, KIND, RULE, WIDE
    )
    own = value.to(tl.float64)
    low = _equals(own, mass, count, ties, top, U, Q, penalty, k_reg, C, KIND, RULE)
    if WRITE:
        level = (bits_of(value) + (low < ties)).to(x.dtype, bitcast=True)
        belongs = x >= tl.where(some, level, 2.0)[:, None]
        if tl.max((some & (low > 0) & (low < ties)).to(tl.int32), 0) > 0:
            same = x == value[:, None]
            place = tl.cumsum(same.to(tl.int32), 1)
            belongs = belongs | (same & (place <= low[:, None]) & some[:, None])
        tl.store(mask + (row * C)[:, None] + index, belongs.to(tl.int8), mask=real)
    else:
        y = tl.load(labels + row, mask=there, other=0)
        known = (y >= 0) & (y < C)
        good = good & known
        mine = whole(tl.load(probs + start + y, mask=there & known, other=0.0), WIDE)
        before = ties * 0
        if tl.max(ties, 0) > 1:
            tied = (x == value[:, None]) & (index < y[:, None])
            before = tl.sum(tied.to(tl.int32), 1)
        held = some & ((mine > value) | ((mine == value) & (before < low)))
        tl.store(covered + row, held.to(tl.int8), mask=there)
        tl.store(sizes + row, tl.where(some, count + low, 0).to(tl.int64), mask=there)
    report(flag, there & (~good))
