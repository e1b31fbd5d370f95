from math import inf

import pytest

from fedwqcp.errors import InputError
from fedwqcp.scores.custom import Custom


def test_nothing_is_known_of_it() -> None:
    assert Custom().bounds(3) == (-inf, inf)
    assert (Custom().columns, Custom(columns=2).columns) == (1, 2)
    assert not Custom().randomized
    with pytest.raises(InputError):
        Custom(columns=0)
