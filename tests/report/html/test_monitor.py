"""The report of a monitor tells what its state and log hold, and nobody's single row."""

import pytest

from fedwqcp.errors import InputError, RecordError
from fedwqcp.monitor import Monitor, MonitorTerms, append_log, load_monitor, save_monitor
from fedwqcp.report.html import ReportOptions, load_page, write
from fedwqcp.report.html.monitor import MOST
from pages import Read

pytestmark = pytest.mark.usefixtures("quick")


class Watch:
    """A monitor in a folder that is kept after every update, as the command does."""

    def __init__(self, folder, terms):
        self.state, self.monitor = folder / "watch.json", Monitor(terms)
        save_monitor(self.monitor, self.state)

    @property
    def log(self):
        return self.state.with_name("watch.json.log")

    def update(self, agent, covered, labels=None, when="2026-11-15T08:00:00+00:00"):
        standings = self.monitor.update(agent, covered, labels)
        save_monitor(self.monitor, self.state)
        append_log(self.log, self.monitor.updates, when, standings)

    def recalibrated(self, agent):
        self.monitor.recalibrated(agent)
        save_monitor(self.monitor, self.state)


@pytest.fixture
def quiet(tmp_path):
    """Two agents that are covered as promised; one has no rows yet."""
    watch = Watch(tmp_path, MonitorTerms(0.1, ("st-mary", "lakeside")))
    watch.update("st-mary", [1] * 46 + [0] * 4)
    return watch


@pytest.fixture
def fallen(tmp_path):
    """An agent that was covered for 100 rows, then never for 20."""
    watch = Watch(tmp_path, MonitorTerms(0.1, ("st-mary", "lakeside")))
    watch.update("lakeside", [1] * 30)
    watch.update("st-mary", [1] * 100)
    watch.update("st-mary", [0] * 20, when="2026-12-01T09:30:00+00:00")
    return watch


def words(folder, source):
    """Return all that a reader can see."""
    return " ".join(Read(write(source, folder / "page.html").read_text()).words)


def block(page, name):
    """Return the chart or table of a name."""
    blocks = [b for s in page.views[0].sections for b in s.blocks]
    blocks += [c for b in blocks for c in getattr(b, "charts", {}).values()]
    return next(b for b in blocks if getattr(b, "name", "") == name)


def cards(page):
    """Return the cards by agent."""
    return {card.agent: card for card in page.views[0].sections[0].blocks[0].groups["coverage"]}


def test_without_an_alarm_there_is_nothing_to_do(quiet):
    page = load_page(quiet.state, ReportOptions())
    verdict = page.views[0].verdicts["coverage"]
    (standing,) = quiet.monitor.standings("st-mary")
    assert (verdict.tone, verdict.word) == ("good", "No alarm")
    assert f"{standing.low:.3f}" in verdict.text
    assert f"{standing.high:.3f}" in verdict.text
    assert cards(page)["lakeside"].word == "no rows yet"


def test_an_alarm_says_for_whom_since_when_and_what_to_do(fallen, tmp_path):
    verdict = load_page(fallen.state, ReportOptions()).views[0].verdicts["coverage"]
    assert (verdict.tone, verdict.word) == ("bad", "Alarm at 1 of 2 agents")
    assert "st-mary" in verdict.text
    assert "101" in verdict.text
    said = words(tmp_path, fallen.state)
    assert "100" in said
    assert "watch.json" in said
    assert "--agent" in said


def test_cards_tell_the_estimate_and_the_sequence_of_the_state(fallen):
    standing, other = load_monitor(fallen.state).standings()
    page = load_page(fallen.state, ReportOptions())
    card = cards(page)["st-mary"]
    assert (card.figure, card.label) == ("0.000", "coverage, last 20 rows")
    assert f"{standing.low:.3f}" in card.interval
    assert f"{standing.high:.3f}" in card.interval
    assert dict(card.facts)["alarm at row"] == str(standing.alarm)
    assert (cards(page)["lakeside"].figure, cards(page)["lakeside"].word) == ("1.000", "no alarm")
    assert card.bar.low == standing.low
    assert other.alarm is None


