"""What every method must do, whoever wrote it."""

from __future__ import annotations

import dataclasses
import json
import pickle
from math import inf, nan

import numpy as np
import pytest

import fedwqcp as fw
from changed import replace
from engine import hold
from fedwqcp.errors import InputError
from fedwqcp.federation.agent import Agent
from fedwqcp.federation.plan import Plan, choose_method
from fedwqcp.federation.predict import thresholds
from fedwqcp.federation.server import Server
from fedwqcp.methods.cphet import CPhet
from fedwqcp.methods.dp_fedcp import DPFedCP
from fedwqcp.methods.fedls_cp import FedLSCP
from fedwqcp.registry import settings_of
from fedwqcp.wire.codec import decode
from fedwqcp.wire.messages import (
    Answer,
    Choice,
    Outcome,
    Question,
    Round,
    Summary,
)
from worked import unlike

SETTINGS = {
    "dp-fedcp": {"solver": "exact"},  # the iterative solver is tested beside its source
    "private-fedwq-cp": {"epsilon": 1e5, "bins": 5},  # nothing is left to chance
}
METHODS = [fw.methods.get(name, **SETTINGS.get(name, {})) for name in fw.methods.available()]
IDS = [fw.methods.name_of(method) for method in METHODS]

every_method = pytest.mark.parametrize("method", METHODS, ids=IDS)


def agents():
    """Three agents of unequal size."""
    return unlike(**{"agent-0": 40, "agent-1": 25, "agent-2": 60})


@every_method
def test_it_states_guarantee_and_assumption(method):
    assert isinstance(method.guarantee, fw.Guarantee)
    assert len(method.assumption) > 10
    doc = type(method).__doc__
    assert "**Guarantee**" in doc
    assert "**Cost**" in doc


DECLARED = {
    "auto": "agent-floor, finite-sample",
    "split-cp": "marginal-agent, finite-sample",
    "split-cp overflow=exclude": "marginal-agent, finite-sample",  # its own +inf stays
    "split-cp overflow=clip": "none",
    "guarded-median-cp": "marginal-agent, finite-sample",
    "guarded-median-cp overflow=exclude": "marginal-agent, finite-sample",
    "guarded-median-cp overflow=clip": "none",
    "fcp": "marginal-mixture, finite-sample",
    "fcp sketch=order": "marginal-mixture, finite-sample",
    "max-cp": "multi-distribution, finite-sample",
    "max-cp overflow=exclude": "multi-distribution, finite-sample",
    "new-agent-cp": "new-agent-marginal, finite-sample",
    "new-agent-cp form=confident": "new-agent-confident, finite-sample",
    "fedcp-qq": "marginal-iid, finite-sample",
    "fedcp-qq delta=0.1": "training-conditional, finite-sample",
    "fedls-cp": "target-shift, approximate",
    "fedls-cp n0=3": "target-shift, approximate",
    "fedls-cp n0=0": "target-shift, finite-sample",
    "dp-fedcp": "target-shift, approximate",
    "dp-fedcp solver=exact": "target-shift, approximate",
    "cphet": "target-shift, approximate",
    "cphet scope=local": "target-shift, approximate",
    "fed-crc": "risk-mixture, finite-sample",
    "fed-crc correction=pooled": "risk-iid, finite-sample",
    "fedwq-cp": "none",
    "fedavgq-cp": "none",
    "private-fedwq-cp": "none",
}


def test_what_each_method_declares_with_each_setting_that_matters():
    for name, declared in DECLARED.items():
        method, *settings = name.split()
        made = fw.methods.get(method, **{k: _value(v) for k, v in (s.split("=") for s in settings)})
        assert str(made.guarantee) == declared, name
    assert {name.split()[0] for name in DECLARED} == set(fw.methods.built_in())


