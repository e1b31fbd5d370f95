"""A round of three agents that several tests share."""

from __future__ import annotations

import json

import fedwqcp as fw
from fedwqcp.federation.plan import choose_method, choose_score, new_id
from fedwqcp.federation.transport.flower import Timeouts
from fedwqcp.scores.custom import Custom
from fedwqcp.wire.messages import Round
from worked import unlike

QUICK = Timeouts(deadline=0.4, grace=0.05, poll=0.01)
NAMES = ("north", "south", "east")


def calibrations():
    """Three agents of unequal size."""
    return unlike(north=40, south=25, east=60)


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
