"""Is a threshold still valid? Inputs after release, and coverage as labels arrive.

Each agent, and each monitored class, has a test that raises an alarm when coverage drops, also
after a long good time, and a confidence sequence that is valid at any time. Inputs can be tested
before labels come. Rows pass through

- ``reading``: files and arrays become a `CoverageBatch` of hits and misses;
- ``monitor``: `Monitor` hands the rows of an agent, and those of each class, to a test;
- ``sequential_tests``: `advance` updates the test and decides the alarm;
- ``state``: the monitor is kept in a file.
"""

from fedwqcp.monitor.monitor import BatchCounts, Monitor, MonitorTerms, Standing
from fedwqcp.monitor.reading import CoverageBatch, read_batches, read_column
from fedwqcp.monitor.sequential_tests import calibration_slack, confidence_sequence
from fedwqcp.monitor.state import changing, load_monitor, save_monitor

__all__ = [
    "BatchCounts",
    "CoverageBatch",
    "Monitor",
    "MonitorTerms",
    "Standing",
    "calibration_slack",
    "changing",
    "confidence_sequence",
    "load_monitor",
    "read_batches",
    "read_column",
    "save_monitor",
]
