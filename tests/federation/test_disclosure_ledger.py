"""What was ever told of a data set: the limit holds over all rounds together."""

from __future__ import annotations

import contextlib
import json
import shutil
import stat
import subprocess
import sys
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedwqcp as fw
from changed import replace
from fedwqcp.errors import DisclosureError, InputError, RecordError
from fedwqcp.federation.agent import Agent
from fedwqcp.federation.approval import approve, waiting_rounds
from fedwqcp.federation.batches import calibration_from_scores
from fedwqcp.federation.disclosure_ledger import DisclosureLedger
from fedwqcp.federation.disclosure_limit import DisclosureLimit
from fedwqcp.federation.plan import new_round
from fedwqcp.federation.predict import calibration_of
from fedwqcp.federation.site_folder import make_site_folder
from fedwqcp.federation.transport.envelope import Request
from fedwqcp.federation.transport.site import RefusedError, Site, accept_release, answer
from fedwqcp.methods import Calibration
from fedwqcp.methods._search import CountAt
from fedwqcp.outputs import Outputs
from fedwqcp.wire.codec import encode
from fedwqcp.wire.messages import Ask, Choice, Round

SCORES = np.random.default_rng(0).uniform(size=75)
CAL = Calibration(SCORES, np.arange(75) % 3, (np.arange(75.0) % 50)[:, None], n_classes=3)


def terms(method="fedwq-cp", alphas=(0.1,), *, id="r1", score="custom", **more):
    settings = more.pop("settings", {})
    return Round(
        id, Choice(method, settings), Choice(score), alphas, ("a", "b"), 2, n_classes=3, **more
    )


def ask(folder, round, cal=CAL, **options):
    return Agent("a", round, cal, ledger=DisclosureLedger(folder / "ledger"), **options).answer()


def told(folder):
    accounts = DisclosureLedger(folder / "ledger").accounts
    return {each.name: each.told for each in accounts}


def test_rounds_of_moved_levels_tell_a_fifth_of_the_people_and_no_more(tmp_path):
    answered = 0
    for i in range(30):
        try:
            ask(tmp_path, terms(alphas=(0.05 + 0.03 * i,), id=f"r{i}"))
        except DisclosureError:
            continue
        answered += 1
    assert answered == told(tmp_path)["everybody"] == 15


def test_what_was_told_before_costs_nothing(tmp_path):
    for i, method in enumerate(["fedwq-cp", "fedavgq-cp", "max-cp", "fedwq-cp", "fedcp-qq"]):
        ask(tmp_path, terms(method, id=f"r{i}"))
    assert told(tmp_path) == {"everybody": 1}, "one order statistic under five names"
    assert len(list((tmp_path / "ledger").glob("0*"))) == 1
    ask(tmp_path, terms("fcp", settings={"sketch": "order", "points": 10}))
    ask(tmp_path, terms("fcp", (0.2,), id="r9", settings={"sketch": "order", "points": 10}))
    assert told(tmp_path)["everybody"] in {10, 11}, "of which ranks does not depend on the level"


@pytest.mark.parametrize("n", [12, 75, 1000])
def test_a_default_site_answers_auto_at_two_levels_and_then_fedwq_cp(tmp_path, n):
    rng = np.random.default_rng(2)
    cal = Calibration(rng.uniform(size=n), rng.integers(0, 3, n), n_classes=3)
    ask(tmp_path, terms("auto"), cal)
    first = told(tmp_path)
    ask(tmp_path, terms("auto", (0.02, 0.3), id="r2"), cal)
    assert told(tmp_path) == first
    ask(tmp_path, terms("fedwq-cp", (0.2,), id="r3"), cal)
    assert told(tmp_path)["everybody"] == first.get("everybody", 0) + 1


def test_a_site_answers_the_default_again_when_others_join_or_leave(tmp_path):
    rng = np.random.default_rng(3)
    outputs = Outputs(rng.dirichlet([2, 3], size=76), rng.integers(0, 2, 76), ids=np.arange(76))
    accounts = []
    for others in ("b", "bc", "bcd", "e"):
        round = new_round(("a", *others), "auto", "aps", (0.1,), n_classes=2)
        ask(tmp_path, round, calibration_of(round, outputs))
        accounts.append(told(tmp_path))
    assert accounts == accounts[:1] * 4  # the same scores again cost nothing


