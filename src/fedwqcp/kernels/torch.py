"""The passes on torch tensors, wherever they live; results are those of `numpy` to the last bit.

A probability in units of 2^-52 is an integer of at most 53 bits, and so is every sum of a row:
float64 holds both exactly, and so does float32 a single float32 probability. Sums of such floats
are therefore exact in any order, on every device.

On a CUDA device the programs of `triton` score labels without a sort and find sets without an
order, in one pass that also checks the rows and raises one flag if any needs a full check. Every
label before the end of a set is more probable than it, so a set is found from one value of its row:
the smallest whose first label can still belong by the mass before it. Where Triton is not
installed, and for rows too long for registers, the caller uses the plain torch operations of this
file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from math import inf
from typing import Any, Literal, NamedTuple, TypeAlias

from fedwqcp._validation import SUM_TOLERANCE
from fedwqcp.errors import InputError, MissingExtraError

try:
    import torch as torch  # noqa: PLC0414  # `fedwqcp.torch` takes it from here
except ImportError as error:  # pragma: no cover  # only without the extra
    raise MissingExtraError("working on tensors", "torch") from error

Tensor: TypeAlias = torch.Tensor

ONE = 2.0**52
BLOCK = {"cpu": 2**18, "cuda": 2**25}
"""How many probabilities are worked on at a time, by kind of device."""

Rule: TypeAlias = Literal["leq", "leq_top1", "until"]


def blocks(probs: Tensor) -> Iterator[slice]:
    """Yield the rows in blocks; no rows are one block."""
    step = max(1, BLOCK.get(probs.device.type, 2**20) // max(1, probs.shape[1]))
    for start in range(0, max(len(probs), 1), step):
        yield slice(start, min(start + step, len(probs)))


# Checks: the same as those of arrays; errors name a row and show no value of a person -------------


def as_matrix(probs: Tensor) -> Tensor:
    """Return class probabilities as floats of shape (n, C) without a gradient; no value is read.

    float32 and float64 are kept as they are; shorter floats become float32.
    """
    if not isinstance(probs, torch.Tensor) or not probs.is_floating_point():
        raise InputError("probabilities must be a tensor of floats")
    if probs.ndim != 2 or probs.shape[1] < 2:
        raise InputError(
            "probabilities must have shape (n, C) with at least two classes, "
            f"got shape {tuple(probs.shape)}"
        )
    values = probs.detach()
    return values if values.dtype in (torch.float32, torch.float64) else values.float()


def check_probabilities(probs: Tensor) -> None:
    """Refuse rows that are not probabilities."""
    for rows in blocks(probs):
        some = probs[rows]
        if not len(some):
            return
        lowest, sums = some.amin(1), some.sum(1, dtype=torch.float64)
        bad = ~((lowest >= 0) & ((sums - 1.0).abs() <= SUM_TOLERANCE))
        if not bool(bad.any()):
            continue
        at = int(bad.int().argmax())
        row = rows.start + at
        if bool(torch.isnan(lowest[at])):
            raise InputError("probabilities must be numbers, got NaN", row=row)
        if float(lowest[at]) < 0:
            raise InputError(
                "probabilities must not be negative; pass softmax outputs, not logits", row=row
            )
        raise InputError(
            f"probabilities must sum to 1, got {float(sums[at]):.6g}; pass softmax outputs, not "
            "logits",
            row=row,
        )


def as_labels(labels: Tensor, probs: Tensor) -> Tensor:
    """Return labels as int64 on the device of the probabilities; no value is read."""
    n = len(probs)
    if not isinstance(labels, torch.Tensor) or labels.is_floating_point():
        raise InputError("labels must be a tensor of integers")
    if labels.dtype in (torch.bool, torch.complex64, torch.complex128):
        raise InputError(f"labels must be integers, got a tensor of {labels.dtype}")
    if labels.shape != (n,):
        raise InputError(f"labels must have shape ({n},), got shape {tuple(labels.shape)}")
    return labels.to(device=probs.device, dtype=torch.int64)


def check_labels(labels: Tensor, n_classes: int) -> None:
    """Refuse labels outside the classes."""
    bad = (labels < 0) | (labels >= n_classes)
    if bool(bad.any()):
        row = int(bad.int().argmax())
        raise InputError(
            f"labels must be integers from 0 to {n_classes - 1}, got one outside", row=row
        )


def as_uniforms(u: Tensor, probs: Tensor) -> Tensor:
    """Return uniforms as float64 on the device of the probabilities; no value is read."""
    n = len(probs)
    if not isinstance(u, torch.Tensor) or u.shape != (n,):
        raise InputError(f"u must be a tensor of shape ({n},)")
    return u.detach().to(device=probs.device, dtype=torch.float64)


def check_uniforms(u: Tensor) -> None:
    """Refuse numbers outside [0, 1], infinite or NaN."""
    bad = ~torch.isfinite(u)
    if bool(bad.any()):
        raise InputError("u must be finite numbers", row=int(bad.int().argmax()))
    if not bool(((u >= 0) & (u <= 1)).all()):
        raise InputError("u must lie between 0 and 1; draw it with uniforms(key, ids)")


def as_threshold(threshold: object, probs: Tensor) -> Tensor:
    """Return a threshold that broadcasts against the probabilities, float64, on their device."""
    try:
        q = torch.as_tensor(threshold, dtype=torch.float64)
    except (TypeError, ValueError):
        raise InputError("the threshold must be a number or an array of numbers") from None
    if bool(torch.isnan(q).any()):
        raise InputError("the threshold must be a number or +inf, got NaN")
    try:
        fits = torch.broadcast_shapes(q.shape, probs.shape) == probs.shape
    except RuntimeError:
        fits = False
    if not fits:
        raise InputError(
            f"a threshold of shape {tuple(q.shape)} does not fit scores of shape "
            f"{tuple(probs.shape)}: pass one number, one per column of the scores, or a column "
            "with one per row"
        )
    return q.to(probs.device)


# Ranked scores in plain torch ---------------------------------------------------------------------


@dataclass(frozen=True)
class Formula:
    """A ranked score: which one, what a rank adds, and how many ranks are free of it."""

    kind: Literal["aps", "raps", "saps"]
    penalty: float = 0.0
    k_reg: int = 0


class RankedTensors(NamedTuple):
    """Where labels stand in their rows, as `fedwqcp.kernels.Ranked` says it; float64 and int64."""

    before: Tensor
    upto: Tensor
    rank: Tensor
    top: Tensor

    def previous(self) -> RankedTensors:
        """Return the place one rank before; rank 0 and mass 0 for the most probable label."""
        return RankedTensors(self.before, self.before, self.rank - 1, self.top)


def fixed_point(probs: Tensor) -> Tensor:
    """Return probabilities in units of 2^-52, integers in float64, rounded once, half to even."""
    return torch.round(probs.to(torch.float64) * ONE)


def rank_labels(probs: Tensor, labels: Tensor) -> RankedTensors:
    """Return where one label of each checked row stands, without sorting; shape (n,)."""
    index, parts = torch.arange(probs.shape[1], device=probs.device), []
    for rows in blocks(probs):
        p, y = fixed_point(probs[rows]), labels[rows, None]
        own = p.gather(1, y)
        ahead = (p > own) | ((p == own) & (index < y))
        before = torch.where(ahead, p, 0.0).sum(1)
        rank = ahead.sum(1) + 1
        parts.append(_capped(before, before + own[:, 0], rank, p.amax(1), len(index)))
    return RankedTensors(*(torch.cat(field) for field in zip(*parts, strict=True)))


def rank_every_label(probs: Tensor) -> RankedTensors:
    """Return where every label of each checked row stands; shape (n, C), ``top`` (n, 1)."""
    p = fixed_point(probs)
    ordered, order = torch.sort(-p, dim=1, stable=True)
    upto = torch.empty_like(p).scatter_(1, order, torch.cumsum(-ordered, 1))
    places = torch.arange(1, p.shape[1] + 1, device=p.device).expand_as(p)
    rank = torch.empty_like(order).scatter_(1, order, places)
    return _capped(upto - p, upto, rank, p.amax(1, keepdim=True), p.shape[1])


def _capped(
    before: Tensor, upto: Tensor, rank: Tensor, top: Tensor, n_classes: int
) -> RankedTensors:
    """Cap masses at 1, let the last label reach exactly 1, and leave fixed point."""
    upto = torch.where(rank == n_classes, ONE, upto.clamp(max=ONE))
    return RankedTensors(before.clamp(max=ONE) / ONE, upto / ONE, rank, top.clamp(max=ONE) / ONE)


def score_places(formula: Formula, place: RankedTensors, u: Tensor | float) -> Tensor:
    """Return the scores of labels at these places; u = 1 where nothing is random."""
    if formula.kind == "saps":
        steps = (place.rank - 2).to(torch.float64) + u
        return torch.where(place.rank == 1, u * place.top, place.top + steps * formula.penalty)
    mass = place.before + u * (place.upto - place.before)
    if formula.kind == "raps":
        steps = torch.clamp(place.rank - formula.k_reg, min=0).to(torch.float64)
        return mass + formula.penalty * steps
    return mass


def belongs(
    formula: Formula, place: RankedTensors, u: Tensor | float, q: Tensor, rule: Rule = "leq"
) -> Tensor:
    """Return whether labels at these places belong to their sets."""
    inside = score_places(formula, place, u) <= q
    if rule == "leq":
        return inside
    inside |= place.rank == 1
    if rule == "until":
        inside |= score_places(formula, place.previous(), 1.0) < q
    return inside


def sets(
    formula: Formula, probs: Tensor, u: Tensor | None, q: Tensor, rule: Rule = "leq"
) -> Tensor:
    """Return the sets of all checked rows as a mask, shape (n, C), by sorting."""
    thresholds = q.expand(probs.shape)
    mask = torch.empty(probs.shape, dtype=torch.bool, device=probs.device)
    for rows in blocks(probs):
        share = 1.0 if u is None else u[rows, None]
        place = rank_every_label(probs[rows])
        mask[rows] = belongs(formula, place, share, thresholds[rows], rule)
    return mask


# LAC in plain torch: one comparison for each probability ------------------------------------------


def lac_scores(own: Tensor) -> Tensor:
    """Return one minus each probability, at least 0, float64."""
    return (1.0 - own.to(torch.float64)).clamp(min=0.0)


def lac_least(q: Tensor, like: Tensor) -> Tensor:
    """Return the least probability, in the type of ``like``, whose score is at most a threshold.

    The score falls as the probability grows, rounding included, so ``p >= lac_least(q, p)`` says
    exactly what ``1 - p <= q`` says. It is found by halving the range of bits, since near 0 many
    floats have one score; +inf where no probability reaches.
    """
    level = q.cpu() if q.numel() == 1 else q  # a number is found sooner without launches
    low = torch.full_like(level, -1, dtype=torch.int64)
    high = torch.ones_like(level).view(torch.int64)
    while bool((high - low > 1).any()):
        mid = low + (high - low) // 2
        enough = lac_scores(mid.view(torch.float64)) <= level
        high = torch.where(enough & (high - low > 1), mid, high)
        low = torch.where(~enough & (high - low > 1), mid, low)
    least = torch.where(level < 0, inf, high.view(torch.float64)).to(like.device)
    if like.dtype == torch.float64:
        return least
    short = least.to(like.dtype)
    up = torch.nextafter(short, torch.full_like(short, inf))
    return torch.where(short.to(torch.float64) < least, up, short)


# Intervals, as in numpy ---------------------------------------------------------------------------


def distance(base: Tensor, y: Tensor) -> Tensor:
    """Return the smallest q with ``y <= reach(base, q)``: y - base, raised where rounding fails."""
    q = y - base
    return torch.where(base + q < y, _next(q, inf), q)


def reach(base: Tensor, q: Tensor) -> Tensor:
    """Return the largest y with ``distance(base, y) <= q``: base + q, or the float below."""
    y = base + q
    return torch.where(distance(base, y) > q, _next(y, -inf), y)


def ratio(length: Tensor, scale: Tensor) -> Tensor:
    """Return the smallest q with ``length <= stretch(q, scale)``, for a positive scale."""
    q = length / scale
    return torch.where(q * scale < length, _next(q, inf), q)


def stretch(q: Tensor, scale: Tensor) -> Tensor:
    """Return the largest length with ``ratio(length, scale) <= q``, for a positive scale."""
    length = q * scale
    return torch.where(ratio(length, scale) > q, _next(length, -inf), length)


def _next(values: Tensor, towards: float) -> Tensor:
    """Return the next float in one direction."""
    return torch.nextafter(values, torch.full_like(values, towards))


# Launching the Triton programs --------------------------------------------------------------------

TILE = 1024
"""How many probabilities a warp holds: 32 for each thread."""

LONGEST = 4096
"""Longest row that stays in registers."""

KINDS = ("aps", "raps", "saps")
RULES = ("leq", "leq_top1", "until")


@cache
def programs() -> Any | None:
    """Return the module of Triton programs, or None where Triton is not installed."""
    try:
        from fedwqcp.kernels import triton
    except ImportError:
        return None
    return triton


def triton_serves(probs: Tensor, *, whole_rows: bool) -> bool:
    """Tell whether the programs serve these rows; sets need a whole row in registers."""
    return (
        probs.device.type == "cuda"
        and probs.dtype in (torch.float32, torch.float64)
        and 0 < probs.shape[0] < 2**31
        and (not whole_rows or probs.shape[1] <= LONGEST)
        and programs() is not None
    )


class Tiles(NamedTuple):
    """How programs take probabilities: one tile for each program, or several beside each other."""

    probs: Tensor
    """Shape (n, C); neighbouring columns lie next to each other."""
    grid: tuple[int]
    """How many programs run."""
    options: dict[str, int]
    """What they are compiled for: the width, how many neighbours are loaded at once, rows and
    columns of a tile, and warps; no product may be fused with a sum."""


def tiles(probs: Tensor, *, whole_rows: bool) -> Tiles:
    """Divide probabilities into tiles, as wide as the rows if they must be."""
    p = probs if probs.stride(1) == 1 else probs.contiguous()
    n, width = p.shape
    block = max(16, 1 << (width - 1).bit_length())
    if not whole_rows:
        block = min(block, TILE)
    rows = max(1, TILE // block)
    together = 16 // p.element_size()
    aligned = p.data_ptr() % 16 == 0 and p.stride(0) % together == 0
    options = {
        "C": width,
        "VEC": together if aligned else 1,
        "ROWS": rows,
        "BLOCK": block,
        "num_warps": max(1, block // TILE),
        "enable_fp_fusion": False,
    }
    return Tiles(p, (-(-n // rows),), options)


class FusedSets(NamedTuple):
    """What one pass found: sets, or with labels only coverage and sizes."""

    mask: Tensor | None
    sizes: Tensor | None
    covered: Tensor | None
    flag: Tensor
    """Shape (1,): not 0 if some row is hardly one of probabilities, its label no class, or its
    uniform outside [0, 1]."""


def fused_scores(
    formula: Formula, probs: Tensor, labels: Tensor, u: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Return the score of one label of each row, and the flag; nothing needs to be checked."""
    p, grid, options = tiles(probs, whole_rows=False)
    scores = torch.empty(len(p), dtype=torch.float64, device=p.device)
    raised = _flag(p)
    share, share_stride = _strided(u, p)
    _programs().score_labels[grid](
        *(p, labels.contiguous(), share, _settings(formula, p.device), scores, raised),
        *(len(p), p.stride(0), share_stride),
        WIDE=p.dtype == torch.float64,
        KIND=KINDS.index(formula.kind),
        **options,
    )
    return scores, raised


