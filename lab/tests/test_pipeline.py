"""Runs on saved outputs, their workers, and runs that are killed at random points."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from fedwqcp.errors import RecordError
from fedwqcp_lab import unit as units
from fedwqcp_lab.experiment import MethodPlan
from fedwqcp_lab.pipeline import Folder, RunOptions, pending, run
from units import experiment, labels_unit, lines_unit

SMALL = experiment()


def fill(folder, what=SMALL):
    """Save model outputs where a run would."""
    for seed in what.seeds:
        units.save(labels_unit(seed), folder.unit(what, ("blobs", seed)))
        units.save(lines_unit(seed), folder.unit(what, ("lines", seed)))


def test_a_run_on_saved_outputs_trains_nothing(tmp_path):
    folder = Folder(tmp_path / "out")
    fill(folder)
    seen = []
    done = run(SMALL, RunOptions(out=folder.root, jobs=2), on_step=lambda *step: seen.append(step))
    assert done == 4
    assert len(folder.results.read()) == 2 * (2 * 2 * 3) + 2 * (3 * 2 * 3)
    assert len(folder.partitions.read()) == 4 * 3
    assert seen[-1] == ("records", "done", 1.0)
    known = json.loads((tmp_path / "out" / "configs.json").read_text())
    assert {r.config for r in folder.results.read()} <= set(known)
    assert run(SMALL, RunOptions(out=folder.root), resume=True) == 0


def test_what_a_kill_left_is_completed(tmp_path):
    folder = Folder(tmp_path / "out")
    fill(folder)
    run(SMALL, RunOptions(out=folder.root))
    wanted = sorted(folder.results.read(), key=lambda r: r.key)
    whole, parts = folder.results.path.read_bytes(), folder.partitions.path.read_bytes()
    lines = whole.splitlines(keepends=True)
    cuts = [
        (b"".join(lines[:5]) + lines[5][:40], b""),  # in the first unit
        (b"".join(lines[:-1]), parts[:-10]),  # in the last line of the partitions
        (whole, parts[: len(parts) // 2]),  # results are there, partitions are not
    ]
    for results, shares in cuts:
        folder.results.path.write_bytes(results)
        folder.partitions.path.write_bytes(shares)
        assert run(SMALL, RunOptions(out=folder.root), resume=True) > 0
        assert sorted(folder.results.read(), key=lambda r: r.key) == wanted
        assert sorted(folder.partitions.path.read_bytes().splitlines()) == sorted(
            parts.splitlines()
        )


def test_a_method_more_is_added_and_other_settings_are_refused(tmp_path):
    folder = Folder(tmp_path, tmp_path / "elsewhere")
    only = SMALL.only(["blobs"], (0,))
    fill(folder, replace(SMALL, seeds=(0,)))
    options = RunOptions(out=tmp_path, outputs=tmp_path / "elsewhere")
    run(only, options)
    before = set(folder.results.path.read_text().splitlines())
    more = replace(only, methods=(*only.methods, MethodPlan(name="qq", method="fedcp-qq")))
    assert pending(more, folder) == (("blobs", 0),)
    assert run(more, options, resume=True) == 1
    after = set(folder.results.path.read_text().splitlines())
    assert before < after
    assert {r.method for r in folder.results.read()} == {"split-cp", "fedwq-cp", "qq"}
    other = replace(only, presets=(replace(only.presets[0], overflow="exclude"),))
    with pytest.raises(RecordError):
        run(other, options, resume=True)
