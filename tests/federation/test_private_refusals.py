"""A private site tells nothing by refusing: attacks by a coordinator that asks many rounds."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest

from changed import replace
from fedwqcp.errors import InputError, OutOfRangeError
from fedwqcp.federation.agent import Agent
from fedwqcp.federation.batches import calibration_in_batches
from fedwqcp.federation.disclosure_ledger import DisclosureLedger
from fedwqcp.federation.plan import Plan
from fedwqcp.federation.predict import calibration_of
from fedwqcp.federation.privacy_budget import LEAST_EPSILON, Budget
from fedwqcp.methods import Calibration
from fedwqcp.methods.private_fedwq_cp import PrivateQuantile
from fedwqcp.outputs import Outputs
from fedwqcp.readers.batches import OutputBatches
from fedwqcp.wire.codec import decode
from fedwqcp.wire.messages import Answer, Choice, Round

SCORES = np.random.default_rng(3).uniform(size=1234)


def terms(id="r", alphas=(0.1,), score="custom", by=None, max_n=10**6, **settings):
    return Round(
        id, Choice("private-fedwq-cp", settings), Choice(score), alphas, ("a",), 1, max_n=max_n,
        n_classes=2 if by == "label" else None, by=by, groups=("f", "m") if by == "group" else (),
    )  # fmt: skip


def said(round, cal, **site):
    """What leaves a site."""
    return decode(Agent("a", round, cal, **site).answer(), Answer, (PrivateQuantile,)).answers


def of_class(small, n=400):
    return Calibration(SCORES[:n], np.repeat([0, 1], [small, n - small]), n_classes=2)


def test_the_size_of_a_site_is_not_found_by_changing_max_n(tmp_path):
    """Twenty questions once found n = 1234 for an epsilon of 0.000045."""
    budget, low, high = Budget(tmp_path, 1.0), 1, 2**20
    for question in range(20):
        middle = (low + high) // 2
        round = terms(f"r{question}", max_n=middle, epsilon=2e-6, size_epsilon=1e-6)
        answered = said(round, Calibration(SCORES), budget=budget)[0].n >= 0
        low, high = (low, middle) if answered else (middle + 1, high)
    assert high == 1, "every question was answered"
    assert budget.left == pytest.approx(1 - 20 * LEAST_EPSILON)


def test_a_site_counts_no_more_points_than_the_round_allows():
    n = {said(terms(max_n=most), Calibration(SCORES))[0].n for most in (300, 1233, 1234, 5000)}
    assert n == {300, 1233, 1234}
    drawn = [said(terms(max_n=300), Calibration(SCORES))[0].threshold for _ in range(8)]
    assert len(set(drawn)) > 1, "another part of the points each time"


@pytest.mark.parametrize("by", [None, "label"])
def test_the_size_of_a_site_that_reads_in_batches_is_not_found_either(tmp_path, by):
    labels = np.repeat(["a", "b"], [400, 834])
    source = OutputBatches([Outputs(np.column_stack([SCORES, 1 - SCORES]), labels)])
    sizes = []
    for most, classes in ((300, ("a", "b")), (1234, ("a", "b")), (10, ("c", "d"))):
        round = terms(score="lac", max_n=most, by=by, size_epsilon=0.5)
        round = replace(round, classes=classes, n_classes=2)
        with calibration_in_batches(round, source, tmp_path / "scores") as cal:
            side = Agent("a", round, cal, budget=Budget(tmp_path / "spent", 30.0))
            answers = decode(side.answer(), Answer, (PrivateQuantile,)).answers
            sizes.append(sum(answer.n for answer in answers))
    assert np.abs(np.array(sizes) - [300, 1234, 0]).max() < 100


@pytest.mark.parametrize("penalty", [0.3, 1e-9])
def test_no_penalty_tells_whether_somebody_s_score_lies_beyond_the_range(penalty):
    round = terms(score="raps")
    beyond = replace(round, score=Choice("raps", {"penalty": penalty}))
    with pytest.raises(OutOfRangeError) as error:
        Plan.of(beyond)
    assert error.value.field == "bounds"
    stated = replace(beyond, method=Choice("private-fedwq-cp", {"bounds": (0.0, 1.0)}))
    for top in (0.9, 1.3, inf):
        assert said(stated, Calibration(np.append(SCORES, top)))[0].threshold < 1


@pytest.mark.parametrize("beyond", [[], [7.0], [-7.0], [inf]])
def test_scores_beyond_the_range_count_at_its_ends(beyond):
    assert 0.9 < said(terms(), Calibration(np.append(SCORES, beyond)))[0].threshold <= 1
    by_score = terms(score="lac")
    assert 0.9 < said(by_score, Calibration(np.append(SCORES, beyond)))[0].threshold <= 1


def test_a_group_that_the_round_does_not_name_is_not_found():
    for other in ("f", "x"):
        groups = np.array(["f"] * 1233 + [other])
        assert len(said(terms(by="group"), Calibration(SCORES, groups=groups))) == 2


@pytest.mark.parametrize("rare", ["a", "rare"])
def test_a_label_or_group_of_a_row_is_not_found_by_leaving_it_out_of_the_terms(rare):
    labels, groups = np.array(["a"] * 299 + [rare]), np.array(["f"] * 299 + [rare])
    outputs = Outputs(np.full((300, 2), 0.5), labels, groups=groups)
    round = replace(terms(by="group", score="lac"), classes=("a", "b"), n_classes=2)
    assert calibration_of(round, outputs).n == 299 + (rare == "a")
    assert said(round, calibration_of(round, outputs))


@pytest.mark.parametrize("rare", [5, 9, 10])
def test_no_private_round_is_of_a_small_class_alone_because_it_names_no_other(tmp_path, rare):
    labels = np.repeat(["rare", "usual"], [rare, 300])
    outputs = Outputs(np.full((len(labels), 2), 0.5), labels)
    ledger = DisclosureLedger(tmp_path)
    for i in range(20):
        round = replace(terms(f"r{i}", score="lac"), classes=("rare", "made-up"), n_classes=2)
        try:
            assert said(round, calibration_of(round, outputs), ledger=ledger)[0].n == rare == 10
        except InputError:
            assert rare < 10 or i >= 10
    assert len(list(tmp_path.glob("0*"))) == 10, "a refusal is charged too"


@pytest.mark.parametrize("small", [0, 1, 9, 10, 50])
def test_what_is_refused_depends_on_the_terms_alone(small):
    most, beyond = ((0.1, 0.2, 0.3, 0.4), 2.5), ((0.1, 0.2, 0.3, 0.4), 2.6)
    assert said(terms(by="label", alphas=most[0], epsilon=most[1]), of_class(small))
    with pytest.raises(InputError) as error:
        said(terms(by="label", alphas=beyond[0], epsilon=beyond[1]), of_class(small))
    assert error.value.field == "epsilon"


def test_many_rounds_give_no_score_of_a_small_class(tmp_path):
    """70 rounds at epsilon 10 once gave a score of a class of five to four digits."""
    settings = {"epsilon": 10.0, "gamma": 0.5, "bins": 2}
    for at in range(70):
        bounds = (at / 70, 2.0)
        round = terms(f"r{at}", alphas=(0.5,), by="label", bounds=bounds, **settings)
        assert said(round, of_class(5))[0] is None
    round = terms(alphas=(0.5,), by="label", **settings)
    assert said(round, of_class(5), budget=Budget(tmp_path, 10.0))[0].threshold <= 1
    assert said(round, of_class(10))[0].threshold <= 1


def test_a_noised_size_must_show_that_a_class_is_large_enough():
    several = terms(by="label", alphas=(0.1, 0.2), epsilon=4.0, size_epsilon=1.0)
    for small, shown in ((12, False), (200, True)):
        answers = said(several, of_class(small))
        assert [each is not None for each in answers] == [shown, True] * 2


def test_a_budget_decides_where_there_is_one(tmp_path):
    round = terms(epsilon=25.0)
    assert said(round, Calibration(SCORES), budget=Budget(tmp_path, 30.0))


def test_the_work_of_a_round_is_bounded_by_its_terms():
    levels = tuple((at + 1) / 201 for at in range(100))
    assert Plan.of(terms(alphas=levels, epsilon=0.1, bins=10**4))
    with pytest.raises(InputError) as error:
        Plan.of(terms(alphas=(*levels, 0.5), epsilon=0.1, bins=10**4))
    assert error.value.field == "method"