def fused_sets(
    formula: Formula,
    probs: Tensor,
    u: Tensor | None,
    q: Tensor,
    *,
    rule: Rule,
    labels: Tensor | None = None,
) -> FusedSets:
    """Return the sets of all rows, or what they say of labels; q has shape () or (n, 1)."""
    p, grid, options = tiles(probs, whole_rows=True)
    (level, level_stride), (share, share_stride) = _strided(q, p), _strided(u, p)
    found = _allocate(p, labels)
    _programs().sets[grid](
        *(p, level, share, _settings(formula, p.device), *_pointers(found, labels)),
        *(len(p), p.stride(0), level_stride, share_stride),
        WIDE=p.dtype == torch.float64,
        KIND=KINDS.index(formula.kind),
        RULE=RULES.index(rule),
        WRITE=labels is None,
        **options,
    )
    return found


def fused_lac_scores(probs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return LAC's score of one label of each row, and the flag."""
    p, grid, options = tiles(probs, whole_rows=False)
    scores = torch.empty(len(p), dtype=torch.float64, device=p.device)
    raised = _flag(p)
    _programs().lac_score_labels[grid](
        p, labels.contiguous(), scores, raised, len(p), p.stride(0), **options
    )
    return scores, raised


def fused_lac_sets(
    probs: Tensor, q: Tensor, *, top: bool, labels: Tensor | None = None
) -> FusedSets:
    """Return LAC's sets, or what they say of labels; q broadcasts against the probabilities.

    ``top`` adds the most probable label to every set.
    """
    p, grid, options = tiles(probs, whole_rows=True)
    level = q.reshape((1,) * (2 - q.ndim) + tuple(q.shape)).contiguous()
    found = _allocate(p, labels)
    _programs().lac_sets[grid](
        *(p, level, *_pointers(found, labels)),
        *(len(p), p.stride(0), level.stride(0) if len(level) > 1 else 0),
        TOP=top,
        EACH=level.shape[1] > 1,
        WRITE=labels is None,
        **options,
    )
    return found


def _programs() -> Any:
    """Return the programs, which `triton_serves` found."""
    ready = programs()
    assert ready is not None
    return ready


def _flag(probs: Tensor) -> Tensor:
    """Return a flag that is not raised."""
    return torch.zeros(1, dtype=torch.int32, device=probs.device)


def _allocate(probs: Tensor, labels: Tensor | None) -> FusedSets:
    """Return tensors to be filled: sets, or with labels coverage and sizes."""
    n, device = len(probs), probs.device
    if labels is None:
        mask = torch.empty(probs.shape, dtype=torch.bool, device=device)
        return FusedSets(mask, None, None, _flag(probs))
    sizes = torch.empty(n, dtype=torch.int64, device=device)
    covered = torch.empty(n, dtype=torch.bool, device=device)
    return FusedSets(None, sizes, covered, _flag(probs))


def _pointers(found: FusedSets, labels: Tensor | None) -> tuple[Tensor, ...]:
    """Return labels, mask, sizes, covered and flag for a program, truth values as bytes.

    The flag stands for what the program does not touch.
    """
    parts = (None if labels is None else labels.contiguous(), *found)
    return tuple(found.flag if part is None else _bytes(part) for part in parts)


def _bytes(part: Any) -> Tensor:
    """Return truth values as the bytes they are."""
    return part.view(torch.int8) if part.dtype == torch.bool else part


def _strided(values: Tensor | None, probs: Tensor) -> tuple[Tensor, int]:
    """Return one number for each row, or one for all with stride 0; None is the number 1."""
    if values is None:
        return torch.ones(1, dtype=torch.float64, device=probs.device), 0
    flat = values.to(device=probs.device, dtype=torch.float64).reshape(-1).contiguous()
    return flat, 0 if len(flat) == 1 else 1


@lru_cache(maxsize=64)
def _settings(formula: Formula, device: Any) -> Tensor:
    """Return the settings in double precision, which a plain argument would not keep."""
    pair = [formula.penalty, float(formula.k_reg)]
    return torch.tensor(pair, dtype=torch.float64, device=device)
