"""SplitCP: each agent on its own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator as Random

from fedwqcp._validation import Floats
from fedwqcp.errors import InputError
from fedwqcp.methods._base import Exchange, Method, Traits
from fedwqcp.methods._calibration import Calibration, Disclosure, own_data
from fedwqcp.quantile import Overflow, conformal_quantile
from fedwqcp.wire.messages import Local, Outcome, Question, Summary
from fedwqcp.wire.release import NO_GUARANTEE, Guarantee


@dataclass(frozen=True)
class SplitCP(Method[Summary]):
    r"""Each agent's own conformal threshold; nothing is sent.

    q_k is the r(n_k, alpha)-th smallest score of agent k.

    Parameters
    ----------
    overflow : {"propagate", "clip", "exclude"}, optional
        The threshold of an agent with too few points: +inf, or under ``clip`` its largest score.

    Notes
    -----
    **Idea**: split conformal prediction at each agent; nothing is shared.

    .. math::

        q_k = s_{k,(r_k)}, \qquad r_k = \lceil (n_k + 1)(1 - \alpha) \rceil, \qquad
        1 - \alpha \le P(Y \in C_k(X)) \le 1 - \alpha + \frac{1}{n_k + 1}

    **Guarantee**: 1 - alpha <= P(Y in C_k(X)) if agent k's test points are exchangeable with its
    calibration points, ties included. Without ties it is at most 1 - alpha + 1/(n_k + 1). ``clip``
    loses it.

    **Cost**: no round, no numbers sent.

    **Fails**: where calibration data are few (below 19 points at alpha = 0.05 the threshold is
    +inf) or unlike the test data.

    References
    ----------
    Papadopoulos et al. (2002); Lei et al. (2018).
    """

    overflow: Overflow = "propagate"

    summaries = ()
    questions = ()
    outcomes = (Local,)
    traits = Traits(predicts_from_own_data=True)
    assumption = "each agent's test points are exchangeable with its own calibration points"

    def answer(self, cal: Calibration, question: Question, alpha: float, rng: Random) -> Summary:
        raise InputError("split-cp sends nothing: predict with the agent's own calibration data")

    def exchange(self, alpha: float) -> Exchange[Summary, Outcome]:
        yield from ()  # no question: a dialogue of zero rounds
        return Local()

    def localize(
        self, outcome: Outcome, cal: Calibration | None, position: int | None, alpha: float
    ) -> Floats:
        cal = own_data(cal, "split-cp")
        return np.asarray(conformal_quantile(cal.scores, alpha, self.overflow))

    @property
    def guarantee(self) -> Guarantee:
        """Marginal at the agent, unless the rank is clipped."""
        if self.overflow == "clip":
            return NO_GUARANTEE
        return Guarantee("marginal-agent", "finite-sample")

    def reveals(self, cal: Calibration, alpha: float, *, steps: int) -> tuple[Disclosure, ...]:
        return ()
