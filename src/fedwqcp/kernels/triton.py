"""The passes on a CUDA device, as Triton programs: each reads tiles of ROWS by BLOCK once.

A probability rounded to a multiple of 2^-52 stays in its own float type. Exact sums are float64.
float32 above 2^-29 (EDGE) needs no rounding: labels at least as probable as one above it are
summed and compared as they are. No product may be fused with a sum (``enable_fp_fusion=False``):
scores are those of the other backends to the last bit. A function returns once, at its end: Triton
reads on after a return inside an ``if``.

A file of its own because importing it imports Triton, which not every torch brings along; `torch`
launches the programs. Without a GPU they run where Triton interprets them (TRITON_INTERPRET=1).
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
import triton
import triton.language as tl

EDGE = tl.constexpr(2.0**-29)


# Ranked scores: the formulas, and scores of true labels ------------------------------------------


@triton.jit
def round_fixed(p, WIDE: tl.constexpr):
    """Round to a multiple of 2^-52, half to even, by an addition that leaves nothing finer."""
    edge = 1.0 if WIDE else EDGE
    return tl.where(p < edge, (p + edge) - edge, p)


@triton.jit
def score(before, upto, rank, top, u, penalty, k_reg, KIND: tl.constexpr):
    """The formulas of `torch.score_places`: 0 is aps, 1 raps, 2 saps."""
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
def load_settings(settings, KIND: tl.constexpr):
    """The penalty and the ranks free of it; aps has none."""
    penalty = tl.load(settings) if KIND > 0 else 0.0
    k_reg = tl.load(settings + 1).to(tl.int32) if KIND > 0 else 0
    return penalty, k_reg


@triton.jit
def is_valid(total, lowest):
    """Whether a row seems one of probabilities; a NaN fails the first comparison.

    The sum may be rounded: rows near the tolerance count as invalid, and the caller checks all rows
    in full.
    """
    return (tl.abs(total - 1.0) <= 0.00099) & (lowest >= 0)


@triton.jit
def raise_flag(flag, bad):
    """Raise the flag if a row needs a full check; all programs write the same number."""
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
    own = round_fixed(tl.load(probs + start + y, mask=there & known, other=0.0), WIDE)
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
            p = round_fixed(p, WIDE)
        # more probable, or as probable and before it in the row
        tied = (p == own[:, None]) & (index[None, :] < y[:, None])
        ahead = (p > own[:, None]) | tied
        before += tl.sum(tl.where(ahead, p, 0.0).to(tl.float64), 1)
        rank += tl.sum(ahead.to(tl.int32), 1)
        top = tl.maximum(top, tl.max(p, 1))
    upto = tl.where(rank == C, 1.0, tl.minimum(before + own.to(tl.float64), 1.0))
    share = tl.load(u + row * u_stride, mask=there, other=1.0)
    penalty, k_reg = load_settings(settings, KIND)
    largest = tl.minimum(top.to(tl.float64), 1.0)
    value = score(tl.minimum(before, 1.0), upto, rank, largest, share, penalty, k_reg, KIND)
    tl.store(out + row, value, mask=there)
    good = known & is_valid(total, lowest) & (share >= 0.0) & (share <= 1.0)
    raise_flag(flag, there & (~good))


# Ranked scores: sets -----------------------------------------------------------------------------
#
# All that follows the read happens in registers: the range of values is halved until the one is
# left at which a row's set ends. Columns beyond the last hold -1, which is below every probability.


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
    smaller values need not be tried where masses count. It is done when it holds one label: by
    their number, or for aps, which needs no number, since its mass is less than twice its lower
    end. Unless EXACT, masses are summed in the type of the probabilities; the caller tests the
    value found with exact sums.
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
def _count_above(x, value, EXACT: tl.constexpr):
    """How many labels stand before a value, their exact mass, and how many have it."""
    higher = _above(x, value, EXACT)
    mass = tl.sum((higher * x).to(tl.float64), 1)
    count = tl.sum(higher, 1).to(tl.int32)
    ties = tl.sum((x == value[:, None]).to(tl.int32), 1)
    return mass, count, ties


@triton.jit
def _last_value(
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
    x = tl.where(column, round_fixed(p, WIDE) if WIDE else p, -1.0)
    smallest = tl.min(tl.where(column, x, 1.0), 1)
    least = smallest if WIDE else tl.maximum(smallest, EDGE)
    mass = tl.sum(tl.where(column, x, 0.0), 1)
    value = _crossing(x, least, live, mass, top, u, q, penalty, k_reg, C, KIND, RULE, WIDE)
    mass, count, ties = _count_above(x, value, WIDE)
    if not WIDE:
        after, later = mass + value.to(tl.float64) * ties, count + ties
        right = inside(mass, mass, count + 1, top, u, q, penalty, k_reg, KIND, RULE)
        past = inside(after, after, later + 1, top, u, q, penalty, k_reg, KIND, RULE)
        right = right & ((later >= C) | (~past)) & (value > EDGE)
        if tl.max((live & (~right)).to(tl.int32), 0) > 0:
            x = tl.where(column, round_fixed(p, WIDE), -1.0)
            smallest = tl.min(tl.where(column, x, 1.0), 1)
            mass = tl.sum(tl.where(column, x, 0.0).to(tl.float64), 1)
            value = _crossing(
                x, smallest, live, mass, top, u, q, penalty, k_reg, C, KIND, RULE, True
            )
            mass, count, ties = _count_above(x, value, True)
    return x, value, mass, count, ties


@triton.jit
def _count_ties(
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
def sets(
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
    penalty, k_reg = load_settings(settings, KIND)
    good = is_valid(tl.sum(p, 1), tl.min(p, 1)) & (U >= 0.0) & (U <= 1.0)
    top = tl.minimum(round_fixed(tl.max(p, 1), WIDE).to(tl.float64), 1.0)
    none = U * 0.0
    first = (row * 0).to(tl.int32) + 1
    some = inside(none, none, first, top, U, Q, penalty, k_reg, KIND, RULE)
    x, value, mass, count, ties = _last_value(
        p, column, there & some, top, U, Q, penalty, k_reg, C, KIND, RULE, WIDE
    )
    own = value.to(tl.float64)
    low = _count_ties(own, mass, count, ties, top, U, Q, penalty, k_reg, C, KIND, RULE)
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
        mine = round_fixed(tl.load(probs + start + y, mask=there & known, other=0.0), WIDE)
        before = ties * 0
        if tl.max(ties, 0) > 1:
            tied = (x == value[:, None]) & (index < y[:, None])
            before = tl.sum(tied.to(tl.int32), 1)
        held = some & ((mine > value) | ((mine == value) & (before < low)))
        tl.store(covered + row, held.to(tl.int8), mask=there)
        tl.store(sizes + row, tl.where(some, count + low, 0).to(tl.int64), mask=there)
    raise_flag(flag, there & (~good))


# LAC: one minus the probability in float64, never fused with another operation -------------------


@triton.jit
def _lac_score(p):
    """One minus a probability, at least 0."""
    return tl.maximum(1.0 - p.to(tl.float64), 0.0)


@triton.jit
def lac_score_labels(
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
    tl.store(out + row, _lac_score(own), mask=there)
    raise_flag(flag, there & (~(known & is_valid(total, lowest))))


@triton.jit
def lac_sets(
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
    good = is_valid(tl.sum(p, 1), tl.min(p, 1))
    belongs = real & (_lac_score(p) <= level)
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
    raise_flag(flag, there & (~good))
