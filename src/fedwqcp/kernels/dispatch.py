"""Compiled or numpy, and on how many threads. What `scores` and `quantile` call.

Both give the same numbers. The compiled loops serve where they were built, unless
``FEDWQCP_BACKEND=numpy``; ``FEDWQCP_BACKEND=compiled`` refuses to go on without them. They check
rows as they read them; where they are not sure that all are probabilities, numpy's full check
decides and words the error.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from hashlib import blake2b
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fedwqcp._io import is_file, read
from fedwqcp._validation import Floats, Labels, Probabilities, as_probabilities
from fedwqcp.errors import InputError
from fedwqcp.kernels import Given, KernelFormula, Sets
from fedwqcp.kernels import numpy as reference
from fedwqcp.kernels.numpy import PACKED, of_labels, rank_labels, surely_probabilities

SHARED = 2**24
"""Inputs below this many numbers stay on one thread: a pool costs more than it saves."""

PARTS = 4
"""How many parts of an input a thread takes, if all are equally fast."""

COPIED = 2**17
"""So many numbers of rows that do not follow each other are copied at a time."""

SOURCE = Path(__file__).with_name("_fast.cpp")
RULES = ("leq", "leq_top1", "until")


# The compiled module ------------------------------------------------------------------------------


class Backend(NamedTuple):
    """The compiled loops, or why there are none."""

    loops: ModuleType | None
    name: str


def backend() -> Backend:
    """Return the compiled loops that fit this processor, or why numpy serves."""
    wanted = os.environ.get("FEDWQCP_BACKEND", "")
    if wanted not in ("", "numpy", "compiled"):
        raise InputError(f"FEDWQCP_BACKEND must be numpy or compiled, got {wanted[:20]!r}")
    if wanted == "numpy":
        return Backend(None, "numpy (FEDWQCP_BACKEND=numpy)")
    compiled = _load()
    if compiled.loops is None and wanted == "compiled":
        raise InputError(f"FEDWQCP_BACKEND=compiled needs the compiled loops: {compiled.name}")
    return compiled


@cache
def _load() -> Backend:
    """Import the module for any processor, and instead of it the one for newer ones if it fits."""
    try:
        loops = import_module("fedwqcp.kernels._fast")
    except ImportError:
        return Backend(None, "numpy (the loops were not compiled when it was installed)")
    level = loops.level()
    with suppress(ImportError):  # of a compiler that knows no such processors there is none
        loops = import_module(f"fedwqcp.kernels._fast_v{level}") if level else loops
    # A checkout holds the source: what was built from another one may give other numbers.
    if is_file(SOURCE) and source_digest(read(SOURCE)) != loops.DIGEST:
        why = "the loops were compiled from another source; run pip install -e . again"
        logging.getLogger("fedwqcp.kernels").warning("numpy serves: %s", why)
        return Backend(None, f"numpy ({why})")
    newer = loops.__name__.partition("_fast_")[2]
    return Backend(loops, f"compiled (x86-64-{newer})" if newer else "compiled")


def source_digest(source: bytes) -> str:
    """Return what a compiled module says of its source, whatever its line endings."""
    return blake2b(source.replace(b"\r\n", b"\n"), digest_size=8).hexdigest()


def threads() -> int:
    """Return how many threads a large input may use: FEDWQCP_THREADS, or 1; no more than cores."""
    text = os.environ.get("FEDWQCP_THREADS") or "1"
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 10**6):
        raise InputError(f"FEDWQCP_THREADS must be an integer of at least 1, got {text[:20]!r}")
    return min(int(text), os.cpu_count() or 1)


def over_rows(n: int, size: int, work: Callable[[slice], bool]) -> bool:
    """Work on n rows of so many numbers in all, in parts on several threads where they are many.

    Return whether ``work`` returned True for all of them.
    """
    workers = min(threads(), n) if size >= SHARED else 1
    if workers <= 1:
        return work(slice(0, n))
    from concurrent.futures import ThreadPoolExecutor

    parts = min(workers * PARTS, n)
    edges = [n * part // parts for part in range(parts + 1)]
    with ThreadPoolExecutor(workers) as pool:
        return all(list(pool.map(work, map(slice, edges[:-1], edges[1:]))))


def _over_probabilities(
    probs: Probabilities, work: Callable[[tuple[Any, int, int], slice], bool]
) -> bool:
    """Hand rows to a loop, as buffer, classes and bytes of a number; copies if not contiguous."""
    n, n_classes = probs.shape
    layout = n_classes, probs.itemsize

    def some(rows: slice) -> bool:
        if probs.flags.c_contiguous:
            return work((probs[rows], *layout), rows)
        step = max(1, COPIED // n_classes)
        parts = [slice(i, min(i + step, rows.stop)) for i in range(rows.start, rows.stop, step)]
        return all(work((np.ascontiguousarray(probs[part]), *layout), part) for part in parts)

    return over_rows(n, probs.size, some)


# Labels -------------------------------------------------------------------------------------------


def check(probs: Probabilities) -> None:
    """Refuse rows that are not probabilities, as `as_probabilities` words it."""
    loops = backend().loops
    nothing = None, 0, None, None, None, None
    if loops is not None and _over_probabilities(probs, lambda p, _: loops.lac(*p, *nothing)):
        return
    if not surely_probabilities(probs):
        as_probabilities(probs)


def score_labels(
    probs: Probabilities, labels: Labels, formula: KernelFormula, u: Floats | None
) -> Floats:
    """Check probabilities and score one label of each row by where it stands."""
    loops, scores = backend().loops, np.empty(len(probs))
    v = None if u is None else np.ascontiguousarray(u)

    def work(p: tuple[Any, int, int], rows: slice) -> bool:
        assert loops is not None
        uniforms = None if v is None else v[rows]
        given = *p, labels[rows], uniforms, formula.penalties, formula.by_top
        return bool(loops.scores(*given, scores[rows]))

    if loops is not None and _over_probabilities(probs, work):
        return scores
    if not surely_probabilities(probs):
        as_probabilities(probs)
    return formula.of(rank_labels(probs, labels), 1.0 if u is None else u)


def find_sets(
    probs: Probabilities,
    formula: KernelFormula,
    u: Floats | None,
    given: Given,
    labels: Labels | None,
) -> Sets:
    """Check probabilities and find sets: masks, or with true labels coverage and sizes."""
    loops, (n, n_classes) = backend().loops, probs.shape
    by_label = given.by_label and not (given.q.ndim == 1 and given.rule == "leq")
    if not given.q.ndim and 1.0 + formula.penalties[-1] <= given.q:  # no score is larger
        check(probs)
        out = Sets.allocate(n, n_classes, labels is not None)
        out.sizes[:], out.covered[:], out.mask[:] = n_classes, True, True
        return out
    if loops is None or by_label or (given.q.ndim == 1 and n_classes > PACKED):
        check(probs)
        return reference.sets(probs, formula, u, given, labels)
    out = Sets.allocate(n, n_classes, labels is not None)
    v, q = None if u is None else np.ascontiguousarray(u), _contiguous(given.q, np.float64)
    rule, per = RULES.index(given.rule), (0, 2, 1)[q.ndim]

    def work(p: tuple[Any, int, int], rows: slice) -> bool:
        uniforms = None if v is None else v[rows]
        formed = uniforms, formula.penalties, formula.by_top, rule, per, q[rows] if per == 1 else q
        if labels is None:
            return bool(loops.sets(*p, None, *formed, out.sizes[rows], None, out.mask[rows]))
        return bool(loops.sets(*p, labels[rows], *formed, out.sizes[rows], out.covered[rows], None))

    if _over_probabilities(probs, work):
        return out
    check(probs)
    return reference.sets(probs, formula, u, given, labels)


def lac_scores(probs: Probabilities, labels: Labels) -> Floats:
    """Check probabilities; return one minus the probability of each label, 0 at least."""
    check(probs)
    return np.maximum(0.0, np.subtract(1.0, of_labels(probs, labels), dtype=np.float64))


def lac_sets(
    probs: Probabilities, labels: Labels | None, least: npt.NDArray[np.floating[Any]]
) -> Sets:
    """Check probabilities and find those that are at least some number, as `find_sets` does.

    ``least`` has the type of the probabilities, and shape () for one number, (C,) for one per label
    or (n, 1) for one per row. Of masks nobody asks the sizes, which are left out.
    """
    loops, (n, n_classes) = backend().loops, probs.shape
    out = Sets.allocate(n, n_classes, labels is not None)
    flat = np.ascontiguousarray(least, probs.dtype).reshape(-1)
    per = (0, 2, 1)[least.ndim]

    def work(p: tuple[Any, int, int], rows: slice) -> bool:
        assert loops is not None
        levels = flat[rows] if per == 1 else flat
        if labels is None:
            return bool(loops.lac(*p, None, per, levels, None, None, out.mask[rows]))
        wanted = out.sizes[rows], out.covered[rows], None
        return bool(loops.lac(*p, labels[rows], per, levels, *wanted))

    if loops is not None and _over_probabilities(probs, work):
        return out
    check(probs)
    if labels is None:
        return out._replace(mask=probs >= least)
    levels = (flat, flat, flat[labels] if per == 2 else flat)[per]
    return out._replace(
        covered=of_labels(probs, labels) >= levels, sizes=reference.count_from(probs, least)
    )


def _contiguous(array: npt.NDArray[Any], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Return numbers of this type that follow each other in memory."""
    return np.ascontiguousarray(array, dtype).reshape(array.shape)


