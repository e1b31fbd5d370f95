import re
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import fedwqcp as fw
from fedwqcp.demo import records as demo_records
from fedwqcp.demo.records import save_records
from fedwqcp.errors import InputError
from fedwqcp.federation.agent import Agent
from fedwqcp.federation.outputs import load_outputs
from fedwqcp.federation.plan import choose_method, choose_score
from fedwqcp.federation.predict import calibration_of
from fedwqcp.federation.record import save as save_release
from fedwqcp.federation.transport import folder as transport
from fedwqcp.report.html import Wanted, write
from fedwqcp.report.html.examples import Drawn, distinct
from fedwqcp.report.html.sources.kinds import read
from fedwqcp.report.html.vega import unchecked
from fedwqcp.wire.round import Round
from pages import Read
from records import record

module = import_module("fedwqcp.report.html.render")  # the package has a function of that name

ROOT = Path(__file__).resolve().parents[3]
NAMES = ("st-mary", "lakeside", "north")


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(module, "_library", lambda: "")
    with unchecked():
        yield


def words(path, source, wanted=None):
    """Return all that a reader can see."""
    return " ".join(Read(write(source, path / "page.html", wanted).read_text()).words)


@pytest.fixture
def rounds(tmp_path):
    """A closed round of three hospitals, one of which sent what is refused."""
    round = Round(
        "r1",
        choose_method("fedwq-cp"),
        choose_score(fw.APS()),
        (0.1,),
        NAMES,
        2,
        key="k",
        n_classes=3,
    )
    transport.open_round(round, tmp_path / "round.json")
    rng = np.random.default_rng(3)
    for name, rows in zip(NAMES, (300, 60, 40), strict=True):
        for part in ("cal", "test"):
            probs = rng.dirichlet([1, 2, 3], size=rows)
            labels = np.array([rng.choice(3, p=p) for p in probs])
            ids = np.array([f"patient-{name}-{i}" for i in range(rows)])
            np.savez(tmp_path / f"{name}-{part}.npz", probs=probs, labels=labels, ids=ids)
        cal = calibration_of(round, load_outputs(tmp_path / f"{name}-cal.npz"))
        transport.write_answer(Agent(name, round, cal), tmp_path / f"{name}.json")
    (tmp_path / "north.json").write_text("{}")
    answers = [tmp_path / f"{name}.json" for name in NAMES]
    transport.close_round(tmp_path / "round.json", answers, tmp_path / "release.json")
    return tmp_path


def test_the_server_tells_what_it_was_sent_and_no_coverage(rounds):
    said = words(rounds, rounds)
    assert "2 of 3 agents were used" in said
    assert "the server has no test data" in said
    assert "refused for" in said
    for name in ("st-mary", "lakeside"):
        assert f"{(rounds / f'{name}.json').stat().st_size:,}" in said
    assert not re.search(r"\d\.\d+ coverage", said)
    assert "patient" not in said


def test_messages_are_told_one_by_one_where_their_files_are(rounds):
    page = read(rounds, Wanted())
    (table,) = [
        b for s in page.views[0].sections for b in s.blocks if getattr(b, "name", "") == "messages"
    ]
    down = f"{(rounds / 'round.json').stat().st_size:,}"
    assert [row.cells[:3] for row in table.rows] == [
        ("st-mary", "0", down),
        ("lakeside", "0", down),
    ]


def test_an_agents_own_report_adds_coverage_and_no_person(rounds):
    wanted = Wanted(
        agent="st-mary", outputs=rounds / "st-mary-test.npz", calibration=rounds / "st-mary-cal.npz"
    )
    said = words(rounds, rounds / "release.json", wanted)
    assert re.search(
        r"fedwq-cp covers 0\.\d{3} of st-mary's test points \(exact 99 % interval", said
    )
    assert "300" in said
    assert "patient" not in said


