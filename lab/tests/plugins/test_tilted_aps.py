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


def test_the_tilt_parts_the_thresholds_of_calibrated_models():
    # a model that is always sure and right, and one that knows nothing of ten classes
    n, alpha, tilt = 10_000, 0.05, 0.07
    u = (np.arange(n) + 0.5) / n
    sure, lost = np.eye(10)[np.zeros(n, int)], np.full((n, 10), 0.1)

    def threshold_and_scores(score):
        knows = score.of(sure, np.zeros(n, int), u)
        guesses = np.concatenate([score.of(lost, np.full(n, c), u) for c in range(10)])
        return [np.quantile(x, 1 - alpha) for x in (knows, guesses)], knows, guesses

    plain, _, _ = threshold_and_scores(APS())
    assert plain == pytest.approx([0.95, 0.95], abs=1 / n)
    own, knows, guesses = threshold_and_scores(TiltedAPS(tilt=tilt))
    # (1 - tilt) U for the first, (1 - tilt) U + tilt (1 - 1/10) for the second
    assert own == pytest.approx([0.8835, 0.9465], abs=1 / n)
    mean = sum(own) / 2
    assert np.mean(guesses <= mean) == pytest.approx((mean - 0.063) / 0.93, abs=1 / n)
    assert round(float(np.mean(guesses <= mean)), 3) == 0.916
    assert round(float(np.mean(knows <= mean)), 3) == 0.984
