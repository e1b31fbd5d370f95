"""How long `import fedwqcp` and `fedwqcp --help` take beside `import numpy`, in fresh processes.

Run: python benchmarks/import_time.py [--page]
Prints medians and minima of interleaved repeats, by the clock and of the processor, with byte code
on disk; the aims are 0.25 s and 0.5 s.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
REPEATS = 15
CASES = {
    "import numpy": ["-c", "import numpy"],
    "import fedwqcp": ["-c", "import fedwqcp"],
    "fedwqcp --help": ["-m", "fedwqcp", "--help"],
}


def seconds(arguments: list[str]) -> tuple[float, float]:
    """Time one process: by the clock, and of the processor."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [sys.executable, *arguments]
    subprocess.run(command, check=True, capture_output=True, env=environment)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return wall, spent


def main() -> None:
    """Print a row for each."""
    for arguments in CASES.values():
        seconds(arguments)  # writes byte code
    rounds = [{name: seconds(a) for name, a in CASES.items()} for _ in range(REPEATS)]
    times = {name: [one[name] for one in rounds] for name in CASES}
    load = f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores"
    lines = [f"`python benchmarks/import_time.py`: {load}\n"]
    lines += ["| | median | minimum | processor, median | minimum |", "|---|---|---|---|---|"]
    for name, found in times.items():
        cells = [f(column) for column in zip(*found, strict=True) for f in (statistics.median, min)]
        lines.append(f"| `{name}` | " + " | ".join(f"{cell:.3f} s" for cell in cells) + " |")
    print("\n".join(lines))
    if "--page" in sys.argv:
        sys.path.insert(0, str(ROOT / "tools"))
        from page_parts import put

        put(ROOT / "docs/performance.md", "import", "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
