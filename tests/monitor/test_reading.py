"""Rows from files: every kind, joined with sets, and what is refused without telling values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedwqcp.errors import InputError
from fedwqcp.monitor import read_batches
from fedwqcp.sets import LabelSets, as_csv


def read(text, agent="a", sets=None):
    """Return sizes, hits and classes of one agent."""
    found = read_batches(text.encode(), agent, None if sets is None else sets.encode())
    batch = found[agent]
    return batch.sizes.tolist(), batch.hits.tolist(), batch.classes.tolist()


@pytest.mark.parametrize(
    "text",
    [
        "covered,label\n1,0\n0,2\n",
        '{"covered": 1, "label": 0}\n\n{"covered": false, "label": 2}\n',
        "id,size,labels,label\nx,2,0 1,0\ny,1,1,2\n",
        '{"labels": [0, 1], "label": 0}\n{"labels": [], "label": 2}\n',
        "\ufefflabels,label\n0,0\n,2\n",
        '[{"covered": 1, "label": 0}, {"covered": 0, "label": 2}]',
        ' [\n {"covered": 1,\n "label": 0},\n {"covered": 0, "label": 2}\n]\n',
    ],
)
def test_rows_of_every_kind(text):
    assert read(text) == ([1, 1], [1, 0], [0, 2])


def test_intervals_have_no_classes():
    assert read("lower,upper,y\n0,1,1\n-inf,2,3\n") == ([1, 1], [1, 0], [])


def test_counts():
    assert read("n,hits\n10,9\n20,20\n") == ([10, 20], [9, 20], [])
    assert read("class,n,hits\n0,10,9\n2,20,20\n") == ([30], [29], [0, 2])


def test_sets_and_later_labels_meet_by_id():
    sets = "id,size,labels\nn7,1,0\nn8,2,0 1\nn9,0,\n"
    assert read("id,label\nn8,1\nn7,2\n", sets=sets) == ([1, 1], [1, 0], [1, 2])


def test_sets_with_names_of_classes_meet_labels_by_name_or_number():
    sets = "id,size,labels,mole,skin tag\nn1,1,mole,1,0\nn2,2,mole; skin tag,1,1\nn3,0,,0,0\n"
    for labels in ("n2,skin tag\nn1,skin tag\nn3,mole\n", "n2,1\nn1,1\nn3,0\n"):
        assert read("id,label\n" + labels, sets=sets)[1:] == ([1, 0, 0], [1, 1, 0])


NAMED = "id,size,labels,flu,cold\nn1,1,flu,1,0\nn2,2,flu; cold,1,1\n"


@pytest.mark.parametrize(
    ("labels", "says"),
    [
        ("n1,1\nn2,2\n", "none is 0 and the largest is 2; where classes are counted from 1"),
        ("n1,0\nn2,7\n", "row 2: labels must be integers from 0 to 1"),
        ("n1,-1\nn2,0\n", "row 1: labels must be integers from 0 to"),
        ("n1,0.5\nn2,0\n", "integers from 0 to 1"),
        (
            "n1,Flu\nn2,cold\n",
            "row 1: .* classes 'flu', 'cold', this one is spelled in another way",
        ),
        ("n1,flu\nn2,\n", "row 2: .* classes 'flu', 'cold', this one is empty"),
        ("n1,flu\nn2,asthma\n", "row 2: .* is none of these"),
    ],
)
def test_labels_of_named_sets_must_be_classes_as_everywhere(labels, says):
    with pytest.raises(InputError, match=says) as caught:
        read("id,label\n" + labels, sets=NAMED)
    assert "Flu" not in str(caught.value)
    assert "asthma" not in str(caught.value)


def test_a_column_tells_the_agents_apart_in_order():
    found = read_batches(b"agent,covered\nb,1\na,0\nb,0\n")
    assert list(found) == ["b", "a"]
    assert found["b"].hits.tolist() == [1, 0]


@pytest.mark.parametrize("text", [b"covered\n", b"n,hits\n", b"[]", b"", b"\n"])
def test_no_rows_are_no_batches(text):
    assert read_batches(text, "a") == {}


def test_what_rows_and_sets_both_say_must_be_the_same():
    sets = "id,size,labels\nn7,1,0\nn8,2,0 1\n"
    assert read("id,size,label\nn8,2,1\n", sets=sets) == ([1], [1], [1])


@pytest.mark.parametrize(
    ("text", "agent", "sets", "says"),
    [
        ("covered\n1\n", None, None, "row 1: must belong to one agent"),
        ("agent,covered\na,1\nb,1\n", "a", None, "row 2: belongs to another .* agent= out"),
        ("covered,label\n1\n", "a", None, "value for every column"),
        ("covered\n1,2\n", "a", None, "value for every column"),
        ("secret\nflu\n", "a", None, "one of"),
        ("covered\nflu\n", "a", None, "row 1: must have a number in 'covered'"),
        ("lower,upper,y\n0,1,nan\n", "a", None, "row 1: must have a number in 'y'"),
        (f'{{"covered": {10**400}}}', "a", None, "row 1: must have a number"),
        ("labels,label\nflu,1\n", "a", None, "row 1: must have a set"),
        ('{"labels": [[1]], "label": 1}', "a", None, "row 1: must have a set"),
        ('{"labels": [0], "label": 0}\n{"label": 1}', "a", None, "row 2: must have a set"),
        ('{"labels": 0, "label": 0}', "a", None, "row 1: must have a set"),
        ("id,label\nn7,flu\n", "a", "labels,flu,cold\nflu,1,0\n", "sets must have a column"),
        ("id,label\nNone,0\n", "a", '{"labels": [0]}', "sets must have a column"),
        ('{"id": "None", "label": 1}\n{"label": 1}', "a", "id,labels\nNone,1\n", "row 2: must"),
        (f'{{"labels": [{10**400}], "label": 1}}', "a", None, "row 1: must have a set"),
        ('{"covered": [1]}', "a", None, "number"),
        ('{"covered": 1}\nflu', "a", None, "JSON lines"),
        ('{"covered": 1}\n[1]', "a", None, "row 2"),
        ("id,label\nflu,1\n", "a", "id,labels\nn7,1\n", "row 1: must have an id"),
        ("flu_id,label\nn7,1\n", "a", "id,labels\nn7,1\n", "rows must have a column 'id'"),
        ("id,label\nn7,1\n", "a", "id,flu\nn7,1\n", "sets must be the table that `agent predict`"),
        ("id,label\nn7,1\nn7,1\n", "a", "id,labels\nn7,1\n", "some ids are repeated"),
        ("id,label\nn7,1\n", "a", "id,labels\nn7,1\nn7,2\n", "id of its own"),
        ('[{"covered": 1}, [0]]', "a", None, "row 2: must have a value"),
        ('[{"covered": 1}]\n[{"covered": 0}]', "a", None, "one JSON array"),
        ("flu\n", "a", None, "rows: the first line must name the columns, one of: n, covered"),
        ("flu,0\n", "a", "id,labels\nn7,1\n", "rows: the first line must name .*, one of: id"),
        ("id,label\nn7,1\n", "a", "flu,1\n", "sets: the first line must name the columns"),
        ("covered,covered\n0,1\n", "a", None, "rows: each column name may occur once"),
        ("id,label\nn7,1\n", "a", "id,labels,labels\nn7,1,2\n", "sets: each column name"),
        ('{"covered": 0, "covered": 1}', "a", None, "rows: each key may occur once"),
        ('[{"covered": 0, "covered": 1}]', "a", None, "rows: each key may occur once"),
        ("id,label,covered\nn7,0,1\n", "a", "id,labels\nn7,1\n", "have covered and labels"),
        ("id,label,n,hits\nn7,0,1,1\n", "a", "id,labels\nn7,1\n", "have n and labels"),
        (
            "id,label,labels\nn7,0,0\n",
            "a",
            "id,labels\nn7,1\n",
            "row 1: must say the same as its set",
        ),
        ("covered,labels,label\n1,0,2\n", "a", None, "have covered and labels"),
        ('{"covered": 1}\n{"covered": 1, "n": 3, "hits": 0}', "a", None, "have n and covered"),
    ],
)
def test_what_is_refused_tells_no_value(text, agent, sets, says):
    with pytest.raises(InputError, match=says) as caught:
        read_batches(text.encode(), agent, None if sets is None else sets.encode())
    assert "flu" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("agent,covered\na,1\na,1\nb,1\nb,x\n", "row 4: must have a number in 'covered'"),
        ("agent,covered\na,1\nb,1\na,1\nb,2\n", "row 4: covered must be from 0 to 1"),
        ("agent,labels,label\na,0,0\nb,0,0\nb,x,0\n", "row 3: must have a set of labels"),
        ("agent,n,hits\na,3,3\nb,3,2\nb,2,3\n", "row 3: hits must be at most n"),
    ],
)
def test_a_row_of_several_agents_is_named_by_its_place_in_the_file(text, says):
    with pytest.raises(InputError, match=says) as caught:
        read_batches(text.encode())
    assert f"row {caught.value.row + 1}: " in says


@given(st.binary(max_size=80))
def test_any_bytes_give_rows_or_an_input_error(data):
    try:
        found = read_batches(data, "a")
    except InputError:
        return
    assert set(found) <= {"a"}  # no row belongs to anyone else


def test_sets_whose_ids_and_classes_look_like_formulas_are_joined_as_they_were():
    classes, ids = ("=a", "-b"), ("@1", "-x", "'=y", "4")
    mask = np.array([[1, 0], [0, 1], [1, 1], [0, 0]], dtype=bool)
    sets = as_csv(LabelSets(mask, classes), np.array(ids))
    assert not {cell[:1] for cell in sets.replace("\n", ",").split(",")} & set("=@-")
    rows = zip(ids, ("=a", "=a", "-b", "-b"), strict=True)
    text = "id,label\n" + "".join(f"{name},{label}\n" for name, label in rows)
    assert read(text, sets=sets)[1] == [1, 0, 1, 0]
