"""Groups of rows: one of each row, or several that overlap."""

from __future__ import annotations

import numpy as np
import pytest

import fedwqcp as fw
from fedwqcp.errors import InputError
from fedwqcp.groups import (
    OTHERS,
    as_groups,
    combinations,
    group_names,
    group_places,
    in_group,
    largest,
    most_groups,
)
from refusals import raises


def test_groups_are_read_as_text():
    assert as_groups([3, 10]).tolist() == as_groups(["3", "10"]).tolist() == ["3", "10"]
    assert as_groups(np.array(["f", 2, True], dtype=object)).tolist() == ["f", "2", "True"]
    assert [as_groups(none).shape for none in ([], {"sex": [], "age": []})] == [(0,), (0, 2)]
    assert group_places(["m", "f", "m"], ("f", "m")).tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("groups", "says"),
    [
        (["a"], r"shape \(2,\)"),
        ([["a", "b"]], r"shape \(2,\)"),
        ([{"a"}, {None}], "row 1: groups must be text or integers"),
        (np.ones((2, 3), dtype=bool), "pass a set of names for each row"),
        ({"sex": ["f"], "age": [1, 2]}, "columns of one length"),
        ([0.5, 1.0], "text or integers"),
        (np.array(["a", None], dtype=object), "row 1: groups must be text or integers"),
        (np.array(["a", np.nan], dtype=object), "row 1: groups must be text or integers"),
        (
            np.array([["a", "b"], ["c", 0.5]], dtype=object),
            "row 1: groups must be text or integers",
        ),
        (np.ma.masked_array(["a", "b"], [False, True]), "masked"),
    ],
)
def test_what_is_no_group_is_refused(groups, says):
    with pytest.raises(InputError, match=says):
        as_groups(groups, 2)


def test_an_unknown_group_is_named_by_its_row_alone():
    with raises(InputError, row=1) as refused:
        group_places(["f", "private"], ("f", "m"))
    assert "private" not in str(refused.value)


SETS = [{"f", "old"}, {"m"}, set(), {"old"}]


def test_rows_of_several_groups_are_sets_lists_columns_or_tables() -> None:
    found = as_groups(SETS)
    assert [set(row) - {""} for row in found.tolist()] == [{"f", "old"}, {"m"}, {OTHERS}, {"old"}]
    assert as_groups(found).tolist() == found.tolist()
    assert as_groups([sorted(row) for row in SETS]).tolist() == found.tolist()
    columns = {"sex": ["f", "m", None], "age": np.array([1, 2, 3])}
    expected = [["sex=f", "age=1"], ["sex=m", "age=2"], ["", "age=3"]]
    assert as_groups(columns).tolist() == expected
    pandas = pytest.importorskip("pandas")
    assert as_groups(pandas.DataFrame(columns)).tolist() == expected
    assert as_groups(pandas.Series(SETS)).tolist() == found.tolist()


def test_what_is_asked_of_groups_is_the_same_for_one_and_for_several() -> None:
    one, several = as_groups(["f", "m", "f"]), as_groups(SETS)
    assert [in_group(one, "f").tolist(), in_group(several, "old").tolist()] == [
        [True, False, True],
        [True, False, False, True],
    ]
    assert (group_names(one), group_names(several)) == (("f", "m"), ("f", "m", "old", OTHERS))
    assert (most_groups(one), most_groups(several)) == (1, 2)
    assert len(set(combinations(several).tolist())) == 4
    assert combinations(as_groups([["a", "b"], ["b", "a"]])).tolist() == [0, 0]


def test_a_row_takes_the_largest_threshold_of_its_groups() -> None:
    known = ("f", "m", "old", OTHERS)
    table = np.array([[1.0], [2.0], [3.0], [0.5]])
    assert largest(table, group_places(SETS, known)).tolist() == [[3.0], [2.0], [0.5], [3.0]]
    assert largest(table, group_places(["m", "f"], known)).tolist() == [[2.0], [1.0]]
    with raises(InputError, row=2):
        group_places(SETS, known[:3])


def test_sets_of_one_name_give_the_numbers_of_one_group_each() -> None:
    for method in ("auto", "fedwq-cp", "split-cp", "fcp", "fedls-cp"):
        found = []
        for form in (list, lambda names: [{name} for name in names]):
            sites = {
                name: fw.Calibration(scores, np.arange(n) % 3, n_classes=3, groups=form(names))
                for name, n in (("a", 300), ("b", 40), ("c", 12))
                for scores, names in [_drawn(np.random.default_rng(n), n)]
            }
            release = fw.calibrate(sites, method=method, alpha=0.1, by="group")
            found.append([release.by_group(name) for name in sites])
        assert found[0] == found[1]


def _drawn(rng: np.random.Generator, n: int) -> tuple[np.ndarray, list[str]]:
    return rng.uniform(size=n), rng.choice(["f", "m"], size=n).tolist()
