"""Two hundred splits of the four hospitals, which the demo and its page show.

``python benchmarks/hospitals.py [SPLITS]`` writes ``src/fedwqcp/demo/splits.json``.
"""

from __future__ import annotations

import sys
import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import numpy as np

from fedwqcp.demo import demo
from fedwqcp.demo.demo import FEW, METHODS, SWISS, Spread, calibrated, rates
from fedwqcp.demo.hospitals import SITES, Hospital, hospital, hospitals

Key = tuple[str, str, str]


def one_split(four: Sequence[Hospital], seed: int) -> Iterator[tuple[Key, tuple[float, float]]]:
    """Give coverage and share of one answer by act, method and hospital, on one random split."""
    for method in METHODS:
        release = calibrated(four, method, seed)
        for site in four:
            yield ("all", method, site.name), rates(release, site)
    for site in four:
        few = [one.with_few(FEW) if one is site else one for one in four]
        for method in METHODS[:2]:
            with warnings.catch_warnings(action="ignore", category=UserWarning):
                yield ("few", method, site.name), rates(calibrated(few, method, seed), site)
    for model in dict.fromkeys(model for _, model in SITES.values()):
        other = hospital(SWISS, model, seed)
        sites = [other if one.name == SWISS else one for one in four]
        for method in METHODS:
            yield (model, method, SWISS), rates(calibrated(sites, method, seed), other)


def many_splits(splits: int) -> list[Spread]:
    """Repeat on many random splits."""
    found: dict[Key, list[tuple[float, float]]] = defaultdict(list)
    for seed in range(splits):
        for key, pair in one_split(hospitals(seed), seed):
            found[key].append(pair)
    spread = []
    for key, own in found.items():
        covered, one = np.array(own).T
        low, high = np.quantile(covered, [0.05, 0.95])
        numbers = (covered.mean(), low, high, one.mean())
        spread.append(Spread(*key, splits, *(round(float(x), 4) for x in numbers)))
    return spread


def main(splits: int = 200) -> None:
    """Write the spread, one line for each act, method and hospital."""
    lines = b",\n".join(map(msgspec.json.encode, many_splits(splits)))
    Path(demo.__file__).with_name("splits.json").write_bytes(b"[\n" + lines + b"\n]\n")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
