"""What is kept of one agent, however many rows there were."""

from __future__ import annotations

from dataclasses import dataclass, field

from fedwqcp.monitor.track import Track

REMEMBERED = 1000
"""How many batch ids of an agent are remembered, the latest ones."""


@dataclass(frozen=True)
class Site:
    """What is kept of one agent.

    Parameters
    ----------
    classes : tuple of Track, optional
        Rows of each class since its last calibration, where classes are watched.
    rows : Track, optional
        All rows since then.
    calibration : int, optional
        Number of that calibration.
    batches : tuple of str, optional
        Digests of the latest batch ids.
    """

    classes: tuple[Track, ...] = ()
    rows: Track = field(default_factory=Track)
    calibration: int = 1
    batches: tuple[str, ...] = ()
