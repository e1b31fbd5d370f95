"""Parts of a page that a command writes, between two marks."""

from __future__ import annotations

from pathlib import Path


def replaced(text: str, begin: str, end: str, made: str) -> str:
    """Return a page with what stands between two marks replaced; each mark must occur once."""
    for mark in (begin, end):
        if text.count(mark) != 1:
            raise ValueError(f"the page must have {mark!r} once, got it {text.count(mark)} times")
    before, rest = text.split(begin)
    if end not in rest:
        raise ValueError(f"the page must have {end!r} after {begin!r}")
    return before + begin + made + end + rest.split(end)[1]


def put(page: Path, part: str, made: str) -> None:
    """Write text between the lines ``<!-- part -->`` and ``<!-- end of part -->`` of a page."""
    begin, end = f"<!-- {part} -->\n", f"<!-- end of {part} -->"
    text = replaced(page.read_text(encoding="utf-8"), begin, end, made)
    page.write_text(text, encoding="utf-8")
