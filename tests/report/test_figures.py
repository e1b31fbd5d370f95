"""The demo's figure: every hospital and method, the same bytes for the same results."""

import sys

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("sklearn")

from fedwqcp.errors import InputError, MissingExtraError
from fedwqcp.report.figures import draw_demo
from four_hospitals import results


def test_both_files_are_written_the_same_twice_with_every_hospital_and_method(tmp_path):
    one, other = (draw_demo(results(), tmp_path / name) for name in ("one", "other"))
    assert [file.name for file in one] == ["one.png", "one.svg"]
    assert one[0].read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    for a, b in zip(one, other, strict=True):
        assert a.read_bytes() == b.read_bytes()
    svg = one[1].read_text()
    for name in ("Cleveland", "Budapest", "Zurich-Basel", "Long-Beach", "split-cp", "fedwq-cp"):
        assert f"<!-- {name}" in svg
    low = [f for f in results().of("four") if f.rate.high < 0.9]
    assert svg.count(" low -->") == len(low) > 0


def test_a_missing_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"fedwqcp\[demo\]"):
        draw_demo(results(), tmp_path / "demo")


def test_a_folder_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(InputError, match="cannot write"):
        draw_demo(results(), tmp_path / "none" / "demo")
