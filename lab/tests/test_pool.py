import numpy as np
import pytest

from fedwqcp.errors import InputError
from fedwqcp_lab.pool import FEW, Shape, federate
from fedwqcp_lab.unit import Side, Unit
from units import labels_unit, lines_unit


def pool(seed=0):
    """Return models that spoke of all calibration points: row i says (model, i)."""
    unit = labels_unit(seed)
    n = len(unit.setting.labels)
    sides = tuple(
        Side(side.name, np.stack([np.full(n, at), np.arange(n)] * 2, axis=1), side.test)
        for at, side in enumerate(unit.sides)
    )
    return Unit(unit.setting, sides)


def test_every_point_has_one_owner_and_the_owners_model_speaks_of_it():
    found = federate(pool(), Shape(agents=5, strong=0.4, beta=0.5))
    assert found.setting.agents == ("S0", "S1", "W2", "W3", "W4")
    assert np.bincount(found.setting.owners, minlength=5).sum() == 240
    models = [0, 1, 2, 2, 2]  # two strong models in turn, one weak model
    for at, side in enumerate(found.sides):
        rows = found.setting.part(at)
        assert np.array_equal(side.calibration[:, 1], rows)
        assert (side.calibration[:, 0] == models[at]).all()
        assert side.test is pool().sides[models[at]].test or len(side.test) == 90


def test_tiny_agents_keep_few_points_and_the_rest_belongs_to_nobody():
    plain, tiny = (federate(pool(), Shape(agents=3, beta=5.0, tiny=t)) for t in (0, 2))
    sizes = [len(side.calibration) for side in tiny.sides]
    assert sizes[0] == len(plain.sides[0].calibration)
    assert sizes[1:] == [FEW, FEW]
    assert (tiny.setting.owners == -1).sum() == 240 - sum(sizes)


def test_quantity_skew_leaves_the_labels_alone():
    unit = federate(pool(), Shape(agents=2, skew="quantity", beta=10.0))
    shares = [
        np.bincount(unit.setting.labels[unit.setting.part(at)], minlength=4) / len(side.calibration)
        for at, side in enumerate(unit.sides)
    ]
    assert np.abs(shares[0] - shares[1]).max() < 0.25  # 120 points: sd of a share is 0.04


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"agents": 0}, "at least one agent"),
        ({"strong": 1.5}, "from 0 to 1"),
        ({"tiny": 7}, "no more tiny"),
        ({"alpha": 0.0}, "alpha"),
        ({"skew": "size"}, "skew"),
    ],
)
def test_what_is_no_federation_is_refused(wrong, told):
    with pytest.raises(InputError, match=told):
        Shape(**wrong)


def test_a_pool_must_fit():
    with pytest.raises(InputError, match="models that classify"):
        federate(lines_unit(), Shape())
    strong = pool()
    with pytest.raises(InputError, match="every kind"):
        federate(Unit(strong.setting, strong.sides[:2]), Shape(strong=0.5))
