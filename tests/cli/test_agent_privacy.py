"""``agent calibrate --privacy-budget``: kept beside the outputs, from one process to the next."""

from __future__ import annotations

import json

import numpy as np
import pytest

from command_line import call_process


def program(folder, *arguments, code=0):
    """Run a command as a process of its own; return what it prints on one line."""
    return " ".join(call_process(folder, *arguments, code=code).split())


@pytest.fixture
def home(tmp_path):
    """A roster, outputs, and two private rounds."""
    (tmp_path / "roster.toml").write_text('agents = ["st-mary"]\nn_classes = 3\n')
    rng = np.random.default_rng(2)
    probs = rng.dirichlet([1, 2, 3], size=600)
    labels = np.array([rng.choice(3, p=row) for row in probs])
    np.savez(tmp_path / "cal.npz", probs=probs, labels=labels)
    for name in ("one", "two"):
        program(tmp_path, "server", "open", "--method", "private-fedwq-cp", "--score", "aps",
                "--setting", "epsilon=0.75", "--alpha", "0.1", "--agents", "roster.toml",
                "--out", f"{name}.json")  # fmt: skip
    return tmp_path


def calibrate(home, name, *more, code=0):
    return program(home, "agent", "calibrate", "--round", f"{name}.json", "--outputs", "cal.npz",
                   "--out", f"answer-{name}.json", *more, code=code)  # fmt: skip


def test_a_budget_lasts_from_process_to_process(home):
    said = calibrate(home, "one", "--privacy-budget", "1")
    assert "privacy budget: 0.25 of 1 is left" in said
    assert '"epsilon":0.75' in said
    assert '"unit":"one calibration sample replaced; n is public"' in said
    first = (home / "answer-one.json").read_bytes()
    (home / "answer-one.json").unlink()
    assert "0.25 of 1 is left" in calibrate(home, "one", "--privacy-budget", "1")
    assert (home / "answer-one.json").read_bytes() == first
    refused = calibrate(home, "two", "--privacy-budget", "1", code=2)
    assert "it asks for epsilon = 0.75, and 0.25 of 1.0 is left" in refused
    assert not (home / "answer-two.json").exists()
    assert len(list((home / "cal.npz.privacy").glob("0*"))) == 1
    forgotten = calibrate(home, "two", code=2)
    assert "cal.npz.privacy keeps a privacy budget: say how much" in forgotten


def test_a_link_to_the_outputs_has_their_budget(home):
    calibrate(home, "one", "--privacy-budget", "1")
    (home / "latest.npz").symlink_to("cal.npz")
    linked = ("--outputs", "latest.npz")
    assert "0.25 of 1.0 is left" in calibrate(home, "two", *linked, "--privacy-budget", "1", code=2)
    assert "cal.npz.privacy keeps a privacy budget" in calibrate(home, "two", *linked, code=2)


def test_a_folder_of_ones_own(home):
    calibrate(home, "one", "--privacy-budget", "1", "--privacy-folder", "ledger")
    entry = json.loads((home / "ledger" / "000001.json").read_text())
    assert entry["epsilon"] == "0.75"
    assert "ledger keeps a privacy budget: say how much" in calibrate(
        home, "two", "--privacy-folder", "ledger", code=2
    )


def test_too_few_points_for_epsilon_are_named(home):
    assert "too few" not in calibrate(home, "one", "--privacy-budget", "2")
    with np.load(home / "cal.npz") as found:
        np.savez(home / "few.npz", probs=found["probs"][:100], labels=found["labels"][:100])
    said = program(home, "agent", "calibrate", "--round", "one.json", "--outputs", "few.npz",
                   "--out", "few.json", "--privacy-budget", "2")  # fmt: skip
    assert "with this epsilon the points are too few for a finite threshold" in said
    assert "ask the server for a larger epsilon" in said
