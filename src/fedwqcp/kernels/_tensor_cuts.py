"""Triton programs for sets: each reads a tile of ROWS by BLOCK probabilities once.

All that follows the read happens in registers: the range of values is halved until the one is left
at which a row's set ends.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
# ruff: noqa: PLR0917
import triton
import triton.language as tl

from fedwqcp.kernels._tensor_programs import bits_of, inside, unsound, value_of, whole


@triton.jit
def _crossing(
    x,
    bits,
    guess,
    top,
    u,
    q,
    penalty,
    k_reg,
    KIND: tl.constexpr,
    RULE: tl.constexpr,
    WIDE: tl.constexpr,
    EXACT: tl.constexpr,
):
    """Halve the range of values until one value with a label that may belong is left in it.

    The bracket (lo, hi] always holds the smallest value whose first label could belong by what
    stands before it alone. It is done when it holds one label: by their number, or for aps, which
    needs no number, since its mass is less than twice its lower end. Unless EXACT, masses are
    summed in the type of the probabilities; the caller looks at the value found with exact sums.
    """
    hi = tl.max(bits, 1)
    lo = hi * 0 - 1
    smallest = tl.min(tl.where(bits < 0, hi[:, None], bits), 1)
    mid = tl.minimum(tl.maximum(guess, lo + 1), tl.maximum(hi - 1, 0))
    kind = x.dtype if KIND == 0 and not EXACT else tl.float64
    beyond = (u * 0.0).to(kind)
    least = beyond + 1e30
    limit = tl.where(q < 1.0, q * 4503599627370496.0, 1e30).to(kind)
    open = hi - lo > 1
    while tl.max(open.to(tl.int32), 0) > 0:
        higher = bits > mid[:, None]
        if KIND == 0:  # nobody below the largest value is first, so all rules ask for the mass
            ahead = tl.sum(tl.where(higher, x.to(kind), 0.0), 1)
            may = ahead <= limit
        else:
            count = tl.sum(higher.to(tl.int32), 1)
            ahead = count.to(tl.float64)
            mass = _mass(x, higher, EXACT) if KIND == 1 else ahead
            may = inside(mass, mass, count + 1, top, u, q, penalty, k_reg, KIND, RULE)
        may = may & (mid >= smallest)
        hi = tl.where(open & may, mid, hi)
        lo = tl.where(open & (~may), mid, lo)
        beyond = tl.where(open & may, ahead, beyond)
        least = tl.where(open & (~may), ahead, least)
        mid = lo + ((hi - lo) >> 1)
        two = 2.0 * value_of(lo, WIDE).to(kind) if KIND == 0 else 2.0
        open = (hi - lo > 1) & (~((lo >= 0) & (least - beyond < two)))
    return tl.max(tl.where(bits <= hi[:, None], bits, lo[:, None] * 0 - 1), 1)


@triton.jit
def _mass(x, higher, EXACT: tl.constexpr):
    """Sum some probabilities, exactly or in their own type."""
    if EXACT:
        mass = tl.sum(tl.where(higher, x.to(tl.float64), 0.0), 1)
    else:
        mass = tl.sum(tl.where(higher, x, 0.0), 1).to(tl.float64)
    return mass


@triton.jit
def _standing(x, bits, value):
    """How many labels stand before a value, their exact mass, and how many have it."""
    higher = bits > value[:, None]
    mass = tl.sum(tl.where(higher, x.to(tl.float64), 0.0), 1)
    count = tl.sum(higher.to(tl.int32), 1)
    ties = tl.sum((bits == value[:, None]).to(tl.int32), 1)
    return mass, count, ties


@triton.jit
def _settled(
    x,
    bits,
    guess,
    some,
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
    value = _crossing(x, bits, guess, top, u, q, penalty, k_reg, KIND, RULE, WIDE, WIDE)
    mass, count, ties = _standing(x, bits, value)
    own = value_of(value, WIDE)
    if not WIDE:
        after, later = mass + own * ties, count + ties
        right = inside(mass, mass, count + 1, top, u, q, penalty, k_reg, KIND, RULE)
        past = inside(after, after, later + 1, top, u, q, penalty, k_reg, KIND, RULE)
        right = right & ((later >= C) | (~past))
        if tl.max((some & (~right)).to(tl.int32), 0) > 0:
            value = _crossing(x, bits, guess, top, u, q, penalty, k_reg, KIND, RULE, WIDE, True)
            mass, count, ties = _standing(x, bits, value)
            own = value_of(value, WIDE)
    return value, own, mass, count, ties


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
        upto = tl.where(count + mid + 1 == C, 4503599627370496.0, before + own)
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
    flags,
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
    COVER: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Find where each row's set ends; write its size and, where asked for, its mask or cover."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    there = row < n
    start = tl.multiple_of(row * row_stride, VEC)
    index = tl.arange(0, BLOCK)
    column = (index < C)[None, :]
    real = there[:, None] & column
    p = tl.load(probs + start[:, None] + index[None, :], mask=real, other=0.0)
    x = whole(p, WIDE)
    bits = tl.where(column, bits_of(x, WIDE), -1)
    Q = tl.load(q + row * q_stride, mask=there, other=0.0)
    U = tl.load(u + row * u_stride, mask=there, other=1.0)
    penalty = tl.load(settings)
    k_reg = tl.load(settings + 1).to(tl.int32)
    tl.store(flags + row, unsound(tl.sum(x.to(tl.float64), 1), tl.min(p, 1)), mask=there)
    top = tl.minimum(tl.max(x, 1).to(tl.float64), 4503599627370496.0) * 2.220446049250313e-16

    none = U * 0.0
    nobody = (none + 0.0).to(tl.int32)
    some = inside(none, none, nobody + 1, top, U, Q, penalty, k_reg, KIND, RULE)
    share = tl.minimum(tl.maximum(1.0 - Q, 1e-9), 1.0) * 4503599627370496.0 / C  # what is left out
    if WIDE:
        guess = share.to(tl.int64, bitcast=True)
    else:
        guess = share.to(tl.float32).to(tl.int32, bitcast=True)
    live = there & some
    value, own, mass, count, ties = _settled(
        x, bits, guess, live, top, U, Q, penalty, k_reg, C, KIND, RULE, WIDE
    )
    low = _equals(own, mass, count, ties, top, U, Q, penalty, k_reg, C, KIND, RULE)
    tl.store(sizes + row, tl.where(some, count + low, 0).to(tl.int64), mask=there)
    same = bits == value[:, None]
    if COVER:
        y = tl.load(labels + row, mask=there, other=0)
        own_bits = tl.max(tl.where(index[None, :] == y[:, None], bits, -1), 1)
        ahead = tl.sum((same & (index[None, :] < y[:, None])).to(tl.int32), 1)
        held = some & ((own_bits > value) | ((own_bits == value) & (ahead < low)))
        tl.store(covered + row, held.to(tl.int8), mask=there)
    if WRITE:
        belongs = (bits > value[:, None]) | (same & (low == ties)[:, None])
        if tl.max((some & (low > 0) & (low < ties)).to(tl.int32), 0) > 0:
            place = tl.cumsum(same.to(tl.int32), 1)
            belongs = belongs | (same & (place <= low[:, None]))
        belongs = belongs & some[:, None]
        tl.store(mask + (row * C)[:, None] + index[None, :], belongs.to(tl.int8), mask=real)
