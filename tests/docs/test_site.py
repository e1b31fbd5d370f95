"""The pages that the site makes of the package itself."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import fedwqcp
from fedwqcp import methods

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_every_public_name_and_method_is_in_the_reference(generate):
    page = generate.python()
    for name in set(fedwqcp.__all__) - {"methods", "scores"}:
        assert f"   fedwqcp.{name}\n" in page
    for name in methods.built_in():
        kind = methods.find(name)
        assert f"   {kind.__module__}.{kind.__qualname__}\n" in page


def test_every_command_is_in_the_reference(generate):
    page = generate.commands()
    for name in ("server open", "agent predict", "report figure", "monitor show"):
        assert f"\n## {name}\n" in page
    assert page.count("`--json") == page.count("\n## ")


def test_pages_are_written_only_where_they_change(generate, tmp_path):
    generate.write(tmp_path / "made")
    pages = sorted((tmp_path / "made").iterdir())
    before = [page.stat().st_mtime_ns for page in pages]
    generate.write(tmp_path / "made")
    assert [page.name for page in pages] == ["commands.md", "python.rst"]
    assert [page.stat().st_mtime_ns for page in pages] == before


def test_what_people_search_for_is_in_the_title_of_its_page_and_of_no_other(generate):
    titles = {
        page.relative_to(DOCS.parent).with_suffix("").as_posix(): page.read_text().split("\n")[0]
        for page in DOCS.rglob("*.md")
    }
    assert len(generate.SEARCHED) >= 6
    for words, page in generate.SEARCHED.items():
        assert [name for name in titles if words.lower() in titles[name].lower()] == [page]


@pytest.mark.parametrize("page", sorted((DOCS / "how-to").glob("*.md")), ids=lambda page: page.stem)
def test_a_how_to_is_at_most_a_page(page):
    prose = re.sub(r"^ *```.*?^ *```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    lines = [line for line in prose.splitlines() if not line.lstrip().startswith("|")]
    assert len(" ".join(lines).split()) <= 450, "move what is not needed to do it to another page"
