"""``method="auto"`` and advice from records: through the same messages as any round."""

from __future__ import annotations

import numpy as np
import pytest
from typer.testing import CliRunner

import fedwqcp as fw
from fedwqcp.cli.main import app
from fedwqcp.errors import InputError
from fedwqcp.federation.advising import advise_on

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
    shifted = fw.calibrate(cals, method="fedls-cp", alpha=0.1, score="lac")
    first = fw.calibrate(cals, method="fedwq-cp", alpha=0.1, score="lac")
    assert release.round.method.name == "fedls-cp"
    assert [release.threshold(name) for name in cals] == [shifted.threshold(n) for n in cals]
    assert release.rounds == 2
    assert release.bytes_up("b") == shifted.bytes_up("b") + first.bytes_up("b")
    assert "label laws differ" in release.advice


def test_without_labels_it_pools_and_says_whose_scores_they_are():
    release = auto({name: cal.scores for name, cal in federation().items()})
    assert release.round.method.name == "fcp"
    assert "use fcp on aps" in release.advice
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
    assert "use fcp on aps" in done.output
    (tmp_path / "round").mkdir()
    (tmp_path / "fedls-cp.json").rename(tmp_path / "round" / "record.json")
    done = CliRunner().invoke(
        app, ["advise", str(tmp_path / "fedwq-cp.json"), str(tmp_path / "round")]
    )
    assert "use fedls-cp on lac" in done.output
    assert "fedwqcp server open --method fedls-cp --score lac --alpha 0.1" in done.output
