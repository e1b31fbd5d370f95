"""Presets are found by name."""

from __future__ import annotations

import pytest

from fedwqcp import APS, preset
from fedwqcp.errors import InputError


def test_presets():
    paper = preset("paper")
    assert paper.score == APS(randomized=False, precision="float32")
    assert (paper.rule, paper.overflow) == ("leq_top1", "clip")
    sound = preset("sound")
    assert (sound.score, sound.rule, sound.overflow) == (APS(), "leq", "propagate")
    with pytest.raises(InputError, match="unknown preset 'papers'; known: paper, sound"):
        preset("papers")
