"""How long scores and sets take on a GPU beside one read of the probabilities.

Run: python benchmarks/gpu_scores.py --page                (1,000,000 rows of 1,000, 100 and 10)
     python benchmarks/gpu_scores.py --rows 2000           (anywhere; without a GPU on the CPU)

Probabilities are float32 and made on the device. The read is a sum of all of them; the best of
--repeats counts, by events of the device. Times are of whole calls, checks of the input included. A
sample of rows, and as many rows full of ties, are held against numpy, to the last bit. --page
writes the table of docs/performance.md.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch

from fedwqcp.scores import LabelScore
from fedwqcp.scores.aps import APS
from fedwqcp.scores.lac import LAC
from fedwqcp.scores.raps import RAPS
from fedwqcp.scores.saps import SAPS
from fedwqcp.torch import TensorLabelScore, _triton, conformal_quantile, uniforms

SCORES = {"aps": APS(), "raps": RAPS(), "saps": SAPS(), "lac": LAC()}


def seconds(work: Callable[[], object], device: torch.device, repeats: int) -> float:
    """Return the best time of several calls, after one that is not counted."""
    best = float("inf")
    for repeat in range(repeats + 1):
        if device.type == "cuda":
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            work()
            end.record()
            torch.cuda.synchronize(device)
            spent = start.elapsed_time(end) / 1000
        else:
            begun = time.perf_counter()
            work()
            spent = time.perf_counter() - begun
        if repeat:
            best = min(best, spent)
    return best


def made(rows: int, classes: int, device: torch.device) -> torch.Tensor:
    """Return softmax outputs of models of mixed confidence, made in blocks."""
    generator = torch.Generator(device).manual_seed(0)
    probs = torch.empty(rows, classes, device=device)
    for start in range(0, rows, 2**16):
        part = probs[start : start + 2**16]
        part.normal_(generator=generator)
        scale = torch.rand(len(part), 1, device=device, generator=generator) * 5 + 0.5
        torch.softmax(part * scale, 1, out=part)
    return probs


def drawn(probs: torch.Tensor) -> torch.Tensor:
    """Return labels of a calibrated model: drawn from its own probabilities."""
    parts = [torch.multinomial(part, 1)[:, 0] for part in probs.split(2**16)]
    return torch.cat(parts)


def check(score: LabelScore, q: float, probs: torch.Tensor, labels: torch.Tensor) -> None:
    """Hold a sample of rows, and rows full of ties, against numpy."""
    at = torch.linspace(0, len(probs) - 1, min(2000, len(probs)), device=probs.device).long()
    sample, y = probs[at], labels[at]
    counts = torch.round(sample * 50)
    counts[:, 0] += counts.sum(1) == 0
    on_tensors = TensorLabelScore(score)
    for p in (sample, counts / counts.sum(1, keepdim=True)):
        u = uniforms("check", at) if score.randomized else None
        given = (p.cpu().numpy(), y.cpu().numpy(), None if u is None else u.cpu().numpy())
        scores, sets = score.of(*given), score.invert(given[0], q, u=given[2])
        np.testing.assert_array_equal(on_tensors.of(p, y, u).cpu().numpy(), scores)
        np.testing.assert_array_equal(on_tensors.invert(p, q, u=u).cpu().numpy(), sets.mask)
        covered, sizes = on_tensors.measure(p, y, q, u=u)
        np.testing.assert_array_equal(covered.cpu().numpy(), sets.cover(given[1]))
        np.testing.assert_array_equal(sizes.cpu().numpy(), sets.sizes())


def measure(classes: int, options: argparse.Namespace, device: torch.device) -> str:
    """Print the figures of one width, and return them as a row of the page's table."""
    probs = made(options.rows, classes, device)
    labels = drawn(probs)
    u = uniforms("bench", torch.arange(options.rows, device=device))
    read = seconds(probs.sum, device, options.repeats)
    size = probs.numel() * 4
    print(
        f"\n{options.rows:,} x {classes}: read {read * 1e3:.3f} ms, {size / read / 1e9:,.0f} GB/s"
    )
    columns: dict[str, list[str]] = {"scores": [], "sets": [], "measure": []}
    for name, plain in SCORES.items():
        score, share = TensorLabelScore(plain), u if plain.randomized else None
        scores = score.of(probs, labels, share)
        q = conformal_quantile(scores, options.alpha)
        mask = score.invert(probs, q, u=share)
        check(plain, q, probs, labels)
        mean = mask.sum(dtype=torch.float64).item() / options.rows
        del mask
        work = {
            "scores": partial(score.of, probs, labels, share),
            "sets": partial(score.invert, probs, q, u=share),
            "measure": partial(score.measure, probs, labels, q, u=share),
            "quantile": partial(conformal_quantile, scores, options.alpha),
        }
        times = {what: seconds(call, device, options.repeats) for what, call in work.items()}
        cells = "  ".join(f"{what} {t * 1e3:8.3f} ms {t / read:6.2f}x" for what, t in times.items())
        print(f"  {name:5} {cells}  mean size {mean:.1f}, equal to numpy", flush=True)
        for what, column in columns.items():
            column.append(f"{times[what] * 1e3:.2f}")
    return f"| {classes:,} | {read * 1e3:.2f} | {' | '.join(map(', '.join, columns.values()))} |"


def main() -> None:
    """Read the options, and measure each width."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--classes", type=int, nargs="+", default=[1000, 100, 10])
    parser.add_argument("--alpha", type=float, default=0.1)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--page", action="store_true", help="into docs/performance.md")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args()
    device = torch.device(options.device)
    card = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    fused = "Triton" if _triton() is not None else "no Triton"
    print(f"{card}, torch {torch.__version__}, {fused}; best of {options.repeats}")
    rows = [measure(classes, options, device) for classes in options.classes]
    if options.page:
        sys.path.append(str(Path(__file__).parents[1] / "tools"))
        from page_parts import put

        head = f"{card}, torch {torch.__version__}, {options.rows:,} rows of float32; milliseconds"
        names = ", ".join(name.upper() for name in SCORES)
        titles = " | ".join(f"{what}: {names}" for what in ("scores", "sets", "measure"))
        table = [f"| classes | one read | {titles} |", "|---|---|---|---|---|", *rows]
        page = Path(__file__).parents[1] / "docs" / "performance.md"
        put(page, "gpu", "\n".join([head, "", *table, ""]))


if __name__ == "__main__":
    main()
