"""``method="auto"`` and advice from records: through the same messages as any round."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import fedwqcp as fw
from fedwqcp.cli.main import app
from fedwqcp.errors import InputError
from fedwqcp.federation.advising import advise_on
from fedwqcp.methods.fcp import FCP
from fedwqcp.methods.fedls_cp import FedLSCP

COUNTS = {"a": [500, 40, 20], "b": [40, 500, 20], "c": [30, 30, 500]}


def federation(law=COUNTS, seed=0):
    """Return agents whose hard class is common at one of them."""
    rng = np.random.default_rng(seed)
    found = {}
    for name, row in law.items():
        scores = np.concatenate(
            [rng.beta(1, b, size=n) for n, b in zip(row, (9, 2, 0.5), strict=True)]
        )
        found[name] = fw.Calibration(scores, np.repeat([0, 1, 2], row), n_classes=3)
    return found


def auto(cals, **options):
    """Calibrate as advised."""
    return fw.calibrate(cals, **{"method": "auto", "alpha": 0.1, "score": "lac", **options})


def test_like_agents_take_one_round_and_the_release_says_why():
    rng = np.random.default_rng(0)
    cals = {name: rng.uniform(size=700) for name in "abc"}
    release = auto(cals, score="aps")
    plain = fw.calibrate(cals, alpha=0.1, score="aps")
    assert release.round.method.name == "fedwq-cp"
    assert release.threshold("a") == plain.threshold("a")
    assert (release.rounds, release.bytes_up("a")) == (1, plain.bytes_up("a"))
    assert release.advice.startswith("use fedwq-cp on aps. The mean of these thresholds")
    assert plain.advice == ""


def test_label_shift_takes_a_second_look_and_its_bytes_count():
    cals = federation()
    release = auto(cals)
    shifted = fw.calibrate(cals, method=FedLSCP(floor=True), alpha=0.1, score="lac")
    first = fw.calibrate(cals, method="fedwq-cp", alpha=0.1, score="lac")
    assert release.round.method.name == "fedls-cp"
    assert [release.threshold(name) for name in cals] == [shifted.threshold(n) for n in cals]
    assert release.rounds == 2
    assert release.bytes_up("b") == shifted.bytes_up("b") + first.bytes_up("b")
    assert "label laws differ" in release.advice


def test_without_labels_it_pools_and_says_whose_scores_they_are():
    release = auto({name: cal.scores for name, cal in federation().items()})
    assert release.round.method.name == "fcp"
    assert "use fcp, floor=True on aps" in release.advice
    assert "need not contain LAC's" in release.advice
    assert release.advice.endswith("These scores are still those of lac.")


def test_the_advice_stays_with_a_saved_release(tmp_path):
    release = auto(federation())
    fw.save(release, tmp_path / "release.json")
    assert fw.load(tmp_path / "release.json").advice == release.advice
    assert release.public().advice == release.advice


def test_sketches_alone_are_look_enough():
    cals = federation()
    sketches = fw.calibrate(cals, method="fedls-cp", alpha=0.1, score="lac")
    both = advise_on(fw.calibrate(cals, alpha=0.1, score="lac"), sketches)
    alone = advise_on(sketches)
    assert alone.method == both.method == "fedls-cp"
    floored = fw.calibrate(cals, method=FedLSCP(floor=True), alpha=0.1, score="lac")
    assert advise_on(floored) == both  # it holds the very thresholds of the first look


# ---- never below FedWQ-CP's


def mean_of(cals, alpha):
    """Run FedWQ-CP without those that have too few points."""
    method = fw.methods.get("fedwq-cp", overflow="exclude")
    return fw.calibrate(cals, method=method, alpha=alpha, score="lac")


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 60), min_size=3, max_size=3), min_size=1, max_size=4),
    st.sampled_from([(0.05,), (0.1, 0.3), (0.5, 0.02, 0.2)]),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
def test_no_advised_threshold_is_below_that_of_the_first_look(law, levels, labels, seed):
    cals = federation({f"a{k}": row for k, row in enumerate(law)}, seed)
    given_cals = cals if labels else {name: cal.scores for name, cal in cals.items()}
    release = auto(given_cals, alpha=levels)
    if release.round.method.name in ("weighted-median-cp", "split-cp"):
        return  # not by construction, as the page says
    mean = mean_of(cals, levels)
    for alpha in levels:
        if all(fw.conformal_quantile(cal.scores, alpha) == inf for cal in cals.values()):
            continue  # nobody has a threshold that could be a floor
        for name in cals:
            assert release.threshold(name, alpha) >= mean.threshold(name, alpha)


def test_a_threshold_that_the_correction_would_lower_stays_where_it_was():
    a = fw.Calibration([0.1] * 80 + [0.9] * 20, [0] * 80 + [1] * 20)
    b = fw.Calibration([0.1] * 390 + [0.9] * 10, [0] * 390 + [1] * 10)
    cals = {"a": a, "b": b}
    # thresholds 0.9 (rank 91 of 100) and 0.1 (rank 361 of 400): their mean is 0.26, while 30 of
    # 500 scores lie above 0.1, so that pooled and corrected thresholds are 0.1
    mean = mean_of(cals, 0.1).threshold("a")
    assert mean == pytest.approx(0.26)
    for method in (FCP(), FedLSCP()):
        bare = fw.calibrate(cals, method=method, alpha=0.1, score="lac")
        assert bare.threshold("a") == 0.1
    release = auto(cals)
    assert release.round.method.name == "fedls-cp"
    assert [release.threshold(name) for name in "ab"] == [mean, mean]
    assert "never below FedWQ-CP's" in release.advice
    blind = auto({name: cal.scores for name, cal in cals.items()})
    assert (blind.round.method.name, blind.threshold("a")) == ("fcp", mean)


def test_each_of_several_levels_has_its_own_floor():
    cals = federation({"a": [300, 20, 5], "b": [20, 30, 90], "c": [200, 10, 0]}, seed=3)
    release = auto(cals, alpha=(0.05, 0.2, 0.4))
    bare = fw.calibrate(cals, method="fedls-cp", alpha=(0.05, 0.2, 0.4), score="lac")
    mean = mean_of(cals, (0.05, 0.2, 0.4))
    assert release.round.method.settings["floor"] is True
    raised = 0
    for alpha in (0.05, 0.2, 0.4):
        for name in cals:
            expected = max(bare.threshold(name, alpha), mean.threshold(name, alpha))
            assert release.threshold(name, alpha) == expected
            raised += expected > bare.threshold(name, alpha)
    assert raised


def test_of_several_levels_the_smallest_decides():
    rng = np.random.default_rng(0)
    look = fw.calibrate({n: rng.uniform(size=30) for n in "abc"}, alpha=(0.2, 0.01), score="aps")
    assert advise_on(look).code == "no-data"
    assert advise_on(look, alpha=0.2).code == "alike"


def test_what_was_looked_at_is_not_asked_for_again():
    release = auto({name: np.linspace(0, 1, 3) for name in "ab"})
    assert (release.round.method.name, release.rounds) == ("fedwq-cp", 1)
    assert "too few for a finite threshold" in release.advice


def test_what_cannot_be_advised_on_is_refused():
    cals = federation()
    looks = [
        fw.calibrate(cals, alpha=alpha, score=score)
        for alpha, score in ((0.1, "lac"), (0.05, "lac"), (0.1, "aps"))
    ]
    with pytest.raises(InputError, match="level of the round"):
        advise_on(*looks[:2])
    with pytest.raises(InputError, match="same score"):
        advise_on(looks[0], looks[2])
    with pytest.raises(InputError, match="thresholds or class sketches"):
        advise_on(fw.calibrate(cals, method="split-cp", alpha=0.1, score="lac"))
    with pytest.raises(InputError, match="without groups"):
        advise_on(fw.calibrate(cals, alpha=0.1, score="lac", by="label"))
    two = fw.calibrate({"a": np.zeros((50, 2)), "b": np.ones((50, 2))}, alpha=0.1)
    with pytest.raises(InputError, match="one column"):
        advise_on(two)
    with pytest.raises(InputError, match="name a method"):
        auto(cals, by="label")
    with pytest.raises(InputError, match="name a method"):
        auto(cals, secure=True)


def test_the_command_tells_what_to_open_next(tmp_path):
    cals = federation()
    for name in ("fedwq-cp", "fedls-cp"):
        fw.save(fw.calibrate(cals, method=name, alpha=0.1, score="lac"), tmp_path / f"{name}.json")
    done = CliRunner().invoke(app, ["advise", str(tmp_path / "fedwq-cp.json")])
    assert done.exit_code == 0, done.output
    assert "use fcp, floor=True on aps" in done.output
    assert "fedwqcp server open --method fcp --setting floor=True --score aps" in done.output
    (tmp_path / "round").mkdir()
    (tmp_path / "fedls-cp.json").rename(tmp_path / "round" / "record.json")
    done = CliRunner().invoke(
        app, ["advise", str(tmp_path / "fedwq-cp.json"), str(tmp_path / "round")]
    )
    assert "use fedls-cp, floor=True on lac" in done.output
    command = "fedwqcp server open --method fedls-cp --setting floor=True --score lac --alpha 0.1"
    assert command in done.output
    (tmp_path / "roster.toml").write_text("agents = ['a', 'b', 'c']\n")
    words = [*command.split()[1:], "--agents", str(tmp_path / "roster.toml")]
    opened = CliRunner().invoke(app, [*words, "--out", str(tmp_path / "next.json")])
    assert opened.exit_code == 0, opened.output
    assert '"floor":true' in (tmp_path / "next.json").read_text()
