"""Tilted APS: between APS and LAC."""

import numpy as np
import pytest
from hypothesis import given

from fedwqcp.errors import InputError
from fedwqcp.scores.aps import APS
from fedwqcp.scores.lac import LAC
from fedwqcp_lab.plugins.tilted_aps import TiltedAPS
from strategies import labelled


def test_by_hand():
    # order 1, 0, 2: mass before 0.5, 0, 0.75; u = 0.5
    found = TiltedAPS(tilt=0.1).of_every_label([[0.25, 0.5, 0.25]], u=[0.5])
    np.testing.assert_allclose(
        found, [[0.9 * 0.625 + 0.075, 0.9 * 0.25 + 0.05, 0.9 * 0.875 + 0.075]]
    )


@given(case=labelled())
def test_its_ends_are_aps_and_lac(case):
    aps = APS().of_every_label(case.probs, case.u)
    np.testing.assert_array_equal(TiltedAPS(tilt=0).of_every_label(case.probs, case.u), aps)
    lac = LAC().of_every_label(case.probs)
    tilted = TiltedAPS(tilt=1).of_every_label(case.probs, case.u)
    np.testing.assert_allclose(tilted, lac, rtol=0, atol=1e-3)  # as far as a row may miss 1


def test_until_does_not_fit():
    with pytest.raises(InputError, match="until"):
        TiltedAPS(randomized=False).invert([[0.5, 0.5]], 0.5, "until")
