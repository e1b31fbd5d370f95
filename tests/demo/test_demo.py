"""Masked sums give the plain thresholds on every dataset of the demo, negative scores included."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest

import fedwqcp as fw
from fedwqcp import methods
from fedwqcp.demo import records as demo_records
from fedwqcp.demo.agents import AGENTS, prepare
from fedwqcp.demo.data import digits, friedman, stream
from fedwqcp.demo.demo import Demo, run
from fedwqcp.errors import InputError, RecordError

SMALL = Demo(digits=400, friedman=400, epochs=3)


@pytest.fixture(scope="module")
def results():
    return run(SMALL)


@pytest.fixture
def two_methods(monkeypatch):
    monkeypatch.setattr(methods, "available", lambda: ("fedwq-cp", "split-cp"))


def of(results, experiment, **wanted):
    return [
        r
        for r in results.records
        if r.experiment == experiment and all(getattr(r, k) == v for k, v in wanted.items())
    ]


def test_one_record_for_each_dataset_method_and_agent(results):
    keys = [(r.dataset, r.method, r.agent) for r in of(results, "methods")]
    left_out = {(s.dataset, s.method) for s in results.skipped}
    datasets = ("digits", "synthetic (Friedman)")
    assert keys == [
        (dataset, method, agent.name)
        for dataset in datasets
        for method in methods.available()
        for agent in AGENTS
        if (dataset, method) not in left_out
    ]


def test_the_two_methods_of_the_paper_do_both_tasks(results):
    for method in ("fedwq-cp", "split-cp"):
        assert len(of(results, "methods", method=method)) == 2 * len(AGENTS)


def test_same_seed_same_records(results):
    assert run(SMALL) == results


def test_another_seed_gives_other_records(results, two_methods):
    other = run(Demo(seed=1, digits=400, friedman=400, epochs=3))
    assert [r.covered for r in of(other, "overflow")] != [
        r.covered for r in of(results, "overflow")
    ]


def test_other_methods_change_no_number(results, two_methods):
    few = run(SMALL)
    for method in methods.available():
        assert of(few, "methods", method=method) == of(results, "methods", method=method)
    assert of(few, "overflow") == of(results, "overflow")


def test_records_say_all_settings(results):
    record = of(results, "methods", method="fedwq-cp")[0]
    assert record.config["score.name"] == "aps"
    assert record.config["score.randomized"] is True
    assert record.config["score.rule"] == "leq"
    assert record.config["demo.beta"] == 0.3
    assert record.config["method.overflow"] == "propagate"
    assert "scikit-learn" in record.code


def test_fedwqcp_is_one_threshold_within_the_local_ones(results):
    for dataset in {r.dataset for r in results.records}:
        local = [
            r.threshold for r in of(results, "methods", dataset=dataset, method="split-cp") if r.n
        ]
        shared = {r.threshold for r in of(results, "methods", dataset=dataset, method="fedwq-cp")}
        assert len(shared) == 1
        assert min(local) <= shared.pop() <= max(local)


def test_shifts_are_corrected_towards_everybody_as_the_test_points_are_everybodys(results):
    for r in of(results, "methods"):
        corrects = methods.get(r.method).corrects_shift_of is not None
        assert r.config["round.target"] == ("mixture" if corrects else "own")
    for r in of(results, "methods", method="dp-fedcp"):
        assert r.task == "classification"
        assert len(r.threshold) == 10


def test_split_cp_sends_nothing(results):
    assert {(r.rounds, r.bytes_up) for r in of(results, "methods", method="split-cp")} == {(0, 0)}


def test_a_scarce_agent_overflows_and_policies_differ(results):
    for r in of(results, "overflow"):
        if r.agent == r.config["demo.scarce_agent"]:
            assert r.n == 5
        if r.config["method.overflow"] == "propagate":
            assert r.threshold == inf
            assert r.covered == r.tested
    policies = [r.config["method.overflow"] for r in of(results, "overflow", agent="S0")]
    assert policies == ["propagate", "clip", "exclude"] * 2


@pytest.mark.parametrize(("alpha", "kept"), [(0.3, 2), (0.5, 0)])
def test_scarce_means_too_few_at_this_level(alpha, kept, two_methods):
    found = run(Demo(digits=400, friedman=400, epochs=1, alpha=alpha))
    poor = [r for r in of(found, "overflow") if r.agent == r.config["demo.scarce_agent"]]
    assert {r.n for r in poor} == {kept}


def test_a_method_that_cannot_do_a_task_is_left_out_with_its_reason(monkeypatch, two_methods):
    get = methods.get

    def refuse(name, **settings):
        if name == "split-cp":
            raise InputError("needs something else")
        return get(name, **settings)

    monkeypatch.setattr(methods, "get", refuse)
    found = run(Demo(digits=300, friedman=300, epochs=1))
    ours = [s for s in found.skipped if s.method == "split-cp"]
    assert [(s.dataset, s.reason) for s in ours] == [
        ("digits", "needs something else"),
        ("synthetic (Friedman)", "needs something else"),
    ]


def test_samples_leave_only_where_a_method_needs_them(monkeypatch):
    get = methods.get
    monkeypatch.setattr(methods, "available", lambda: ("fcp", "fedwq-cp"))
    monkeypatch.setattr(
        methods,
        "get",
        lambda name, **own: get(name, sketch="exact") if name == "fcp" else get(name, **own),
    )
    found = run(Demo(digits=300, friedman=300, epochs=1))
    assert all(r.samples == (r.method == "fcp") for r in found.records)
    assert not found.skipped


def test_progress_runs_from_nothing_to_almost_all(two_methods):
    said = []
    run(Demo(digits=300, friedman=300, epochs=1), lambda what, share: said.append((what, share)))
    shares = [share for _, share in said]
    assert shares[0] == 0
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1 - 1 / len(said))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"alpha": 5}, "alpha must be strictly between 0 and 1"),
        ({"digits": 10}, "at least 100 rows"),
        ({"epochs": 0}, "epochs must be at least 1"),
        ({"scarce": -1}, "scarce at least 0"),
    ],
)
def test_wrong_settings_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        Demo(**settings)


@pytest.fixture(scope="module")
def small_results():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(methods, "available", lambda: ("fcp", "fedwq-cp", "split-cp"))
        return run(Demo(digits=400, friedman=400, epochs=2))


def report_of(small_results, kind):
    return [s for s in small_results.report if isinstance(s, kind)]


def test_what_was_kept_survives_its_file(small_results, tmp_path):
    demo_records.save_report(tmp_path / demo_records.REPORT_FILE, small_results.report)
    assert demo_records.load_report(tmp_path / demo_records.REPORT_FILE) == small_results.report


def test_no_file_is_nothing_kept(tmp_path):
    assert demo_records.load_report(tmp_path / demo_records.REPORT_FILE) == ()


def test_infinite_ends_of_an_interval_survive(tmp_path):
    one = demo_records.Example(
        dataset="d", agent="a", row=0, truth=1.0, said=0.5, probability=None, pixels=(),
        sets={"fedwq-cp": (-inf, inf)},
    )  # fmt: skip
    demo_records.save_report(tmp_path / "x", [one])
    assert demo_records.load_report(tmp_path / "x") == (one,)


def test_profiles_agree_with_the_records(small_results):
    for p in report_of(small_results, demo_records.AgentProfile):
        own = [
            r
            for r in small_results.records
            if (r.experiment, r.dataset, r.agent) == ("methods", p.dataset, p.agent)
        ]
        by = {r.method: r for r in own}
        assert sum(p.counts) == by["fedwq-cp"].n
        assert p.local == by["split-cp"].threshold
        assert p.released == by["fedwq-cp"].threshold
        assert p.coverage == by["fedwq-cp"].coverage
        assert not p.people or (min(p.people) >= 10 and sum(p.people) == by["fedwq-cp"].n)


def test_messages_add_up_to_the_bytes_of_the_records(small_results):
    sent = {
        (t.dataset, t.method, t.agent): t for t in report_of(small_results, demo_records.Traffic)
    }
    for r in small_results.records:
        if r.experiment == "methods":
            t = sent[r.dataset, r.method, r.agent]
            assert (sum(t.up), sum(t.down), len(t.up)) == (r.bytes_up, r.bytes_down, r.rounds)


def test_examples_are_the_same_points_for_all_agents_and_hold_every_method(small_results):
    for dataset in ("digits", "synthetic (Friedman)"):
        rows = {}
        for e in report_of(small_results, demo_records.Example):
            if e.dataset == dataset:
                rows.setdefault(e.agent, []).append(e.row)
                assert set(e.sets) == {"fcp", "fedwq-cp", "split-cp"}
        assert list(rows) == [agent.name for agent in AGENTS]
        assert len({tuple(own) for own in rows.values()}) == 1
    first = report_of(small_results, demo_records.Example)[0]
    assert len(first.pixels) == 64
    assert 0 <= first.probability < np.mean([0.5])


@pytest.mark.parametrize(
    "line", ["no json", "{}", '{"kind": "other"}', '{"kind": "traffic", "version": 9}']
)
def test_damaged_lines_are_refused(line, tmp_path):
    (tmp_path / "x").write_text(line + "\n")
    with pytest.raises(RecordError, match="line 1"):
        demo_records.load_report(tmp_path / "x")


def test_a_histogram_needs_one_edge_more_than_bins(small_results):
    p = report_of(small_results, demo_records.AgentProfile)[0]
    with pytest.raises(InputError, match="edges"):
        demo_records.AgentProfile(**{**vars(p), "edges": (0.0,), "people": (10,)})
    with pytest.raises(InputError, match="as many"):
        demo_records.Traffic(dataset="d", method="m", agent="a", down=(1,), up=())


pytest.importorskip("sklearn")


METHODS = (
    fw.methods.get("fedwq-cp"),
    fw.methods.get("fedavgq-cp"),
    fw.methods.get("fcp", probes=255),
)


@pytest.fixture(scope="module", params=["digits", "friedman", "friedman-cqr"])
def scores(request):
    """Every agent's scores; bands of half-width 1 make residuals scores of CQR."""
    data = digits() if request.param == "digits" else friedman(900, stream(0, "friedman"))
    federation = prepare(data, 0, beta=1.0, epochs=1, on_step=lambda _: None)
    shift = 1.0 if request.param == "friedman-cqr" else 0.0
    return {agent.model.name: agent.calibration.scores - shift for agent in federation.agents}


@pytest.mark.parametrize("method", METHODS, ids=lambda m: type(m).__name__)
@pytest.mark.parametrize("alpha", [0.1, 0.3])
def test_the_demo_data(scores, method, alpha):
    plain = fw.calibrate(scores, method=method, alpha=alpha)
    secure = fw.calibrate(scores, method=method, alpha=alpha, secure=(-1.0, 60.0))
    (outcome,) = secure.outcomes
    first = next(iter(scores))
    q = plain.threshold(first)
    assert q <= outcome.value <= q + outcome.margin or q == outcome.value
    assert outcome.margin < 1e-5
    assert secure.used == tuple(scores)
