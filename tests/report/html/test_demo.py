import zlib
from base64 import b64decode

import pytest

from fedwqcp.demo import records as demo_records
from fedwqcp.demo.records import save_records
from fedwqcp.report.html import ReportOptions, load_page, write
from fedwqcp.report.html.demo import distinct, picture
from fedwqcp.report.html.page import ExampleSet
from pages import Read
from records import record

pytestmark = pytest.mark.usefixtures("quick")


def words(path, source, options=None):
    """Return all that a reader can see."""
    return " ".join(Read(write(source, path / "page.html", options).read_text()).words)


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
    said = words(demo, demo, ReportOptions(examples=1))
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
    page = load_page(demo, ReportOptions())
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
        ExampleSet(("a",), [("0", False)], False),
        ExampleSet(("b",), [("1", True)], True),
        ExampleSet(("c",), [("0", False)], False),
    ]
    assert distinct(drawn) == [
        ExampleSet(("a", "c"), [("0", False)], False),
        ExampleSet(("b",), [("1", True)], True),
    ]


def test_examples_are_left_out_unless_asked_for(demo):
    assert "hardest first" not in words(demo, demo)


def test_records_alone_make_a_report(demo):
    (demo / demo_records.REPORT_FILE).unlink()
    said = words(demo, demo, ReportOptions(examples=3))
    assert "its worst agent, b, reaches 0.750" in said
    assert "Who holds what" not in said


def test_a_picture_is_a_png_of_its_pixels_dark_on_light():
    data = b64decode(picture([0, 255, 100, 0]).partition(",")[2])
    assert data.startswith(b"\x89PNG")
    start = data.index(b"IDAT") + 4
    length = int.from_bytes(data[start - 8 : start - 4], "big")
    assert zlib.decompress(data[start : start + length]) == bytes([0, 255, 0, 0, 155, 255])
    assert picture([]) == ""
