"""What the demo says of the four hospitals is what the library computes on them."""

from __future__ import annotations

import re
from math import ceil

import numpy as np
import pytest

pytest.importorskip("sklearn")

import fedwqcp as fw
from fedwqcp.demo.demo import ALPHA, FEW, METHODS, SWISS, committed, rates, screen
from fedwqcp.demo.hospitals import SITES as KINDS
from four_hospitals import SITES, release

NAMES = [name for name, _ in KINDS.values()]


def scores_of(part):
    """Score patients as a user would."""
    return fw.APS().of(part.values, part.labels, u=fw.uniforms("demo-0", part.ids))


@pytest.mark.parametrize("at", range(4))
def test_split_cp_covers_what_each_hospitals_own_threshold_covers(at):
    site = SITES(0)[at]
    own = np.sort(scores_of(site.calibration))
    covered = np.mean(scores_of(site.test) <= own[ceil(0.9 * (len(own) + 1)) - 1])
    assert rates(release("split-cp"), site)[0] == covered


def test_every_act_is_committed_over_200_splits():
    kinds = [kind for _, kind in KINDS.values()]
    keys = {
        *(("all", m, n) for m in METHODS for n in NAMES),
        *(("few", m, n) for m in METHODS[:2] for n in NAMES),
        *((kind, m, SWISS) for kind in kinds for m in METHODS),
    }
    assert {(s.act, s.method, s.hospital) for s in committed()} == keys
    assert {s.splits for s in committed()} == {200}


def test_what_the_screen_promises_was_measured():
    """200 splits share patients: the allowance of 0.02 is no error of the mean, but ample."""
    mean = {(s.act, s.method, s.hospital): s for s in committed()}
    for name in NAMES:
        assert mean["all", "auto", name].coverage >= 1 - ALPHA - 0.02
        assert mean["few", "auto", name].coverage >= FEW / (FEW + 1) - 0.02
        assert (mean["few", "split-cp", name].coverage, mean["few", "split-cp", name].one) == (1, 0)
    assert all(mean[kind, "auto", SWISS].coverage >= 0.88 for _, kind in KINDS.values())
    assert mean["all", "fedwq-cp", SWISS].coverage < 0.7


def test_the_screen_is_short_and_its_numbers_are_those_of_the_splits():
    said = screen(SITES(0), release(), committed())
    lines = said.splitlines()
    assert len(lines) <= 41  # the command adds four
    assert max(map(len, lines)) <= 80
    mean = {(s.act, s.method, s.hospital): s for s in committed()}
    for start, act, method, part in (
        ("covered, 200 splits", "all", "auto", "coverage"),
        ("left with 8: auto", "few", "auto", "one"),
        ("each alone", "all", "split-cp", "one"),
    ):
        (line,) = [line for line in lines if line.startswith(start)][:1]
        cells = re.findall(r"(\d+) %", line)
        assert cells == [f"{100 * getattr(mean[act, method, n], part):.0f}" for n in NAMES]
