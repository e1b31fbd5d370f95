"""Every sentence of a guarantee has a test, and the page that lists them is current."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedwqcp import methods

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.parametrize("method", methods.available())
def test_every_sentence_of_a_guarantee_is_held_by_a_test(generate, method):
    held = {generate.sentence_with(mark) for mark in generate.marks() if mark.source == method}
    assert [each for each in generate.guarantee_of(method) if each not in held] == []


def test_every_promise_of_a_page_is_held_by_a_test(generate):
    assert generate.unheld() == []


def test_every_promise_of_a_docstring_is_held_by_a_test(generate):
    assert generate.unheld_in_docstrings() == []
    assert len(generate.documented()) > 80


def test_what_is_called_no_promise_is_there_and_looks_like_one(generate):
    for page, words in generate.NO_PROMISES.items():
        named = page in generate.documented()
        lines = (generate.promising_docstring if named else generate.promising)(page)
        assert [each for each in words if not any(each in line for line in lines)] == [], page


def test_a_promise_without_a_test_is_found(generate, monkeypatch, tmp_path):
    page = tmp_path / "docs" / "how-to" / "new.md"
    page.parent.mkdir(parents=True)
    page.write_text(
        "# Coverage is at least 1\n\nOf 9 agents some are\nsmall. Every agent is covered at least\n"
        "nine times in ten. Held by `test_split_cp`: coverage of at least 1 - alpha.\n\n"
        "| coverage of at most 1 | `methods/test_x.py::test_that_is_not_there` |\n"
    )
    for name in ("README.md", "SECURITY.md"):
        (tmp_path / name).write_text("Nothing.\n")
    generate.marks()
    generate._tests()  # of this repository
    monkeypatch.setattr(generate, "ROOT", tmp_path)
    assert generate.unheld() == [
        ("docs/how-to/new.md", "Every agent is covered at least nine times in ten."),
        (
            "docs/how-to/new.md",
            "| coverage of at most 1 | `methods/test_x.py::test_that_is_not_there` |",
        ),
    ]


def test_every_marked_test_holds_words_that_are_there(generate):
    assert [mark for mark in generate.marks() if generate.sentence_with(mark) is None] == []


def test_the_page_is_current(generate):
    page = generate.METHODS_PAGE.read_text()
    assert generate.with_promises(page) == page, "run python docs/generate.py"


def test_a_sentence_that_nobody_holds_and_words_that_are_gone_are_found(generate):
    gone = generate.Mark("fcp", "coverage at every single agent", "t")
    assert generate.sentence_with(gone) is None
    assert generate.sentence_with(gone._replace(source="README.md")) is None
    assert len(generate.guarantee_of("fcp")) > 5
