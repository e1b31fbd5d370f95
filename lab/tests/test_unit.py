from __future__ import annotations

import numpy as np
import pytest

from fedwqcp.errors import InputError, RecordError
from fedwqcp_lab import unit as units
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


def test_damage_is_refused(tmp_path):
    units.save(labels_unit(), tmp_path)
    whole = (tmp_path / "S1.npz").read_bytes()
    for damage in (b"x", whole[:200]):
        (tmp_path / "S1.npz").write_bytes(damage)
        with pytest.raises(RecordError):
            units.load(tmp_path)
    (tmp_path / "S1.npz").unlink()
    with pytest.raises(RecordError):
        units.load(tmp_path)
    (tmp_path / units.SETTING).write_bytes(b"x")
    with pytest.raises(RecordError):
        units.load(tmp_path)


def test_a_file_holds_float32_under_the_names_of_its_outputs(tmp_path):
    units.save(labels_unit(), tmp_path / "labels")
    units.save(lines_unit(), tmp_path / "lines")
    for file, kind, axes in (
        ("labels/S0.npz", "logits", 2),
        ("lines/W2.npz", "predictions", 1),
        ("lines/W2-quantiles.npz", "quantiles", 2),
    ):
        with np.load(tmp_path / file) as archive:
            assert sorted(archive.files) == [f"cal_{kind}", f"test_{kind}"]
            assert {(archive[n].dtype.name, archive[n].ndim) for n in archive.files} == {
                ("float32", axes)
            }


@pytest.mark.parametrize(
    ("kind", "cal", "test"),
    [
        ("something", np.zeros((4, 3), np.float32), np.zeros((4, 3), np.float32)),
        ("predictions", np.zeros(4, np.float32), np.zeros(4, np.float32)),
        ("logits", np.zeros((4, 3)), np.zeros((4, 3))),
        ("logits", np.zeros((4, 3), np.float32), np.zeros((4, 3))),
        ("logits", np.zeros(4, np.float32), np.zeros(4, np.float32)),
        ("logits", np.zeros((4, 3), np.float32), np.zeros((4, 2), np.float32)),
    ],
)
def test_a_file_with_other_arrays_is_refused(tmp_path, kind, cal, test):
    units.save(labels_unit(), tmp_path)
    np.savez(tmp_path / "S0.npz", **{f"cal_{kind}": cal, f"test_{kind}": test})
    with pytest.raises(RecordError):
        units.load(tmp_path)


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot write"):
        units.save(labels_unit(), tmp_path / "file" / "seed-0")
