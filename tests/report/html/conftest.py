"""Pages are tested where Altair, vl-convert and Jinja are there; most without the library."""

import pytest

pytest.importorskip("altair", reason="needs fedwqcp[report]")
pytest.importorskip("vl_convert", reason="needs fedwqcp[report]")

from fedwqcp.report.html import render
from fedwqcp.report.html.charts import unchecked


@pytest.fixture
def quick(monkeypatch):
    """Pages without the library, built without checks against Vega-Lite's schema."""
    monkeypatch.setattr(render, "_library", lambda: "")
    with unchecked():
        yield