def test_the_chart_draws_every_step_with_its_sequence(fallen):
    chart = block(load_page(fallen.state, ReportOptions()), "coverage-st-mary")
    first, last = (dict(zip(chart.columns, row, strict=True)) for row in chart.rows)
    assert (first["row"], first["coverage"]) == (100, 1.0)
    assert (last["row"], last["rows"], last["covered"]) == (120, 120, 100)
    assert last["coverage"] == pytest.approx(100 / 120)
    (standing, _) = load_monitor(fallen.state).standings()
    assert (last["low"], last["high"]) == (standing.low, standing.high)
    assert f"Alarm at row {standing.alarm}" in chart.alt


def test_a_new_calibration_ends_the_alarm_and_counts_anew(fallen, tmp_path):
    fallen.recalibrated("st-mary")
    fallen.update("st-mary", [1] * 15)
    page = load_page(fallen.state, ReportOptions())
    assert page.views[0].verdicts["coverage"].word == "No alarm"
    chart = block(page, "coverage-st-mary")
    last = dict(zip(chart.columns, chart.rows[-1], strict=True))
    assert (last["calibration"], last["row"], last["rows"]) == (2, 135, 15)
    assert "120" in chart.alt


def test_no_step_holds_fewer_than_ten_rows(tmp_path):
    watch = Watch(tmp_path, MonitorTerms(0.1, ("st-mary",)))
    for hit in [1] * 33 + [0] + [1] * 10:
        watch.update("st-mary", [hit])
    chart = block(load_page(watch.state, ReportOptions()), "coverage-st-mary")
    rows = [dict(zip(chart.columns, row, strict=True))["rows"] for row in chart.rows]
    assert rows == [14, 24, 34, 44]


def test_a_long_log_is_drawn_in_few_steps(tmp_path):
    watch = Watch(tmp_path, MonitorTerms(0.1, ("st-mary",)))
    for _ in range(3 * MOST):
        standings = watch.monitor.update_counts("st-mary", 100, 95)
        append_log(watch.log, watch.monitor.updates, "t", standings)
    save_monitor(watch.monitor, watch.state)
    chart = block(load_page(watch.state, ReportOptions()), "coverage-st-mary")
    assert len(chart.rows) == MOST
    assert chart.rows[-1][4] == 300 * MOST


def test_fewer_than_ten_rows_are_counted_but_not_shown(tmp_path):
    watch = Watch(tmp_path, MonitorTerms(0.1, ("st-mary",), 2))
    watch.update("st-mary", [1, 0, 1], [0, 0, 1])
    page = load_page(watch.state, ReportOptions())
    assert page.views[0].verdicts["coverage"].word == "Too few rows"
    assert (cards(page)["st-mary"].figure, cards(page)["st-mary"].word) == ("?", "too few rows")
    assert dict(cards(page)["st-mary"].facts)["evidence of a drop"] == "? of 40"
    assert [row[3:6] for row in block(page, "classes").rows] == [("under 10", "?", "?")] * 2
    assert "0.667" not in words(tmp_path, watch.state)


def test_few_rows_of_a_class_do_not_follow_from_the_total_of_the_agent(tmp_path):
    watch = Watch(tmp_path, MonitorTerms(0.1, ("st-mary", "lakeside"), 4))
    labels = [0] * 40 + [1] * 12 + [2] * 4
    watch.update("st-mary", [1] * 39 + [0] + [1] * 11 + [0] + [1, 1, 0, 1], labels)
    watch.update("lakeside", [1] * 23 + [0], [0] * 12 + [1] * 6 + [2] * 6)
    rows = block(load_page(watch.state, ReportOptions()), "classes").rows
    shown = {(row[0], row[1]): row[3:5] for row in rows}
    # of st-mary's 56 rows, class 2 has 4: class 1 is hidden too, or 56 - 40 - 12 would tell
    assert shown == {
        ("st-mary", "0"): ("40", "0.975"),
        ("st-mary", "1"): ("?", "?"),
        ("st-mary", "2"): ("under 10", "?"),
        ("st-mary", "3"): ("0", "?"),
        ("lakeside", "0"): ("12", "1.000"),
        ("lakeside", "1"): ("under 10", "?"),
        ("lakeside", "2"): ("under 10", "?"),
        ("lakeside", "3"): ("0", "?"),
    }
    assert {row[7] for row in rows if shown[row[0], row[1]][1] == "?"} == {"? of 320"}
    assert "0.917" not in words(tmp_path, watch.state)  # eleven of twelve


