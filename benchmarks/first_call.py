"""First call and ten calls: numpy alone, compiled at once, the choice made by itself, and peers.

Run: build/peers/bin/python benchmarks/first_call.py     (--quick: one score and size, minutes)
in the environment that ``make bench-peers`` makes; elsewhere the peers are left out.

For every call, score and number of classes (float32; float64 for one score) and three sizes of
inputs, seconds after one call, two calls, ... and ten, after the imports, on one thread, with an
empty cache and with what compiling left. "auto" is what a user gets; with a million numbers it goes
on until three times the time to compile, or 300 calls, so that its change to the loop is seen.
"ratio" is its time over that of the better of numpy and numba after as many calls; beyond what was
measured of these, and of peers, each call takes what the median of those after the first took. Each
is measured in a process of its own, but for "numba", which works on all sizes in one process, the
smallest first: what its first call took above its later ones is the time to compile or load, and is
added to the other sizes.

numpy and peers stop when they have taken longer than all that they are compared with; then the
table says ">".

Kinds of calls are measured one at a time (``--jobs 2``: two, each on a core of its own, which is
quicker and noisier). Then those that miss a goal are measured again, alone, up to twice. The least
of each time is kept, of peers too, and of "auto" the run with the lower highest ratio; the verdicts
say what they would be without this, too.
What is measured is kept in build/first_call.jsonl, each attempt on a line, so that a run can be
stopped and goes on where it was; ``--afresh`` begins again, and so does another commit. The exit
code is 1 where a goal is missed. The table goes to benchmarks/results/first_call.md, with
``--page`` verdicts and worst lines to the documentation.

Verdicts: a ratio of at most 2.2 for inputs of at least a million numbers, compiling at once in at
most 4 s, and never slower in total than the fastest peer, after any number of calls. A choice that
costs up to twice the better time can keep the last promise only where numpy alone is at least twice
as fast as that peer, after any number of calls; other rows are counted apart. Peers are the
libraries with these scores that are fastest in ``make bench-peers``.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import reduce
from itertools import pairwise, zip_longest
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
from page_parts import put

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "benchmarks" / "peers"))

SCORES = {
    "LAC()": ("LAC", False),
    "APS(randomized=False)": ("APS", False),
    "APS()": ("APS", True),
    "RAPS(penalty=0.01)": ("RAPS", True),
    "SAPS(penalty=0.1)": ("SAPS", True),
}
CALLS = ("of", "invert", "measure")
CLASSES, SIZES = (10, 100, 1000), (2**17, 2**20, 2**24)
LONGER, MANY = 2**20, 300
CACHES = ("empty", "kept")
PEERS = ("TorchCP", "puncc")
TIMES = 10
MOST, LARGE, AGAIN, TWICE, COMPILED = 2.2, 2**20, 2, 2.0, 4.0
SEEN = 0.1
"""So many seconds more than later calls are the time to compile or load something."""

Taken = list[float]
"""Seconds after each call; fewer than ten where it was stopped."""


class Stop(NamedTuple):
    """When calls end: after so many seconds, but not before the least and by the most of calls."""

    seconds: float
    least: int = TIMES
    most: int = TIMES


TEN = Stop(0.0)


def extended(taken: Taken, n: int) -> Taken:
    """Go on to n calls, each as long as the median of those after the first."""
    later = [b - a for a, b in pairwise(taken)]
    each = median(later) if later else taken[0]
    return taken + [taken[-1] + each * k for k in range(1, n - len(taken) + 1)]


class Kind(NamedTuple):
    """A kind of call."""

    call: str
    score: str
    dtype: str
    classes: int

    def __str__(self) -> str:
        return f"{self.call} {self.score} {self.dtype} {self.classes}"


class Row(NamedTuple):
    """What was measured of one kind of call, size and cache."""

    what: str
    size: int
    cache: str
    numpy: Taken
    numba: Taken
    auto: Taken
    peer: str
    peers: Taken

    def ratios(self) -> list[float]:
        """The choice, over the better of numpy and numba; after one call, after two and so on."""
        n = len(self.auto)
        three = zip(self.auto, extended(self.numpy, n), extended(self.numba, n), strict=False)
        return [taken / min(others) for taken, *others in three]

    def changes(self) -> bool:
        """Whether the choice loads or compiles a loop within the calls that are measured."""
        calls = [b - a for a, b in pairwise([0.0, *self.auto])]
        return max(calls) > median(calls) + SEEN

    def beside_peer(self) -> float:
        """The choice, over the fastest peer, after as many calls as make it worst."""
        if not self.peers:
            return 0.0
        both = zip(self.auto, extended(self.peers, len(self.auto)), strict=False)
        return max(taken / peer for taken, peer in both)

    def numpy_beside_peer(self) -> float:
        """How many times as fast as the fastest peer numpy alone is, after as many calls as least.

        Peers' first calls prepare something: after one call alone the figure would be too high.
        """
        if not self.peers:
            return float("inf")
        n = len(self.auto)
        both = zip(extended(self.numpy, n), extended(self.peers, n), strict=False)
        return min(peer / taken for taken, peer in both)


# In a process of its own --------------------------------------------------------------------------


def work(who: str, kind: Kind, sizes: list[int], stops: list[Stop], clock: str) -> list[Taken]:
    """Time the calls of one library on inputs of some sizes, one after the other."""
    import numpy as np

    now = getattr(time, clock)
    rng = np.random.default_rng(0)
    found = []
    for size, (seconds, least, most) in zip(sizes, stops, strict=True):
        p = rng.standard_exponential((size // kind.classes + 1, kind.classes), dtype=kind.dtype)
        p /= p.sum(axis=1, keepdims=True)
        y, u = np.zeros(len(p), np.int64), rng.random(len(p))
        if who == "fedwqcp":
            import fedwqcp as fw

            score = eval(f"fw.{kind.score}", {"fw": fw})  # from the table above
            arguments: dict[str, Any] = {"of": (p, y), "invert": (p, 0.5), "measure": (p, y, 0.5)}
            given = {"u": u} if getattr(score, "randomized", False) else {}
            function = getattr(score, kind.call)

            def call(
                function: Any = function, positional: Any = arguments[kind.call], given: Any = given
            ) -> Any:
                return function(*positional, **given)

        else:
            import peers

            call = peers.calls(who, SCORES[kind.score], p, y, 0.5)[kind.call]
        taken: Taken = []
        start = now()
        while len(taken) < least or (len(taken) < most and taken[-1] <= seconds):
            call()
            taken.append(now() - start)
        found.append(taken)
    return found


class Runner(NamedTuple):
    """Where and by which clock processes are timed."""

    core: int | None
    clock: str

    def each(
        self, who: str, kind: Kind, stops: dict[int, Stop], backend: str = "auto"
    ) -> dict[int, Taken]:
        """Return what a process for each size measures; nothing if the library cannot do it."""
        found: dict[int, Taken] = {}
        for size, stop in stops.items():
            with tempfile.TemporaryDirectory() as empty:
                found |= self(who, kind, {size: stop}, backend, empty)
            if not found:
                break
        return found

    def __call__(
        self, who: str, kind: Kind, stops: dict[int, Stop], backend: str, cache: str
    ) -> dict[int, Taken]:
        """Return what one process measures, by size; nothing if the library cannot do it."""
        one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
        environment = os.environ | one | {"NUMBA_CACHE_DIR": cache, "FEDWQCP_BACKEND": backend}
        given = json.dumps([who, kind, list(stops), list(stops.values()), self.clock])
        pin = ["taskset", "-c", str(self.core)] if self.core is not None else []
        done = subprocess.run(
            [*pin, sys.executable, __file__, "--work", given],
            env=environment,
            check=False,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            if who == "fedwqcp":
                raise RuntimeError(f"{kind}: {done.stderr}")
            why = done.stderr.strip().splitlines()[-1:]
            print(f"{who} is left out of {kind}: {why}", file=sys.stderr, flush=True)
            return {}
        return dict(zip(stops, json.loads(done.stdout.splitlines()[-1]), strict=True))


# One kind of call ---------------------------------------------------------------------------------


def with_compiling(found: dict[int, Taken]) -> dict[int, Taken]:
    """Add the time to compile or load, which the first calls on smaller inputs took, to larger."""
    before, whole = 0.0, {}
    for size, taken in found.items():
        whole[size] = [before + one for one in taken]
        more = taken[0] - (taken[-1] - taken[0]) / (len(taken) - 1)
        before += more if more > SEEN else 0.0
    return whole


def ours(run: Runner, kind: Kind, sizes: tuple[int, ...]) -> dict[str, dict[int, Taken]]:
    """Measure numpy, and numba and the choice with either cache, by size."""
    found: dict[str, dict[int, Taken]] = {}
    with tempfile.TemporaryDirectory() as kept:
        for cache in CACHES:
            always = dict.fromkeys(sizes, TEN)
            found[f"numba {cache}"] = with_compiling(run("fedwqcp", kind, always, "numba", kept))
        longest = {size: max(found[f"numba {c}"][size][-1] for c in CACHES) for size in sizes}
        stops = {size: Stop(seconds, 1) for size, seconds in longest.items()}
        found["numpy"] = run.each("fedwqcp", kind, stops, "numpy")
        choice = {
            cache: {
                size: Stop(3 * taken[0], TIMES, MANY if size == LONGER else TIMES)
                for size, taken in found[f"numba {cache}"].items()
            }
            for cache in CACHES
        }
        found["auto empty"] = run.each("fedwqcp", kind, choice["empty"])
        found["auto kept"] = {}
        for size, stop in choice["kept"].items():
            found["auto kept"] |= run("fedwqcp", kind, {size: stop}, "auto", kept)
    return found


def fastest_peer(run: Runner, kind: Kind, stops: dict[int, Stop]) -> dict[int, tuple[str, Taken]]:
    """Measure the peers; return which has the shortest first call, and the least times of all."""
    found = {library: run.each(library, kind, stops) for library in PEERS}
    at_hand = {library: one for library, one in found.items() if one}
    if not at_hand:
        return dict.fromkeys(stops, ("", []))
    best = {size: min(at_hand, key=lambda name: at_hand[name][size][0]) for size in stops}
    return {
        size: (name, least(*(one[size] for one in at_hand.values()))) for size, name in best.items()
    }


def measure(run: Runner, kind: Kind, sizes: tuple[int, ...]) -> list[Row]:
    """Measure one kind of call."""
    found = ours(run, kind, sizes)
    longest = {size: max(found[f"auto {c}"][size][-1] for c in CACHES) for size in sizes}
    stops = {size: Stop(seconds, 1) for size, seconds in longest.items()}
    return rows_of(kind, found, fastest_peer(run, kind, stops))


def lesser(rows: list[Row], again: list[Row]) -> list[Row]:
    """Return rows with the lesser times of two measurements, and the better run of the choice."""
    found = []
    for row, other in zip(rows, again, strict=True):
        both = row._replace(
            numpy=least(row.numpy, other.numpy),
            numba=least(row.numba, other.numba),
            peer=min(row, other, key=lambda one: one.peers[:1]).peer,
            peers=least(row.peers, other.peers),
        )
        runs = [both._replace(auto=one.auto) for one in (row, other)]
        found.append(min(runs, key=lambda one: max(one.ratios())))
    return found


def least(*several: Taken) -> Taken:
    """Return the least time after each number of calls."""
    return [min(filter(None, each)) for each in zip_longest(*several)]


def rows_of(
    kind: Kind, found: dict[str, dict[int, Taken]], peers: dict[int, tuple[str, Taken]]
) -> list[Row]:
    """Return what was measured, a row for each size and cache."""
    return [
        Row(
            str(kind),
            size,
            cache,
            numpy,
            found[f"numba {cache}"][size],
            found[f"auto {cache}"][size],
            *peers.get(size, ("", [])),
        )
        for size, numpy in found["numpy"].items()
        for cache in CACHES
    ]


def chose_well(row: Row) -> bool:
    """Tell whether the choice took at most 2.2 times the better time, for a large input."""
    return row.size < LARGE or max(row.ratios()) <= MOST


def compiles(row: Row) -> bool:
    """Tell whether the first call of numba is little more than compiling."""
    return row.size < LARGE and row.cache == "empty"


def ok(row: Row) -> bool:
    """Tell whether all promises hold, that beside the peer where it can be kept."""
    if compiles(row) and row.numba[0] > COMPILED:
        return False
    return chose_well(row) and (row.beside_peer() <= 1 or row.numpy_beside_peer() < TWICE)


# All kinds ----------------------------------------------------------------------------------------


def kinds(quick: bool) -> list[Kind]:
    """Return what is measured."""
    if quick:
        return [Kind(call, "APS()", "float32", C) for call in CALLS for C in (10, 100)]
    return [
        Kind(call, score, dtype, C)
        for score in SCORES
        for dtype in (("float32", "float64") if score == "APS()" else ("float32",))
        for call in CALLS
        for C in CLASSES
    ]


def measure_all(
    wanted: list[Kind], sizes: tuple[int, ...], kept: Path, options: argparse.Namespace
) -> dict[Kind, list[list[Row]]]:
    """Measure all kinds, but for those that an earlier run has kept; return every attempt."""
    clock = "process_time" if options.cpu else "perf_counter"
    key = json.dumps([commit(), clock, sizes])
    done: dict[str, list[list[Row]]] = {}
    kept.parent.mkdir(parents=True, exist_ok=True)
    if options.afresh:
        kept.unlink(missing_ok=True)
    for line in kept.read_text().splitlines() if kept.exists() else ():
        of, name, rows = json.loads(line)
        if of == key:
            done.setdefault(name, []).append([Row(*row) for row in rows])
    left = [kind for kind in wanted if str(kind) not in done]
    cores: queue.Queue[int | None] = queue.Queue()
    usable = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    for at in range(options.jobs):
        cores.put(usable[at] if options.jobs <= len(usable) else None)

    def one(kind: Kind) -> tuple[Kind, list[Row]]:
        core = cores.get()
        try:
            return kind, measure(Runner(core, clock), kind, sizes)
        finally:
            cores.put(core)

    def keep(kind: Kind, rows: list[Row], which: str) -> None:
        done.setdefault(str(kind), []).append(rows)
        print(json.dumps([key, str(kind), rows]), file=file, flush=True)
        worst = max(max(row.ratios()) for row in rows if row.size >= LARGE)
        spent = time.monotonic() - start
        text = f"{which}, {spent:.0f} s: {kind}, worst ratio {worst:.2f}"
        print(text, file=sys.stderr, flush=True)

    start = time.monotonic()
    with ThreadPoolExecutor(options.jobs) as pool, kept.open("a") as file:
        for n, future in enumerate(as_completed([pool.submit(one, kind) for kind in left]), 1):
            keep(*future.result(), f"{n} of {len(left)}")
        for attempt in range(1, AGAIN + 1):
            for kind in wanted:
                attempts = done[str(kind)]
                if len(attempts) == attempt and not all(map(ok, reduce(lesser, attempts))):
                    keep(*one(kind), "again, alone")
    return {kind: done[str(kind)] for kind in wanted}


def commit() -> str:
    """Return which code is measured."""
    told = subprocess.run(
        ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--exclude=*"],
        check=False,
        capture_output=True,
        text=True,
    )
    return told.stdout.strip()


# The table and the verdicts -----------------------------------------------------------------------


def seconds(taken: Taken) -> str:
    """Return the times of one call and of ten."""
    if not taken:
        return ""
    ten = f">{taken[-1]:.2f}" if len(taken) < TIMES else f"{taken[TIMES - 1]:.2f}"
    return f"{taken[0]:.3f} / {ten}"


def table(rows: list[Row]) -> str:
    """Return rows as a table."""
    head = "| call, score, type, classes | numbers | cache | numpy | numba | auto | fastest peer "
    head += "| peer over numpy, least | ratio, 1 call | highest | after | of calls |"
    lines = [head, "|" + "---|" * 12]
    for row in rows:
        times = [seconds(taken) for taken in (row.numpy, row.numba, row.auto)]
        cells = [row.what, f"{row.size:,}", row.cache, *times, f"{row.peer} {seconds(row.peers)}"]
        ratios = row.ratios()
        highest = max(ratios)
        cells += [f"{one:.2f}" for one in (row.numpy_beside_peer(), ratios[0], highest)]
        cells += [str(ratios.index(highest) + 1), str(len(ratios))]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def slower_than_peer(rows: list[Row]) -> list[str]:
    """Return by how much, and where, the choice is slower than the fastest peer; most first."""
    found = [
        (row.beside_peer(), f"{row.what}, {row.size:,}, {row.cache} cache")
        for row in rows
        if row.beside_peer() > 1
    ]
    return [f"{ratio:.2f} ({where})" for ratio, where in sorted(found, reverse=True)]


def counts(rows: list[Row]) -> str:
    """Say how many rows miss each goal."""
    large = [row for row in rows if row.size >= LARGE]
    first = [row.numba[0] for row in rows if compiles(row)]
    quick = [row for row in rows if row.peers and row.numpy_beside_peer() >= TWICE]
    return (
        f"{sum(not chose_well(row) for row in large)} of {len(large)} rows above {MOST}, "
        f"{sum(took > COMPILED for took in first)} of {len(first)} compilations above "
        f"{COMPILED:.0f} s, {len(slower_than_peer(quick))} of {len(quick)} rows slower than a peer"
    )


def verdicts(rows: list[Row]) -> str:
    """Say whether the promises hold, each with its worst lines."""
    large = sorted((row for row in rows if row.size >= LARGE), key=lambda row: -max(row.ratios()))
    missed = [row for row in large if not chose_well(row)]
    text = (
        f"At most {MOST} times the better of numpy and numba after any number of calls, from "
        f"{LARGE:,} numbers on: "
        f"{f'missed in {len(missed)}' if missed else 'met in all'} of {len(large)} rows; "
        f"in {sum(row.changes() for row in large)} of them the compiled loop took over within the "
        f"calls measured. The highest:\n\n{table(large[:5])}\n"
    )
    first = sorted((row.numba[0], row.what) for row in rows if compiles(row))
    if first:
        text += (
            f"First calls that compile at once, at most {COMPILED:.0f} s: "
            f"{sum(took <= COMPILED for took, _ in first)} of {len(first)}; the longest "
            f"{first[-1][0]:.2f} s ({first[-1][1]}).\n\n"
        )
    beside = [row for row in rows if row.peers]
    if not beside:
        return text + "No peer is installed: `make bench-peers`.\n"
    quick = [row for row in beside if row.numpy_beside_peer() >= TWICE]
    slower = slower_than_peer(quick)
    text += (
        f"Never slower in total than the fastest peer, {len(quick)} rows where numpy alone is at "
        f"least twice as fast as that peer after any number of calls: "
        + (f"missed in {len(slower)}: {'; '.join(slower)}.\n\n" if slower else "met in all.\n\n")
    )
    others = [row for row in beside if row.numpy_beside_peer() < TWICE]
    lac = [row for row in others if row.what.startswith("of LAC")]
    least = min((row.numpy_beside_peer() for row in others), default=TWICE)
    text += (
        f"In the other {len(others)} rows numpy alone is not twice as fast as the fastest peer "
        f"(the least is {least:.2f} times), and the choice can be slower than it.\n"
    )
    for what, some in (
        ("Scores of LAC", lac),
        ("All others", [row for row in others if row not in lac]),
    ):
        slower = slower_than_peer(some)
        most = f"; the most: {'; '.join(slower[:5])}" if slower else ""
        text += (
            f"{what}: slower after some number of calls in {len(slower)} of {len(some)} rows"
            f"{most}.\n"
        )
    return text + (
        "The LAC score of a label is one number of its row, and peers read no other; we read the "
        "whole row, to refuse what is not probabilities.\n"
    )


def main() -> None:
    """Measure, print and keep the table and the verdicts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one score, one type, one size")
    parser.add_argument("--cpu", action="store_true", help="processor time, for a busy machine")
    parser.add_argument("--jobs", type=int, default=1, help="how many kinds at a time")
    parser.add_argument("--only", default="", help='kinds with this text: "invert APS() float32"')
    parser.add_argument("--afresh", action="store_true", help="measure again what is kept")
    parser.add_argument("--page", action="store_true", help="write results and documentation")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        who, kind, *given = json.loads(options.work)
        print(json.dumps(work(who, Kind(*kind), *given)))
        return
    load = os.getloadavg()[0]
    wanted = [kind for kind in kinds(options.quick) if options.only in str(kind)]
    sizes = (2**22,) if options.quick else SIZES
    attempts = measure_all(wanted, sizes, ROOT / "build" / "first_call.jsonl", options)
    first = [row for each in attempts.values() for row in each[0]]
    rows = [row for each in attempts.values() for row in reduce(lesser, each)]
    again = sum(len(each) > 1 for each in attempts.values())
    from run import machine

    where = machine()
    command = " ".join(["python", "benchmarks/first_call.py", *sys.argv[1:]])
    about = (
        f"`{command}`: seconds of one call / of ten; {where['cpu']}; load {load:.1f} before the "
        f"run; {where['date']}; Python {where['python']}; code {commit()}\n\n"
    )
    found = (
        f"{verdicts(rows)}Of {len(attempts)} kinds {again} missed a goal at first and were "
        f"measured again, alone. Without that: {counts(first)}. With it: {counts(rows)}.\n"
    )
    print(about + table(rows) + "\n" + found)
    if options.page:
        results = ROOT / "benchmarks" / "results" / "first_call.md"
        results.write_text(f"{about}{found}\n{table(rows)}")
        put(ROOT / "docs" / "performance.md", "first call", f"{about}{found}")
    sys.exit(not all(map(ok, rows)))


if __name__ == "__main__":
    main()