# Intervals ----------------------------------------------------------------------------------------


def interval_scores(out: Floats, y: Floats) -> Floats | None:
    """Return how far y lies outside one estimate, shape (n,), or two in any order, shape (n, 2).

    None where numpy has to check and score.
    """
    loops = backend().loops
    if loops is None or not (out.flags.c_contiguous and y.flags.c_contiguous and len(y)):
        return None
    scores = np.empty(len(y))

    def work(rows: slice) -> bool:
        return bool(loops.interval_scores(y[rows], out[rows], scores[rows]))

    return scores if over_rows(len(y), 2 * out.size, work) else None


def interval_ends(out: Floats, q: tuple[float, float]) -> tuple[Floats, Floats] | None:
    """Return intervals from q[0] below the lower estimate to q[1] above the upper.

    Estimates as in `interval_scores`. None where numpy has to check and build.
    """
    loops = backend().loops
    if loops is None or not (out.flags.c_contiguous and len(out)):
        return None
    low, high = np.empty(len(out)), np.empty(len(out))

    def work(rows: slice) -> bool:
        return bool(loops.interval_ends(low[rows], high[rows], out[rows], *q))

    return (low, high) if over_rows(len(out), 2 * out.size, work) else None


# Hashes -------------------------------------------------------------------------------------------


def hash_texts(texts: npt.NDArray[np.str_], key: bytes) -> npt.NDArray[np.uint64] | None:
    """Return BLAKE2b of each text with a key of 16 bytes; None where Python has to."""
    loops, width = backend().loops, texts.dtype.itemsize // 4
    if loops is None or not texts.dtype.isnative or not width:
        return None
    points = np.ascontiguousarray(texts).view(np.uint32)
    hashes = np.empty(len(texts), np.uint64)
    return hashes if loops.hash_texts(hashes, width, points, key) else None


def hash_rows(rows: Floats) -> npt.NDArray[np.uint64] | None:
    """Return BLAKE2b of the bytes of each contiguous row; None where Python has to."""
    loops, hashes = backend().loops, np.empty(len(rows), np.uint64)
    if loops is None:
        return None
    loops.hash_rows(hashes, rows.itemsize * rows.shape[1], rows)
    return hashes
