"""The roster is a small TOML file; what it cannot mean is refused."""

from __future__ import annotations

import pytest

from fedwqcp.errors import InputError
from fedwqcp.federation.plan import Roster, load_roster


def test_a_roster(tmp_path):
    path = tmp_path / "roster.toml"
    path.write_text('agents = ["st-mary", "lakeside"]\nquorum = 1\nmax_n = 500\nn_classes = 3\n')
    assert load_roster(path) == Roster(("st-mary", "lakeside"), 1, 500, 3)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("quorum = 1", "must list the agents"),
        ('agents = ["a"]\nquorom = 1', "unknown key 'quorom'; did you mean 'quorum'"),
        ('agents = ["a"]\nzzz = 1', "unknown key 'zzz'; known"),
        ('agents = "a"', "agents must be a list of names, got str"),
        ('agents = ["a"]\nquorum = true', "quorum must be an integer, got bool"),
        ("agents = [", "must be a TOML file"),
    ],
)
def test_bad_rosters_are_refused(tmp_path, text, says):
    path = tmp_path / "roster.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=says):
        load_roster(path)
