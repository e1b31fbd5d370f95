"""Is a threshold still valid? Coverage after release, as labels arrive.

Each agent, and each monitored class, has a test that raises an alarm when coverage drops, also
after a long good time, and a confidence sequence that is valid at any time. Rows pass through

- ``reading``: files and arrays become a `CoverageBatch` of hits and misses;
- ``monitor``: `Monitor.absorb` hands the rows of an agent, and those of each class, to a test;
- ``sequential_tests``: `advance` updates the test and decides the alarm;
- ``state``: the monitor, its log and the rounds that alarms opened are kept in files.
"""

from fedwqcp.monitor.monitor import Monitor, MonitorTerms, Standing
from fedwqcp.monitor.reading import CoverageBatch, read_batches
from fedwqcp.monitor.sequential_tests import calibration_slack, confidence_sequence
from fedwqcp.monitor.state import (
    LogEntry,
    append_log,
    changing,
    load_monitor,
    read_log,
    save_monitor,
)

__all__ = [
    "CoverageBatch",
    "LogEntry",
    "Monitor",
    "MonitorTerms",
    "Standing",
    "append_log",
    "calibration_slack",
    "changing",
    "confidence_sequence",
    "load_monitor",
    "read_batches",
    "read_log",
    "save_monitor",
]
