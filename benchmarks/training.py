"""How long the agents' models take to train and to predict, beside the floor of the machine.

Run: python benchmarks/training.py --device cuda --models 30 --images 42000
     python benchmarks/training.py --device cpu --models 2 --images 2560 --epochs 1

Images are random; speed does not depend on them. The floor of a stage is the larger of two times:
the operations its products need (a training step takes three times a forward pass) over the rate of
the device, and the fewest bytes (below) over its bandwidth. The defaults of --flops and --bandwidth
belong to an H200: dense TF32 and a measured copy.

Bytes, in float32: of each image of a step the two convolutions' outputs, written and read forward
and backward (4 passes), and of each weight what Adam reads and writes (7) and the two products'
reads of it and the writing of its gradient (3).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from math import prod

import numpy as np
import torch

from fedwqcp_lab.datasets.partition import stream
from fedwqcp_lab.models.engine import Engine, find_device, place
from fedwqcp_lab.models.networks import (
    FIRST,
    SECOND,
    Architecture,
    Classes,
    LargeCNN,
    VeryWeakLinear,
)
from fedwqcp_lab.models.training import BATCH, train

VARIANTS = {
    "default": Engine(),
    "windows-fp32": Engine(layout="windows", precision="fp32"),
    "windows-bf16": Engine(layout="windows", precision="bf16"),
    "windows-eager": Engine(layout="windows", graph=False),
    "grouped": Engine(layout="grouped"),
    "grouped-bf16": Engine(layout="grouped", precision="bf16"),
}


def outputs_of(architecture: Architecture) -> int:
    """Numbers that the convolutions of one image put out, before their maxima."""
    H, W, _ = architecture.shape
    return H * W * (FIRST + SECOND // 4) if isinstance(architecture, LargeCNN) else 0


def operations_of(architecture: Architecture) -> int:
    """Multiplications and additions that one image needs in a forward pass."""
    H, W, _ = architecture.shape
    places = {"conv1.weight": H * W, "conv2.weight": H * W // 4}
    weights = {n: prod(shape) for n, shape in architecture.shapes().items() if len(shape) > 1}
    return 2 * sum(places.get(name, 1) * size for name, size in weights.items())


def floor(
    architecture: Architecture, passes: int, steps: int, options: argparse.Namespace
) -> float:
    """Seconds below which no training of this kind can come."""
    operations = 3 * operations_of(architecture) * passes
    bytes_ = 4 * (4 * outputs_of(architecture) * passes)
    bytes_ += 4 * 10 * architecture.parameters * options.models * steps
    return float(max(operations / options.flops, bytes_ / options.bandwidth))


def seconds(work: Callable[[], object], device: torch.device) -> float:
    """Time one call, device included."""
    start = time.perf_counter()
    work()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - start


def measure(name: str, options: argparse.Namespace) -> None:
    """Print the stages of one variant."""
    device, engine = find_device(options.device), VARIANTS[name]
    rng = np.random.default_rng(0)
    shape = (options.side, options.side, options.channels)
    total = options.images + options.test
    raw = rng.integers(0, 256, (total, *shape), dtype=np.uint8)
    labels = rng.integers(0, options.classes, total)
    rows = np.stack([np.arange(options.images)] * options.models)
    pixels = place(raw, device)
    steps = -(-options.images // BATCH)
    for kind, architecture, epochs in (
        ("strong", LargeCNN(shape, Classes(options.classes)), options.epochs),
        ("weak", VeryWeakLinear(shape, Classes(options.classes)), 1),
    ):
        kept = []
        streams = [stream(0, "train", kind, str(g)) for g in range(options.models)]

        def fit(a=architecture, e=epochs, s=streams, kept=kept) -> None:
            kept.append(train(a, pixels, labels, rows, s, epochs=e, device=device, engine=engine))

        spent = seconds(fit, device)
        passes = epochs * options.images * options.models
        least = floor(architecture, passes, epochs * steps, options)
        print(
            f"{name:22} train   {kind:6} {spent:8.2f} s  {passes / spent:12,.0f} images/s  "
            f"floor {least:6.2f} s  ratio {spent / least:6.1f}",
            flush=True,
        )
        test = np.arange(options.images, total)
        rest = np.stack([test] * options.models)
        spent = seconds(lambda s=kept[0], r=rest: s.predict(pixels, r), device)
        print(
            f"{name:22} predict {kind:6} {spent:8.2f} s  {rest.size / spent:12,.0f} images/s",
            flush=True,
        )


def main() -> None:
    """Read the options, and measure the variants."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="auto")
    parser.add_argument("--variant", action="append", choices=sorted(VARIANTS))
    parser.add_argument("--models", type=int, default=30)
    parser.add_argument("--images", type=int, default=42_000)
    parser.add_argument("--test", type=int, default=10_000)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--side", type=int, default=28)
    parser.add_argument("--channels", type=int, default=1)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--flops", type=float, default=4.9e14)
    parser.add_argument("--bandwidth", type=float, default=4.3e12)
    options = parser.parse_args()
    for name in options.variant or ["default"]:
        measure(name, options)


if __name__ == "__main__":
    main()
