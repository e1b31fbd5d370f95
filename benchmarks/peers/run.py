"""Time beside other libraries, in one table.

    python benchmarks/peers/run.py --setup build/peers   # installs them there, then runs
    build/peers/bin/python benchmarks/peers/run.py       # runs again

One thread. Repeats are interleaved; medians and the first call in this process are shown. "One
read" is a sum of the input, plus one write of the output where there is one; while time is
measured, freed memory stays with the process, for all alike. Writes
benchmarks/results/peers.json, and with --page the table into the documentation.
"""

from __future__ import annotations

import argparse
import ctypes
import datetime
import importlib.metadata
import json
import os
import platform
import statistics
import subprocess
import sys
import time
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
from page_parts import put

ROOT = Path(__file__).resolve().parents[2]
PEERS = ("mapie==1.6.0", "puncc==0.9.3", "crepes==0.9.1", "torchcp==1.2.1")
TORCH = "torch==2.13.0"
OURS = ("floor", "fedwqcp", "fedwqcp, numpy alone")
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def set_up(folder: Path) -> Path:
    """Make an environment with the peers and this checkout."""
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, TORCH, *PEERS[:3], "-e", str(ROOT)], check=True)
    # what TorchCP needs for training is not used here, and does not install everywhere
    subprocess.run([*pip, "--no-deps", PEERS[3]], check=True)
    return python


def keep_memory() -> None:
    """Let the process keep what it frees: else who gets fresh pages is a matter of luck."""
    try:
        libc = ctypes.CDLL("libc.so.6")
    except OSError:
        return
    for option in ((-1, 2**31 - 1), (-4, 0)):  # the threshold of trimming, the most blocks mapped
        libc.mallopt(*option)


def medians(
    contenders: dict[str, Callable[[], Any]], repeats: int, limit: float, clock: str = "wall"
) -> dict[str, Any]:
    """Median seconds of each, interleaved; slow ones run fewer times."""
    now = time.perf_counter if clock == "wall" else time.process_time
    found: dict[str, Any] = {}
    for name, work in contenders.items():
        start = now()
        try:
            work()
            first = now() - start
        except Exception as error:  # a peer that fails is reported, not hidden
            found[name] = {"error": f"{type(error).__name__}: {error}"[:200]}
            continue
        found[name] = {
            "first": first,
            "runs": max(1, min(repeats, int(limit / first))),
            "times": [],
        }
    for repeat in range(repeats):
        for name, work in contenders.items():
            if "error" not in found[name] and repeat < found[name]["runs"]:
                start = now()
                kept = work()
                found[name]["times"].append(now() - start)
                del kept
    for entry in found.values():
        if "times" in entry:
            times = entry.pop("times")
            entry |= {"seconds": statistics.median(times), "best": min(times)}
    return found


def numpy_alone(work: Callable[[], Any]) -> Callable[[], Any]:
    """The same with numpy alone."""

    def plain() -> Any:
        os.environ["FEDWQCP_BACKEND"] = "numpy"
        try:
            return work()
        finally:
            del os.environ["FEDWQCP_BACKEND"]

    return plain


def softmax(n: int, C: int, scale: float) -> tuple[Any, Any]:
    """Probabilities of normal logits in float32, and labels drawn from them."""
    import numpy as np

    rng = np.random.default_rng(C)
    p = np.exp(scale * rng.standard_normal((n, C), dtype=np.float32))
    p /= p.sum(axis=1, keepdims=True)
    picked = (np.cumsum(p, axis=1) > rng.random((n, 1), dtype=np.float32)).argmax(axis=1)
    return p, picked.astype(np.int64)


def aps_cases(n: int, C: int, options: argparse.Namespace) -> dict[str, Any]:
    """All cases of APS at one number of classes."""
    import numpy as np
    import peers

    import fedwqcp as fw

    p, y = softmax(n, C, options.scale)
    score = fw.APS(randomized=False)
    q = fw.conformal_quantile(score.of(p, y), peers.ALPHA)
    ours: dict[str, Callable[[], Any]] = {
        "calibrate": lambda: fw.conformal_quantile(score.of(p, y), peers.ALPHA),
        "sets": lambda: score.invert(p, q),
        "measure": lambda: score.measure(p, y, q),
    }
    others = peers.aps(p, y, q)
    found = {}
    for case, work in ours.items():

        def floor(writes: bool = case == "sets") -> Any:
            return p.sum(), np.empty(p.shape, np.bool_).fill(True) if writes else None

        contenders = {"floor": floor, "fedwqcp": work}
        contenders |= {"fedwqcp, numpy alone": numpy_alone(work)} | others[case]
        found[f"APS {n:,} x {C}, {case}"] = medians(
            contenders, options.repeats, options.limit, options.clock
        )
    return found


