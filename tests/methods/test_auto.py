"""The default: a floor from an agent's own data, and a borrowed threshold above it."""

from __future__ import annotations

import warnings
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import force_setattr

import fedwqcp as fw
from fedwqcp.errors import InputError
from fedwqcp.federation.agent import Agent
from fedwqcp.federation.disclosure_limit import DisclosureLimit
from fedwqcp.federation.server import Server
from fedwqcp.federation.transport.local import run
from fedwqcp.methods.auto import Auto, Borrowed, PartSketches, enough_points, sent_ranks
from fedwqcp.quantile import conformal_quantile, conformal_rank
from fedwqcp.wire.messages import SharedThreshold
from strategies import alphas, scores

OFFERS = st.floats(-1e308, 1e308) | st.just(inf) | st.just(-inf) | st.just(float("nan"))


def taken(offer: float, sample: object, alpha: float, **settings: object) -> float:
    """What an agent makes of a borrowed threshold."""
    outcome = Borrowed((), 0.0)
    force_setattr(outcome, "pooled", offer)  # as no codec would let it pass
    cal = fw.Calibration(np.asarray(sample, dtype=float))
    return float(Auto(**settings).localize(outcome, cal, None, alpha))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("n", "offer", "expected"),
    [
        (200, 500, 181),  # enough: its own, ceil(201 * 0.9) = 181
        (60, 50, 55),  # r = 55: raised
        (60, 57, 57),
        (60, 99, 60),  # to its largest score at most
        (60, inf, 55),  # nothing is borrowed
        (8, 3, 8),  # r = 9 > 8: at least its largest
        (8, 12, 12),
        (8, inf, inf),
        (0, 12, 12),
    ],
)
def test_the_table_of_the_method(n: int, offer: float, expected: float) -> None:
    assert taken(offer, np.arange(1, n + 1), 0.1) == expected


def test_a_small_agent_may_keep_every_label() -> None:
    assert taken(12, np.arange(8), 0.1, small="inf") == inf
    assert taken(12, [], 0.1, small="inf") == inf
    assert taken(57, np.arange(1, 61), 0.1, small="inf") == 57


@given(scores(min_size=1), alphas(), OFFERS)
def test_no_offer_lowers_it_below_its_own_nor_raises_it_above_its_largest(
    sample: np.ndarray, alpha: float, offer: float
) -> None:
    n, t = len(sample), taken(offer, sample, alpha)
    rank = conformal_rank(n, alpha)
    assert t >= np.sort(sample)[min(rank, n) - 1]
    if rank <= n:
        assert t <= sample.max()


@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.1, 0.2, 1 / 3])
@pytest.mark.parametrize("times", [1.5, 2.0])
def test_enough_is_where_the_miss_rate_stays_low(alpha: float, times: float) -> None:
    stats = pytest.importorskip("scipy.stats")
    n = np.arange(1, 2_000)
    r = np.array([conformal_rank(int(k), alpha) for k in n])
    low = np.where(r <= n, stats.beta.ppf(0.05, np.minimum(r, n), n + 1 - np.minimum(r, n)), 0)
    failing = n[low < 1 - times * alpha]
    assert enough_points(alpha, times) == failing.max() + 1


def federation(seed: int, C: int = 0) -> dict[str, fw.Calibration]:
    """Five agents from no point to many, unlike each other."""
    rng = np.random.default_rng(seed)
    found = {}
    for k, n in enumerate((0, 6, 30, 90, 400)):
        labels = rng.choice(C, n, p=rng.dirichlet(np.ones(C))) if C else None
        cal = fw.Calibration(np.round(rng.beta(2 + k, 3, n), 2), labels, n_classes=C or None)
        found[f"s{k}"] = cal
    return found


@pytest.mark.parametrize("C", [0, 3, 12])
@pytest.mark.parametrize("seed", range(8))
def test_levels_are_nested(seed: int, C: int) -> None:
    levels = (0.02, 0.05, 0.09, 0.1, 0.15, 0.3, 0.45)
    release = fw.calibrate(federation(seed, C), method="auto", alpha=levels)
    for name in release.used:
        found = [release.threshold(name, alpha) for alpha in levels]
        assert found == sorted(found, reverse=True)


@pytest.mark.parametrize("C", [0, 3, 12])
def test_it_fits_every_sites_usual_limit_and_leaves_room(C: int) -> None:
    sites = federation(3, C)
    free = fw.calibrate(sites, method="auto", alpha=0.1)
    for limit in (DisclosureLimit(), DisclosureLimit(share=1 / 7 + 1e-9)):
        limited = {n: Agent(n, free.round, cal, limit=limit) for n, cal in sites.items()}
        assert run(Server(free.round), limited).outcomes == free.outcomes
    (tiny,) = free.received["s1"]
    assert isinstance(tiny, PartSketches)
    assert (tiny.sizes(), tiny.scores()) == ((6,), ())
    assert release_of_another_level(sites) == free.received


