"""Every sentence of a method's guarantee has a test that says so, and no test holds gone words."""

from __future__ import annotations

import pytest

from fedwqcp import methods


@pytest.mark.parametrize("method", methods.built_in())
def test_every_sentence_of_a_guarantee_is_held_by_a_test(generate, method):
    held = {generate.sentence_with(mark) for mark in generate.marks() if mark.source == method}
    assert [each for each in generate.guarantee_of(method) if each not in held] == []


def test_every_marked_test_holds_words_that_are_there(generate):
    assert [mark for mark in generate.marks() if generate.sentence_with(mark) is None] == []
