"""When a measured coverage is too low, on target or not yet shown."""

from __future__ import annotations

from math import ceil

from fedwqcp.metrics import Rate


def judged(rate: Rate, nominal: float, explained: float, asked: float | None = None) -> str:
    """Judge a coverage by its interval, and by what chance of the calibration points explains.

    On target means that the interval excludes a miss of alpha/2 beyond alpha, which is also what
    `fedwqcp.theory.diagnose` calls safe. Above nominal lies above what was ``asked`` for, where
    less than that is promised.
    """
    if rate.high < nominal:
        return "too low" if rate.coverage < explained else "watch"
    if rate.low > (asked or nominal):
        return "above nominal"
    if rate.low < least_shown(nominal) - 1e-9:
        return "not yet shown"
    return "on target"


def least_shown(nominal: float) -> float:
    """Return what an interval on target does not reach below: 0.85 for 0.9."""
    return 1.5 * nominal - 0.5


def enough_cases(rate: Rate, nominal: float) -> int | None:
    """Return about how many cases of this coverage are on target; None where no number is."""
    room = rate.coverage - least_shown(nominal)
    return ceil(rate.n * ((rate.coverage - rate.low) / room) ** 2) if room > 0 else None
