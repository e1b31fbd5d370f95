"""Walk 1: six hospitals in folders of their own calibrate and predict through the program.

One of them sends garbage and one replays an old answer; the round closes by quorum.
"""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

import fedwqcp as fw
from command_line import OPEN, call_process
from worked import drawn

HOSPITALS = ("st-mary", "lakeside", "north", "south", "east", "west")


def model(rng, n):
    """Probabilities, labels drawn from them, and ids."""
    probs, labels = drawn(rng, n)
    ids = np.array([f"patient-{rng.integers(10**9)}" for _ in range(n)])
    return {"probs": probs, "labels": labels, "ids": ids}


@pytest.fixture(scope="module")
def closed(tmp_path_factory):
    """A round that was opened, answered and closed."""
    root = tmp_path_factory.mktemp("federation")
    server = root / "server"
    (server / "summaries").mkdir(parents=True)
    rng = np.random.default_rng(11)
    (server / "roster.toml").write_text(
        f"agents = {json.dumps(HOSPITALS)}\nquorum = 4\nmax_n = 10000\nn_classes = 3\n"
    )
    options = ["--method", "fedwq-cp", "--score", "aps", "--alpha", 0.1, "--agents", "roster.toml"]
    call_process(server, *OPEN, *options, "--out", "old-round.json")
    call_process(server, *OPEN, *options)
    for name in HOSPITALS:
        home = root / name
        home.mkdir()
        shutil.copy(server / "round.json", home)
        np.savez(home / "cal.npz", **model(rng, 60 + 10 * len(name)))
        np.savez(home / "test.npz", **model(rng, 200))
        answer = ["agent", "calibrate", "--outputs", "cal.npz", "--agent", name]
        if name == "south":  # replays its answer to an earlier round
            shutil.copy(server / "old-round.json", home)
            call_process(home, *answer, "--round", "old-round.json")
        else:
            call_process(home, *answer, "--round", "round.json")
        if name == "east":
            (home / "east.json").write_bytes(os.urandom(200))
        shutil.copy(home / f"{name}.json", server / "summaries")
    answers = sorted((server / "summaries").iterdir())
    said = call_process(server, "server", "close", "round.json", *answers)
    return root, said


def test_the_answer_is_small_and_readable(closed):
    root, _ = closed
    message = (root / "st-mary" / "st-mary.json").read_text()
    assert len(message) < 300
    answer = json.loads(message)
    assert answer["agent"] == "st-mary"
    assert set(answer["answers"][0]) == {"kind", "threshold", "n"}


def test_garbage_and_replay_are_refused_by_name(closed):
    root, _ = closed
    release = fw.load(root / "server" / "release.json")
    assert set(release.refused) == {"east", "south"}
    assert set(release.used) == set(HOSPITALS) - {"east", "south"}


def test_the_release_is_the_mean_of_the_sound_answers(closed):
    root, _ = closed
    release = fw.load(root / "server" / "release.json")
    sound = [
        json.loads((root / name / f"{name}.json").read_text())["answers"][0]
        for name in release.used
    ]
    total = sum(s["n"] for s in sound)
    mean = sum(s["n"] * s["threshold"] for s in sound) / total
    assert release.threshold("north") == pytest.approx(mean, abs=1e-15)


def test_every_hospital_predicts_with_its_own_model(closed):
    root, _ = closed
    for name in ("st-mary", "east"):
        home = root / name
        shutil.copy(root / "server" / "release.json", home)
        said = call_process(
            home, "agent", "predict", "--release", "release.json",
            "--outputs", "test.npz", "--agent", name,
        )  # fmt: skip
        assert "coverage" in said
        data = np.load(home / "test.npz")
        with open(home / "sets.csv", newline="") as file:
            rows = list(csv.DictReader(file))
        release = fw.load(home / "release.json")
        u = fw.uniforms(release.round.key, data["ids"])
        sets = fw.APS().invert(data["probs"], release.threshold(name), u=u)
        assert [row["id"] for row in rows] == data["ids"].tolist()
        assert [row["labels"] for row in rows] == [" ".join(map(str, s)) for s in sets]
        assert 0.8 < sets.cover(data["labels"]).mean() < 0.97


def test_a_site_s_commands_open_no_connection_start_no_process_and_unpickle_nothing(closed):
    root, _ = closed
    home = root / "lakeside"
    shutil.copy(root / "server" / "release.json", home)
    script = """
import sys

def check(event, args):
    if event.startswith(("socket.", "subprocess.", "os.fork", "os.exec", "os.posix_spawn",
                         "os.system", "pickle.")):
        raise SystemExit(event)

sys.addaudithook(check)
from fedwqcp.cli.main import main
main()
"""
    for words in (
        ["calibrate", "--round", "round.json", "--outputs", "cal.npz", "--out", "again.json"],
        ["predict", "--round", "round.json", "--release", "release.json", "--outputs", "test.npz",
         "--out", "again.csv"],
    ):  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-c", script, "agent", *words, "--agent", "lakeside"],
            cwd=home, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    assert (home / "again.json").read_bytes() == (home / "lakeside.json").read_bytes()


def test_what_a_hospital_and_the_server_write_is_their_own_alone(closed):
    root, _ = closed
    shared = {"round.json", "old-round.json", "release.json"}
    written = [*root.glob("*/*.json"), *root.glob("*/sets-*.csv")]
    own = [file for file in written if file.name not in shared and "summaries" not in str(file)]
    assert len(own) > len(HOSPITALS)
    assert {file.stat().st_mode & 0o777 for file in own} == {0o600}


def test_closing_again_changes_nothing(closed):
    root, _ = closed
    server = root / "server"
    before = (server / "release.json").read_bytes()
    said = call_process(
        server, "server", "close", "round.json", *sorted((server / "summaries").iterdir())
    )
    assert "was closed before" in said
    assert (server / "release.json").read_bytes() == before


def test_errors_have_their_exit_codes(closed, tmp_path):
    root, _ = closed
    home = root / "north"
    said = call_process(
        root / "server", *OPEN, "--alpha", 5, "--agents", "roster.toml",
        "--out", "bad.json", code=2,
    )  # fmt: skip
    assert "5.0" in said
    assert "0.05" in said
    for wrong, cure in (
        (["--alpha", 0.9], "write 0.1"),
        (["--alpha", 0.1, "--method", "FedWQ-CP"], "did you mean 'fedwq-cp'?"),
    ):
        bad = ["--agents", "roster.toml", "--out", "bad.json", *wrong]
        assert cure in " ".join(call_process(root / "server", *OPEN, *bad, code=2).split())
    assert not (root / "server" / "bad.json").exists()
    call_process(home, "agent", "calibrate", "--round", "none.json", "--outputs", "cal.npz", code=2)
    (tmp_path / "round.json").write_text("{}")
    call_process(
        tmp_path, "agent", "calibrate", "--round", "round.json", "--outputs", "x.npz", code=3
    )
    call_process(
        root / "server", "server", "close", "old-round.json", "summaries/north.json",
        "--out", "again.json", code=3,
    )  # fmt: skip
    call_process(home, "agent", "nothing", code=2)


def test_debug_shows_the_traceback(closed):
    done = subprocess.run(
        [sys.executable, "-m", "fedwqcp", "--debug", "agent", "calibrate", "--round", "none",
         "--outputs", "x.npz"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert "Traceback" in done.stderr
