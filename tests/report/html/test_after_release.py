"""The report of a monitor tells what its state holds, and nobody's single row."""

import pytest

from fedwqcp.errors import InputError, RecordError
from fedwqcp.monitor import Monitor, MonitorTerms, save_monitor
from fedwqcp.monitor.reading import batch_of_counts
from fedwqcp.report.html import load_page, save
from fedwqcp.report.html.after_release import STEPS
from pages import Read


@pytest.fixture
def page_of(tmp_path):
    """Return the page of a monitor, as data."""

    def _page(monitor, **options):
        save_monitor(monitor, tmp_path / "watch.json")
        return load_page(tmp_path / "watch.json", **options)

    return _page


@pytest.fixture
def fallen():
    """An agent that was covered for 100 rows, then never for 20."""
    watch = Monitor(MonitorTerms(0.1, ("lakeside", "st-mary")))
    watch.update("lakeside", [1] * 30)
    watch.update("st-mary", [1] * 100, batch="week-6")
    watch.update("st-mary", [0] * 20, batch="week-7")
    return watch


def block(page, name):
    """Return the table of a name."""
    blocks = [b for s in page.views[0].sections for b in s.blocks]
    return next(b for b in blocks if getattr(b, "name", "") == name)


def rows(block):
    """Return the rows of a table."""
    return [dict(zip(block.columns, row, strict=True)) for row in block.rows]


def verdict(page):
    return page.views[0].verdict


def words(page_file):
    """Return all that a reader can see."""
    return " ".join(Read(page_file.read_text()).words)


def test_without_an_alarm_there_is_nothing_to_do(page_of):
    watch = Monitor(MonitorTerms(0.1, ("st-mary", "lakeside")))
    watch.update("st-mary", [1] * 46 + [0] * 4)
    page = page_of(watch, title="Our hospitals")
    assert (verdict(page).tone, page.title) == ("good", "Our hospitals")
    few, ok = rows(block(page, "agents"))
    assert (few["agent"], few["state"], few["rows"], few["coverage"]) == (
        *("lakeside", "too few", "0", "?"),
    )
    assert (ok["agent"], ok["state"], ok["coverage"]) == ("st-mary", "ok", "0.920")


def test_coverage_below_the_limit_is_named_before_it_is_proved(page_of):
    for hits, named in ((534, True), (552, False)):
        watch = Monitor(MonitorTerms(0.1, ("st-mary",)))
        watch.absorb("st-mary", batch_of_counts(600, hits))
        page = page_of(watch)
        assert verdict(page).tone == "good"
        (*_, steps) = page.views[0].sections[0].blocks
        assert any("0.890" in line for line in steps.lines) == named


def test_an_alarm_says_for_whom_since_when_and_what_to_do(page_of, fallen, tmp_path):
    page = page_of(fallen)
    assert verdict(page).tone == "bad"
    first, other = rows(block(page, "agents"))
    assert (first["agent"], first["state"], first["dropped since"]) == (
        *("st-mary", "alarm", "week-7"),
    )
    assert (other["state"], block(page, "agents").tones) == ("ok", ["bad", "good"])
    said = words(save(page, tmp_path / "page.html"))
    assert "monitor recalibrated watch.json" in said


def test_the_classes_that_dropped_are_named_once_for_each_agent(page_of):
    names = ("nevus", "wart")
    watch = Monitor(MonitorTerms(0.1, ("lakeside", "st-mary"), 2, classes=names))
    watch.update("st-mary", [0] * 80, [0, 1] * 40)
    (*_, steps) = page_of(watch).views[0].sections[0].blocks
    (line,) = (line for line in steps.lines if "nevus" in line)
    assert [line.count(name) for name in ("st-mary", *names)] == [1, 1, 1]


def test_no_step_holds_fewer_than_ten_rows_and_old_ones_are_not_drawn(page_of):
    watch = Monitor(MonitorTerms(0.1, ("st-mary", "lakeside")))
    for hit in [1] * 33 + [0] + [1] * 10:
        watch.update("st-mary", [hit])
    for _ in range(2 * STEPS):
        watch.absorb("lakeside", batch_of_counts(100, 95))
    page = page_of(watch)
    steps = [row for row in rows(block(page, "history")) if row["agent"] == "st-mary"]
    assert [step["rows"] for step in steps] == ["10", "10", "10", "14"]
    assert len(block(page, "history").rows) == STEPS + 4


def test_fewer_than_ten_rows_are_counted_but_not_shown(page_of, tmp_path):
    watch = Monitor(MonitorTerms(0.1, ("st-mary",), 2))
    watch.update("st-mary", [1, 0, 1], [0, 0, 1])
    page = page_of(watch)
    assert verdict(page).tone == "plain"
    lines = [*rows(block(page, "agents")), *rows(block(page, "classes"))]
    assert [(line["rows"], line["coverage"]) for line in lines] == [("under 10", "?")] * 3
    assert "0.667" not in words(save(page, tmp_path / "page.html"))


def test_few_rows_of_a_class_do_not_follow_from_the_total_of_the_agent(page_of, tmp_path):
    watch = Monitor(MonitorTerms(0.1, ("st-mary", "lakeside"), 4))
    labels = [0] * 40 + [1] * 12 + [2] * 4
    watch.update("st-mary", [1] * 39 + [0] + [1] * 11 + [0] + [1, 1, 0, 1], labels)
    watch.update("lakeside", [1] * 23 + [0], [0] * 12 + [1] * 6 + [2] * 6)
    found = {
        (row["agent"], row["class"]): (row["rows"], row["coverage"])
        for row in rows(block(page_of(watch), "classes"))
    }
    # of st-mary's 56 rows, class 2 has 4: class 1 is hidden too, or 56 - 40 - 12 would tell
    assert found == {
        ("st-mary", "0"): ("40", "0.975"),
        ("st-mary", "1"): ("?", "?"),
        ("st-mary", "2"): ("under 10", "?"),
        ("st-mary", "3"): ("0", "?"),
        ("lakeside", "0"): ("12", "1.000"),
        ("lakeside", "1"): ("under 10", "?"),
        ("lakeside", "2"): ("under 10", "?"),
        ("lakeside", "3"): ("0", "?"),
    }
    assert "0.917" not in words(save(page_of(watch), tmp_path / "page.html"))


@pytest.mark.parametrize("text", ["", "[]", "{}", "7", '{"version": 1}', "x" * 100])
def test_other_files_are_no_monitor(tmp_path, text):
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(RecordError):
        load_page(tmp_path / "x.json")


def test_data_of_an_agent_are_refused(page_of, fallen):
    with pytest.raises(InputError):
        page_of(fallen, calibration="a.npz", agent="a")
    page_of(fallen, agent="a")  # which a site may have in its environment
