"""How one agent, or one of its classes, stands: in numbers and in a sentence."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class Standing:
    """The state of one stream, as far as people need it; class counts and no more of anybody.

    Parameters
    ----------
    agent : str
        Whose rows.
    label : int or None
        Which class; None for all rows.
    calibration : int
        Which calibration they follow; the first is 1.
    floor : float
        Least coverage that still keeps the promise: 1 - alpha - tolerance.
    n, hits : int
        Rows since that calibration, and how many were covered.
    low, high : float
        95 % confidence sequence of their mean coverage.
    evidence : float
        log M, the evidence of a drop.
    bar : float
        log(1/delta) of this stream: evidence that raises the alarm.
    alarm : int or None
        The row at which it was raised.
    before, since_n, since_hits : int
        The likeliest beginning of a drop: rows before it, rows and hits since. It means something
        where there is an alarm.
    """

    agent: str
    label: int | None
    calibration: int
    floor: float
    n: int
    hits: int
    low: float
    high: float
    evidence: float
    bar: float
    alarm: int | None
    before: int
    since_n: int
    since_hits: int

    @property
    def status(self) -> Literal["alarm", "ok", "no rows"]:
        """What to think of it; an alarm stands until the agent is calibrated again."""
        if self.alarm is not None:
            return "alarm"
        return "ok" if self.n else "no rows"

    @property
    def coverage(self) -> float | None:
        """Share of all rows that were covered."""
        return self.hits / self.n if self.n else None

    @property
    def current(self) -> float | None:
        """Estimate of the coverage now: since the likeliest drop if there is an alarm."""
        if self.alarm is None or not self.since_n:
            return self.coverage
        return self.since_hits / self.since_n

    def __str__(self) -> str:
        name = self.agent if self.label is None else f"{self.agent}, class {self.label}"
        if self.coverage is None or self.current is None:
            return f"{name}: no rows yet"
        seen = f"{self.coverage:.4f} of {self.n} rows, sequence {self.low:.4f} to {self.high:.4f}"
        if self.alarm is None:
            return (
                f"{name}: ok, coverage {seen}; evidence of a drop {exp(self.evidence):.3g}, "
                f"alarm at {exp(self.bar):.4g}"
            )
        return (
            f"{name}: ALARM at row {self.alarm}: coverage has dropped below {self.floor:.4g}; "
            f"recalibrate. Since about row {self.before + 1} it is {self.current:.4f} "
            f"({self.since_n} rows); over all {seen}"
        )
