"""``agent predict``: what an agent takes from a release, and what it takes from its own data."""

from __future__ import annotations

import json
from math import inf

import numpy as np
import pytest

import fedwqcp as fw
from command_line import call
from fedwqcp.cli.output import exit_code
from fedwqcp.errors import FedwqcpError
from fedwqcp.wire.codec import decode
from fedwqcp.wire.messages import Round

SITES = ("st-mary", "lakeside", "north")


def refused(error, says, code):
    """Tell whether a command was refused for a reason, with an exit code."""
    assert isinstance(error, FedwqcpError), error
    assert says in str(error)
    return exit_code(error) == code


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Outputs of three sites, and a roster."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for name in (*SITES, "new"):
        probs = rng.dirichlet([1, 2, 3], size=60)
        labels = rng.integers(0, 3, size=60)
        np.savez(f"{name}.npz", probs=probs, labels=labels)
        np.save(f"{name}.npy", probs)
        np.save(f"{name}-y.npy", labels)
    (tmp_path / "roster.toml").write_text(f"agents = {json.dumps(SITES)}\nn_classes = 3\n")
    return tmp_path


def released(method, *more, out="release.json", round="round.json"):
    """Hold a round and return the text of its release."""
    call("server", "open", "--method", method, "--alpha", 0.1, "--score", "lac", *more,
         "--agents", "roster.toml", "--out", round)  # fmt: skip
    answers = []
    for name in SITES if method != "split-cp" else ():
        answers.append(f"{round}.{name}.json")
        call("agent", "calibrate", "--round", round, "--outputs", f"{name}.npz", "--agent", name,
             "--out", answers[-1])  # fmt: skip
    call("server", "close", round, *answers, "--out", out)
    with open(out) as file:
        return file.read()


def predict(*more, release="release.json"):
    """Predict as st-mary; return what is printed, or the error."""
    try:
        return call("agent", "predict", "--release", release, "--outputs", "new.npz",
                    "--agent", "st-mary", *more)  # fmt: skip
    except FedwqcpError as error:
        return error


def forge(text, old, new):
    """Write a release with a change."""
    assert text.count(old) == 1, text
    with open("release.json", "w") as file:
        file.write(text.replace(old, new))


@pytest.mark.parametrize("method", ["split-cp", "guarded-median-cp"])
def test_an_own_threshold_comes_from_the_agents_data_alone(home, method):
    text = released(method)
    assert refused(predict(), "--calibration", 2)
    assert "60 sets in sets.csv" in predict("--calibration", "st-mary.npz")
    forge(text, '"local":{}', '"local":{"st-mary":[0.01]}')
    assert refused(predict(), "release.json: local: must be empty", 2)
    whole = json.loads(text)
    whole["outcomes"] = [{"kind": "shared-threshold", "value": 0.01}]
    (home / "release.json").write_text(json.dumps(whole))
    for more in ((), ("--calibration", "st-mary.npz")):
        assert refused(predict(*more), "release.json: outcomes: must be of the kinds", 2)


def test_a_release_must_be_of_the_terms_that_were_answered(home):
    text = released("fedwq-cp")
    assert "60 sets" in predict("--round", "round.json")
    forge(text, '"alphas":[0.1]', '"alphas":[0.5]')
    said = "alphas: must be as in the round that this agent answered"
    assert refused(predict("--round", "round.json"), said, 3)
    other = json.loads(text)
    other["round"]["method"] = {"name": "fedavgq-cp", "settings": {}}
    (home / "release.json").write_text(json.dumps(other))
    assert refused(predict("--round", "round.json"), "method: must be as in the round", 3)
    released("fedwq-cp", out="other.json", round="other-round.json")
    mine = decode((home / "round.json").read_bytes(), Round).id
    error = predict("--round", "round.json", release="other.json")
    assert refused(error, f"this agent has {mine}", 3)
    error = predict("--round", "release.json", release="other.json")
    assert refused(error, "release.json", 3)


def test_calibration_labels_may_lie_in_a_file_of_their_own(home):
    released("guarded-median-cp")
    assert refused(predict("--calibration", "st-mary.npy"), "calibration needs labels", 2)
    assert refused(predict("--calibration-labels", "new-y.npy"), "needs --calibration", 2)
    predict("--calibration", "st-mary.npz", "--out", "one.csv")
    predict("--calibration", "st-mary.npy", "--calibration-labels", "st-mary-y.npy")
    one = (home / "one.csv").read_text()
    assert one == (home / "sets.csv").read_text()
    probs, labels = np.load("st-mary.npy"), np.load("st-mary-y.npy")
    least = fw.conformal_quantile(fw.LAC().of(probs, labels), 0.1)
    assert least < inf
    sizes = [int(line.split(",")[1]) for line in one.splitlines()[1:]]
    assert (sizes >= fw.LAC().invert(np.load("new.npy"), least).sizes()).all()


def test_logits_tell_another_file_from_the_one_that_was_calibrated_with(home):
    rng = np.random.default_rng(1)
    for name, n in (("st-mary", 500), ("lakeside", 60), ("new", 60)):
        logits = rng.normal(size=(n, 3))
        labels = (fw.softmax(logits).cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
        np.savez(f"{name}.npz", logits=logits, labels=labels)
    (home / "roster.toml").write_text('agents = ["st-mary"]\nn_classes = 3\n')
    call("server", "open", "--method", "guarded-median-cp", "--alpha", 0.1, "--score", "lac",
         "--agents", "roster.toml")  # fmt: skip
    call("agent", "calibrate", "--round", "round.json", "--outputs", "st-mary.npz",
         "--temperature-share", 0.5)  # fmt: skip
    call("server", "close", "round.json", "st-mary.json")
    assert "60 sets" in predict("--calibration", "st-mary.npz")
    said = "must be the file that this agent calibrated with"
    assert refused(predict("--calibration", "lakeside.npz"), said, 2)
