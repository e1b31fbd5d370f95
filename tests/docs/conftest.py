"""The module that makes pages of the package itself, for all tests of the docs."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def generate():
    """``docs/generate.py`` as a module."""
    pytest.importorskip("sklearn")
    path = Path(__file__).resolve().parents[2] / "docs" / "generate.py"
    spec = importlib.util.spec_from_file_location("generate", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
