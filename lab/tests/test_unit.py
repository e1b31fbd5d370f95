from __future__ import annotations

import numpy as np
import pytest

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
