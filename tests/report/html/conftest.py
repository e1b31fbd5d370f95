"""Pages are tested where Altair, vl-convert and Jinja are there."""

import pytest

pytest.importorskip("altair", reason="needs fedwqcp[report]")
pytest.importorskip("vl_convert", reason="needs fedwqcp[report]")
