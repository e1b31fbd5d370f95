"""Thresholds by label and by group, rosters and presets."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest

import fedwqcp as fw
from changed import replace
from engine import hold
from fedwqcp.errors import InputError
from fedwqcp.federation.agent import Agent
from fedwqcp.federation.plan import Plan, Roster, load_roster, new_round
from fedwqcp.federation.predict import predictor_of, thresholds
from fedwqcp.federation.server import Server
from fedwqcp.federation.transport.settings import round_of
from fedwqcp.methods.auto import Auto
from fedwqcp.methods.fedls_cp import FedLSCP
from fedwqcp.wire.codec import brief, decode, encode
from fedwqcp.wire.messages import Answer, Choice, LocalQuantile, Round
from refusals import raises

HAND = {
    "a": fw.Calibration([0.1, 0.2, 0.3, 0.4, 0.8], labels=[0, 0, 0, 0, 1], n_classes=3),
    "b": fw.Calibration([0.5, 0.6, 0.7, 0.9, 0.95], labels=[0, 0, 0, 1, 1], n_classes=3),
}


def test_fedwq_by_label_by_hand():
    release = fw.calibrate(HAND, method="fedwq-cp", alpha=0.4, by="label")
    # label 0: a has n = 4, rank ceil(5 * 0.6) = 3, 0.3; b n = 3, rank ceil(4 * 0.6) = 3, 0.7
    # label 1: a has n = 1, rank 2: +inf, which the mean keeps; label 2: nobody has a point
    assert release.threshold("a").tolist() == [pytest.approx((4 * 0.3 + 3 * 0.7) / 7), inf, inf]
    assert release.threshold("b", group="0") == release.threshold("a")[0]
    assert release.threshold("a", group=1) == inf
    assert release.absent == {"2": ("a", "b")}
    assert release.by_group("b") == dict(zip("012", release.threshold("a"), strict=True))
    excluded = fw.methods.get("fedwq-cp", overflow="exclude")
    found = fw.calibrate(HAND, method=excluded, alpha=0.4, by="label").threshold("a")
    assert found[1] == 0.95  # b alone: n = 2, rank ceil(3 * 0.6) = 2


def test_fcp_counts_only_agents_with_points_of_the_group():
    one = fw.Calibration([0.1, 0.2, 0.3, 0.4], groups=["f", "f", "f", "m"])
    two = fw.Calibration([0.5, 0.6, 0.7], groups=["m", "m", "m"])
    release = fw.calibrate({"a": one, "b": two}, method="fcp", alpha=0.25, by="group")
    # f: N = 3, M = 1, rank ceil(4 * 0.75) = 3; with M = 2 the rank 4 would be beyond the sample
    assert release.threshold("b", group="f") == 0.3
    # m: N = 4, M = 2, rank ceil(6 * 0.75) = 5 > 4
    assert release.threshold("a", group="m") == inf
    assert release.absent == {"f": ("b",)}
    assert release.public().absent == {}  # all share the thresholds: nobody needs to know


@pytest.mark.parametrize("method", ["guarded-median-cp", "fedcp-qq", "fedwq-cp"])
def test_where_all_get_the_same_threshold_nobody_learns_who_lacks_a_class(method):
    rng = np.random.default_rng(3)
    counts = {"a": (30, 30), "b": (30, 30), "c": (60, 0), **{f"s{i}": (1, 1) for i in range(254)}}
    cals = {
        name: fw.Calibration(rng.random(sum(n)), np.repeat([0, 1], n), n_classes=2)
        for name, n in counts.items()
    }
    for some in ("abc", cals):  # also where a roster is too long to travel
        agents = {name: cals[name] for name in some}
        release = fw.calibrate(agents, method=method, alpha=0.3, by="label")
        assert release.absent == {"1": ("c",)}
        assert release.public().absent == brief(release).absent == {}
        own = thresholds(brief(release), "c", calibration=cals["c"])
        np.testing.assert_array_equal(own, release.threshold("c"))


def test_what_the_agents_of_a_group_are_told_goes_to_the_right_ones():
    rng = np.random.default_rng(4)
    cals = {
        name: fw.Calibration(
            rng.random(n), np.arange(n) % 2, rng.normal(size=(n, 2)), 2, groups=[group] * n
        )
        for name, n, group in (("a", 20, "x"), ("b", 30, "y"), ("c", 40, "y"))
    }
    method = fw.methods.get(
        "dp-fedcp", solver="exact"
    )  # PerAgentThresholds: thresholds at each agent's distribution
    release = fw.calibrate(cals, method=method, alpha=0.3, by="group", rng=0)
    alone = fw.calibrate({k: cals[k] for k in "bc"}, method=method, alpha=0.3, rng=0)
    assert release.threshold("b", group="y").tolist() == alone.threshold("b").tolist()
    assert release.threshold("c", group="y").tolist() == alone.threshold("c").tolist()
    assert release.threshold("a", group="y") == inf
    assert release.public().absent == {"x": ("b", "c"), "y": ("a",)}
    again = thresholds(release.public(), "c", calibration=cals["c"], group="y")
    assert again.tolist() == alone.threshold("c").tolist()


def test_two_columns_of_scores():
    scores = np.stack([np.arange(10.0), np.arange(10.0) * 2], axis=1)
    cal = fw.Calibration(scores, groups=["u"] * 5 + ["v"] * 5)
    release = fw.calibrate(
        {"a": cal}, method="fedwq-cp", alpha=0.5, by="group", score=fw.CQR(symmetric=False)
    )
    # each column at 0.25, n = 5: rank ceil(6 * 0.75) = 5
    assert release.threshold("a", group="u").tolist() == [4, 8]
    own = predictor_of(release, "a", cal).thresholds_of(["v", "u"], None, 2)
    assert own.tolist() == [[9, 18], [4, 8]]
    intervals = fw.CQR(symmetric=False).invert([[0.0, 1.0], [0.0, 1.0]], own)
    assert intervals.sizes().tolist() == [1 + 9 + 18, 1 + 4 + 8]


def round_by(by="group", groups=("f", "m"), **more):
    chosen = {"method": Choice("fedwq-cp"), "score": Choice("lac"), "alphas": (0.2, 0.4)}
    return Round("ab", agents=("a", "b"), quorum=2, by=by, groups=groups, **chosen, **more)


def served(answers, round=None):
    """Let a server read some answers of agent a."""
    server = Server(round or round_by())
    message = Answer(
        round="ab", terms=server.plan.terms, step=0, agent="a", method="fedwq-cp", score="lac",
        alphas=(0.2, 0.4), answers=answers,
    )  # fmt: skip
    return server.receive(encode(message), "a")


def test_the_server_admits_a_group_left_out_as_a_whole_and_nothing_else():
    q = LocalQuantile(0.5, 9)
    assert served((None, q, None, q)) is None
    assert served((None, None, None, None)) is None
    whole = round_by(by=None, groups=())
    for refusal in (served((None, q, q, q)), served((None, q)), served((None, q), whole)):
        assert refusal.field == "answers"


def test_an_agent_leaves_out_what_it_has_not_and_hides_it_where_the_method_is_private():
    cal = fw.Calibration([0.5] * 30, groups=["f"] * 30)
    plain = Agent("a", round_by(), cal).answer()
    assert [s is None for s in decode(plain, Answer, (LocalQuantile,)).answers] == [False, True] * 2
    private = replace(round_by(), method=Choice("private-fedwq-cp"))
    plan = Plan.of(private)
    few = fw.Calibration([0.5] * 30, groups=["f"] * 21 + ["m"] * 9)
    for each in (cal, few):  # none, or fewer than ten
        hidden = decode(Agent("a", plan, each).answer(), Answer, plan.kinds).answers
        assert [s is None for s in hidden] == [False, True] * 2


@pytest.mark.parametrize(
    "change",
    [
        {"by": "site"},
        {"by": "label", "groups": ()},
        {"groups": ()},
        {"by": None},
        *({"groups": ("f", other)} for other in ("f", " m", "", "m\n")),
    ],
)
def test_groups_that_nobody_could_tell_apart_are_refused(change):
    with pytest.raises(InputError):
        replace(round_by(), **change)


@pytest.mark.parametrize(
    ("cal", "options"),
    [
        (fw.Calibration([0.1]), {"by": "label"}),
        (fw.Calibration([0.1], n_classes=2), {"by": "label"}),
        (fw.Calibration([0.1]), {"by": "group"}),
        (
            fw.Calibration([[0.1, 0.2]], [0], n_classes=2),
            {"by": "label", "score": fw.CQR(symmetric=False)},
        ),
    ],
)
def test_points_that_do_not_fit_are_refused(cal, options):
    with pytest.raises(InputError):
        fw.calibrate({"a": cal}, alpha=0.1, **options)
    for other in (fw.Calibration([0.1]), fw.Calibration([0.1], groups=["unknown"])):
        with pytest.raises(InputError):
            Plan.of(round_by()).check(other)


def test_a_group_must_be_named_and_known():
    cal = fw.Calibration([0.1, 0.2, 0.3], groups=["f", "f", "m"])
    release = fw.calibrate({"a": cal}, method="fedwq-cp", alpha=0.5, by="group")
    with pytest.raises(InputError):
        release.threshold("a")
    with pytest.raises(InputError):
        release.threshold("a", group="d")
    with pytest.raises(InputError) as refused:
        release.threshold("a", group=["f", "secret"])
    assert "secret" not in str(refused.value)
    with pytest.raises(InputError, match="leave group out"):
        fw.calibrate({"a": cal}, method="fedwq-cp", alpha=0.5).threshold("a", group="f")


CALS = {
    "a": fw.Calibration([0.1, 0.2, 0.3], groups=["f", "f", "f"]),
    "b": fw.Calibration([0.4, 0.5, 0.6], groups=["m", "m", "m"]),
    "c": fw.Calibration([0.7, 0.8, 0.9], groups=["f", "m", "m"]),
}


def test_an_agent_lost_on_the_way_is_lost_in_every_group():
    terms = replace(round_by(), method=Choice("fcp"), alphas=(0.5,), agents=tuple("abc"), quorum=1)
    server, plan = Server(terms), Plan.of(terms)
    agents = {name: Agent(name, plan, cal, limit=None) for name, cal in CALS.items()}
    release = hold(
        server, agents, lambda name, _, said: None if name == "a" and server.step >= 2 else said
    )
    left = fw.calibrate({n: CALS[n] for n in "bc"}, method="fcp", alpha=0.5, by="group")
    assert release.missing == ("a",)
    assert release.absent == left.absent == {"f": ("b",)}
    assert release.by_group("c") == left.by_group("c") == {"f": 0.7, "m": 0.8}


def test_a_roster(tmp_path):
    path = tmp_path / "roster.toml"
    path.write_text('agents = ["st-mary", "lakeside"]\nquorum = 1\nmax_n = 500\nn_classes = 3\n')
    assert load_roster(path) == Roster(("st-mary", "lakeside"), 1, 500, 3)


@pytest.mark.parametrize(
    "text",
    [
        "quorum = 1",
        'agents = ["a"]\nquorom = 1',
        'agents = "a"',
        'agents = ["a"]\nquorum = true',
        "agents = [",
    ],
)
def test_bad_rosters_are_refused(tmp_path, text):
    path = tmp_path / "roster.toml"
    path.write_text(text)
    with pytest.raises(InputError):
        load_roster(path)


# ---- whom agents will predict


@pytest.mark.parametrize("target", ["own", "mixture"])
@pytest.mark.parametrize("name", fw.methods.built_in())
def test_a_method_that_does_not_use_the_target_says_so(name, target):
    terms = Round("r1", Choice(name), Choice("lac"), (0.1,), ("a",), 1, n_classes=2, target=target)
    if name == "fed-crc":
        terms = replace(terms, score=Choice("multi-label"))
    plan = Plan.of(terms)
    uses = plan.method.traits.corrects_shift_of is not None
    said = f"target {target!r}: each agent predicts people" in plan.assumption
    assert said == (uses and not plan.method.traits.floors)
    unused = f"this method does not use the round's target {target!r}" in plan.assumption
    assert unused == (not uses and target == "mixture")
    assert getattr(plan.method, "target", None) == (target if uses else None)
    numbers = replace(terms, target=(0.5, 0.5))
    if not uses:
        with raises(InputError, field="target"):
            Plan.of(numbers)


def test_numbers_of_a_target_travel_as_they_are_read():
    terms = Round("r1", Choice("fedls-cp"), Choice("lac"), (0.1,), ("a",), 1, target=(3, 1))
    assert decode(encode(terms), Round) == terms
    assert encode(decode(encode(terms), Round)) == encode(terms)
    for bad in ("everybody", (), (0.5, inf), (True, 1.0), 5, None):
        with raises(InputError, field="target"):
            replace(terms, target=bad)


def test_in_how_many_groups_a_point_may_be_is_the_term_of_the_round():
    sites = {"a": np.arange(60) / 60, "b": np.arange(30) / 30}
    sent = [
        fw.calibrate(sites, method=Auto(max_groups=most), alpha=0.1).received for most in (1, 3)
    ]
    assert sent[0] == sent[1]


def test_a_target_of_the_method_alone_is_refused():
    method = FedLSCP(target="mixture")
    with pytest.raises(InputError):
        fw.calibrate(HAND, method=method, alpha=0.4)
    given = fw.calibrate(HAND, method=method, target="mixture", alpha=0.4)
    assert given.round.target == "mixture"
    assert "target" not in given.round.method.settings


@pytest.mark.parametrize(("sites", "quorum"), [(1, 1), (2, 1), (3, 2), (4, 3), (50, 49)])
def test_one_site_may_be_absent_by_default(sites, quorum):
    names = tuple(f"s{k}" for k in range(sites))
    assert new_round(names, "auto", "aps", (0.1,)).quorum == quorum
    others = (("fedwq-cp", {}), ("auto", {"target": "mixture"}))  # of two, each needs the other
    of_others = [new_round(names, m, "lac", (0.1,), **t, n_classes=2).quorum for m, t in others]
    assert of_others == [max(quorum, min(sites, 2))] * 2
    config = {"agents": ",".join(names), "secure": True, "method": "fedwq-cp"}
    assert round_of(config).quorum == min(sites, max(3, quorum))
