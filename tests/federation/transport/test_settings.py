"""From a run configuration to a round."""

from __future__ import annotations

import pytest

from fedwqcp.errors import InputError
from fedwqcp.federation.transport.settings import nodes_of, round_of, timeouts_of
from refusals import raises

BASE = {"agents": "north, south", "alpha": 0.1}


def test_a_whole_configuration():
    round = round_of(
        {
            **BASE,
            "alpha": "0.05,0.1",
            "method": "fedwq-cp",
            "method-setting.overflow": "clip",
            "score": "aps",
            "score-setting.randomized": False,
            "quorum": 1,
            "max-n": 500,
            "n-classes": 10,
            "rule": "leq_top1",
            "deadline": 30,
            "grace": 2.5,
            "records": "",
            "nodes": "north=12",
        }
    )
    assert (round.agents, round.alphas, round.quorum) == (("north", "south"), (0.05, 0.1), 1)
    assert round.method.settings["overflow"] == "clip"
    assert round.score.settings["randomized"] is False
    assert (round.max_n, round.n_classes, round.rule) == (500, 10, "leq_top1")


def test_empty_sets_can_be_forbidden():
    rules = [round_of({**BASE, "allow-empty": allowed}).rule for allowed in (True, False)]
    assert rules == ["leq", "leq_top1"]
    assert round_of({**BASE, "allow-empty": False, "rule": "until"}).rule == "until"
    with pytest.raises(InputError):
        round_of({**BASE, "allow-empty": "no"})


def test_what_is_left_out_has_a_default():
    round = round_of(BASE)
    assert (round.method.name, round.score.name, round.quorum) == ("auto", "aps", 1)
    assert round.n_classes is None
    assert round.id != round_of(BASE).id


def test_classes_may_be_named():
    round = round_of({**BASE, "classes": "melanoma, nevus, other"})
    assert (round.classes, round.n_classes) == (("melanoma", "nevus", "other"), 3)
    with raises(InputError, field="n_classes"):
        round_of({**BASE, "classes": "melanoma,nevus", "n-classes": 3})


@pytest.mark.parametrize("typed", ["own", "mixture", "0.5,0.5"])
def test_the_target_is_a_term_of_the_round(typed):
    round = round_of({**BASE, "method": "dp-fedcp", "target": typed})
    assert round.target == ((0.5, 0.5) if "," in typed else typed)
    assert round_of({**BASE, "method": "dp-fedcp"}).target == "own"
    with pytest.raises(InputError):
        round_of({**BASE, "method": "dp-fedcp", "method-setting.target": typed})
    with raises(InputError, field="target"):
        round_of({**BASE, "method": "dp-fedcp", "target": "1,x"})
    with raises(InputError, field="target"):
        round_of({**BASE, "target": "everybody"})


@pytest.mark.parametrize(
    "change",
    [
        {"agents": ""},
        {"agents": 3.5},
        {"aplha": 0.1},
        {"alpha": "much"},
        {"alpha": "0.1,0.9"},
        {"alpha": 0.9},
        {"allow-large-alpha": "true"},
        {"method": 1},
        {"method": "fedwqcp"},
        {"method-setting.overflow": ["clip"]},
        {"method-setting": "clip"},
        {"method-setting": 1, "method-setting.overflow": "clip"},
        {"metod-setting.overflow": "clip"},
        {"method-setting.colour": 1},
        *({"quorum": quorum} for quorum in (3, 1.5, True)),
    ],
)
def test_a_wrong_value_is_refused(change):
    with pytest.raises(InputError):
        round_of({**BASE, **change})
    assert round_of({**BASE, "alpha": 0.9, "allow-large-alpha": True}).alphas == (0.9,)


def test_timeouts():
    assert timeouts_of({"deadline": 15, "grace": 0}).deadline == 15.0
    with pytest.raises(InputError):
        timeouts_of({"deadline": "soon"})


def test_nodes():
    assert nodes_of({}, int) is None
    assert nodes_of({"nodes": "north=12,south = 7"}, int) == {"north": 12, "south": 7}
    assert nodes_of({"nodes": "north=site-1"}, str) == {"north": "site-1"}
    for bad in ("north", "north=x", "north=1,south=1", "north=", "north=1,north=2"):
        with pytest.raises(InputError, match="node"):
            nodes_of({"nodes": bad}, int)
    with pytest.raises(InputError, match="NAME=ID"):
        nodes_of({"nodes": "north= "}, str)


def test_groups_of_people_and_labels():
    terms = {"agents": "a,b", "alpha": 0.1, "by": "group", "groups": "female,male"}
    assert round_of(terms).group_names == ("female", "male")
    by_label = {"agents": "a,b", "alpha": 0.1, "by": "label", "n-classes": 3}
    assert round_of(by_label).group_names == ("0", "1", "2")
    assert round_of({"agents": "a,b", "alpha": 0.1}).by is None
