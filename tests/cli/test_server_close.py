"""``server close``: what it says of the thresholds, of averaging and of the next step."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from command_line import call
from fedwqcp.cli.main import app, exit_code
from fedwqcp.errors import QuorumError

NAMES = ("a", "b", "c", "d")


@pytest.fixture
def house(tmp_path, monkeypatch):
    """Outputs of four agents, of which b's labels are what its model thinks least likely."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "roster.toml").write_text('agents = ["a", "b", "c", "d"]\nn_classes = 3\n')
    rng = np.random.default_rng(0)
    for name in NAMES:
        probs = rng.dirichlet([1, 2, 3], size=60)
        labels = np.array([rng.choice(3, p=p) for p in probs])
        np.savez(f"{name}.npz", probs=probs, labels=probs.argmin(1) if name == "b" else labels)
    return tmp_path


def closed(house, *terms):
    """Run a round to its end; return what is said at each step, and the last object."""
    call("server", "open", "--agents", "roster.toml", "--score", "lac", *terms)
    said, answers, ask = [], [], ()
    while not (house / "release.json").exists():
        for name in NAMES:
            answers.append(f"{name}.step-{len(said)}.json")
            call("agent", "calibrate", "--round", "round.json", "--outputs", f"{name}.npz",
                "--agent", name, "--out", answers[-1], "--allow-samples", *ask)  # fmt: skip
        said.append(call("server", "close", "round.json", *answers))
        ask = ("--ask", f"round.ask-{len(said)}.json")
    return said, json.loads(call("server", "close", "round.json", "--json"))


def test_a_liar_is_named(house):
    said, told = closed(house, "--method", "rob-fcp", "--alpha", 0.1, "--alpha", 0.2)
    assert [each["left_out"] for each in told["thresholds"]] == [["b"], ["b"]]
    assert [each["loss"] for each in told["thresholds"]] == [1.0, 1.0]
    q = told["thresholds"][0]["thresholds"][0]
    assert f"alpha=0.1: threshold {q:.6g} for all agents; left out: b (" in said[-1]
    assert "alpha=0.2: threshold" in said[-1]
    (row,) = (line for line in said[-1].splitlines() if line.startswith("│ b "))
    assert "left out" in row
    assert told["diagnoses"] == []
    assert "averag" not in said[-1]


def test_what_comes_next_is_told(house):
    said, _ = closed(house, "--method", "fcp", "--setting", "probes=4095", "--alpha", 0.1)
    assert "send round.ask-1.json to the agents" in said[0]
    assert "agent calibrate --ask" in said[0]
    assert "with the answers of all steps so far" in said[0]
    assert "UNSAFE" not in said[-1]


@pytest.mark.parametrize("method", ["guarded-median-cp", "weighted-median-cp", "trimmed-mean-cp"])
def test_averaging_is_no_matter_where_nothing_was_averaged(house, method):
    said, told = closed(house, "--method", method, "--alpha", 0.1)
    assert told["diagnoses"] == []
    assert "averag" not in said[0]
    assert ("only as far as its own data allow" in said[0]) == (method == "guarded-median-cp")


def test_averaging_is_judged_where_thresholds_were_averaged(house):
    said, told = closed(house, "--method", "fedavgq-cp", "--alpha", 0.1, "--alpha", 0.4)
    assert [found["alpha"] for found in told["diagnoses"]] == [0.1, 0.4]
    release = json.loads((house / "release.json").read_text())
    for alpha, each, outcome in zip(
        (0.1, 0.4), told["thresholds"], release["outcomes"], strict=True
    ):
        assert (each["whose"], each["thresholds"]) == ("all", [outcome["value"]])
        assert f"alpha={alpha}: threshold {outcome['value']:.6g} for all agents" in said[0]


def test_private_thresholds_that_are_infinite_have_their_own_reason(house):
    said, _ = closed(house, "--method", "private-fedwq-cp", "--alpha", 0.1)
    assert "n is too small for epsilon=1 and alpha=0.1" in said[0]
    assert "a larger epsilon, or more points" in said[0]
    assert "themselves" not in said[0]
    assert "fcp" not in said[0]


def test_a_private_median_is_not_judged_as_a_mean(house):
    _, told = closed(house, "--method", "private-fedwq-cp", "--setting", "epsilon=40",
                     "--setting", "combine=weighted-median-cp", "--alpha", 0.2)  # fmt: skip
    assert told["diagnoses"] == []
    assert told["thresholds"][0]["whose"] == "all"


def test_a_round_that_can_no_longer_keep_its_promise_is_refused(house):
    words = ("--method", "weighted-median-cp", "--setting", "byzantine=2", "--alpha", 0.1)
    call("server", "open", "--agents", "roster.toml", "--score", "lac", *words)
    for name in NAMES:
        call("agent", "calibrate", "--round", "round.json", "--outputs", f"{name}.npz",
            "--agent", name)  # fmt: skip
    done = CliRunner().invoke(
        app, ["server", "close", "round.json", *(f"{name}.json" for name in NAMES)]
    )
    assert isinstance(done.exception, QuorumError)
    assert exit_code(done.exception) == 3
    assert "byzantine=2 agents, and its answers withstand 1" in str(done.exception)
    assert not (house / "release.json").exists()
