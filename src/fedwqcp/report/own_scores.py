"""One agent's calibration scores beside the threshold that it was given."""

from __future__ import annotations

from math import inf

import numpy as np

from fedwqcp.bench.shown import Portrait
from fedwqcp.errors import InputError
from fedwqcp.federation.outputs.reading import Outputs
from fedwqcp.federation.scoring import calibration_of
from fedwqcp.federation.thresholds import thresholds
from fedwqcp.metrics import histogram
from fedwqcp.quantile import conformal_quantile
from fedwqcp.wire.release import Release


def portrait(release: Release, agent: str, outputs: Outputs) -> Portrait:
    """Return an agent's scores as counts, its own threshold and the released one.

    Parameters
    ----------
    release : Release
        As the server sent it.
    agent : str
        Whose outputs.
    outputs : Outputs
        Calibration outputs with labels.

    Returns
    -------
    Portrait
        At the first level of the round; the quantile of all scores is unknown here, hence +inf.

    Raises
    ------
    InputError
        If the outputs do not fit the round, or the threshold differs between labels or rows.
    """
    cal = calibration_of(release.round, outputs)
    alpha = release.round.alphas[0]
    released = np.ravel(thresholds(release, agent, alpha, cal))
    if len(released) != 1 or cal.columns > 1:
        raise InputError("the figure needs one threshold; this round gives one for each label")
    bars = histogram(cal.scores)
    covered = float(np.mean(cal.scores <= released[0])) if cal.n else 0.0
    return Portrait(
        dataset=f"{release.round.score.name}, {release.round.method.name}",
        agent=agent,
        counts=(cal.n,),
        edges=bars.edges,
        people=bars.people,
        local=float(conformal_quantile(cal.scores, alpha)),
        released=float(released[0]),
        mixture=inf,
        level=1 - alpha,
        coverage=covered,
        coverage_mixture=1.0,
    )
