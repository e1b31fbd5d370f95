"""The pages that the site makes of the package itself."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import fedwqcp
from fedwqcp import methods
from fedwqcp.wire import limits
from fedwqcp.wire.messages import Answer, Ask, Round
from fedwqcp.wire.release import ReleaseRecord

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
    for name in ("server open", "agent predict", "report", "monitor show"):
        assert f"\n## {name}\n" in page
    assert page.count("`--json") == page.count("\n## ")


def test_what_the_site_makes_has_every_method_field_and_limit(generate):
    made = {name: make() for name, make in generate.MADE.items()}
    assert all(f"\n## {name}\n" in f"\n{made['methods']}" for name in methods.built_in())
    for kind in (Round, Answer, Ask, ReleaseRecord):
        table = made[kind.__name__.removesuffix("Record")]
        assert [name for name in kind.__struct_fields__ if f"`{name}`" not in table] == []
    assert made["limits"].count("\n") == len(limits.ALL) + 1
    for page in DOCS.rglob("*.md"):
        assert {*re.findall("<!-- made: (.+?) -->", page.read_text())} <= made.keys(), page


def test_what_people_search_for_is_in_the_title_of_its_page_and_of_no_other(generate):
    titles = {
        page.relative_to(DOCS.parent).with_suffix("").as_posix(): page.read_text().split("\n")[0]
        for page in DOCS.rglob("*.md")
    }
    assert len(generate.SEARCHED) >= 6
    for words, page in generate.SEARCHED.items():
        assert [name for name in titles if words.lower() in titles[name].lower()] == [page]


PAGES = sorted(
    page
    for page in [*DOCS.parent.glob("*.md"), *DOCS.rglob("*.md")]
    if page.stem not in ("SECURITY", "CHANGELOG")
    and not {"reference", "auto_gallery"} & {*page.parts}
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_is_at_most_two_screens(page):
    made = r"<!-- \S+\.py: .*?<!-- end -->|<!-- ([\w ]+) -->.*?<!-- end of \1 -->"
    assert len(re.sub(made, "", page.read_text(), flags=re.DOTALL).split()) <= 900
