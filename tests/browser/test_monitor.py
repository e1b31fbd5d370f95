"""A monitor's report in a browser: it draws, filters, tells the state's numbers, loads nothing."""

from __future__ import annotations

import numpy as np
import pytest

from fedwqcp.monitor import Monitor, MonitorTerms, load_monitor, save_monitor
from opened import DESKTOP, PHONE, Opened, grave

AGENTS = ("st-mary", "lakeside")


@pytest.fixture(scope="module")
def watch(tmp_path_factory):
    """A monitor of two agents, one of which loses its coverage; its state and report."""
    html = pytest.importorskip("fedwqcp.report.html")
    state = tmp_path_factory.mktemp("watch") / "watch.json"
    monitor = Monitor(MonitorTerms(0.1, AGENTS, 2, 0.2))
    rng = np.random.default_rng(5)
    for week in range(12):
        for agent in AGENTS:
            kept = 0.6 if agent == "st-mary" and week > 7 else 0.95
            labels = rng.integers(2, size=40)
            monitor.update(agent, rng.uniform(size=40) < kept, labels, batch=f"week-{week}")
    save_monitor(monitor, state)
    html.save(html.load_page(state), state.with_name("report.html"))
    return state


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_the_report_of_a_monitor_draws_filters_and_tells_the_state(chromium, watch, size):
    context = chromium.new_context(viewport=size, offline=True)
    opened = Opened(context.new_page()).open(watch.with_name("report.html"))
    alarmed, other = (s for s in load_monitor(watch).standings() if s.label is None)

    assert "st-mary" in opened.page.locator(".verdict:visible").inner_text()
    assert "monitor recalibrated" in opened.page.locator("#next-0").inner_text()
    table = opened.page.locator(".table", has_text="All rows since the last calibration")
    for name, one in zip(AGENTS, (alarmed, other), strict=True):
        line = table.locator("tbody tr", has_text=name).inner_text()
        assert f"{one.coverage:.3f}" in line
        assert f"{one.low:.3f} to {one.high:.3f}" in line

    history = opened.page.locator("#history-0")
    assert history.locator("tbody tr:visible .bar").count() == 24
    width = opened.page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
    assert width[0] <= width[1]

    opened.press("lakeside")
    assert table.locator("tbody tr:visible").count() == 1
    assert history.locator("tbody tr:visible").count() == 12
    classes = opened.page.locator(".table", has_text="The gravest first")
    assert classes.locator("tbody tr:visible").count() == 2
    opened.press("Show all")

    assert opened.said == []
    assert [url for url in opened.asked if not url.startswith("data:")] == [
        watch.with_name("report.html").as_uri()
    ]
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_in_a_monitor(chromium, watch, axe, scheme):
    context = chromium.new_context(viewport=PHONE, color_scheme=scheme)
    found = grave(Opened(context.new_page()).open(watch.with_name("report.html")), axe)
    context.close()
    assert found == []
