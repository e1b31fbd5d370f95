"""The demo in words: one screen, the closing, the table of many splits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fedwqcp.demo.demo import Spread
from fedwqcp.demo.text import closing, demo_text, spread_table
from four_hospitals import results


def demo_lines(found):
    return demo_text(found).splitlines()


def test_the_demo_fits_one_screen():
    pytest.importorskip("sklearn")
    lines = demo_lines(results())
    assert len(lines) <= 42  # the command adds three lines of paths
    assert max(map(len, lines)) <= 80
    assert not any("!" in line for line in lines)


def test_the_demo_says_what_each_hospital_has_sent_and_got():
    pytest.importorskip("sklearn")
    found = results()
    said = " ".join(demo_text(found).split())
    for site in found.sites:
        assert f"{site.name} {site.patients} {100 * site.share:.0f} % {site.model}" in said
    sizes = [f.bytes_up for f in found.of("four", "fedwq-cp")]
    assert f"a threshold and a count, {min(sizes)} to {max(sizes)} bytes" in said
    for f in found.of("four"):
        rate = f.rate
        end = ",<90]*" if 0.895 < rate.high < 0.9 else f", {100 * rate.high:.0f}]"
        assert f"{100 * rate.coverage:.0f} [{100 * rate.low:.0f}{end}" in said
    spread = found.spread_of("four", "fedwq-cp", "Zurich-Basel")
    assert f"{100 * spread.mean:.0f} ± {100 * spread.sd:.0f}" in said
    assert "Budapest with 8 calibration patients (9 are needed)" in said
    assert f"Advised from what was sent: {found.advice().method} (labels differ)." in said
    assert said.endswith(" ".join(closing(found).split()))


def test_the_closing_names_what_holds_at_all_four():
    pytest.importorskip("sklearn")
    found, names = results(), ("Cleveland", "Budapest", "Zurich-Basel", "Long-Beach")

    def with_means(sd=None, **means):
        spread = [
            Spread(
                act="four", method=method.replace("_", "-"), agent=name, splits=200, mean=mean,
                sd=(sd or {}).get(method, 0.05), low=0.8, high=1.0, one=one, size=1.5,
            )
            for method, (own, one) in means.items()
            for name, mean in zip(names, own, strict=True)
        ]  # fmt: skip
        return closing(replace(found, spread=tuple(spread)))

    good, bad = (0.9, 0.9, 0.9, 0.9), (0.9, 0.9, 0.8, 0.9)
    chosen = found.advice().method
    assert with_means(auto=(good, 0.5), split_cp=(good, 0.6)).startswith(f"Use {chosen} here")
    said = with_means(auto=(bad, 0.5), split_cp=(good, 0.6), fcp=(good, 0.4))
    assert said.startswith("Use split-cp here, because over 200 splits it covers 90, 90, 90, 90 %")
    assert f"sends nothing, where {chosen} leaves Zurich-Basel at 80 %" in said
    assert with_means(auto=(bad, 0.5), split_cp=(bad, 0.6)).startswith(f"Use {chosen} here")
    alone = closing(replace(found, spread=()))
    promised = "Guarantee: coverage at the target distribution, approximately"
    assert alone == f"Use {chosen} here (floor=true), as advised. {promised}."
    both = with_means(auto=(good, 0.5), split_cp=(good, 0.6))
    measured = "over 200 splits what was advised covers 90, 90, 90, 90 %"
    assert f"as advised. {promised}; {measured}. split-cp" in both
    said = "split-cp, which sends nothing, covers 90, 90, 90, 90 %"
    proved = (
        "Guarantee: coverage at each agent, in finite samples. "
        "Both assume new patients like the calibration patients."
    )
    assert both.endswith(f"{said} with one answer more often. {proved}")  # and varies as much
    varied = with_means(auto=(good, 0.5), split_cp=(good, 0.5), sd={"split_cp": 0.06})
    assert varied.endswith(f"{said}, but varies more. {proved}")
    own = [replace(f, method=f.method.replace("split-cp", "own-cp")) for f in found.found]
    found = replace(found, found=tuple(own))  # known by what it sends, not by its name
    assert "own-cp, which sends nothing" in with_means(auto=(good, 0.5), own_cp=(good, 0.6))


def test_a_coverage_whose_interval_lies_below_has_a_star_that_is_explained():
    pytest.importorskip("sklearn")
    found = results()
    cells = " ".join(demo_lines(found))
    low = [f for f in found.of("four") if f.rate.high < 0.9]
    assert low
    said = "* the interval lies below 90; the draw of calibration patients can do that too."
    assert said in " ".join(cells.split())
    assert cells.count("]*") == len(low)
    assert ", 90]*" not in cells  # 89.97 is below 90 and is shown so
    assert any(0.895 < f.rate.high < 0.9 for f in low)


def test_without_a_spread_the_demo_shows_this_split_alone():
    pytest.importorskip("sklearn")
    said = demo_text(replace(results(), spread=()))
    assert "splits" not in said.replace("on this split", "")
    assert "on this split they cover each in turn: fedwq-cp" in " ".join(said.split())


def test_methods_that_were_left_out_are_named():
    pytest.importorskip("sklearn")
    said = demo_text(replace(results(), skipped={"x-cp": "it needs " + "features " * 20}))
    (line,) = [line for line in said.splitlines() if line.startswith("x-cp left out: it needs")]
    assert len(line) <= 80


def test_the_spread_is_a_table_of_every_row():
    one = Spread(
        act="four", method="auto", agent="a", splits=200, mean=0.9, sd=0.05, low=0.8, high=1.0,
        one=0.5, size=1.5,
    )  # fmt: skip
    assert spread_table([one, replace(one, agent="b")]).splitlines()[-3:] == [
        "| method | a | b |",
        "|---|---|---|",
        "| `auto` | 90.0 ± 5.0 (80 to 100) | 90.0 ± 5.0 (80 to 100) |",
    ]
