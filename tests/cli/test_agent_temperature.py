"""``agent calibrate --temperature-share``: fitted here, kept here, used by ``agent predict``."""

from __future__ import annotations

import json

import numpy as np
import pytest

import fedwqcp as fw
from command_line import call
from fedwqcp.errors import InputError


def program(*arguments, refused=False):
    """Run a command, and return what it prints on one line, or why it refuses."""
    if refused:
        with pytest.raises(InputError) as error:
            call(*arguments)
        return str(error.value)
    return " ".join(call(*arguments).split())


def save(path, n, seed):
    """Write logits that are three times too large, with labels and ids."""
    rng = np.random.default_rng(seed)
    logits = 1.5 * rng.normal(size=(n, 3))
    labels = (fw.softmax(logits).cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    np.savez(path, logits=3 * logits, labels=labels, ids=np.arange(n) + 1000 * seed)


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A round, and two agents' logits."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "roster.toml").write_text('agents = ["st-mary", "lakeside"]\nn_classes = 3\n')
    program("server", "open", "--alpha", 0.1, "--agents", "roster.toml")
    for seed, name in enumerate(("st-mary", "lakeside", "new")):
        save(tmp_path / f"{name}.npz", 300 if name != "new" else 2000, seed)
    return tmp_path


def calibrate(name, *more, refused=False):
    """Answer as one agent."""
    return program("agent", "calibrate", "--round", "round.json", "--outputs", f"{name}.npz",
                   "--agent", name, *more, refused=refused)  # fmt: skip


def predict(*more, refused=False):
    """Predict as st-mary."""
    return program("agent", "predict", "--release", "release.json", "--outputs", "new.npz",
                   "--agent", "st-mary", *more, refused=refused)  # fmt: skip


def test_an_agent_predicts_at_the_temperature_it_calibrated_at(home):
    said = calibrate("st-mary", "--temperature-share", 0.2)
    kept = json.loads((home / "st-mary.temperature").read_text())
    assert f"fitted on {kept['fitted_on']} rows that are not calibrated on" in said
    assert "kept in st-mary.temperature, which stays here" in said
    assert "logits at temperature 1; kept in lakeside.temperature" in calibrate("lakeside")
    answer = (home / "st-mary.json").read_text()
    assert json.loads(answer)["answers"][0]["n"] == 300 - kept["fitted_on"]
    assert "temperature" not in answer
    assert "holds this answer already" in calibrate("st-mary")
    program("server", "close", "round.json", "st-mary.json", "lakeside.json")
    told = json.loads(predict("--json"))
    release, new = fw.load(home / "release.json"), np.load(home / "new.npz")
    probs = fw.softmax(new["logits"], kept["temperature"])
    u = fw.uniforms(release.round.key, new["ids"].astype(str))
    sets = fw.APS().invert(probs, release.threshold("st-mary"), u=u)
    assert told["size"] == pytest.approx(float(sets.sizes().mean()))
    (home / "st-mary.temperature").rename(home / "elsewhere")
    assert "name it with --temperature-file" in predict(refused=True)
    predict("--temperature-file", "elsewhere", "--calibration", "st-mary.npz")
    np.savez(home / "probs.npz", probs=probs[:5], labels=[0, 1, 2, 0, 1])
    refused = predict("--temperature-file", "elsewhere", "--calibration", "probs.npz", refused=True)
    assert "--calibration and --outputs must both hold logits, or neither" in refused


def test_scripts_are_told(home):
    told = json.loads(calibrate("st-mary", "--temperature-share", 0.3, "--json"))
    assert told["temperature"] == json.loads((home / "st-mary.temperature").read_text())