def _value(text):
    """Return a number, true or false as JSON writes them; else the text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


IMPOSSIBLE = [
    ("auto", "enough", (1.05,)),
    ("split-cp", "overflow", ("ignore",)),
    ("max-cp", "overflow", ("clip",)),
    ("guarded-median-cp", "slack", (1.0, -0.1, nan, "0.1", None)),
    ("guarded-median-cp", "cap", (0, "abc", 2.5, True)),
    ("guarded-median-cp", "overflow", ("ignore",)),
    ("fedwq-cp", "overflow", (3,)),
    ("fedcp-qq", "delta", ("x", 10**400)),
    ("fcp", "correction", (1,)),
    ("fcp", "sketch", ("ddsketch",)),
    ("fcp", "points", (0, 2.5, 10**6)),
    ("fcp", "probes", (True, 10**6)),
    ("fcp", "min_gap", (1,)),
    ("fedls-cp", "n0", (-1.0, inf)),
    ("fedls-cp", "points", (1, 49)),
    ("fedls-cp", "min_gap", (1, True)),
    ("new-agent-cp", "form", ("x",)),
    ("new-agent-cp", "points", (0,)),
    ("new-agent-cp", "delta", (1.0,)),
    ("new-agent-cp", "min_gap", (1,)),
    ("cphet", "scope", ("all",)),
    ("cphet", "clip_weights", (0.0,)),
    ("dp-fedcp", "solver", ("newton",)),
    ("dp-fedcp", "start", (2.0, ("a",))),
    ("dp-fedcp", "step_size", (None,)),
    ("dp-fedcp", "rounds", (10**9, 1.0)),
    ("dp-fedcp", "local_steps", (10**9,)),
    ("fed-crc", "correction", ("none",)),
    ("fed-crc", "points", (0, 10**6, 10**12)),
    ("fed-crc", "bounds", ((0.0,), (0.0, inf), (1.0, 0.0))),
    ("fed-crc", "min_gap", (0,)),
    ("private-fedwq-cp", "epsilon", (0.0, inf)),
    ("private-fedwq-cp", "size_epsilon", (-1.0, 1e-320)),
    ("private-fedwq-cp", "bins", (1, 10**6)),
    ("private-fedwq-cp", "gamma", (1.0, 1e-320)),
    ("private-fedwq-cp", "bounds", ((1.0, 0.0), (0.0, inf), (1.0,), 1, ("a",), (0.5, True))),
]


@pytest.mark.parametrize(("name", "setting", "values"), IMPOSSIBLE)
def test_a_setting_that_cannot_be_is_refused(name, setting, values):
    for value in values:
        with pytest.raises(InputError, match=setting):
            fw.methods.get(name, **{setting: value})


@pytest.mark.parametrize(
    ("kind", "targets"),
    [
        (CPhet, ("others", (1.0, 1.0))),
        (DPFedCP, ("others", (0.5, -0.5), (0.0, 0.0))),
        (FedLSCP, ("theirs", (0.0, 0.0), (1.0, -1.0), (1e308, 1e308))),
    ],
)
def test_a_target_that_cannot_be_is_refused(kind, targets):
    for target in targets:
        with pytest.raises(InputError):
            kind(target=target)


@every_method
def test_its_payloads_are_declared(method):
    assert all(issubclass(kind, Summary) for kind in method.summaries)
    assert all(issubclass(kind, Question) for kind in method.questions)
    assert all(issubclass(kind, Outcome) for kind in method.outcomes)
    kinds = [k.kind for k in (*method.summaries, *method.questions, *method.outcomes)]
    assert len(set(kinds)) == len(kinds)


@every_method
def test_settings_print_compare_hash_pickle_and_freeze(method):
    assert pickle.loads(pickle.dumps(method)) == method
    assert hash(method) == hash(replace(method))
    assert repr(method).startswith(type(method).__name__)
    field = next(iter(dataclasses.fields(method)), None)
    if field is not None:
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(method, field.name, None)


@every_method
def test_the_order_of_agents_does_not_matter(method):
    one = fw.calibrate(agents(), method=method, alpha=0.2, rng=1)
    turned = dict(reversed(agents().items()))
    other = fw.calibrate(turned, method=method, alpha=0.2, rng=1)
    for name in agents():
        np.testing.assert_allclose(one.threshold(name), other.threshold(name), rtol=0, atol=1e-12)


@every_method
def test_the_same_seed_gives_the_same_release(method):
    one = fw.calibrate(agents(), method=method, alpha=0.2, rng=1)
    other = fw.calibrate(agents(), method=method, alpha=0.2, rng=1)
    assert one.outcomes == other.outcomes
    assert one.local == other.local


@every_method
def test_what_travels_survives_a_file(method, tmp_path):
    release = fw.calibrate(agents(), method=method, alpha=(0.2, 0.3), rng=1)
    fw.save(release, tmp_path / "release.json")
    again = fw.load(tmp_path / "release.json")
    assert again == replace(release, local={})  # an agent's own is in no file
    for name, cal in agents().items():
        found = thresholds(again, name, 0.3, cal)
        np.testing.assert_array_equal(found, release.threshold(name, 0.3))


@every_method
def test_an_empty_agent_does_no_harm(method):
    some = agents()
    some["agent-1"] = fw.Calibration([], np.array([], int), np.empty((0, 2)), 3)
    release = fw.calibrate(some, method=method, alpha=0.2, rng=1)
    assert not np.isnan(release.threshold("agent-0")).any()
    assert not np.isnan(release.threshold("agent-1")).any()


@every_method
def test_all_agents_empty_gives_no_finite_promise(method):
    nobody = {f"a{i}": fw.Calibration([], np.array([], int), np.empty((0, 2)), 3) for i in range(2)}
    release = fw.calibrate(nobody, method=method, alpha=0.2, rng=1)
    assert (np.asarray(release.threshold("a0")) == np.inf).all()


CORRECTED = ("dp-fedcp", "cphet", "fedls-cp")  # a shift is corrected even where there is none
SINGLE = [
    method
    for method, name in zip(METHODS, IDS, strict=True)
    if name not in CORRECTED and method.traits.spends == np.inf  # private ones draw theirs
    if name != "new-agent-cp"  # one agent tells nothing of another
]


@pytest.mark.parametrize("method", SINGLE, ids=lambda m: type(m).__name__)
def test_one_agent_alone_is_split_cp(method):
    alone = {"agent-2": agents()["agent-2"]}
    expected = fw.conformal_quantile(alone["agent-2"].scores, 0.2)
    assert fw.calibrate(alone, method=method, alpha=0.2).threshold("agent-2") == expected


@every_method
def test_it_tells_no_more_scores_than_it_declares(method):
    sent = {name: [] for name in agents()}
    names = tuple(agents())
    round = Round("r", choose_method(method), Choice("custom"), (0.2,), names, 3, 100, n_classes=3)
    plan = Plan.of(round)
    sides = {n: Agent(n, plan, cal, limit=None) for n, cal in agents().items()}
    server = Server(plan)

    def on_the_way(name, ask, said):
        sent[name] += decode(said, Answer, plan.kinds).answers
        return said

    hold(server, sides, on_the_way)
    for name, cal in agents().items():
        declared = method.reveals(cal, 0.2, steps=server.step)
        sent_scores = {score for summary in sent[name] for score in summary.scores()} & set(
            cal.scores
        )
        counts = {c for s in sent[name] for c in getattr(s, "counts", ()) if s.kind == "counts"}
        assert max(len(sent_scores), len(counts - {0})) <= sum(part.scores for part in declared)


# --- what a method declares of itself is what it does ---------------------------------------------

VARIANTS = [
    *METHODS,
    fw.methods.get("fcp", sketch="order"),
    fw.methods.get("fedwq-cp", tail=4),
    CPhet(target="mixture"),
    CPhet(target="mixture", scope="local"),
]
every_variant = pytest.mark.parametrize("method", VARIANTS, ids=fw.methods.name_of)


def is_refused(found, method, **options):
    try:
        target = getattr(method, "target", "own")
        fw.calibrate(found, method=method, target=target, alpha=0.2, **options)
    except fw.errors.FedwqcpError:
        return True
    return False


@every_variant
def test_it_needs_labels_or_features_where_it_says_so(method):
    def without(**lost):
        kept = {
            name: {"labels": cal.labels, "features": cal.features, "n_classes": 3, **lost}
            for name, cal in agents().items()
        }
        return {name: fw.Calibration(agents()[name].scores, **kept[name]) for name in kept}

    assert not is_refused(agents(), method)
    assert is_refused(without(labels=None), method) == method.traits.needs_labels
    assert is_refused(without(features=None), method) == method.traits.needs_features


@every_variant
def test_it_predicts_from_an_agents_own_data_where_it_says_so(method):
    target = getattr(method, "target", "own")
    release = fw.calibrate(agents(), method=method, target=target, alpha=0.2)
    if method.traits.predicts_from_own_data:
        with pytest.raises(InputError):
            method.localize(release.outcomes[0], None, 0, 0.2)
    else:
        assert method.localize(release.outcomes[0], None, 0, 0.2).dtype == np.float64


@every_variant
def test_it_can_be_masked_where_it_says_so(method):
    assert is_refused(agents(), method, secure=(0.0, 1.0)) != method.traits.maskable
    assert method.traits.maskable <= isinstance(method, fw.methods.Summed)


@every_variant
def test_it_takes_scores_of_its_range_alone(method):
    stated = (0, 1) if "bounds" in settings_of(method) else (-np.inf, np.inf)
    low, high = method.traits.score_range or stated
    cal = fw.Calibration([0.5] * 30 + [1.5], [0] * 31, np.zeros((31, 2)), 3)
    refused = is_refused({"a": cal, **agents()}, method)
    assert refused == (not low <= 1.5 <= high)


@every_variant
def test_it_uses_the_rounds_target_where_it_says_so(method):
    fields = [field.name for field in dataclasses.fields(method)]
    assert (method.traits.corrects_shift_of is not None) == ("target" in fields)
    assert list(settings_of(method)) == [
        name for name in fields if name not in ("target", "max_groups")
    ]
