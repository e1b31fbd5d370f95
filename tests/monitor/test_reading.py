"""Rows from files: every kind, joined with sets, and what is refused without telling values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedwqcp.errors import InputError
from fedwqcp.monitor import read_batches
from fedwqcp.sets import LabelSets, as_csv
from refusals import raises


def read(text, agent="a", sets=None):
    """Return sizes, hits and classes of one agent."""
    found = read_batches(text.encode(), agent, None if sets is None else sets.encode())
    batch = found[agent]
    classes = [] if batch.classes is None else batch.classes.tolist()
    return *(part.tolist() for part in batch.steps), classes


@pytest.mark.parametrize(
    "text",
    [
        "covered,label\n1,0\n0,2\n",
        "id,size,labels,label\nx,2,0 1,0\ny,1,1,2\n",
        "\ufefflabels,label\n0,0\n,2\n",
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
    ("labels", "row"),
    [
        ("n1,1\nn2,2\n", None),
        ("n1,0\nn2,7\n", 1),
        ("n1,-1\nn2,0\n", 0),
        ("n1,0.5\nn2,0\n", 0),
        ("n1,Flu\nn2,cold\n", 0),
        ("n1,flu\nn2,\n", 1),
        ("n1,flu\nn2,asthma\n", 1),
    ],
)
def test_labels_of_named_sets_must_be_classes_as_everywhere(labels, row):
    with pytest.raises(InputError) as caught:
        read("id,label\n" + labels, sets=NAMED)
    assert caught.value.row == row
    assert row is None or f"line {row + 2}: " in str(caught.value)
    assert "Flu" not in str(caught.value)
    assert "asthma" not in str(caught.value)


def test_a_column_tells_the_agents_apart_in_order():
    found = read_batches(b"agent,covered\nb,1\na,0\nb,0\n")
    assert list(found) == ["b", "a"]
    assert found["b"].hits.tolist() == [1, 0]


@pytest.mark.parametrize("text", [b"covered\n", b"n,hits\n", b"n,hits\n0,0\n", b"", b"\n"])
def test_no_rows_are_no_batches(text):
    assert read_batches(text, "a") == {}


def test_what_rows_and_sets_both_say_must_be_the_same():
    sets = "id,size,labels\nn7,1,0\nn8,2,0 1\n"
    assert read("id,size,label\nn8,2,1\n", sets=sets) == ([1], [1], [1])


SETS = "id,labels\nn7,1\n"


@pytest.mark.parametrize(
    ("text", "sets"),
    [
        ("covered,label\n1\n", None),
        ("covered\n1,2\n", None),
        ("secret\nflu\n", None),
        ("covered\nflu\n", None),
        ("lower,upper,y\n0,1,nan\n", None),
        (f"covered\n{10**400}\n", None),
        ("labels,label\nflu,1\n", None),
        ('{"covered": 1, "label": "flu"}\n', None),
        ("labels\n0\n", None),
        ("covered\n1\n\n", None),
        ("covered;label\n1;0\n", None),
        ("id,label\nn7,flu\n", "labels,flu,cold\nflu,1,0\n"),
        ("id,label\nflu,1\n", SETS),
        ("flu_id,label\nn7,1\n", SETS),
        ("id,label\nn7,1\n", "id,flu\nn7,1\n"),
        ("id,label\nn7,1\nn7,1\n", SETS),
        ("id,label\nn7,1\n", "id,labels\nn7,1\nn7,2\n"),
        ("flu\n", None),
        ("flu,0\n", SETS),
        ("id,label\nn7,1\n", "flu,1\n"),
        ("covered,covered\n0,1\n", None),
        ("id,label\nn7,1\n", "id,labels,labels\nn7,1,2\n"),
        ("id,label,covered\nn7,0,1\n", SETS),
        ("id,label,n,hits\nn7,0,1,1\n", SETS),
        ("id,label,labels\nn7,0,0\n", SETS),
        ("covered,labels,label\n1,0,2\n", None),
        ("covered,n,hits\n1,3,0\n", None),
    ],
)
def test_what_is_refused_tells_no_value(text, sets):
    with pytest.raises(InputError) as caught:
        read_batches(text.encode(), "a", None if sets is None else sets.encode())
    assert "flu" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "row"),
    [
        ("covered\n1\n", 0),  # of no agent
        ("agent,covered\na,1\na,1\nb,1\nb,x\n", 3),
        ("agent,covered\na,1\nb,1\na,1\nb,2\n", 3),
        ("agent,labels,label\na,0,0\nb,0,0\nb,x,0\n", 2),
        ("agent,n,hits\na,3,3\nb,3,2\nb,2,3\n", 2),
    ],
)
def test_a_row_of_several_agents_is_named_by_its_place_in_the_file(text, row):
    with raises(InputError, row=row):
        read_batches(text.encode())


@pytest.mark.parametrize(
    ("text", "sets", "where"),
    [
        (b"\xff", None, "labels.csv"),
        (b"covered\n7\n", None, "labels.csv"),
        (b"id,label\nn8,1\n", SETS.encode(), "labels.csv"),
        (b"id,label\nn7,1\n", b"\xff", "sets.csv"),
    ],
)
def test_errors_name_the_file(text, sets, where):
    with pytest.raises(InputError) as caught:
        read_batches(text, "a", sets, ("labels.csv", "sets.csv"))
    assert caught.value.where == where


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
