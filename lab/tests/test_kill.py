"""Kill a run at random points: what it resumes to is what an undisturbed run gives."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from fedwqcp_lab.stages import Folder

CONFIG = """
name = "tiny"
alpha = 0.1
beta = 0.5
seeds = "0-2"
strong = 1
weak = 1
strong_epochs = 2
datasets = [{ name = "digits", components = 4 }, { name = "friedman", components = 4 }]

[[presets]]
name = "paper"
labels = { name = "aps", randomized = false, precision = "float32" }
intervals = { name = "absolute-residual" }
rule = "leq_top1"
overflow = "clip"

[[presets]]
name = "sound"
labels = { name = "aps" }
intervals = { name = "absolute-residual" }

[[methods]]
name = "split-cp"
method = "split-cp"

[[methods]]
name = "fedwq-cp"
method = "fedwq-cp"

[[methods]]
name = "cphet"
method = "cphet"
aim = "training"

[[methods]]
name = "dp-fedcp"
method = "dp-fedcp"
aim = "training"
settings = { rounds = 5, noise = 0.1 }
"""


def start(config, out):
    code = "import sys; from fedwqcp_lab.cli import app; app(sys.argv[1:])"
    return subprocess.Popen(
        [sys.executable, "-c", code, "run", str(config), "--out", str(out), "--resume"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def finish(config, out):
    process = start(config, out)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors.decode()
    folder = Folder(out)
    key = lambda record: record.key  # noqa: E731
    return sorted(folder.results.read(), key=key), sorted(folder.shares.read(), key=key)


def kill_some_time(process, out, rng):
    """Kill after a while, or in the middle of the next change of a file; tell whether it ran."""
    seen = _size(out)
    until = time.monotonic() + rng.uniform(0.5, 4.0)
    watching = rng.random() < 0.5
    while process.poll() is None and time.monotonic() < until:
        if watching and _size(out) > seen:
            break
    running = process.poll() is None
    if running:
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    return running


def _size(out):
    sizes = 0
    for path in (out / "records.jsonl", out / "partitions.jsonl"):
        if path.exists():
            sizes += path.stat().st_size
    return sizes


@pytest.mark.slow
def test_a_run_killed_ten_times_ends_as_an_undisturbed_one(tmp_path):
    pytest.importorskip("sklearn")
    config = tmp_path / "tiny.toml"
    config.write_text(CONFIG)
    wanted = finish(config, tmp_path / "calm")
    assert len(wanted[0]) == 3 * 2 * (2 * 4 + 2 * 3)
    rng = np.random.default_rng(20)
    kills = rounds = 0
    while kills < 10:
        out = tmp_path / f"killed-{rounds}"
        for _ in range(10 - kills):
            if not kill_some_time(start(config, out), out, rng):
                break  # it ended before; the next round begins anew
            kills += 1
        assert finish(config, out) == wanted
        rounds += 1