def test_new_rows_raise_the_size_and_not_what_was_given(tmp_path):
    for i in range(15):
        ask(tmp_path, terms(alphas=(0.05 + 0.05 * i,), id=f"r{i}"))
    with pytest.raises(DisclosureError):
        ask(tmp_path, terms(alphas=(0.93,), id="r20"))
    four = Calibration(np.append(SCORES, [0.2, 0.3, 0.4, 0.5]))
    with pytest.raises(DisclosureError):
        ask(tmp_path, terms(alphas=(0.93,), id="r20"), four)
    five = Calibration(np.append(SCORES, [0.2, 0.3, 0.4, 0.5, 0.6]))
    ask(tmp_path, terms(alphas=(0.93,), id="r20"), five)
    assert told(tmp_path)["everybody"] == 16


def test_another_score_of_the_same_people_counts(tmp_path):
    for i in range(15):
        ask(tmp_path, terms(id=f"r{i}", score="lac"), Calibration(SCORES ** (1 + i), n_classes=3))
    with pytest.raises(DisclosureError):
        ask(tmp_path, terms(id="r15", score="lac"), Calibration(SCORES**0.5, n_classes=3))


def test_a_class_tells_a_fifth_of_its_people_over_all_rounds(tmp_path):
    """By label and by the sketches of fedls-cp; five of 25 in each class."""
    ask(tmp_path, terms("fedls-cp", settings={"points": 3}))
    for i in range(20):
        try:
            ask(tmp_path, terms(alphas=(0.1 + 0.04 * i,), id=f"r{i}", by="label"))
        except DisclosureError:
            break
    else:
        pytest.fail("classes told more than a fifth")
    found = told(tmp_path)
    assert max(found[f"class {c}"] for c in range(3)) == 5
    assert found["everybody"] == sum(found[f"class {c}"] for c in range(3))


def test_counts_are_charged_once_for_a_round_and_again_for_a_step_answered_twice(tmp_path):
    large = Calibration(np.random.default_rng(1).uniform(size=2000))
    for _ in range(3):
        ask(tmp_path, terms("fcp"), large)
    assert told(tmp_path) == {"everybody": 240}
    ask(tmp_path, terms("fcp", id="r2"), large)
    assert told(tmp_path) == {"everybody": 240}, "a size alone, which was told before"
    changed = Calibration(large.scores / 2)
    with pytest.raises(DisclosureError):
        ask(tmp_path, terms("fcp"), changed)


POOLED = terms("fcp", id="pooled", settings={"sketch": "order", "points": 3})
OF_CLASSES, OF_GROUPS = (
    terms("fedwq-cp", (0.09,), id=by, by=by, groups=("f", "m") if by == "group" else ())
    for by in ("label", "group")
)
CROSSED = replace(OF_GROUPS, id="crossed", method=Choice("fedls-cp", {"points": 2}))


def of_sizes(*sizes):
    """Rows of classes 0, 1, ... of the group f, and as many of the group m."""
    labels = np.repeat(np.tile(np.arange(3), 2), sizes)
    groups = np.repeat(["f", "m"], [sum(sizes[:3]), sum(sizes[3:])])
    return Calibration(np.linspace(0, 1, sum(sizes)), labels, n_classes=3, groups=groups)


@pytest.mark.parametrize(
    ("first", "second", "sizes", "told"),
    [
        (terms("auto"), POOLED, (60, 60, 5, 60, 60, 0), False),
        (terms("auto"), POOLED, (60, 60, 5, 60, 60, 5), True),
        (terms("auto"), POOLED, (60, 60, 0, 60, 60, 0), True),
        (terms("auto"), POOLED, (60, 6, 3, 60, 0, 3), True),
        (OF_CLASSES, POOLED, (60, 60, 0, 60, 60, 1), False),
        (OF_GROUPS, POOLED, (60, 60, 60, 3, 3, 3), False),
        (OF_GROUPS, POOLED, (60, 60, 60, 4, 4, 4), True),
        (OF_CLASSES, OF_GROUPS, (60, 60, 60, 2, 60, 60), True),
        (OF_CLASSES, OF_GROUPS, (60, 60, 5, 60, 60, 4), False),
        (OF_CLASSES, CROSSED, (60, 60, 60, 9, 60, 60), False),
        (OF_CLASSES, CROSSED, (60, 60, 60, 10, 60, 60), True),
    ],
)
def test_no_difference_tells_of_a_small_class(tmp_path, first, second, sizes, told):
    """High scores of all points less those of large classes once were the small one's, 5 of 5."""
    cal = of_sizes(*sizes)
    for place, rounds in {"one": (first, second), "other": (second, first)}.items():
        for i, round in enumerate(rounds):
            try:
                ask(tmp_path / place, round, cal)
            except DisclosureError:
                assert (i, told) == (1, False)
                break
        else:
            assert told