def test_single_people_are_shown_only_where_their_owner_asks(rounds):
    wanted = Wanted(agent="st-mary", outputs=rounds / "st-mary-test.npz", examples=2)
    said = words(rounds, rounds / "release.json", wanted)
    assert said.count("patient-st-mary-") == 2


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"agent": "st-mary"}, "needs --agent and --outputs"),
        ({"agent": "nobody"}, "is not in the round"),
    ],
)
def test_what_an_agents_report_needs_is_told(rounds, wanted, message):
    with pytest.raises(InputError, match=message):
        read(rounds / "release.json", Wanted(**wanted))


def test_wanted_is_checked():
    with pytest.raises(InputError, match="--agent"):
        Wanted(outputs=Path("a.npz"))
    with pytest.raises(InputError, match="at least 0"):
        Wanted(examples=-1)


def test_a_folder_of_two_rounds_is_ambiguous(rounds):
    (rounds / "other.record.json").write_bytes((rounds / "round.record.json").read_bytes())
    with pytest.raises(InputError, match="name the file"):
        read(rounds, Wanted())


def closed(folder, method, scores):
    """The page of a round in which agents have these scores."""
    release = fw.calibrate(scores, method=method, alpha=0.1)
    save_release(release, folder / "round.record.json")
    (view,) = read(folder, Wanted()).views
    (verdict,) = view.verdicts.values()
    (cards,) = (section.blocks[0].groups for section in view.sections if section.key == "agents")
    words = {card.agent: card.word for card in next(iter(cards.values()))}
    return verdict, words, {section.key for section in view.sections}


def test_whom_a_robust_round_left_out_is_told(tmp_path):
    rng = np.random.default_rng(0)
    scores = {name: rng.permutation(200)[:40] / 200 for name in ("a", "liar", "c", "d")}
    scores["liar"] = np.zeros(40)
    verdict, words, _ = closed(tmp_path, fw.methods.get("rob-fcp", byzantine=1), scores)
    assert verdict.word == "1 left out"
    assert "3 of 4 agents were used" in verdict.text
    assert "Left out: liar (unlike the others" in verdict.text
    assert "Loss 1: the bound on what liars cost says nothing" in verdict.text
    assert words == {"a": "used", "liar": "left out", "c": "used", "d": "used"}


def test_a_median_is_not_judged_as_a_mean(tmp_path):
    scores = {"a": np.arange(1, 100) / 100, "b": np.arange(1, 100) / 1000}
    verdict, _, sections = closed(tmp_path, "guarded-median-cp", scores)
    assert verdict.word == "Closed"
    assert "every agent finds its own threshold" in verdict.text
    assert not {"diagnosis", "thresholds"} & sections
    verdict, _, sections = closed(tmp_path, "fedwq-cp", scores)
    assert verdict.word == "Cannot tell whether averaging is safe"
    assert "could miss up to 100.0%" in verdict.text
    assert {"diagnosis", "thresholds"} <= sections


def test_a_refusal_in_a_hostile_tongue_stays_text(rounds):
    release = transport.load(rounds / "round.record.json")
    bad = replace(release.agents[2], reason="<script>alert(1)</script>")
    save_release(replace(release, agents=(*release.agents[:2], bad)), rounds / "round.record.json")
    html = write(rounds, rounds / "page.html").read_text()
    assert "<script>alert" not in html
    assert "&lt;script&gt;alert(1)" in html


