from math import inf

import numpy as np

from fedwqcp.scores.saps import SAPS

P = [[0.6, 0.3, 0.1]]


def test_by_hand() -> None:
    half = SAPS(penalty=0.25)
    np.testing.assert_allclose(
        half.of_every_label(P, u=[0.5]), [[0.3, 0.6 + 0.125, 0.6 + 0.375]], rtol=1e-15
    )
    whole = SAPS(penalty=0.25, randomized=False)
    np.testing.assert_allclose(whole.of_every_label(P), [[0.6, 0.85, 1.1]], rtol=1e-15)


def test_sets_by_hand() -> None:
    whole = SAPS(penalty=0.25, randomized=False)
    assert whole.invert(P, 0.5)[0] == ()
    assert whole.invert(P, 0.7)[0] == (0,)
    assert whole.invert(P, 0.7, rule="until")[0] == (0, 1)
    assert whole.invert(P, 0.9, rule="until")[0] == (0, 1, 2)
    assert SAPS(penalty=0.25).invert(P, 0.7, rule="until", u=[0.9])[0] == (0, 1)


def test_bounds_by_hand() -> None:
    assert SAPS(penalty=0.25).bounds(5) == (0.0, 2.0)
    assert SAPS(penalty=0.25).bounds() == (0.0, inf)
    assert SAPS(penalty=0.0).bounds() == (0.0, 1.0)