@pytest.mark.parametrize("least", [10, 50])
def test_small_classes_together_are_as_many_as_the_site_demands(tmp_path, least):
    """Two classes of six once sent a score at a site that reveals none of fewer than fifty."""
    cal = of_sizes(300, 6, 6, 0, 0, 0)
    for place, by in (("all", None), ("group", "group")):
        round = terms("auto", by=by, groups=("f",) if by else ())
        with contextlib.nullcontext() if least == 10 else pytest.raises(DisclosureError):
            assert ask(tmp_path / place, round, cal, limit=DisclosureLimit(0.2, least))


@pytest.mark.parametrize("other", [0, 1, 9, 10])
def test_of_groups_that_overlap_none_is_small(tmp_path, other):
    """The largest score of the old that was of no woman and no man was of one of the others."""
    sexes = np.repeat(["sex=f", "sex=m", "sex=other"], [60, 60, other])
    groups = np.column_stack([sexes, np.resize(["old", "young"], len(sexes))])
    scores = np.linspace(0, 1, len(sexes))
    names = ("sex=f", "sex=m", "sex=other", "old", "young")
    round = terms("auto", by="group", groups=names, max_groups=2)
    for labels in (None, np.zeros(len(sexes), np.int64)):
        cal = Calibration(scores, labels, n_classes=3, groups=groups)
        if other in {0, 10}:
            assert ask(tmp_path / str(labels is None), round, cal)
        else:
            with pytest.raises(DisclosureError):
                ask(tmp_path / str(labels is None), round, cal)


def test_a_class_of_scores_made_elsewhere_has_no_name_of_the_round(tmp_path):
    """Names that every round made up anew once gave each class a new account."""
    own, answered = Outputs(SCORES, np.repeat([0, 1], [15, 60])), 0
    for i in range(8):
        round = terms(id=f"r{i}", score="lac", by="label", alphas=(0.1 + i / 10,))
        round = replace(round, classes=(f"a{i}", f"b{i}"), n_classes=2)
        with contextlib.suppress(DisclosureError):
            answered += bool(ask(tmp_path, round, calibration_from_scores(round, own)))
    assert (answered, told(tmp_path)) == (3, {"everybody": 6, "class 0": 3, "class 1": 3})


def test_a_class_keeps_its_account_whatever_the_order_of_the_round(tmp_path):
    rng = np.random.default_rng(0)
    columns = {
        "text": Outputs(rng.dirichlet(np.ones(2), 40), np.array(["a", "b"])[np.arange(40) % 2]),
        "named": Outputs(rng.dirichlet(np.ones(2), 40), np.arange(40) % 2, classes=("a", "b"),
                         by_name=True),
    }  # fmt: skip
    for name, own in columns.items():
        for i, order in enumerate([("a", "b"), ("b", "a")]):
            round = replace(
                terms(id=f"r{i}", score="lac", by="label", alphas=(0.2 + i / 5,)),
                classes=order,
                n_classes=2,
            )
            ask(tmp_path / name, round, calibration_of(round, own))
        assert told(tmp_path / name) == {"everybody": 4, "class a": 2, "class b": 2}


def test_no_refusal_tells_whether_a_score_passes_the_bounds_of_a_round(tmp_path):
    for top in (0.4, 0.9):
        round = terms("fed-crc", settings={"bounds": (0.0, 0.5), "min_gap": 5})
        assert ask(tmp_path / str(top), round, Calibration(top * SCORES))