@pytest.fixture
def demo(tmp_path):
    """A demo by hand: two methods, two agents with difficult names."""
    config = {
        "method.overflow": "propagate",
        "score.name": "aps",
        "score.rule": "leq",
        "score.randomized": True,
        "demo.beta": 0.3,
        "demo.scarce_agent": "b",
    }
    save_records(
        tmp_path / "records.jsonl",
        [
            record(method=method, agent=agent, covered=covered, n=n, config=config, threshold=0.8)
            for method, agent, covered, n in (
                ("fedwq-cp", "<b>a</b>", 180, 40),
                ("fedwq-cp", "b", 150, 60),
                ("split-cp", "<b>a</b>", 178, 40),
                ("split-cp", "b", 181, 60),
            )
        ],
    )
    profile = {
        "dataset": "digits",
        "counts": (10, 30),
        "edges": (0.0, 0.5, 1.0),
        "people": (20, 20),
        "local": 0.85,
        "released": 0.8,
        "mixture": 0.82,
        "level": 0.9,
        "coverage": 0.88,
        "coverage_mixture": 0.91,
    }
    kept = [demo_records.AgentProfile(agent=agent, **profile) for agent in ("<b>a</b>", "b")]
    kept.append(
        demo_records.Traffic(dataset="digits", method="fedwq-cp", agent="b", down=(300,), up=(216,))
    )
    kept.append(
        demo_records.Example(
            dataset="digits",
            agent="b",
            row=7,
            truth=1.0,
            said=0.0,
            probability=0.2,
            pixels=(0, 1, 2, 3),
            sets={"fedwq-cp": (0.0,), "split-cp": (0.0, 1.0)},
        )
    )
    kept.append(
        demo_records.Traffic(
            dataset="digits",
            method="fedwq-cp",
            agent="<b>a</b>",
            down=(300,),
            up=(217,),
            used=False,
        )
    )
    kept.append(demo_records.Skipped(dataset="digits", method="x-cp", reason="it needs labels"))
    demo_records.save_report(tmp_path / demo_records.REPORT_FILE, kept)
    return tmp_path


def test_the_demo_is_told_with_all_that_it_kept(demo):
    said = words(demo, demo, Wanted(examples=1))
    assert "its worst agent, b, reaches 0.750" in said
    assert "<b>a</b>" in said
    for part in (
        "Scores and thresholds",
        "Who holds what",
        "Message by message",
        "Diagnosis",
        "gaps come from",
        "hardest first",
    ):
        assert part in said
    assert "<b>a</b>" not in (demo / "page.html").read_text()


def test_what_was_left_out_and_set_differently_is_told_with_its_reason(demo):
    page = read(demo, Wanted())
    (table,) = [
        b for s in page.views[0].sections for b in s.blocks if getattr(b, "name", "") == "settings"
    ]
    assert [row.cells for row in table.rows] == [
        ("fedwq-cp", "left out, with too few points: <b>a</b>"),
        ("x-cp", "not used: it needs labels"),
    ]
    (agents,) = [s for s in page.views[0].sections if s.key == "agents"]
    answers = [dict(card.facts)["its answer"] for card in agents.blocks[0].groups["fedwq-cp"]]
    assert answers == ["left out, too few points", "used"]
    assert dict(page.facts)["Methods"] == "digits 2"


def test_sets_that_methods_share_are_drawn_once():
    drawn = [
        Drawn(("a",), [("0", False)], False),
        Drawn(("b",), [("1", True)], True),
        Drawn(("c",), [("0", False)], False),
    ]
    assert distinct(drawn) == [
        Drawn(("a", "c"), [("0", False)], False),
        Drawn(("b",), [("1", True)], True),
    ]


def test_a_refused_answer_is_not_said_to_have_no_bytes(rounds):
    page = read(rounds, Wanted())
    (table,) = [
        b for s in page.views[0].sections for b in s.blocks if getattr(b, "name", "") == "bytes"
    ]
    assert [row.cells[0] for row in table.rows] == ["st-mary", "lakeside"]


def test_examples_are_left_out_unless_asked_for(demo):
    assert "hardest first" not in words(demo, demo)


def test_records_alone_make_a_report(demo):
    (demo / demo_records.REPORT_FILE).unlink()
    said = words(demo, demo, Wanted(examples=3))
    assert "its worst agent, b, reaches 0.750" in said
    assert "Who holds what" not in said


@pytest.mark.parametrize("made", [lambda p: p.mkdir(), lambda p: p.write_text("agents = []")])
def test_other_things_are_refused_with_what_could_be_told(tmp_path, made):
    made(tmp_path / "x.toml")
    with pytest.raises(InputError, match="must be one of: a round"):
        read(tmp_path / "x.toml", Wanted())
