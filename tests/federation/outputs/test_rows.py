"""Errors about a text file name its lines."""

from __future__ import annotations

import numpy as np
import pytest

from fedwqcp import calibrate
from fedwqcp.errors import InputError
from fedwqcp.federation.outputs import load_outputs
from fedwqcp.federation.predict import calibration_of, predict
from fedwqcp.wire.round import Choice, Round

ROUND = Round("r", Choice("fedwq-cp"), Choice("lac"), (0.5,), ("a",), 1)
BAD = "p0,p1,label\n0.5,0.5,1\n0.25,0.75,0\n0.5,2.5,1\n"


def test_a_bad_row_of_a_table_is_named_by_its_line(tmp_path):
    path = tmp_path / "cal.csv"
    path.write_text(BAD)
    with pytest.raises(InputError, match="of line 4 sum to 3"):
        calibration_of(ROUND, load_outputs(path))
    release = calibrate({"a": [0.1, 0.2, 0.3]}, alpha=0.5, score="lac")
    with pytest.raises(InputError, match="of line 4 sum to 3"):
        predict(release, "a", load_outputs(path))


def test_a_bad_row_of_an_array_is_named_by_its_index(tmp_path):
    probs = np.array([[0.5, 0.5], [0.25, 0.75], [0.5, 2.5]])
    np.savez(tmp_path / "cal.npz", probs=probs, labels=[1, 0, 1])
    with pytest.raises(InputError, match="of row 2 sum to 3"):
        calibration_of(ROUND, load_outputs(tmp_path / "cal.npz"))


def test_repeated_ids_are_counted_and_never_shown(tmp_path):
    path = tmp_path / "cal.csv"
    path.write_text("p0,p1,id\n0.5,0.5,Miller\n0.5,0.5,Smith\n0.5,0.5,Miller\n0.5,0.5,Miller\n")
    with pytest.raises(InputError, match="an id must name one row; 2 of the rows repeat") as caught:
        load_outputs(path)
    assert "Miller" not in str(caught.value)
