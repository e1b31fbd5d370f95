"""Sets on a CUDA device without a sort, as a Triton program that reads tiles of ROWS by BLOCK once.

A probability rounded to a multiple of 2^-52 stays in its own float type. Exact sums are float64.
float32 above 2^-29 (EDGE) needs no rounding: labels at least as probable as one above it are
summed and compared as they are. No product may be fused with a sum (``enable_fp_fusion=False``):
scores are those of the other backends to the last bit. A function returns once, at its end: Triton
reads on after a return inside an ``if``.

A file of its own because importing it imports Triton, which not every torch brings along. Without a
GPU the program runs where Triton interprets it (TRITON_INTERPRET=1).
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
import torch
import triton
import triton.language as tl

EDGE = tl.constexpr(2.0**-29)


@triton.jit
def round_fixed(p, WIDE: tl.constexpr):
    """Round to a multiple of 2^-52, half to even, by an addition that leaves nothing finer."""
    edge = 1.0 if WIDE else EDGE
    return tl.where(p < edge, (p + edge) - edge, p)


@triton.jit
def score(before, upto, rank, top, u, penalty, k_reg, KIND: tl.constexpr):
    """The formulas of `fedwqcp.torch.Formula`: 0 is aps, 1 raps, 2 saps."""
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
    probability,
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
        before = mass + probability * mid
        upto = tl.where(count + mid + 1 == C, 1.0, before + probability)
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
    mask,
    n,
    row_stride,
    q_stride,
    u_stride,
    C: tl.constexpr,
    VEC: tl.constexpr,
    WIDE: tl.constexpr,
    KIND: tl.constexpr,
    RULE: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Find where each row's set ends, and write its mask."""
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
    top = tl.minimum(round_fixed(tl.max(p, 1), WIDE).to(tl.float64), 1.0)
    none = U * 0.0
    first = (row * 0).to(tl.int32) + 1
    some = inside(none, none, first, top, U, Q, penalty, k_reg, KIND, RULE)
    x, value, mass, count, ties = _last_value(
        p, column, there & some, top, U, Q, penalty, k_reg, C, KIND, RULE, WIDE
    )
    probability = value.to(tl.float64)
    low = _count_ties(probability, mass, count, ties, top, U, Q, penalty, k_reg, C, KIND, RULE)
    level = (bits_of(value) + (low < ties)).to(x.dtype, bitcast=True)
    belongs = x >= tl.where(some, level, 2.0)[:, None]
    if tl.max((some & (low > 0) & (low < ties)).to(tl.int32), 0) > 0:
        same = x == value[:, None]
        position = tl.cumsum(same.to(tl.int32), 1)
        belongs = belongs | (same & (position <= low[:, None]) & some[:, None])
    tl.store(mask + (row * C)[:, None] + index, belongs.to(tl.int8), mask=real)


# Launching ---------------------------------------------------------------------------------------

TILE = 1024
"""How many probabilities a warp holds: 32 for each thread."""
LONGEST = 4096
"""Longest row that stays in registers."""
KINDS = ("aps", "raps", "saps")
RULES = ("leq", "leq_top1", "until")


def serves(p) -> bool:
    """Tell whether rows fit into registers."""
    floats = p.dtype in (torch.float32, torch.float64)
    return floats and 0 < p.shape[0] < 2**31 and p.shape[1] <= LONGEST


def find_sets(formula, probs, u, q, rule):
    """Return the sets of all checked rows; q has shape () or (n, 1)."""
    p = probs if probs.stride(1) == 1 else probs.contiguous()
    n, width = p.shape
    block = max(16, 1 << (width - 1).bit_length())
    rows = max(1, TILE // block)
    together = 16 // p.element_size()
    aligned = p.data_ptr() % 16 == 0 and p.stride(0) % together == 0
    settings = torch.tensor([formula.penalty, float(formula.k_reg)], dtype=torch.float64)
    mask = torch.empty(p.shape, dtype=torch.bool, device=p.device)
    (level, level_stride), (share, share_stride) = _strided(q, p), _strided(u, p)
    sets[(-(-n // rows),)](
        *(p, level, share, settings.to(p.device), mask.view(torch.int8)),
        *(n, p.stride(0), level_stride, share_stride),
        C=width,
        VEC=together if aligned else 1,
        WIDE=p.dtype == torch.float64,
        KIND=KINDS.index(formula.kind),
        RULE=RULES.index(rule),
        ROWS=rows,
        BLOCK=block,
        num_warps=max(1, block // TILE),
        enable_fp_fusion=False,
    )
    return mask


def _strided(values, p):
    """Return one number for each row, or one for all with stride 0; None is the number 1."""
    if values is None:
        return torch.ones(1, dtype=torch.float64, device=p.device), 0
    flat = values.to(device=p.device, dtype=torch.float64).reshape(-1).contiguous()
    return flat, 0 if len(flat) == 1 else 1