def test_classes_stand_beside_each_other_alarms_first(tmp_path):
    watch = Watch(tmp_path, MonitorTerms(0.1, ("st-mary",), 3, class_alpha=0.2))
    watch.update("st-mary", ([1] * 19 + [0]) * 20, ([0] * 10 + [1] * 9 + [2]) * 20)
    page = load_page(watch.state, ReportOptions())
    first, *others = block(page, "classes").rows
    alarmed = watch.monitor.standings()[3]
    assert first[:5] == ("st-mary", "2", f"ALARM at row {alarmed.alarm}", "20", "0.000")
    assert {row[2] for row in others} == {"ok"}
    verdict = page.views[0].verdicts["coverage"]
    assert "st-mary" in verdict.text
    assert "0.000" in verdict.text


def test_many_classes_are_cut_and_counted(tmp_path):
    watch = Watch(tmp_path, MonitorTerms(0.1, ("st-mary",), 300))
    page = load_page(watch.state, ReportOptions())
    assert len(block(page, "classes").rows) == 200
    assert "100" in words(tmp_path, watch.state)


def test_a_log_alone_is_enough_and_says_what_it_cannot_know(fallen, tmp_path):
    fallen.state.unlink()
    page = load_page(fallen.log, ReportOptions())
    assert "Promised" not in dict(page.facts)
    assert "monitor recalibrated STATE" in words(tmp_path, fallen.log)


def test_a_log_beside_its_state_tells_the_same(fallen):
    assert load_page(fallen.log, ReportOptions()) == load_page(fallen.state, ReportOptions())


def test_a_state_without_log_tells_the_present(fallen, tmp_path):
    fallen.log.unlink()
    page = load_page(fallen.state, ReportOptions())
    assert len(block(page, "coverage-st-mary").rows) == 1


def test_evidence_beyond_all_numbers_is_shown(tmp_path):
    watch = Watch(tmp_path, MonitorTerms(0.1, ("st-mary",)))
    watch.update("st-mary", [0] * 2000)
    assert watch.monitor.standings()[0].evidence > 1000
    page = load_page(watch.state, ReportOptions())
    assert dict(cards(page)["st-mary"].facts)["evidence of a drop"] == "20 reached"


def test_a_hostile_name_and_time_stay_text(tmp_path):
    watch = Watch(tmp_path, MonitorTerms(0.1, ("st-mary",)))
    watch.update("st-mary", [1] * 20, when="<script>alert(1)</script>")
    html = write(watch.state, tmp_path / "page.html").read_text()
    assert "<script>alert" not in html
    assert "&lt;script&gt;alert(1)" in html


def test_damage_is_reported_with_its_line(fallen):
    fallen.log.write_text(fallen.log.read_text() + "{}\n")
    with pytest.raises(RecordError, match="line 4"):
        load_page(fallen.state, ReportOptions())


@pytest.mark.parametrize("text", ["", "[]", "{}", "7", '{"version": 1}', "x" * 100])
def test_other_files_are_no_monitor(tmp_path, text):
    (tmp_path / "x.log").write_text(text)
    with pytest.raises(InputError):
        load_page(tmp_path / "x.log", ReportOptions())


@pytest.mark.parametrize("option", [{"examples": 2}, {"calibration": "a.npz", "agent": "a"}])
def test_data_of_an_agent_are_refused(quiet, option):
    with pytest.raises(InputError):
        load_page(quiet.state, ReportOptions(**option))
    load_page(quiet.state, ReportOptions(agent="a"))  # which a site may have in its environment
