"""``agent calibrate``: what leaves is shown before it is sent."""

from __future__ import annotations

import numpy as np
import pytest

from command_line import call


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A folder with the calibration outputs of one agent."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "roster.toml").write_text('agents = ["st-mary"]\nn_classes = 2\n')
    half = np.linspace(0.1, 0.9, 40)
    np.savez("cal.npz", probs=np.stack([half, 1 - half], axis=1), labels=np.arange(40) % 2)
    return tmp_path


def answer(method):
    """Open a round, answer it, and return what it prints."""
    for command in (
        ["server", "open", "--alpha", "0.1", "--agents", "roster.toml", "--method", method],
        ["agent", "calibrate", "--round", "round.json", "--outputs", "cal.npz", "--max-share", "1"],
    ):
        said = call(*command)
    return said


def test_a_short_answer_is_shown_whole(home):
    said = answer("fedwq-cp")
    assert (home / "st-mary.json").read_text() in said


def test_of_a_long_answer_the_beginning_is_shown_and_where_the_rest_is(home):
    said = answer("fed-crc")
    whole = (home / "st-mary.json").read_text().strip()
    assert len(whole) > 2000
    assert f"{whole[:2000]} ... (the rest is in st-mary.json)" in said
    assert whole not in said