@pytest.mark.parametrize("made", ["here", "elsewhere"])
def test_which_rounds_are_refused_depends_on_sizes_alone(tmp_path, made):
    """Once the free repeats of equal scores told the last rank, and bounds told the largest score.

    First ranges that a penalty makes, then scores that are equal where no label ranks third.
    """

    def penalised(i, k_reg, method="fedwq-cp", levels=1, **own):
        alphas = tuple(np.arange(1, levels + 1) / 40)
        score = Choice("raps", {"randomized": False, "penalty": 0.1, "k_reg": k_reg})
        round = terms(method, alphas, id=f"r{i}", settings=own, target="mixture")
        return replace(round, score=score)

    rounds = [penalised(k, k, "dp-fedcp", rounds=1) for k in range(3)]
    rounds += [penalised(4, 2), penalised(5, 3, levels=29), penalised(6, 1), penalised(7, 2)]
    steps = [penalised(f"c{k}-{i}", k, "fcp", probes=1) for i, k in enumerate((3, 2, 3, 1))]
    values = -np.sort(-np.random.default_rng(3).dirichlet(np.ones(3), 150))
    labels, replies = np.arange(150) % 3, {}
    for last in (1, 2):  # how the labels rank
        ranks = np.resize([0, last], 150)
        probs = np.take_along_axis(values, (np.arange(3) - (labels - ranks)[:, None]) % 3, axis=1)
        own = Outputs(probs, labels)
        if made == "elsewhere":
            own = Calibration(np.linspace(0, last, 150), labels, n_classes=3)
        at = site(tmp_path / str(last))
        replies[last] = [reply(at, each, cal=own) for each in rounds]
        at = site(tmp_path / str(last), **{"data-set": "later-steps", "max-share": 0.9})
        for each, step in product(steps, range(4)):
            ask = encode(Ask(each.id, step, (CountAt((0.3 * step,)),))) if step else b""
            replies[last].append(reply(at, each, cal=own, question=ask))
    assert replies[1] == replies[2]
    assert replies[1][3:7] == ["ok", "ok", "answer", "ok"]
    assert replies[1][7:] == ["ok"] * 12 + ["answer"] * 4


def test_private_answers_without_a_budget_spend_ten_over_all_rounds(tmp_path):
    def private(i):
        return terms(
            "private-fedwq-cp",
            (0.01 * (i + 1),),
            id=f"r{i}",
            score="lac",
            settings={"epsilon": 1.0},
        )

    for i in range(10):
        ask(tmp_path, private(i))
    with pytest.raises(InputError):
        ask(tmp_path, private(10))
    assert told(tmp_path) == {}, "noise tells nobody's score"


def test_what_a_site_lets_leave_without_a_limit_counts_later(tmp_path):
    every = terms(alphas=tuple(i / 76 for i in range(1, 76)))
    ask(tmp_path, every, allow_samples=True)
    assert told(tmp_path)["everybody"] == 75
    ask(tmp_path, terms(id="r2"))  # one of those
    ask(tmp_path, terms(id="r3"), limit=DisclosureLimit(1.0))
    with pytest.raises(DisclosureError):
        ask(tmp_path, terms(id="r4", score="lac"), Calibration(SCORES / 2, n_classes=3))


def test_only_the_site_renews_or_widens(tmp_path):
    for i in range(15):
        ask(tmp_path, terms(alphas=(0.05 + 0.05 * i,), id=f"r{i}"))
    late = terms(alphas=(0.93,), id="late")
    ask(tmp_path, late, limit=DisclosureLimit(0.25))
    DisclosureLedger(tmp_path / "ledger").renew()
    assert told(tmp_path) == {}
    ask(tmp_path, late)
    assert told(tmp_path) == {"everybody": 1}


def test_a_lost_entry_stops_every_answer(tmp_path):
    for i in range(3):
        ask(tmp_path, terms(alphas=(0.1 + 0.1 * i,), id=f"r{i}"))
    (tmp_path / "ledger" / "000003.json").unlink()
    with pytest.raises(RecordError):
        ask(tmp_path, terms(id="r9"))


@pytest.mark.parametrize("epsilon", ["-1", "NaN", "Infinity", "1e400"])
def test_an_entry_that_spends_no_possible_epsilon_stops_every_answer(tmp_path, epsilon):
    ask(tmp_path, terms("private-fedwq-cp", score="lac", settings={"epsilon": 1.0}))
    entry = tmp_path / "ledger" / "000001.json"
    entry.write_text(json.dumps({**json.loads(entry.read_text()), "epsilon": epsilon}))
    with pytest.raises(RecordError):
        ask(tmp_path, terms(id="r2"))


