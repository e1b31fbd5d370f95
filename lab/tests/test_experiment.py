import dataclasses

import pytest

from fedwqcp.errors import InputError
from fedwqcp_lab.experiment import digest, load, paper
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
settings = { sketch = "order" }
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


def test_a_file_is_read(tmp_path):
    found = read(tmp_path, SMALL)
    assert found.seeds == (0, 2, 3)
    assert found.methods[0].settings == {"sketch": "order"}
    assert found.presets[0].score("regression") is None


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (("alpha =", "alhpa ="), "'alpha'"),
        (('name = "mnist"', 'name = "mnist", bach = 3'), "'batch'"),
        (("sketch", "sketsch"), "'sketch'"),
        (('method = "fcp"', 'method = "fpc"'), "'fpc'"),
        (("beta = 0.5\n", ""), "beta"),
        (("beta = 0.5\n", "beta = 0\n"), "beta"),
        (("alpha = 0.1", "alpha = 5"), "alpha"),
        (("alpha = 0.1", 'alpha = "x"'), "alpha"),
        *((('seeds = "0,2-3"', f'seeds = "{text}"'), "") for text in ("a", "0,9-5", "1-", "1.5")),
        (('seeds = "0,2-3"', "seeds = [1, 1]"), "seeds"),
        (('labels = { name = "aps" }', 'labels = { name = "apps" }'), "'apps'"),
        (('labels = { name = "aps" }', 'rule = "lt"'), "rule"),
        (('datasets = [{ name = "mnist" }]', "datasets = 3"), "datasets"),
        (('name = "small"', "name = "), "TOML"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(tmp_path, change, named):
    with pytest.raises(InputError, match=named):
        read(tmp_path, SMALL.replace(*change, 1))


def test_the_fingerprint_of_a_row_knows_what_its_numbers_depend_on_and_nothing_else():
    row = ("blobs", "paper", "fedwq-cp")
    first = digest(experiment().config(*row))
    fewer = experiment(seeds=(5,), methods=experiment().methods[1:])
    assert digest(fewer.config(*row)) == first
    for change in ({"alpha": 0.2}, {"beta": 0.1}, {"strong_epochs": 2}):
        assert digest(experiment(**change).config(*row)) != first
    other = dataclasses.replace(experiment().presets[0], overflow="exclude")
    assert digest(experiment(presets=(other,)).config(*row)) != first
