import json
from dataclasses import replace

import pytest

from fedwqcp.errors import InputError, RecordError
from fedwqcp_lab import unit as units
from fedwqcp_lab.plans import MethodPlan
from fedwqcp_lab.run import Where, run
from fedwqcp_lab.stages import Folder, Keeper, evaluate_saved, pending
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
    done = run(SMALL, Where(out=folder.root, jobs=2), on_step=lambda *step: seen.append(step))
    assert done == 4
    assert len(folder.results.read()) == 2 * (2 * 2 * 3) + 2 * (3 * 2 * 3)
    assert len(folder.shares.read()) == 4 * 3
    assert seen[-1] == ("records", "done", 1.0)
    known = json.loads((tmp_path / "out" / "configs.json").read_text())
    assert {r.config for r in folder.results.read()} <= set(known)
    assert run(SMALL, Where(out=folder.root), resume=True) == 0


def test_what_a_kill_left_is_completed(tmp_path):
    folder = Folder(tmp_path / "out")
    fill(folder)
    run(SMALL, Where(out=folder.root))
    wanted = sorted(folder.results.read(), key=lambda r: r.key)
    whole, parts = folder.results.path.read_bytes(), folder.shares.path.read_bytes()
    lines = whole.splitlines(keepends=True)
    cuts = [
        (b"".join(lines[:5]) + lines[5][:40], b""),  # in the first unit
        (b"".join(lines[:-1]), parts[:-10]),  # in the last line of the partitions
        (whole, parts[: len(parts) // 2]),  # results are there, partitions are not
    ]
    for results, shares in cuts:
        folder.results.path.write_bytes(results)
        folder.shares.path.write_bytes(shares)
        assert run(SMALL, Where(out=folder.root), resume=True) > 0
        assert sorted(folder.results.read(), key=lambda r: r.key) == wanted
        assert sorted(folder.shares.path.read_bytes().splitlines()) == sorted(parts.splitlines())


def test_records_are_not_overwritten_by_accident(tmp_path):
    folder = Folder(tmp_path)
    folder.results.path.write_bytes(b"")
    with pytest.raises(InputError, match="go on with --resume"):
        run(SMALL, Where(out=tmp_path))
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(InputError, match="--out must be a folder"):
        run(SMALL, Where(out=file))


def test_a_method_more_is_added_and_other_settings_are_refused(tmp_path):
    folder = Folder(tmp_path, tmp_path / "elsewhere")
    only = SMALL.only(["blobs"], (0,))
    fill(folder, replace(SMALL, seeds=(0,)))
    where = Where(out=tmp_path, outputs=tmp_path / "elsewhere")
    run(only, where)
    before = set(folder.results.path.read_text().splitlines())
    more = replace(only, methods=(*only.methods, MethodPlan(name="qq", method="fedcp-qq")))
    assert pending(more, folder) == (("blobs", 0),)
    assert run(more, where, resume=True) == 1
    after = set(folder.results.path.read_text().splitlines())
    assert before < after
    assert {r.method for r in folder.results.read()} == {"split-cp", "fedwq-cp", "qq"}
    other = replace(only, presets=(replace(only.presets[0], overflow="exclude"),))
    with pytest.raises(RecordError, match="made with other settings"):
        run(other, where, resume=True)


def test_records_are_enough_outputs_may_be_gone(tmp_path):
    folder = Folder(tmp_path)
    fill(folder)
    run(SMALL, Where(out=tmp_path))
    for task in (("blobs", 0), ("lines", 1)):
        for file in folder.unit(SMALL, task).iterdir():
            file.unlink()
    assert run(SMALL, Where(out=tmp_path), resume=True) == 0


def test_nothing_is_kept_twice(tmp_path):
    folder = Folder(tmp_path)
    fill(folder)
    evaluated = evaluate_saved(folder.unit(SMALL, ("blobs", 0)), SMALL)
    keeper = Keeper(folder)
    keeper.keep(evaluated)
    keeper.keep(evaluated)
    Keeper(folder).keep(evaluated)
    assert folder.results.read() == evaluated[0]


def test_outputs_of_other_training_settings_lie_elsewhere(tmp_path):
    folder = Folder(tmp_path)
    paths = {
        folder.unit(what, ("blobs", 0))
        for what in (SMALL, experiment(strong_epochs=9), experiment(beta=0.1))
    }
    assert len(paths) == 3
    assert folder.unit(experiment(methods=SMALL.methods[:1]), ("blobs", 0)) in paths


def test_jobs_must_be_positive(tmp_path):
    folder = Folder(tmp_path)
    fill(folder)
    with pytest.raises(InputError, match="jobs must be at least 1"):
        run(SMALL, Where(out=tmp_path, jobs=0))


@pytest.mark.slow
def test_ray_gives_the_same_records(tmp_path):
    pytest.importorskip("ray")
    here, there = Folder(tmp_path / "here"), Folder(tmp_path / "there")
    for folder, executor in ((here, "processes"), (there, "ray")):
        fill(folder)
        run(SMALL, Where(out=folder.root, executor=executor))
    assert set(map(repr_without_times, here.results.read())) == set(
        map(repr_without_times, there.results.read())
    )


def repr_without_times(result):
    return repr(replace(result, calibration_s=0.0, sets_s=0.0))
