"""Masks of nuclei at seven sites: what one threshold misses at each, over 200 random splits.

    python benchmarks/nuclei.py [--splits 200]      # a minute; writes a record and the picture

The maps are those of ``python -m fedwqcp_lab.studies.nuclei``. Each split halves every site into
calibration and test images. Its ``tables()`` are those of docs/tutorial/nuclei.md.
"""

from __future__ import annotations

import argparse
import csv
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import fedwqcp as fw
from fedwqcp_lab.comparison import markdown_table

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "results" / "nuclei"
PICTURE = ROOT / "docs" / "images" / "nuclei.png"
ALPHA, SEED, RESAMPLES = 0.1, 20_261_120, 10_000
METHODS: dict[str, Any] = {
    "pooled": fw.methods.get("fed-crc", correction="pooled"),
    "own": "fed-crc",  # in a round of its own
    "auto": "auto",
}


def sites(maps: Any) -> dict[str, tuple[npt.NDArray[np.int64], fw.MaskOutputs]]:
    """Return the rows and images of each site, the largest site first."""
    found = {}
    for site, _ in Counter(maps["sites"].tolist()).most_common():
        rows = np.flatnonzero(maps["sites"] == site)
        found[site] = rows, fw.MaskOutputs(maps["probs"][rows], maps["masks"][rows])
    return found


def split(rng: np.random.Generator, n: int) -> npt.NDArray[np.bool_]:
    """Return which half of n images calibrates."""
    return np.asarray(rng.permutation(n) < n // 2)


def records(maps: Any, splits: int) -> list[dict[str, object]]:
    """Return, for each image, its mean loss and marked pixels over the splits that test it."""
    rng, every, grid = np.random.default_rng(SEED), sites(maps), fw.Mask().grid
    tested = {site: np.zeros(len(rows)) for site, (rows, _) in every.items()}
    sums = {
        (site, m): np.zeros((2, len(rows))) for site, (rows, _) in every.items() for m in METHODS
    }
    warnings.simplefilter("ignore")
    for _ in range(splits):
        halves = {site: split(rng, len(rows)) for site, (rows, _) in every.items()}
        cal = {site: images.take(halves[site]) for site, (_, images) in every.items()}
        for name, method in METHODS.items():
            together = fw.calibrate(cal, method=method, alpha=ALPHA)
            for site, (_, images) in every.items():
                release = together
                if name == "own":
                    release = fw.calibrate({site: cal[site]}, method=method, alpha=ALPHA)
                marked = grid <= release.threshold(site)
                missed = 1 - images.inside[:, marked].sum(axis=1) / images.inside.sum(axis=1)
                area = images.values[:, marked].sum(axis=1)
                sums[site, name] += np.where(halves[site], 0.0, [missed, area])
        for site, half in halves.items():
            tested[site] += ~half
    lines: list[dict[str, object]] = []
    for site, (rows, images) in every.items():
        for at, row in enumerate(rows):
            inside = images.inside[at]
            true, half = inside.sum(), inside[grid <= 0.5].sum()
            line = {"id": maps["ids"][row], "site": site, "tested": int(tested[site][at])}
            line |= {"true": true, "at 0.5 missed": f"{1 - half / true:.5f}"}
            for name in METHODS:
                missed, area = sums[site, name][:, at] / tested[site][at]
                line |= {f"{name} missed": f"{missed:.5f}", f"{name} area": f"{area:.1f}"}
            lines.append(line)
    return lines


def interval(values: npt.NDArray[np.float64]) -> tuple[float, float]:
    """Return a 95 % interval of a mean over images, by resampling them."""
    rng = np.random.default_rng(SEED)
    means = rng.choice(values, (RESAMPLES, len(values))).mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


def tables() -> dict[str, str]:
    """Return the table of the page, from the records alone."""
    with (FOLDER / "images.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    titles = "at 0.5", "one pooled threshold", "own threshold", "`auto`"
    lines = [["site", "images", *titles, "proved"]]
    for site in dict.fromkeys(row["site"] for row in rows):
        own = [row for row in rows if row["site"] == site]
        n, true = len(own) // 2, sum(int(row["true"]) for row in own)
        line = [f"`{site}`", f"{n}, {len(own) - n}"]
        for name in ("at 0.5", *METHODS):
            missed = np.array([float(row[f"{name} missed"]) for row in own])
            low, high = interval(missed)
            text = f"{100 * missed.mean():.0f} ({100 * low:.0f} to {100 * high:.0f})"
            text = f"**{text}**" if low > ALPHA else text
            if name in METHODS:
                area = sum(float(row[f"{name} area"]) for row in own) / true
                text = f"{text}; {area:.1f}" if missed.any() else "all is marked"
            line.append(text)
        floor = ALPHA if n >= 1 / ALPHA - 1 else (n * ALPHA + 1) / (n + 1)
        lines.append([*line, f"{100 * floor:.0f}"])
    return {"sites": markdown_table(lines)}


def draw(maps: Any) -> None:
    """Draw one image of several sites: its true mask, the mask at 0.5 and the calibrated one."""
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    every = sites(maps)
    cal = {
        site: images.take(np.arange(len(rows)) % 2 == 0) for site, (rows, images) in every.items()
    }
    release = fw.calibrate(cal, alpha=ALPHA)
    figure, axes = plt.subplots(len(maps["shown"]), 4, figsize=(6.4, 1.7 * len(maps["shown"])))
    for line, row, image in zip(axes, maps["shown"], maps["images"], strict=True):
        site, probs, truth = str(maps["sites"][row]), maps["probs"][row], maps["masks"][row]
        half = probs >= np.iinfo(probs.dtype).max / 2
        parts = image, truth, half, release.predict_mask(site, probs)
        for axis, part, title in zip(
            line, parts, ("", "true mask", "at 0.5", "calibrated"), strict=True
        ):
            axis.imshow(part / part.max(), cmap="gray")
            missed = (
                ""
                if title in ("", "true mask")
                else f": {(truth & ~part).sum() / truth.sum():.0%} missed"
            )
            axis.set_title(f"{title}{missed}" if title else site, fontsize=8)
            axis.set_axis_off()
    figure.tight_layout(pad=0.4)
    figure.savefig(PICTURE, dpi=110)


def main() -> None:
    """Measure the splits, and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=200)
    with np.load(FOLDER / "maps.npz") as file:
        maps = dict(file)
    lines = records(maps, parser.parse_args().splits)
    with (FOLDER / "images.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(lines[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)
    draw(maps)


if __name__ == "__main__":
    main()
