import json

import pytest

from fedwqcp.errors import InputError
from fedwqcp.metrics import Histogram
from fedwqcp.report.html import render as module
from fedwqcp.report.html.charts import (
    HistoryStep,
    coverage_chart,
    history_chart,
    score_chart,
)
from fedwqcp.report.html.page import (
    Bar,
    Card,
    Cards,
    Page,
    Section,
    Table,
    Text,
    View,
    ViewVerdict,
)
from fedwqcp.report.html.render import to_html
from pages import Read

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&{{7*7}}"


@pytest.fixture(autouse=True)
def small_library(monkeypatch):
    """The charts' library is not what these tests look at."""
    monkeypatch.setattr(module, "_library", lambda: "/* library */")


def every_block(name):
    """Return a page that has every block, with one name wherever a name can stand."""
    bar = Bar(0.8, 0.9, 1, 0.9, 0)
    card = Card(name, "good", name, "0.9", name, ((name, name),), name, bar, name)
    point = (name, name, 0.9, 0.8, 1.0, 2.0)
    blocks = [
        Text([name], "bad", name),
        Text([name], title=name),
        Cards({name: [card]}),
        coverage_chart([point], nominal=0.9, size=name, title=name),
        score_chart(name, Histogram((0.0, 1.0), (12,)), 0.4, [0.5], name),
        history_chart(
            name, [HistoryStep(name, 1, 20, 18, 0.9, 0.6, 1.0, 0.9, 0.6, 1.0, name)], 0.9, 0.5
        ),
        Table(name, name, (name,), [(name,)], agents=0),
    ]
    sections = [Section("all", name, name, blocks)]
    verdicts = {name: ViewVerdict("bad", name, name), "b": ViewVerdict("good", "b", "b")}
    view = View(name, [name, "c"], name, verdicts, sections)
    return Page(name, name, [(name, name)], [view, view])


def test_whatever_a_name_says_it_stays_text():
    plain, hostile = Read(to_html(every_block("st-mary"))), Read(to_html(every_block(HOSTILE)))
    assert [tag for tag, _ in hostile.tags] == [tag for tag, _ in plain.tags]
    assert not any(name.startswith("on") for _, found in hostile.tags for name in found)
    assert HOSTILE in hostile.words
    assert not any("49" in word for word in hostile.words)


def test_charts_hold_the_name_as_data_alone():
    read = Read(to_html(every_block(HOSTILE)))
    specs = [json.loads(text) for text in read.scripts if text.startswith("{")]
    assert len(specs) == 6  # five charts in each of two views
    assert any(
        HOSTILE in json.dumps(spec, ensure_ascii=False).replace('\\"', '"') for spec in specs
    )


def test_the_page_may_load_nothing_and_names_no_address():
    html = to_html(every_block("st-mary"))
    read = Read(html)
    assert html.startswith("<!doctype html>")
    (policy,) = [a["content"] for t, a in read.tags if t == "meta" and "http-equiv" in a]
    assert policy.startswith("default-src 'none'")
    assert "eval" not in policy
    assert all(address.startswith("data:") for address in read.addresses)


def test_every_chart_has_a_text_alternative_its_numbers_and_a_download():
    read = Read(to_html(every_block("st-mary")))
    plots = [found for _, found in read.tags if found.get("class") == "plot"]
    assert len(plots) == 6
    assert all(found["role"] == "img" and "st-mary" in found["aria-label"] for found in plots)
    saved = [found["download"] for _, found in read.tags if "download" in found]
    assert len(saved) == 2 * (3 + 1)  # and the table


def test_a_page_of_three_megabytes_is_refused(monkeypatch):
    monkeypatch.setattr(module, "_library", lambda: "x" * module.LARGEST)
    with pytest.raises(InputError, match="at most 3,000,000"):
        to_html(every_block("st-mary"))


def test_the_library_is_one_script_of_less_than_a_megabyte(monkeypatch):
    monkeypatch.undo()
    text = module._library()
    assert "vegaEmbed" in text
    assert "</script" not in text
    assert len(text) < 1_000_000
