"""Flower tests need the extra; without it they are skipped as a whole."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

pytest.importorskip("flwr")
os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
os.environ.setdefault("FLWR_DISABLE_UPDATE_CHECK", "1")
sys.path.insert(0, str(Path(__file__).parent))
