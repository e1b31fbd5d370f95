"""What the demo claims of the four hospitals is what the library computes on them."""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("sklearn")

import fedwqcp as fw
from fedwqcp.demo.demo import (
    ALPHA,
    FEW,
    METHODS,
    NEWCOMER,
    committed_spread,
    load_results,
    over_splits,
    run,
    save_results,
    save_spread,
    simulated_sites,
)
from fedwqcp.demo.hospitals import hospitals
from fedwqcp.demo.text import spread_table
from fedwqcp.errors import InputError, RecordError
from four_hospitals import results

NAMES = ("Cleveland", "Budapest", "Zurich-Basel", "Long-Beach")


def scores_of(sites, key="demo-0"):
    """Score calibration patients as a user would."""
    return {
        site.name: fw.APS().of(
            site.calibration.values,
            site.calibration.labels,
            u=fw.uniforms(key, site.calibration.ids),
        )
        for site in sites
    }


def test_every_method_is_tested_at_every_hospital_on_its_own_patients():
    found = results().of("four")
    assert [(f.method, f.agent) for f in found] == [(m, n) for m in METHODS for n in NAMES]
    tested = {site.name: len(site.test.ids) for site in hospitals(0)}
    for f in found:
        assert f.tested == tested[f.agent] == f.none + f.one + f.all


def test_split_cp_covers_what_each_hospitals_own_threshold_covers():
    for site in hospitals(0):
        own = scores_of([site])[site.name]
        q = np.sort(own)[ceil(0.9 * (len(own) + 1)) - 1]
        tested = fw.APS().of(
            site.test.values, site.test.labels, u=fw.uniforms("demo-0", site.test.ids)
        )
        (found,) = results().of("four", "split-cp", site.name)
        assert found.covered == np.count_nonzero(tested <= q)
        assert found.bytes_up == 0


def test_fedwq_cp_is_the_weighted_mean_of_the_hospitals_thresholds():
    own = scores_of(hospitals(0))
    local = [np.sort(s)[ceil(0.9 * (len(s) + 1)) - 1] for s in own.values()]
    mean = np.average(local, weights=[len(s) for s in own.values()])
    assert {f.threshold for f in results().of("four", "fedwq-cp")} == {f"{mean:.3f}"}


def test_eight_patients_have_no_threshold_of_their_own_and_a_federation_gives_one():
    name, n = FEW
    (split,) = results().of("few", "split-cp", name)
    (pooled,) = results().of("few", "fcp", name)
    assert (split.n, split.threshold, split.all) == (n, "infinite", split.tested)
    assert pooled.threshold != "infinite"
    assert {f.threshold for f in results().of("few", "fedwq-cp")} == {"infinite"}


def test_a_newcomer_is_promised_nothing_by_three_hospitals():
    found = results().of("joins")
    for method in NEWCOMER:
        assert [f.agent for f in found if f.method == method] == list(NAMES)
    assert {f.n for f in found} == {0}
    assert {f.threshold for f in found if f.method == "new-agent-cp"} == {"infinite"}
    assert results().advice("joins").method == "max-cp"


def test_a_hospital_that_took_no_part_gets_the_threshold_of_the_other_three():
    own = scores_of(hospitals(0))
    for site in hospitals(0):
        others = {name: scores for name, scores in own.items() if name != site.name}
        release = fw.calibrate(others, method="fedwq-cp", alpha=ALPHA, score="aps")
        tested = fw.APS().of(
            site.test.values, site.test.labels, u=fw.uniforms("demo-0", site.test.ids)
        )
        (found,) = results().of("joins", "fedwq-cp", site.name)
        assert found.covered == np.count_nonzero(tested <= release.threshold(next(iter(others))))


def test_a_newcomer_never_gets_the_threshold_of_another_hospital(monkeypatch):
    monkeypatch.setattr("fedwqcp.demo.demo.NEWCOMER", ("fedls-cp",))  # each agent has its own
    with pytest.raises(InputError, match="took no part"):
        run(methods=("split-cp",))


def test_simulated_sites_are_covered_as_the_methods_promise_and_the_worked_check_says():
    """Over agents and points: FedWQ-CP 0.822, marginal 0.940, confident at 91.5 to 91.7 %."""
    found = {s.method: s for s in committed_spread() if s.act == "simulated"}
    few = {s.method: s for s in simulated_sites(3)}
    assert set(found) == set(few)
    assert {s.splits for s in found.values()} == {200 * 20}
    assert few == {s.method: s for s in simulated_sites(3)}
    # the standard error is that of 200 federations, whose thresholds differ, at most sd / sqrt(200)
    for method, expected in (("fedwq-cp", 0.822), ("new-agent-cp sketch=bisection", 0.940)):
        assert abs(found[method].mean - expected) < 4 * found[method].sd / 200**0.5
    assert found["new-agent-cp"].mean >= found["new-agent-cp sketch=bisection"].mean >= 1 - ALPHA
    assert found["new-agent-cp form=confident"].enough >= 0.9


def test_examples_are_test_patients_and_the_hard_ones_are_harder():
    for site in hospitals(0):
        own = [p for p in results().patients if p.agent == site.name]
        typical, hard = ([p for p in own if p.hard == which] for which in (False, True))
        assert len(typical) == len(hard) == 3
        truth = {p.about: p.disease if p.truth == "disease" else 1 - p.disease for p in own}
        assert max(truth[p.about] for p in hard) <= min(truth[p.about] for p in typical)
        assert all(set(p.sets) == set(METHODS) for p in own)


def test_the_same_seed_gives_the_same_results():
    assert run() == results()


