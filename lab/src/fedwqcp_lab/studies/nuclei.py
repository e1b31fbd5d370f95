"""Nuclei in microscope images: a small U-Net, and its probability maps for calibration and test.

``python -m fedwqcp_lab.studies.nuclei nuclei.npz.xz results/nuclei/maps.npz.xz`` trains it on a
third of the images of every site, in minutes on two cores, and keeps the maps of the other two.
"""

from __future__ import annotations

import io
import lzma
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

Arrays = dict[str, npt.NDArray[Any]]

EPOCHS, BATCH, SEED = 30, 8, 0
CHANNELS = (8, 16, 32, 64)


def load(path: Path) -> Arrays:
    """Read an archive of arrays that is packed with xz."""
    with np.load(io.BytesIO(lzma.open(path).read())) as file:
        return dict(file)


def save(path: Path, arrays: Arrays) -> None:
    """Write an archive of arrays, packed with xz."""
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type]  # arrays by name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(lzma.compress(buffer.getvalue(), preset=9))


def _block(inputs: int, outputs: int) -> nn.Module:
    def _layer(channels: int) -> list[nn.Module]:
        return [nn.Conv2d(channels, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU()]

    return nn.Sequential(*_layer(inputs), *_layer(outputs))


class UNet(nn.Module):
    """A U-Net of four levels; it gives the logit of each pixel."""

    def __init__(self) -> None:
        super().__init__()
        pairs = list(pairwise(CHANNELS))
        self.down = nn.ModuleList(_block(a, b) for a, b in [(3, CHANNELS[0]), *pairs])
        self.up = nn.ModuleList(_block(a + b, a) for a, b in reversed(pairs))
        self.last = nn.Conv2d(CHANNELS[0], 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return logits, shape (n, 1, height, width)."""
        kept: list[torch.Tensor] = []
        for level, block in enumerate(self.down):
            x = block(nn.functional.max_pool2d(x, 2) if level else x)
            kept.append(x)
        for block, beside in zip(self.up, reversed(kept[:-1]), strict=True):
            x = block(torch.cat([nn.functional.interpolate(x, scale_factor=2.0), beside], dim=1))
        logits: torch.Tensor = self.last(x)
        return logits


def thirds(sites: npt.NDArray[np.str_]) -> npt.NDArray[np.int64]:
    """Cut every site at random into training (0) and the rest (1 and 2)."""
    rng, found = np.random.default_rng(SEED), np.empty(len(sites), np.int64)
    for site in np.unique(sites):
        rows = rng.permutation(np.flatnonzero(sites == site))
        found[rows] = np.arange(len(rows)) % 3
    return found


def train(images: torch.Tensor, masks: torch.Tensor) -> UNet:
    """Train on images (n, 3, h, w) and masks (n, 1, h, w), with flips and turns."""
    torch.manual_seed(SEED)
    net, n = UNet(), len(images)
    steps = EPOCHS * -(-n // BATCH)
    optimizer = torch.optim.AdamW(net.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.01, total_steps=steps)
    for _ in range(EPOCHS):
        for rows in torch.split(torch.randperm(n), BATCH):
            turns, flip = int(torch.randint(4, ())), bool(torch.randint(2, ()))
            x, y = (torch.rot90(part[rows], turns, (2, 3)) for part in (images, masks))
            x, y = (part.flip(3) if flip else part for part in (x, y))
            loss = nn.functional.binary_cross_entropy_with_logits(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return net.eval()


def main(data: Path, out: Path) -> None:
    """Train, and write the maps of the images that did not train."""
    arrays = load(data)
    masks = np.unpackbits(arrays["masks"], axis=2)
    x = torch.from_numpy(arrays["images"]).permute(0, 3, 1, 2).float() / 255
    y = torch.from_numpy(masks)[:, None].float()
    part = thirds(arrays["sites"])
    net = train(x[part == 0], y[part == 0])
    rest = np.flatnonzero(part > 0)
    with torch.inference_mode():
        probs = torch.cat([torch.sigmoid(net(x[rows])) for rows in np.array_split(rest, 20)])
    found = {name: arrays[name][rest] for name in ("masks", "sites", "ids")}
    found["probs"] = (probs[:, 0] * 255).round().byte().numpy()
    found["rows"] = rest.astype(np.int16)
    save(out, found)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
