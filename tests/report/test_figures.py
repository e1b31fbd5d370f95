"""The demo's figure: the same bytes for the same results."""

import sys

import pytest

pytest.importorskip("matplotlib")

from fedwqcp.demo.demo import committed
from fedwqcp.errors import MissingExtraError
from fedwqcp.report.figures import draw_demo


def test_the_same_figure_is_written_twice_with_every_hospital_and_method(tmp_path):
    one, other = (draw_demo(committed(), tmp_path / f"{name}.svg") for name in ("one", "other"))
    assert one.read_bytes() == other.read_bytes()
    for name in ("Cleveland", "Budapest", "Zurich-Basel", "Long-Beach", "auto", "fedwq-cp"):
        assert f"<!-- {name}" in one.read_text()


def test_a_missing_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError):
        draw_demo(committed(), tmp_path / "demo.png")
