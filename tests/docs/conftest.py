"""The module that makes pages of the package itself, for all tests of the docs."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def generate():
    """``docs/generate.py`` as a module."""
    pytest.importorskip("sklearn")
    import generate

    return generate
