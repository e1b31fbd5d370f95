"""The demo's page: the answer first, numbers as in the results, and words a clinician can use."""

from dataclasses import replace

import pytest

pytest.importorskip("sklearn")

from fedwqcp.demo.demo import ACTS, METHODS, RESULTS_FILE, save_results
from fedwqcp.demo.text import advised, closing, demo_text
from fedwqcp.errors import InputError
from fedwqcp.report.html import ReportOptions, load_page, write
from fedwqcp.report.html.page import Cards, Gallery, Table, Text
from four_hospitals import results
from pages import Read

pytestmark = pytest.mark.usefixtures("quick")


@pytest.fixture
def page(tmp_path):
    save_results(tmp_path / RESULTS_FILE, results())
    return load_page(tmp_path, ReportOptions())


def blocks(view, kind):
    return [b for section in view.sections for b in section.blocks if isinstance(b, kind)]


def test_each_act_is_a_view_that_opens_with_the_best_method(page):
    assert [view.title for view in page.views] == [
        "Four hospitals", "One with few patients", "A newcomer without labels", "Regression",
    ]  # fmt: skip
    assert [view.sections[0].blocks[0].word for view in page.views] == [
        "Best method here", "Advised here", "Best method here", "Advised here",
    ]  # fmt: skip
    assert page.views[0].sections[0].blocks[0].lines == [closing(results()), advised(results())]
    assert page.views[0].method == f"{results().advice().method} (advised)"


@pytest.mark.parametrize(("view", "act"), list(enumerate(ACTS)))
def test_the_page_holds_the_advice_as_the_library_gave_it(page, view, act):
    text = results().advice(act).text
    assert [text[:1].upper() + text[1:]] in [b.lines for b in blocks(page.views[view], Text)]


def test_cards_hold_the_coverage_its_interval_and_the_shares_of_answers(page):
    (cards,) = blocks(page.views[0], Cards)
    assert len(cards.groups) == len(METHODS)
    for card, f in zip(cards.groups["fedwq-cp"], results().of("four", "fedwq-cp"), strict=True):
        assert card.figure == f"{100 * f.covered / f.tested:.0f} %"
        assert (
            card.interval
            == f"exact 95 % interval [{100 * f.rate.low:.0f}, {100 * f.rate.high:.0f}]"
        )
        facts = dict(card.facts)
        assert facts["both answers"] == f"{100 * f.all / f.tested:.0f} %"
        assert facts["bytes sent"] == f"{f.bytes_up:,}"


def test_typical_patients_stand_before_hard_ones_with_class_names(page):
    keys = [section.key for section in page.views[0].sections]
    assert keys.index("meaning") < keys.index("typical") < keys.index("hard")
    typical, hard = blocks(page.views[0], Gallery)
    members = {m for g in (typical, hard) for e in g.examples for s in e.sets for m, _ in s.members}
    assert members == {"disease", "no disease"}
    assert len(typical.examples) == len(hard.examples) == 12


def test_the_splits_are_those_that_were_committed(page):
    (table,) = [t for t in blocks(page.views[0], Table) if t.name == "splits"]
    row = next(r for r in table.rows if r[:2] == ("fedwq-cp", "Zurich-Basel"))
    spread = results().spread_of("four", "fedwq-cp", "Zurich-Basel")
    assert row[2] == f"{100 * spread.mean:.1f} %"
    assert len(table.rows) == len(results().of("four"))


def test_a_method_that_answers_both_to_everyone_is_not_praised(page):
    assert page.views[1].verdicts["fedwq-cp"].word == "Says nothing"
    assert "of no use" in page.views[2].verdicts["new-agent-cp"].text


def test_a_clinician_reads_what_a_set_means(tmp_path):
    save_results(tmp_path / RESULTS_FILE, results())
    said = " ".join(Read(write(tmp_path, tmp_path / "page.html").read_text()).words)
    for words in ("Both answers: the model cannot tell", "not about one", "CC BY 4.0", "Detrano"):
        assert words in said


def test_at_another_level_the_fewest_patients_and_hospitals_are_those_of_that_level(tmp_path):
    """ceil(1/0.3) - 1 = 3; and three hospitals then are enough for new-agent-cp."""
    found = results()
    enough = tuple(
        replace(f, all=0, one=f.tested, none=0) if f.method == "new-agent-cp" else f
        for f in found.found
    )
    other = replace(found, alpha=0.3, found=enough, spread=())
    save_results(tmp_path / RESULTS_FILE, other)
    said = " ".join(Read(write(tmp_path, tmp_path / "page.html").read_text()).words)
    assert "Alone it needs at least 3 for a threshold" in said
    assert "This is where a federation pays" not in said  # eight are enough
    assert "It needs 3 of them for 70 %." in said
    assert "label 3 patients or more" in said
    assert "with three, every set holds both answers" not in said
    assert "needs 3 exchangeable hospitals. Others" in " ".join(demo_text(other).split())
    save_results(tmp_path / RESULTS_FILE, found)
    said = " ".join(Read(write(tmp_path, tmp_path / "page.html").read_text()).words)
    assert "Alone it needs at least 9 for a threshold" in said
    assert "This is where a federation pays" in said
    assert "It needs 9 of them for 90 %; with three, every set holds both answers." in said


@pytest.mark.parametrize("option", [{"examples": 2}, {"outputs": "a.npz", "agent": "a"}])
def test_data_of_an_agent_are_refused(tmp_path, option):
    save_results(tmp_path / RESULTS_FILE, results())
    with pytest.raises(InputError, match="the report of the demo takes no data of an agent"):
        load_page(tmp_path, ReportOptions(**option))


def test_at_another_level_the_page_says_that_many_splits_are_not_known(tmp_path):
    save_results(tmp_path / RESULTS_FILE, replace(results(), spread=()))
    said = " ".join(Read(write(tmp_path, tmp_path / "page.html").read_text()).words)
    assert "Known for the default level only" in said
