"""How long `import fedwqcp` takes beside `import numpy`, both in fresh processes.

Run: python benchmarks/import_time.py
Prints medians of interleaved repeats and their ratio; the aim is 0.3 s.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

REPEATS = 15


def seconds(module: str) -> float:
    """Time one import in a fresh process."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", f"import {module}"], check=True)
    return time.perf_counter() - start


def main() -> None:
    """Print the ratio."""
    for module in ("numpy", "fedwqcp"):
        seconds(module)  # writes byte code
    pairs = [(seconds("numpy"), seconds("fedwqcp")) for _ in range(REPEATS)]
    base, ours = (statistics.median(column) for column in zip(*pairs, strict=True))
    print(f"import numpy {base:.3f} s, import fedwqcp {ours:.3f} s, ratio {ours / base:.2f}")


if __name__ == "__main__":
    main()
