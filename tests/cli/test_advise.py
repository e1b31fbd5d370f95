"""``fedwqcp advise``: what it prints, and that its command opens the round it speaks of."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

import fedwqcp as fw
from command_line import call
from fedwqcp import methods, scores
from fedwqcp.cli.main import app, exit_code
from fedwqcp.errors import FedwqcpError
from fedwqcp.federation.plan import choose_method
from fedwqcp.federation.transport.folder import read_round
from fedwqcp.scores.aps import APS
from fedwqcp.scores.raps import RAPS


def made(score, method="fedwq-cp", spread=True, **options):
    """Return a record of agents that lie apart, or are alike."""
    rng = np.random.default_rng(0)
    laws = ((1, 9), (1, 4), (5, 1)) if spread else ((1, 1),) * 3
    cals = {
        name: fw.Calibration(rng.beta(*law, size=400), np.arange(400) % 4, n_classes=4)
        for name, law in zip("abc", laws, strict=True)
    }
    return fw.calibrate(cals, score=score, method=method, **{"alpha": 0.1, **options})


def saved(release, folder, name="round.record.json"):
    """Save a record, with terms that a roster may have."""
    terms = replace(release.round, quorum=2, max_n=12345)
    fw.save(replace(release, round=terms), folder / name)
    return folder / name


def opened(output, folder):
    """Open the round that was printed, with the roster that was printed."""
    lines = output.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("fedwqcp server open"))
    assert lines[at + 1] == "where ROSTER says:"
    roster = [line for line in lines[at + 2 :] if " = " in line]
    (folder / "roster.toml").write_text("\n".join(roster))
    words = shlex.split(lines[at])[1:]
    words[words.index("ROSTER")] = str(folder / "roster.toml")
    call(*words)
    return read_round(folder / "round-2.json")


PAPER = APS(randomized=False, precision="float32")
CLIP = methods.get("fedwq-cp", overflow="clip", tail=16)
GUARDED = methods.get("fcp", sketch="order", floor=True, own=True)
SPLIT_CLIP = methods.get("split-cp", overflow="clip")


@pytest.mark.parametrize(
    ("score", "options", "method"),
    [
        (PAPER, {"method": CLIP, "rule": "leq_top1"}, SPLIT_CLIP),
        (PAPER, {"rule": "leq_top1", "spread": False}, GUARDED),
        (APS(), {"alpha": 0.0123456789}, GUARDED),
        (RAPS(penalty=0.1, k_reg=2), {"alpha": (0.1, 0.3)}, GUARDED),
        (APS(), {"spread": False, "rule": "until"}, GUARDED),
    ],
)
def test_the_command_opens_a_round_on_the_same_terms(score, options, method, tmp_path):
    release = made(score, **options)
    path = saved(release, tmp_path)
    (tmp_path / "round.json").write_text("the first round")
    found = opened(call("advise", path), tmp_path)
    before = fw.load(path).round
    assert found.method == choose_method(method)
    for term in ("score", "rule", "alphas", "agents", "quorum", "max_n", "n_classes", "by"):
        assert getattr(found, term) == getattr(before, term), term
    assert found.id != before.id
    assert (tmp_path / "round.json").read_text() == "the first round"


def test_a_round_says_how_to_find_out_and_then_does(tmp_path):
    two = call("advise", saved(made("lac"), tmp_path))
    assert "use fcp, sketch=order, floor=True, own=True on lac" in two
    assert "open a round of fedwq-cp with tail=16" in two
    assert "predicts with --calibration" in two
    more = made("lac", methods.get("fedwq-cp", tail=16))
    found = call("advise", saved(more, tmp_path, "more.record.json"))
    assert "use split-cp on lac. Averaging is unsafe" in found


def test_what_is_in_use_needs_no_new_round(tmp_path):
    rng = np.random.default_rng(0)
    cals = {name: rng.uniform(size=3000) for name in "abc"}
    method = methods.get("fedwq-cp", tail=16)
    path = saved(fw.calibrate(cals, method=method, alpha=0.1, score="aps"), tmp_path)
    output = call("advise", path)
    assert "keep fedwq-cp on aps. Averaging is safe" in output
    assert "server open" not in output
    found = json.loads(call("advise", path, "--json"))
    assert (found["command"], found["advice"]["keep"]) == ([], True)


def test_one_level_of_several_is_the_next_rounds_level(tmp_path):
    path = saved(made("aps", alpha=(0.1, 0.3)), tmp_path)
    assert opened(call("advise", path, "--alpha", 0.3), tmp_path).alphas == (0.3,)


def test_names_of_rounds_count_up(tmp_path):
    path = saved(made("aps"), tmp_path)
    (tmp_path / "round-2.json").touch()
    assert f"--out {tmp_path / 'round-3.json'}" in call("advise", path)
    path = path.rename(tmp_path / "round-3.record.json")
    (tmp_path / "round-3.json").touch()
    assert f"--out {tmp_path / 'round-4.json'}" in call("advise", path)
    (tmp_path / "recorded").mkdir()
    path.rename(tmp_path / "recorded" / "record.json")
    assert f"--out {tmp_path / 'recorded-2.json'}" in call("advise", tmp_path / "recorded")


def test_a_round_of_split_cp_takes_no_answers_and_that_is_said(tmp_path):
    alone = fw.calibrate({"a": np.linspace(0, 1, 99), "b": []}, alpha=0.1, score="aps")
    path = saved(alone, tmp_path)
    output = call("advise", path)
    assert "use split-cp on aps" in output
    assert "close the round without any" in output
    opened(output, tmp_path)
    closed = call("server", "close", tmp_path / "round-2.json", "--out", tmp_path / "release.json")
    assert "closed: send" in closed
    assert "close the round" not in call("advise", saved(made("aps"), tmp_path, "other.json"))


def test_scripts_get_the_command_and_the_roster(tmp_path):
    found = json.loads(call("advise", saved(made(PAPER), tmp_path), "--json"))
    assert found["command"][:5] == ["fedwqcp", "server", "open", "--method", "fcp"]
    assert found["roster"] == 'agents = ["a", "b", "c"]\nmax_n = 12345\nn_classes = 4'
    assert found["advice"]["price"].startswith("larger sets: no threshold is below")
    assert found["advice"]["levels"] == {"0.1": "cannot-tell"}
    assert found["advice"]["verdict"] == "cannot tell"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda record: record["received"].update(a=[]), "one summary for each question"),
        (lambda record: record["received"].update(z=record["received"]["a"]), "see z"),
        (lambda record: record["received"]["a"][0].update(threshold=7.0), "between 0 and 1"),
    ],
)
def test_a_damaged_record_is_a_plain_error(change, says, tmp_path):
    path = saved(made("aps"), tmp_path)
    record = json.loads(path.read_text())
    change(record)
    path.write_text(json.dumps(record))
    error = CliRunner().invoke(app, ["advise", str(path)]).exception
    assert isinstance(error, FedwqcpError)
    assert exit_code(error) == 2
    assert says in str(error)


def test_a_private_round_is_refused(tmp_path):
    path = saved(made("aps", methods.get("private-fedwq-cp", epsilon=9.0)), tmp_path)
    error = CliRunner().invoke(app, ["advise", str(path)]).exception
    assert isinstance(error, FedwqcpError)
    assert "Stay with it" in str(error)


def test_every_setting_of_a_score_is_carried_over(tmp_path):
    for name in ("aps", "raps", "saps", "tilted-aps", "ordinal-aps", "normalized-residual"):
        path = saved(made(name), tmp_path, f"{name}.record.json")
        words = json.loads(call("advise", path, "--json"))["command"]
        carried = [w for at, w in enumerate(words) if words[at - 1] == "--score-setting"]
        assert {word.partition("=")[0] for word in carried} == set(vars(scores.get(name)))
