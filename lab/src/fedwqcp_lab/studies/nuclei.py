"""Nuclei in microscope images: a small network, and its probability maps for calibration and test.

``python -m fedwqcp_lab.studies.nuclei nuclei.npz.xz results/nuclei/maps.npz`` trains it on a third
of the images of every site, in about a minute on one core, and keeps the maps of the other two.
"""

from __future__ import annotations

import io
import lzma
import sys
import zipfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

Arrays = dict[str, npt.NDArray[Any]]

EPOCHS, BATCH, RATE, SEED = 10, 8, 0.01, 0
CHANNELS = (3, 16, 32, 32, 1)
LEVELS = 31
"""Probabilities are kept in so many steps, which packs them to a third."""
SHOWN = ("fluo-256", "fluo-360", "stained-320", "brightfield-1024")
"""Sites whose second image is kept, for the picture of the tutorial."""


def load(path: Path) -> Arrays:
    """Read an archive of arrays that is packed with xz."""
    with np.load(io.BytesIO(lzma.open(path).read())) as file:
        return dict(file)


def save(path: Path, arrays: Arrays) -> None:
    """Write an .npz that is packed as well as xz, and that `numpy.load` reads."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as file:
        for name, array in arrays.items():
            entry = zipfile.ZipInfo(f"{name}.npy")  # without today's date
            entry.compress_type = zipfile.ZIP_LZMA
            with file.open(entry, "w") as part:
                np.lib.format.write_array(part, array)


def network() -> nn.Module:
    """Return four convolutions, 14,625 parameters; they give the logit of each pixel."""
    layers: list[nn.Module] = []
    for before, after in pairwise(CHANNELS):
        layers += [nn.Conv2d(before, after, 3, padding=1), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def thirds(sites: npt.NDArray[np.str_]) -> npt.NDArray[np.int64]:
    """Cut every site at random into training (0) and the rest (1 and 2)."""
    rng, found = np.random.default_rng(SEED), np.empty(len(sites), np.int64)
    for site in np.unique(sites):
        rows = rng.permutation(np.flatnonzero(sites == site))
        found[rows] = np.arange(len(rows)) % 3
    return found


def train(images: torch.Tensor, masks: torch.Tensor) -> nn.Module:
    """Train on images (n, 3, h, w) and masks (n, 1, h, w)."""
    torch.manual_seed(SEED)
    net, n = network(), len(images)
    optimizer = torch.optim.Adam(net.parameters(), RATE)
    for _ in range(EPOCHS):
        for rows in torch.split(torch.randperm(n), BATCH):
            logits = net(images[rows])
            loss = nn.functional.binary_cross_entropy_with_logits(logits, masks[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return net.eval()


def main(data: Path, out: Path) -> None:
    """Train, and write the maps of the images that did not train."""
    arrays = load(data)
    masks, sites = np.unpackbits(arrays["masks"], axis=2), arrays["sites"]
    x = torch.from_numpy(arrays["images"]).permute(0, 3, 1, 2).float() / 255
    y = torch.from_numpy(masks)[:, None].float()
    part = thirds(sites)
    net = train(x[part == 0], y[part == 0])
    rest = np.flatnonzero(part > 0)
    with torch.inference_mode():
        probs = torch.cat([torch.sigmoid(net(x[rows])) for rows in np.array_split(rest, 20)])
    steps = (probs[:, 0] * LEVELS).round() * (255 / LEVELS)
    found = {"probs": steps.round().byte().numpy(), "masks": masks[rest].astype(bool)}
    found |= {"sites": sites[rest], "ids": arrays["ids"][rest]}
    shown = np.array([np.flatnonzero(sites[rest] == site)[1] for site in SHOWN])
    save(out, found | {"shown": shown, "images": arrays["images"][rest[shown]]})


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