def test_all_methods_run_or_say_why_not():
    names = tuple(dict.fromkeys((*METHODS, *fw.methods.available())))
    found = run(methods=names)
    assert {f.method for f in found.of("four")} | set(found.skipped) == set(names)
    assert all(found.skipped.values())


def test_results_survive_a_file_and_others_are_refused(tmp_path):
    save_results(tmp_path / "demo.json", results())
    assert load_results(tmp_path / "demo.json") == results()
    save_results(tmp_path / "old.json", replace(results(), version=0))
    with pytest.raises(RecordError, match="version 0: run fedwqcp demo again"):
        load_results(tmp_path / "old.json")
    (tmp_path / "bad.json").write_text('{"seed": "x"}')
    for name in ("bad.json", "none.json"):
        with pytest.raises(RecordError, match="cannot be read as the demo's results"):
            load_results(tmp_path / name)


def test_the_spread_over_splits_is_that_of_single_runs(tmp_path):
    spread = over_splits(2)
    one, other = results(), run(1)
    for s in (s for s in spread if s.act != "simulated"):
        rates = [r.of(s.act, s.method, s.agent)[0].rate.coverage for r in (one, other)]
        assert s.mean == pytest.approx(np.mean(rates), abs=1e-4)
        assert s.sd == pytest.approx(np.std(rates, ddof=1), abs=1e-4)
    save_spread(tmp_path / "splits.json", spread)
    assert (tmp_path / "splits.json").read_text().count("\n") == len(spread) + 2
    with pytest.raises(InputError, match="at least 2"):
        over_splits(1)


def test_the_committed_spread_is_of_200_splits_and_knows_every_row_of_the_demo():
    spread = [s for s in committed_spread() if s.act != "simulated"]
    assert {s.splits for s in spread} == {200}
    keys = {(s.act, s.method, s.agent) for s in spread}
    assert keys == {(f.act, f.method, f.agent) for f in results().found}


def test_what_the_pages_say_of_the_splits_is_in_the_committed_file():
    """One averaged threshold fails Zurich-Basel; the advised method covers all four."""
    spread = {(s.method, s.agent): s for s in committed_spread() if s.act == "four"}
    assert spread["fedwq-cp", "Zurich-Basel"].high < 1 - ALPHA
    for name in NAMES:
        assert spread["auto", name].mean >= max(1 - ALPHA, spread["split-cp", name].mean)


def test_whoever_calibrates_without_the_swiss_hospital_fails_it():
    joins = {(s.method, s.agent): s for s in committed_spread() if s.act == "joins"}
    for method in set(NEWCOMER) - {"new-agent-cp"}:
        assert joins[method, "Zurich-Basel"].mean < 1 - ALPHA - 0.1
    assert all(joins["new-agent-cp", name].mean == 1.0 for name in NAMES)
    assert all(joins["new-agent-cp", name].one == 0.0 for name in NAMES), "both answers to all"


def test_another_level_has_no_committed_spread_and_a_wrong_one_is_refused():
    assert run(alpha=0.2, methods=("split-cp", "auto")).spread == ()
    with pytest.raises(InputError, match="alpha"):
        run(alpha=5.0)


def test_a_level_that_no_round_takes_is_refused_before_models_are_trained(monkeypatch):
    monkeypatch.setattr("fedwqcp.demo.demo.hospitals", lambda seed: pytest.fail("trained"))
    with pytest.raises(InputError, match=r"alpha must be at most 0\.5, got 0\.9"):
        run(alpha=0.9)


def test_the_progress_of_the_demo_goes_from_nothing_to_nearly_all():
    seen = []
    run(methods=("split-cp", "auto"), on_step=lambda what, share: seen.append((what, share)))
    assert [what for what, _ in seen[:2]] == ["four: split-cp", "four: auto"]
    steps = len(seen)
    assert [share for _, share in seen] == [step / steps for step in range(steps)]
    assert steps == 2 + 4 + 4 + 3


@pytest.mark.parametrize("method", ["fedwq-cp", "fedavgq-cp"])
def test_masked_sums_give_the_plain_threshold_at_the_hospitals(method):
    own = scores_of(hospitals(0))
    plain = fw.calibrate(own, method=method, alpha=ALPHA)
    secure = fw.calibrate(own, method=method, alpha=ALPHA, secure=(0.0, 1.0))
    (outcome,) = secure.outcomes
    assert plain.threshold("Budapest") <= outcome.value
    assert outcome.value <= plain.threshold("Budapest") + outcome.margin
    assert outcome.margin < 1e-5


def test_the_page_shows_the_committed_table():
    page = Path(__file__).parents[2] / "docs" / "explanation" / "four-hospitals.md"
    assert spread_table(committed_spread()) in page.read_text()


def test_the_page_on_new_sites_says_what_the_committed_table_says():
    page = Path(__file__).parents[2] / "docs" / "how-to" / "new-site.md"
    (found,) = [s for s in committed_spread() if (s.act, s.method) == ("simulated", "new-agent-cp")]
    assert f"covers {100 * found.mean:.0f} % at a new one" in " ".join(page.read_text().split())


def test_the_readme_says_what_the_committed_table_says():
    text = " ".join((Path(__file__).parents[2] / "README.md").read_text().split())
    means = {
        (row.method, row.agent): f"{100 * row.mean:.0f}"
        for row in committed_spread()
        if row.act == "four"
    }
    own = sorted(mean for (method, _), mean in means.items() if method == "split-cp")
    assert f"covers {means['fedwq-cp', 'Zurich-Basel']} % of the Swiss patients over 200" in text
    assert f"own threshold {own[0]} to {own[-1]} %" in text
    advised = sorted(mean for (method, _), mean in means.items() if method == "auto")
    assert f"what is advised covers {advised[0]} to {advised[-1]} %" in text