METHODS = st.sampled_from(
    [
        ("fedwq-cp", {}),
        ("fedwq-cp", {"tail": 16}),
        ("fedwq-cp", {"overflow": "clip"}),
        ("fcp", {"sketch": "order", "points": 4}),
        ("fcp", {"count_gap": 9}),
        ("fcp", {"probes": 1}),
        ("fedls-cp", {"points": 2}),
        ("fedcp-qq", {}),
        ("guarded-median-cp", {}),
        ("private-fedwq-cp", {"epsilon": 4.0}),
    ]
)


@given(
    st.lists(
        st.tuples(
            METHODS,
            st.lists(st.sampled_from([0.05, 0.1, 0.2, 0.35, 0.5]), min_size=1, unique=True),
            st.sampled_from([None, "label"]),
            st.sampled_from([1.0, 2.0]),
        ),
        max_size=15,
    ),
    st.sampled_from([9, 40, 75]),
)
@settings(max_examples=60, deadline=None)
def test_no_sequence_of_rounds_passes_the_limit_and_repeats_are_free(tmp_path_factory, rounds, n):
    home, limit = tmp_path_factory.mktemp("site"), DisclosureLimit()
    for i, ((method, own), alphas, by, power) in enumerate(rounds):
        cal = Calibration(SCORES[:n] ** power, CAL.labels[:n], CAL.features[:n], n_classes=3)
        round = terms(method, tuple(alphas), id=f"r{i}", score="lac", by=by, settings=own)
        try:
            first = ask(home, round, cal)
        except InputError:
            continue
        before = told(home)
        if method != "private-fedwq-cp":
            assert ask(home, round, cal) == first
            ask(home, replace(round, id=f"again{i}"), cal)
            assert told(home) == before
    for account in DisclosureLedger(home / "ledger").accounts:
        assert account.told <= limit.scores_of(account.size)
        assert account.name == "everybody" or account.size >= limit.min_class


PROCESS = """
import os, sys
from pathlib import Path
import numpy as np
from fedwqcp.errors import DisclosureError
from fedwqcp.federation import spending_log
from fedwqcp.federation.agent import Agent
from fedwqcp.federation.disclosure_ledger import DisclosureLedger
from fedwqcp.methods import Calibration
from fedwqcp.wire.codec import decode
from fedwqcp.wire.messages import Round
home, dies = Path(sys.argv[1]), int(sys.argv[2])
cal = Calibration(np.random.default_rng(0).uniform(size=75))
if dies:
    real, calls = spending_log.write_atomic, []
    def write(*args, **more):
        calls.append(1)
        return os._exit(9) if len(calls) == dies else real(*args, **more)
    spending_log.write_atomic = write
for file in sorted(home.glob("*.round")):
    round, ledger = decode(file.read_bytes(), Round), DisclosureLedger(home / "ledger")
    try:
        answer = Agent("a", round, cal, ledger=ledger).answer()
    except DisclosureError:
        continue
    (home / f"{file.stem}.{os.getpid()}.sent").write_bytes(answer)
"""


def test_processes_at_once_and_kills_in_between_pass_no_limit(tmp_path):
    for i in range(30):
        (tmp_path / f"{i:02}.round").write_bytes(
            encode(replace(terms(alphas=(0.03 + 0.03 * i,), id=f"r{i}"), n_classes=None))
        )
    command = [sys.executable, "-c", PROCESS, str(tmp_path)]
    assert [subprocess.call([*command, dies]) for dies in ("3", "6", "8")] == [9, 9, 9]
    running = [subprocess.Popen([*command, "0"]) for _ in range(3)]
    assert [each.wait() for each in running] == [0, 0, 0]
    sent = {file.name[:2] for file in tmp_path.glob("*.sent")}
    assert len(sent) <= told(tmp_path)["everybody"] == 15


def site(folder, **settings):
    make_site_folder(folder)
    return Site.of({"agent": "a", "folder": str(folder), **settings})


def reply(at, round, *, masked=False, cal=CAL, question=b""):
    request = Request("n", encode(round), question, 60.0)
    return at.perform(lambda: answer(at, request, lambda: cal, masked=masked), request, False)[0]


