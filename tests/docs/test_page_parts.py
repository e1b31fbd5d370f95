"""Commands write their tables between two marks of a page, and fail where a mark is not clear."""

from __future__ import annotations

import pytest
from page_parts import put, replaced


def test_what_stands_between_the_marks_is_replaced():
    assert replaced("a [ old ] b", "[", "]", " new ") == "a [ new ] b"


@pytest.mark.parametrize("text", ["a ] b", "a [ b", "[ ] [", "[ ] ]", "] [", ""])
def test_each_mark_must_occur_once_and_in_order(text):
    with pytest.raises(ValueError, match="the page must have"):
        replaced(text, "[", "]", "new")


def test_a_named_part_of_a_page_is_written(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("before\n\n<!-- size -->\nold\n<!-- end of size -->\n\nafter\n")
    put(page, "size", "\nnew\n\n")
    assert page.read_text() == ("before\n\n<!-- size -->\n\nnew\n\n<!-- end of size -->\n\nafter\n")
    with pytest.raises(ValueError, match="<!-- sizes -->"):
        put(page, "sizes", "new")
