import dataclasses

import pytest

from fedwqcp.errors import InputError
from fedwqcp_lab.experiment import digest, embedded, load, paper, parse_seeds
from units import experiment

SMALL = """
name = "small"
alpha = 0.1
beta = 0.5
seeds = "0,2-3"
datasets = [{ name = "mnist" }]

[[presets]]
name = "sound"
labels = { name = "aps" }

[[methods]]
name = "fcp"
method = "fcp"
settings = { sketch = "exact" }
"""


def read(tmp_path, text):
    path = tmp_path / "e.toml"
    path.write_text(text)
    return load(path)


def test_the_shipped_experiment_is_the_papers():
    found = paper()
    assert [plan.name for plan in found.datasets] == [
        "mnist",
        "fashionmnist",
        "cifar10",
        "dermamnist",
        "bloodmnist",
        "tissuemnist",
        "retinamnist",
    ]
    assert {plan.name: plan.batch for plan in found.datasets if plan.batch != 64} == {
        "dermamnist": 128
    }
    assert found.agents == ("S0", "S1", "S2", "W3", "W4", "W5")
    assert (found.alpha, found.beta, found.seeds) == (0.05, 0.3, tuple(range(10)))
    preset = found.presets[0]
    assert (preset.rule, preset.overflow) == ("leq_top1", "clip")
    assert repr(preset.score("classification")) == "APS(randomized=False, precision='float32')"


def test_the_embedded_experiment_compares_the_same_methods():
    assert embedded().methods == paper().methods
    assert [plan.name for plan in embedded().datasets] == ["digits", "friedman"]


def test_a_file_is_read(tmp_path):
    found = read(tmp_path, SMALL)
    assert found.seeds == (0, 2, 3)
    assert found.methods[0].settings == {"sketch": "exact"}
    assert found.presets[0].score("regression") is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("alpha =", "alhpa ="), "unknown key 'alhpa'; did you mean 'alpha'"),
        (('name = "mnist"', 'name = "mnist", bach = 3'), "'mnist'.*did you mean 'batch'"),
        (
            ("sketch", "sketsch"),
            "'fcp': method 'fcp' has no setting 'sketsch'; known: .*did you mean 'sketch'",
        ),
        (('method = "fcp"', 'method = "fpc"'), "unknown method 'fpc'"),
        (("beta = 0.5\n", ""), "beta is missing"),
        (("beta = 0.5\n", "beta = 0\n"), "beta must be positive"),
        (("alpha = 0.1", "alpha = 5"), "alpha must be strictly between 0 and 1"),
        (("alpha = 0.1", 'alpha = "x"'), "alpha: Expected `float`, got `str`"),
        (('seeds = "0,2-3"', 'seeds = "a"'), "seeds are written like"),
        (('seeds = "0,2-3"', 'seeds = "0,9-5"'), "a range must rise, got '9-5' in '0,9-5'"),
        (('seeds = "0,2-3"', "seeds = [1, 1]"), "seeds must be different"),
        (('labels = { name = "aps" }', 'labels = { name = "apps" }'), "unknown score 'apps'"),
        (('labels = { name = "aps" }', 'rule = "lt"'), "rule: Invalid enum value 'lt'"),
        (('datasets = [{ name = "mnist" }]', "datasets = 3"), "must be an array of tables"),
        (('name = "small"', "name = "), "must be a TOML file: Invalid value"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(tmp_path, change, message):
    with pytest.raises(InputError, match=message):
        read(tmp_path, SMALL.replace(*change, 1))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError):
        load(tmp_path / "none.toml")


def test_fewer_datasets_and_other_seeds():
    some = paper().only(["cifar10", "mnist"], (3,))
    assert [plan.name for plan in some.datasets] == ["cifar10", "mnist"]
    assert some.seeds == (3,)
    with pytest.raises(InputError):
        paper().only(["mnsit"])


def test_the_fingerprint_of_a_row_knows_what_its_numbers_depend_on_and_nothing_else():
    row = ("blobs", "paper", "fedwq-cp")
    first = digest(experiment().config(*row))
    fewer = experiment(seeds=(5,), methods=experiment().methods[1:])
    assert digest(fewer.config(*row)) == first
    for change in ({"alpha": 0.2}, {"beta": 0.1}, {"strong_epochs": 2}):
        assert digest(experiment(**change).config(*row)) != first
    other = dataclasses.replace(experiment().presets[0], overflow="exclude")
    assert digest(experiment(presets=(other,)).config(*row)) != first


def test_agents_and_parts_must_be_there():
    for change in ({"strong": 0, "weak": 0}, {"methods": ()}, {"seeds": ()}, {"clusters": 0}):
        with pytest.raises(InputError):
            experiment(**change)


@pytest.mark.parametrize("text", ["", "a", "1-", "-1", "1--2", "1.5"])
def test_seeds_of_another_form_are_refused(text):
    with pytest.raises(InputError):
        parse_seeds(text)
