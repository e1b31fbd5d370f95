from __future__ import annotations

import numpy as np
import pytest

from fedwqcp.errors import InputError, RecordError
from fedwqcp_lab import unit as units
from fedwqcp_lab.unit import ModelOutputs, read_outputs, write_outputs
from units import labels_unit, lines_unit


@pytest.mark.parametrize("unit", [labels_unit(), lines_unit(), lines_unit(quantiles=False)])
def test_a_unit_survives_its_folder(tmp_path, unit):
    folder = tmp_path / "a" / "seed-0"
    assert not units.found(folder)
    units.save(unit, folder)
    assert units.found(folder)
    back = units.load(folder)
    for name in unit.setting.__dataclass_fields__:
        assert np.array_equal(getattr(back.setting, name), getattr(unit.setting, name)), name
    assert back.quantiles == unit.quantiles
    for new, old in zip(back.outputs, unit.outputs, strict=True):
        assert (new.name, new.model) == (old.name, old.model)
        assert np.array_equal(new.test, old.test.astype(np.float32))
        assert np.array_equal(new.calibration, old.calibration.astype(np.float32))


def test_the_shared_part_is_written_last(tmp_path, monkeypatch):
    def broken(path, data):
        if path.name == units.SETTING:
            raise KeyboardInterrupt
        return written(path, data)

    written = units.write_atomic

    monkeypatch.setattr(units, "write_atomic", broken)
    with pytest.raises(KeyboardInterrupt):
        units.save(labels_unit(), tmp_path)
    assert (tmp_path / "W2.npz").exists()
    assert not units.found(tmp_path)


def test_the_names_in_the_file_are_those_of_saved_units(tmp_path):
    units.save(labels_unit(), tmp_path)
    with np.load(tmp_path / units.SETTING) as archive:
        assert {"about", "owners", "features", "label_law", "feature_law"} <= {*archive.files}


def test_damage_is_refused(tmp_path):
    units.save(labels_unit(), tmp_path)
    (tmp_path / "S1.npz").write_bytes(b"x")
    with pytest.raises(RecordError):
        units.load(tmp_path)
    (tmp_path / units.SETTING).write_bytes(b"x")
    with pytest.raises(RecordError, match="delete the folder and run again"):
        units.load(tmp_path)


def test_parts_divide_the_points():
    setting = labels_unit().setting
    parts = np.concatenate([setting.part(at) for at in range(3)])
    assert np.array_equal(np.sort(parts), np.arange(240))


def probs(n, seed=0):
    return np.random.default_rng(seed).dirichlet(np.ones(3), n).astype(np.float32)


def test_what_was_saved_is_read_again(tmp_path):
    path = tmp_path / "mnist" / "3" / "S0.npz"
    cal, test = probs(5), probs(7, 1)
    write_outputs(path, ModelOutputs(cal, test))
    found = read_outputs(path)
    assert found.kind == "logits"
    assert np.array_equal(found.cal, cal)
    assert np.array_equal(found.test, test)
    with np.load(path) as archive:
        assert sorted(archive.files) == ["cal_logits", "test_logits"]
        assert archive["cal_logits"].dtype == np.float32


def test_predictions_have_one_axis(tmp_path):
    path = tmp_path / "W3.npz"
    write_outputs(path, ModelOutputs(probs(4)[:, 0], probs(6)[:, 0], "predictions"))
    assert read_outputs(path).kind == "predictions"
    assert read_outputs(path).cal.shape == (4,)
    assert repr(read_outputs(path)) == "ModelOutputs(predictions, cal=(4,), test=(6,))"


def test_saving_again_replaces_and_leaves_nothing_behind(tmp_path):
    path = tmp_path / "S0.npz"
    write_outputs(path, ModelOutputs(probs(4), probs(6)))
    write_outputs(path, ModelOutputs(probs(4, 9), probs(6)))
    assert np.array_equal(read_outputs(path).cal, probs(4, 9))
    assert [p.name for p in tmp_path.iterdir()] == ["S0.npz"]


def test_a_missing_file_says_what_to_do(tmp_path):
    with pytest.raises(RecordError, match="train the models first"):
        read_outputs(tmp_path / "S0.npz")


def test_a_damaged_file_is_refused(tmp_path):
    path = tmp_path / "S0.npz"
    write_outputs(path, ModelOutputs(probs(4), probs(6)))
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(RecordError, match="damaged"):
        read_outputs(path)
    np.savez(path, something=np.zeros(3))
    with pytest.raises(RecordError, match="holds no model outputs"):
        read_outputs(path)


@pytest.mark.parametrize(
    ("cal", "test", "kind"),
    [
        (np.zeros((4, 3)), np.zeros((4, 3), np.float32), "logits"),
        (np.zeros(4, np.float32), np.zeros(4, np.float32), "logits"),
        (np.zeros((4, 3), np.float32), np.zeros((4, 2), np.float32), "quantiles"),
        (np.zeros((4, 3), np.float32), np.zeros((4, 3), np.float32), "probs"),
    ],
)
def test_what_is_no_output_cannot_be_saved(cal, test, kind):
    with pytest.raises(InputError, match="must"):
        ModelOutputs(cal, test, kind)


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot write"):
        write_outputs(tmp_path / "file" / "S0.npz", ModelOutputs(probs(4), probs(6)))
