"""Every section of a method has its picture, which tells what the method gives today."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from fedwqcp import methods

HERE = Path(__file__).resolve().parents[2] / "docs/explanation"


def text(svg):
    """Return what a picture says, without how it is drawn."""
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg.read_text())


@pytest.fixture(scope="module")
def pictures():
    """The names of the script that draws them."""
    pytest.importorskip("matplotlib")
    return runpy.run_path(str(HERE / "pictures.py"))


@pytest.mark.parametrize("name", methods.built_in())
def test_a_method_is_explained_and_drawn(name, pictures, generate, tmp_path):
    section = generate.section(name)
    assert f"](pictures/{name}.svg)" in section, "run pictures.py"
    for title in ("**Idea.**", "**Guarantee.**", "**Cost.**", "**Fails**"):
        assert len(section.partition(f"{title} ")[2].partition("\n\n")[0]) > 15, title
    assert "\n$$\n" in section, "the docstring has no .. math::"
    drawn = pictures["draw"](name, tmp_path)
    assert text(drawn) == text(HERE / "pictures" / f"{name}.svg")
    assert len(text(drawn)) > 10


def test_two_federations_that_send_the_same_numbers_are_drawn(pictures, tmp_path):
    drawn = pictures["draw_two_numbers"](tmp_path)
    assert text(drawn) == text(HERE / "pictures" / "two-numbers.svg")
    assert "](pictures/two-numbers.svg)" in (HERE / "own-distribution.md").read_text()