@pytest.mark.parametrize("C", [0, 3])
def test_scores_of_infinity_are_sent_and_count(C: int) -> None:
    sites = federation(3, C)
    labels = np.arange(40) % C if C else None
    sites["s1"] = fw.Calibration(np.full(40, inf), labels, n_classes=C or None)
    release = fw.calibrate(sites, method="auto", alpha=0.1)
    assert release.threshold("s1") == inf
    assert release.threshold("s4") < inf


def release_of_another_level(sites: dict[str, fw.Calibration]) -> object:
    return fw.calibrate(sites, method="auto", alpha=0.02).received


@pytest.mark.guarantee("SECURITY.md", "without labels only their total leaves beside scores")
def test_no_score_of_a_small_class_is_sent() -> None:
    labels = np.repeat([0, 1, 2], [40, 9, 4])
    cal = fw.Calibration(np.arange(53.0), labels, n_classes=3)
    sent = Auto().summarize(cal, 0.1)
    assert (sent.counts, [len(found) for found in sent.values]) == ((40, 9, 4), [5, 0, 0])
    assert len(sent.rest) == len(sent_ranks(13)) == 1  # of which class, nobody is told
    unlabelled = Auto().summarize(fw.Calibration(np.arange(53.0)), 0.1)
    assert (unlabelled.counts, unlabelled.values, unlabelled.others) == ((), (), 53)
    alone = Auto().summarize(fw.Calibration(np.arange(49.0), labels[:49], n_classes=3), 0.1)
    assert alone.rest == ()


def test_of_classes_that_nobody_sent_all_is_pooled_and_said_to_be_borrowed() -> None:
    labels = {"a": [36, 0, 9], "b": [0, 40, 0]}  # nothing is borrowed of class 0 or 1; 9 of 45 are
    sites = {
        name: fw.Calibration(np.arange(float(sum(n))), np.repeat(range(3), n), n_classes=3)
        for name, n in labels.items()
    }
    (outcome,) = fw.calibrate(sites, method="auto", alpha=0.1).outcomes
    assert (outcome.borrowed, outcome.effective) == ((0.2, 0.0), (40.0, 40.0))


def test_an_agent_without_a_point_of_a_group_borrows_there() -> None:
    rng = np.random.default_rng(1)
    full = fw.Calibration(rng.uniform(size=200), groups=["f", "m"] * 100)
    sites = {"a": full, "b": fw.Calibration(rng.uniform(size=90), groups=["f"] * 90), "c": full}
    release = fw.calibrate(sites, method="auto", alpha=0.1, by="group")
    own = conformal_quantile(sites["b"].scores, 0.1)
    assert release.threshold("b", group="f") >= own
    assert 0.8 < release.threshold("b", group="m") < 1


@pytest.mark.guarantee("auto", 'Toward ``"mixture"`` and a distribution the guarantees are those')
def test_toward_the_mixture_it_is_never_below_fcp() -> None:
    sites = federation(5)
    for alpha in (0.1, 0.2, 0.3):
        release = fw.calibrate(sites, method="auto", alpha=alpha, target="mixture")
        exact = fw.calibrate(sites, method="fcp", alpha=alpha)
        assert isinstance(release.outcomes[0], SharedThreshold)
        assert release.threshold("s3") >= exact.threshold("s3")
        assert release.guarantee == exact.guarantee


def test_masked_and_risk_rounds_are_refused() -> None:
    sites = federation(0)
    with pytest.raises(InputError):
        fw.calibrate(sites, method="auto", alpha=0.1, secure=(0.0, 1.0))
    weighted = fw.Calibration(np.ones((3, 2)), weights=np.ones((3, 2)) / 2)
    with pytest.raises(InputError):
        fw.calibrate({"a": weighted}, method="auto", alpha=0.1)


def test_python_warns_where_less_than_1_minus_alpha_is_proved() -> None:
    enough = {"a": np.arange(60) / 60, "b": np.arange(9) / 9}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fw.calibrate(enough, alpha=0.1)
    with pytest.warns(fw.FewPointsWarning) as caught:
        release = fw.calibrate({**enough, "few": np.arange(8) / 8}, alpha=0.1)
    (finding,) = caught[0].message.findings
    assert (finding.agents, finding["proved"]) == (("few",), release.proved("few"))
    assert release.proved("few") == 8 / 9
