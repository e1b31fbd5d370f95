"""Triton kernels for `fused`: blocks of ROWS by LANES, where lanes are neighbours in memory.

Row numbers are worked out once for all lanes; sizes of images are constants, so that divisions are
cheap. `total` is the number of rows.
"""

# ruff: noqa: PLR0917
import triton
import triton.language as tl


@triton.jit(do_not_specialize=["total"])
def windows(
    x,
    out,
    total,
    H: tl.constexpr,
    W: tl.constexpr,
    c: tl.constexpr,
    ROWS: tl.constexpr,
    LANES: tl.constexpr,
):
    """Copy one line, 4 columns by c channels, of a window that steps by 2; padding is 0."""
    line = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    lane = tl.arange(0, LANES)
    place = line // 4
    column = place % (W // 2) * 2 - 1
    row = place // (W // 2) % (H // 2) * 2 - 1 + line % 4
    image = place // (W // 2 * (H // 2))
    start = ((image * H + row) * W + column) * c
    inside = (line < total)[:, None] & (lane < 4 * c)[None, :]
    at = (column * c)[:, None] + lane[None, :]
    real = inside & ((row >= 0) & (row < H))[:, None] & (at >= 0) & (at < W * c)
    value = tl.load(x + start[:, None] + lane[None, :], mask=real, other=0.0)
    tl.store(out + (line * 4 * c)[:, None] + lane[None, :], value, mask=inside)


@triton.jit(do_not_specialize=["total", "each"])
def pool(
    z,
    bias,
    y,
    winner,
    total,
    each,
    o: tl.constexpr,
    ROWS: tl.constexpr,
    LANES: tl.constexpr,
):
    """Take the largest of four, add the bias, rectify; `each` rows belong to one model."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    lane = tl.arange(0, LANES)
    inside = (row < total)[:, None] & (lane < o)[None, :]
    start = z + (row * 4 * o)[:, None] + lane[None, :]
    top = tl.load(start, mask=inside, other=0.0).to(tl.float32)
    which = tl.zeros([ROWS, LANES], tl.int32)
    for k in tl.static_range(1, 4):
        other = tl.load(start + k * o, mask=inside, other=0.0).to(tl.float32)
        which = tl.where(other > top, k, which)
        top = tl.maximum(top, other)
    top += tl.load(bias + (row // each * o)[:, None] + lane[None, :], mask=inside, other=0.0)
    at = (row * o)[:, None] + lane[None, :]
    tl.store(y + at, tl.maximum(top, 0.0), mask=inside)
    tl.store(winner + at, tl.where(top > 0, which, 4), mask=inside)


@triton.jit(do_not_specialize=["total"])
def unpool(grad, winner, dz, total, o: tl.constexpr, ROWS: tl.constexpr, LANES: tl.constexpr):
    """Write a gradient to one of four places and 0 to the others."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    lane = tl.arange(0, LANES)
    inside = (row < total)[:, None] & (lane < o)[None, :]
    at = (row * o)[:, None] + lane[None, :]
    value = tl.load(grad + at, mask=inside, other=0.0)
    which = tl.load(winner + at, mask=inside, other=4)
    start = dz + (row * 4 * o)[:, None] + lane[None, :]
    for k in tl.static_range(4):
        tl.store(start + k * o, tl.where(which == k, value, 0.0), mask=inside)


@triton.jit(do_not_specialize=["total"])
def fold(
    patches,
    out,
    total,
    H: tl.constexpr,
    W: tl.constexpr,
    c: tl.constexpr,
    ROWS: tl.constexpr,
    LANES: tl.constexpr,
):
    """Sum the four windows that hold a pixel."""
    pixel = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    lane = tl.arange(0, LANES)
    inside = (pixel < total)[:, None] & (lane < c)[None, :]
    column = pixel % W + 1
    row = pixel // W % H + 1
    image = pixel // (W * H)
    result = tl.zeros([ROWS, LANES], tl.float32)
    for a in tl.static_range(2):
        for b in tl.static_range(2):
            h = row // 2 - a
            w = column // 2 - b
            real = (h >= 0) & (h < H // 2) & (w >= 0) & (w < W // 2)
            window = (image * (H // 2) + h) * (W // 2) + w
            start = ((window * 4 + row % 2 + 2 * a) * 4 + column % 2 + 2 * b) * c
            here = patches + start[:, None] + lane[None, :]
            result += tl.load(here, mask=inside & real[:, None], other=0.0).to(tl.float32)
    tl.store(out + (pixel * c)[:, None] + lane[None, :], result, mask=inside)
