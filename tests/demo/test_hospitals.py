"""The four hospitals: real patients, each in one part, and a model of its own kind at each."""

from __future__ import annotations

from hashlib import sha256
from importlib.resources import files

import numpy as np
import pytest

from fedwqcp.demo.hospitals import SITES, hospitals, read_heart
from fedwqcp.errors import InputError

pytest.importorskip("sklearn")


def test_the_data_are_the_published_ones_and_carry_their_notice():
    data = files("fedwqcp.demo")
    notice = (data / "heart.md").read_text()
    assert sha256((data / "heart.csv").read_bytes()).hexdigest() in notice
    for word in ("CC BY 4.0", "Janosi", "Steinbrunn", "Pfisterer", "Detrano", "10.24432/C52P4X"):
        assert word in notice


def test_patients_and_disease_are_those_of_the_notice():
    site, x, y = read_heart()
    found = {key: (int((site == key).sum()), round(100 * y[site == key].mean())) for key in SITES}
    assert found == {
        "cleveland": (303, 46),
        "hungarian": (294, 36),
        "switzerland": (123, 93),
        "va": (200, 74),
    }
    assert x.shape == (920, 13)
    assert np.isnan(x[site == "switzerland", 4]).all()  # cholesterol, written as 0


def test_every_patient_is_in_one_part_of_one_hospital():
    found = hospitals(3)
    ids = [i for site in found for part in (site.calibration, site.test) for i in part.ids]
    assert len(ids) == len(set(ids))
    for site in found:
        held = len(site.calibration.ids) + len(site.test.ids)
        assert abs(held - site.patients / 2) <= 1
    assert sum(site.patients for site in found) == 920


def test_the_same_seed_gives_the_same_split_and_another_one_another():
    one, same, other = hospitals(1), hospitals(1), hospitals(2)
    for a, b, c in zip(one, same, other, strict=True):
        assert list(a.test.ids) == list(b.test.ids) != list(c.test.ids)
        assert (a.test.values == b.test.values).all()


@pytest.mark.parametrize("seed", [-1, True, 0.5])
def test_a_wrong_seed_is_refused(seed):
    with pytest.raises(InputError):
        hospitals(seed)
