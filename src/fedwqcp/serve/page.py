"""One offline HTML page that predicts with a predictor, in words."""

from __future__ import annotations

from pathlib import Path

from fedwqcp._io import read

_HERE = Path(__file__).parent


def page() -> bytes:
    """Return the page with the JavaScript consumer inside."""
    script = read(_HERE / "predictor.js")
    return read(_HERE / "page.html").replace(b"/* predictor.js */", script)