def regression_cases(n: int, options: argparse.Namespace) -> dict[str, Any]:
    """CQR and residuals, and the quantile alone."""
    import numpy as np
    import peers

    import fedwqcp as fw

    rng = np.random.default_rng(0)
    f = rng.normal(size=n)
    y = f + rng.normal(size=n)
    pair = np.column_stack([f - 1, f + 1])
    found = {}
    for name, score, out, others in (
        ("CQR", fw.CQR(), pair, peers.cqr),
        ("absolute residual", fw.AbsoluteResidual(), f, peers.residual),
    ):
        q = fw.conformal_quantile(score.of(out, y), peers.ALPHA)
        theirs = others(out, y, q)
        works = {
            "calibrate": lambda s=score, o=out: fw.conformal_quantile(s.of(o, y), peers.ALPHA),
            "predict": lambda s=score, o=out, q=q: s.invert(o, q),
        }
        for case, work in works.items():

            def floor(o: Any = out, writes: bool = case == "predict") -> Any:
                made = (np.empty(n), np.empty(n)) if writes else (np.empty(n),)
                for one in made:
                    one.fill(1.0)
                return o.sum(), made if writes else (y.sum(), made)

            contenders = {"floor": floor, "fedwqcp": work}
            contenders |= {"fedwqcp, numpy alone": numpy_alone(work)} | theirs.get(case, {})
            found[f"{name} {n:,}, {case}"] = medians(
                contenders, options.repeats, options.limit, options.clock
            )
    scores = np.abs(y - f)
    found[f"quantile of {n:,}"] = medians(
        {
            "floor": scores.sum,
            "fedwqcp": lambda: fw.conformal_quantile(scores, peers.ALPHA),
            "np.partition": lambda: np.partition(scores, int(0.9 * n))[int(0.9 * n)],
            "np.quantile": lambda: np.quantile(scores, 0.9, method="inverted_cdf"),
        },
        options.repeats,
        options.limit,
        options.clock,
    )
    return found


def machine() -> dict[str, Any]:
    """Where the numbers came from."""
    cpu = [
        line.split(":")[1].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    names = ("fedwqcp", "numpy", "torch", "torchcp", "mapie", "puncc", "crepes")
    return {
        "cpu": f"{cpu[0]}, {len(cpu)} cores",
        "python": platform.python_version(),
        "load": [round(x, 2) for x in os.getloadavg()],
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "command": " ".join(["python", "benchmarks/peers/run.py", *sys.argv[1:]]),
        "versions": {name: _version(name) for name in names},
    }


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "absent"


def summary(results: dict[str, Any]) -> str:
    """Ours beside the fastest peer, one line for each case that peers have."""
    lines = [
        "| case | one read | fedwqcp: first call | then | numpy alone "
        "| fastest peer: first call | then | faster by: first call | then |",
        "|" + "---|" * 9,
    ]
    for case, entries in results.items():
        peers = {n: e for n, e in entries.items() if n not in OURS and "seconds" in e}
        if not peers:
            continue
        name = min(peers, key=lambda peer: peers[peer]["seconds"])
        ours, plain = entries["fedwqcp"], entries.get("fedwqcp, numpy alone")
        cells = [
            f"{entries['floor']['seconds'] * 1e3:.2f} ms",
            f"{ours['first'] * 1e3:.2f} ms",
            f"{ours['seconds'] * 1e3:.2f} ms",
            f"{plain['seconds'] * 1e3:.2f} ms" if plain else "",
            f"{name}, {peers[name]['first'] * 1e3:.2f} ms",
            f"{peers[name]['seconds'] * 1e3:.2f} ms",
            f"{min(e['first'] for e in peers.values()) / ours['first']:.1f}x",
            f"{peers[name]['seconds'] / ours['seconds']:.1f}x",
        ]
        lines.append(f"| {case} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Set up where asked to, run, print, and keep the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--setup", type=Path, help="folder for an environment with the peers")
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--classes", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--points", type=int, default=1_000_000)
    parser.add_argument("--scale", type=float, default=2.0, help="spread of the logits")
    parser.add_argument("--repeats", type=int, default=11)
    parser.add_argument(
        "--limit", type=float, default=15.0, help="seconds for one contender's repeats"
    )
    parser.add_argument(
        "--clock",
        choices=["wall", "cpu"],
        default="wall",
        help="cpu: time on the processor, for a machine that others use too",
    )
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results")
    parser.add_argument("--page", action="store_true", help="put the table into the documentation")
    options = parser.parse_args()
    environment = os.environ | dict.fromkeys(ONE_THREAD, "1")
    if options.setup:
        python, again = set_up(options.setup), sys.argv[1:]
        at = again.index("--setup")
        del again[at : at + 2]
        raise SystemExit(
            subprocess.run([python, __file__, *again], env=environment, check=False).returncode
        )
    if any(os.environ.get(name) != "1" for name in ONE_THREAD):
        raise SystemExit(
            subprocess.run([sys.executable, *sys.argv], env=environment, check=False).returncode
        )

    keep_memory()
    results: dict[str, Any] = {}
    for C in options.classes:
        results |= aps_cases(options.rows, C, options)
    results |= regression_cases(options.points, options)
    where = machine()
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "peers.json").write_text(
        json.dumps({"machine": where, "results": results}, indent=1)
    )
    about = (
        f"{where['cpu']}; load {where['load']}; {where['date']}; Python {where['python']}; "
        + ", ".join(f"{name} {version}" for name, version in where["versions"].items())
    )
    text = f"`{where['command']}`: {about}\n\n{summary(results)}"
    print(text)
    if options.page:
        put(ROOT / "docs" / "performance.md", "peers", text)


if __name__ == "__main__":
    main()
