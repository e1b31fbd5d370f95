"""One profile for property tests (the same examples on every run, no clock), and strict imports."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest
from _pytest.doctest import DoctestModule
from hypothesis import settings

settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.load_profile("repeatable")


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(
    file_path: Path,
) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Search tests for no doctests: that search would hide a test file that cannot be imported.

    Source files may lack an extra, so doctests skip what they cannot import; and what one collector
    has begun to import is not imported again by the next.
    """
    found = yield
    if file_path.name.startswith("test_"):
        return [collector for collector in found if not isinstance(collector, DoctestModule)]
    return found
