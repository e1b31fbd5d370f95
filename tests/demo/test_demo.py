from math import inf

import pytest

from fedwqcp import methods
from fedwqcp.demo.agents import AGENTS
from fedwqcp.demo.demo import Demo, run
from fedwqcp.errors import InputError

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


def test_label_shift_is_aimed_at_the_law_of_the_training_labels(results):
    for r in of(results, "methods", method="dp-fedcp"):
        assert r.task == "classification"
        assert len(r.config["method.target"]) == len(r.threshold) == 10
        assert sum(r.config["method.target"]) == pytest.approx(1)


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
