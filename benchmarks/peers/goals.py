"""What the figures should be, beside what they are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

OVER_FLOOR = {
    "calibrate": {10: 4.0, 100: 1.6, 1000: 1.4},
    "sets": {10: 5.0, 100: 8.0, 1000: 8.0},
    "measure": {10: 2.5},
}
"""APS in float32: times one read, at most. There is none for coverage and size of long rows: the
first pass alone takes as long as one read."""

RANDOMISED = 1.3
"""With a random part, times as long as without, at most."""

OWN_THRESHOLDS = 2.0
"""With a threshold for each label or each row, times as long as with one for all, at most."""

REGRESSION = {"calibrate": 4.0, "predict": 1.2}
THREADS = 1.6
SLOPES = (0.95, 1.05)
OURS = ("floor", "fedwqcp", "fedwqcp, numpy alone", "beside")

READING = 1.5
"""Who takes less than so many times of reading alone is bound by memory."""

Row = tuple[str, str, str, bool | str]
"""What, wanted, found, and whether it is met, or why that is no question."""


def check(results: dict[str, Any]) -> Iterator[Row]:
    """Yield goal, wanted, measured and whether it is met, for every case with a goal."""
    for case, entries in results.items():
        name, _, what = case.partition(", ") if "quantile" not in case else (case, "", "")
        if name.startswith("APS float64"):
            continue
        if name.startswith("APS"):
            classes = int(case.split(" x ")[1].split(",")[0])
            what = case.rsplit(", ", 1)[1]
            wanted = OVER_FLOOR.get(what, {}).get(classes)
            faster, memory = (15.0 if classes < 100 else 35.0), 0.1
        else:
            what = case.rsplit(", ", 1)[-1]
            wanted, faster, memory = REGRESSION.get(what), 1.5, 1.0
        if wanted is None:
            continue
        yield over_floor(case, entries, wanted)
        yield from beside_peers(case, entries, faster, memory)


def over_floor(case: str, entries: dict[str, Any], wanted: float) -> Row:
    """Compare with one reading of the input."""
    found = entries["fedwqcp"]["seconds"] / entries["floor"]["seconds"]
    return f"{case}: times one read", f"at most {wanted:g}", f"{found:.3f}", found <= wanted


def beside_peers(case: str, entries: dict[str, Any], faster: float, memory: float) -> Iterator[Row]:
    """Compare with the fastest peer, where there are any."""
    peers = {name: one for name, one in entries.items() if name not in OURS and "seconds" in one}
    if not peers:
        return
    name = min(peers, key=lambda name: peers[name]["seconds"])
    best, ours = peers[name], entries["fedwqcp"]
    ratio = best["seconds"] / ours["seconds"]
    if best["seconds"] < READING * entries["floor"]["seconds"]:
        faster = 1.0  # a peer that reads and writes once cannot be beaten by much
    yield f"{case}: faster than {name}", f"at least {faster:g}", f"{ratio:.1f}", ratio >= faster
    share = round(ours["peak"] / max(best["peak"], 1), 2)  # pages come whole
    label = f"{case}: share of the memory of {name}"
    yield label, f"at most {memory:g}", f"{share:.2f}", share <= memory
    if case.startswith("APS"):
        plain = best["seconds"] / entries["fedwqcp, numpy alone"]["seconds"]
        label = f"{case}: numpy alone, faster than {name}"
        yield label, "at least 2", f"{plain:.1f}", plain >= 2


def check_randomised(results: dict[str, Any]) -> Iterator[Row]:
    """Compare minima: with a random part and without, with own thresholds and with one for all."""
    for case, entries in results.items():
        if "beside" not in entries:
            continue
        own = not case.endswith(", randomised")
        what = "one threshold for all" if own else "the deterministic one"
        most = OWN_THRESHOLDS if own else RANDOMISED
        found = entries["fedwqcp"]["best"] / entries["beside"]["best"]
        yield f"{case}: beside {what}", f"at most {most:g}", f"{found:.2f}", found <= most


def plainer(case: str) -> str:
    """Return the case that a case is compared with; empty if with none.

    With one threshold for all, or without a random part. APS without one is simply "sets".
    """
    for end in (", by label", ", by row", ", randomised"):
        if case.endswith(end):
            found = case.removesuffix(end)
            return found.removesuffix(" APS")
    return ""


def check_threads(ratios: dict[str, Any]) -> Iterator[Row]:
    """Compare two threads with one."""
    for case, found in ratios.items():
        ratio, reading = found["ratio"], found["reading"]
        met: bool | str = ratio >= THREADS
        if not met and reading < READING:
            met = f"bound by memory: {reading:.2f} times two threads that only read"
        yield f"{case}: two threads beside one", f"at least {THREADS:g}", f"{ratio:.3f}", met


def table(rows: list[Row]) -> str:
    """All goals, met or missed."""
    lines = ["| goal | wanted | measured | |", "|---|---|---|---|"]
    for what, wanted, found, met in rows:
        verdict = met if isinstance(met, str) else "met" if met else "**missed**"
        lines.append(f"| {what} | {wanted} | {found} | {verdict} |")
    return "\n".join(lines) + "\n"