@pytest.mark.parametrize(("n", "most"), [(75, 15), (1000, 200)])
def test_a_site_over_an_engine_tells_a_fifth_over_all_rounds_and_restarts(tmp_path, n, most):
    cal = Calibration(np.random.default_rng(1).uniform(size=n), n_classes=3)
    answered = 0
    for i in range(5):
        alphas = tuple((1 + 5 * j + i) / (n + 2) for j in range(most // 3))
        answered += reply(site(tmp_path), terms(alphas=alphas, id=f"r{i}"), cal=cal) == "ok"
    assert answered == 3
    (whole,) = DisclosureLedger(tmp_path / "ledger" / "calibration").accounts
    assert whole.told <= most
    assert reply(site(tmp_path, **{"data-set": "new-people"}), terms(id="r9"), cal=cal) == "ok"


@pytest.mark.parametrize("lost", [".", "ledger", "ledger/calibration", "privacy"])
def test_a_site_that_lost_what_it_counted_refuses_until_a_person_renews_it(tmp_path, lost):
    home, private = tmp_path / "site", lost == "privacy"
    budget = {"privacy-budget": 2.0} if private else {}
    round = terms("private-fedwq-cp", score="lac") if private else terms()
    assert reply(site(home, **budget), round) == "ok"
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    shutil.rmtree(home / lost)
    again = Site.of({"agent": "a", "folder": str(home), **budget})
    for at in (again, Site.of({"agent": "a", "folder": str(home)})):
        assert reply(at, replace(round, id="r2")) == "folder"
    assert make_site_folder(home)
    assert reply(again, replace(round, id="r2")) == "ok"
    assert not make_site_folder(home)


@pytest.mark.parametrize("honest", [0, 1, 2, 3])
def test_masks_lift_no_limit_unless_the_site_trusts_others(tmp_path, honest):
    """Two puppets and a site of 75 points: fcp by exact counts is refused, masked or not.

    A site that trusts three others says nothing of a round of two: it once lifted the limit there.
    """
    round = replace(
        terms("fcp", max_n=1000, score="lac"), agents=("a", "p1", "p2"), quorum=2, secure=(0.0, 1.0)
    )
    at = site(tmp_path, **{"honest-others": honest})
    assert reply(at, round, masked=True) == ("ok" if honest == 2 else "answer")
    plain = replace(round, secure=None, id="plain")
    assert reply(at, plain) == "answer"


def test_a_round_waits_until_a_person_approves_its_terms_once(tmp_path):
    at = site(tmp_path, approve=True)
    first = terms()
    assert reply(at, first) == reply(at, replace(first, id="r2", key="other")) == "approval"
    (name,) = waiting_rounds(tmp_path)
    with pytest.raises(InputError):
        approve(tmp_path, f"../{name}")
    approve(tmp_path, name)
    assert waiting_rounds(tmp_path) == {}
    assert reply(at, replace(first, alphas=(0.3,), id="r3")) == "approval"
    assert reply(at, replace(first, id="r3")) == "ok"
    assert reply(at, replace(first, id="r3")) == "ok", "one round, all its steps"
    assert reply(at, replace(first, id="r4")) == "approval"


@pytest.mark.parametrize(
    "other",
    [{"method": "fcp"}, {"alphas": (0.1, 0.9)}, {"target": "mixture"}, {"target": (0.2, 0.3, 0.5)}],
)
def test_a_site_insists_on_a_method_its_level_and_target(tmp_path, other):
    required = {"require": "auto", "require-alpha": 0.1, "require-target": "own"}
    at = site(tmp_path, **required)
    assert reply(at, terms("auto")) == "ok"
    round = terms(**{"method": "auto", "id": "r2", **other})
    assert reply(at, round) == "required"
    assert reply(site(tmp_path), round) != "required"
    release = fw.calibrate(
        {"a": CAL, "b": CAL}, **{"method": "fcp", "alpha": 0.1, "score": "custom"}
    ).public()
    handed = Request("n", b"", encode(release), 60.0)
    with pytest.raises(RefusedError, match="required"):
        accept_release(at, handed)
    assert accept_release(site(tmp_path), handed)


def test_no_more_than_a_hundred_rounds_wait(tmp_path):
    at = site(tmp_path, approve=True)
    for i in range(105):
        assert reply(at, terms(alphas=(0.1 + i / 1000,), id=f"r{i}")) == "approval"
    assert len(waiting_rounds(tmp_path)) == 100
    assert not (tmp_path / "rounds").exists()
