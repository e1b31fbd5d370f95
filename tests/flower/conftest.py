"""Flower tests need the extra; those with processes of their own carry the marker ``flower``."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
os.environ.setdefault("FLWR_DISABLE_UPDATE_CHECK", "1")
sys.path.insert(0, str(Path(__file__).parent))

if importlib.util.find_spec("flwr") is None:
    collect_ignore_glob = ["test_*.py"]
