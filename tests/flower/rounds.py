"""A round of three agents that several tests share."""

from __future__ import annotations

import json

import numpy as np

import fedwqcp as fw
from fedwqcp.federation.plan import choose_method, choose_score, new_id
from fedwqcp.federation.transport.flower import Timeouts
from fedwqcp.scores.custom import Custom
from fedwqcp.wire.messages import Round

QUICK = Timeouts(deadline=0.4, grace=0.05, poll=0.01)
NAMES = ("north", "south", "east")


def calibrations():
    """Three agents of unequal size with labels and features."""
    rng = np.random.default_rng(3)
    return {
        name: fw.Calibration(
            np.round(rng.beta(2 + i, 3, size=n), 3),
            rng.permutation(np.arange(n) % 3),
            rng.normal(size=(n, 2)),
            3,
        )
        for i, (name, n) in enumerate(zip(NAMES, (40, 25, 60), strict=True))
    }


def terms(method="fedwq-cp", quorum=3, alphas=(0.2,), **settings):
    """A round for the three agents."""
    return Round(
        id=new_id(),
        method=choose_method(fw.methods.get(method, **settings)),
        score=choose_score(Custom()),
        alphas=alphas,
        agents=NAMES,
        quorum=quorum,
        max_n=1000,
        n_classes=3,
    )


def events(record):
    """The lines of a record's log."""
    return [json.loads(line) for line in (record / "log.jsonl").read_text().splitlines()]
