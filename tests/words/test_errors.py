"""How errors word class, field, row, reason and cure."""

from __future__ import annotations

import pickle
from decimal import Decimal

import pytest

from fedwqcp import errors
from fedwqcp._validation import as_alpha

MESSAGES = (errors.MalformedMessageError, errors.WrongRoundError, errors.ImplausibleValueError)


@pytest.mark.parametrize("kind", MESSAGES)
def test_a_refused_message_names_agent_field_and_reason(kind: type[errors.MessageError]) -> None:
    error = kind("st-mary", "n", "must be an integer from 0 to 200000, got True")
    assert str(error) == "agent 'st-mary': n: must be an integer from 0 to 200000, got True"
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind
    assert (copy.agent, copy.field, copy.reason) == (error.agent, error.field, error.reason)


def test_a_missing_extra_says_what_to_install() -> None:
    error = errors.MissingExtraError("reading parquet", "parquet")
    assert error.extra == "parquet"
    assert "pip install 'fedwqcp[parquet]'" in str(error)


@pytest.mark.parametrize("alpha", ["0.1", Decimal("0.1"), None, 1.0])
def test_a_level_of_another_type_is_told_so(alpha: object) -> None:
    with pytest.raises(errors.InputError) as caught:
        as_alpha(alpha)
    assert ("must be a number" in str(caught.value)) == (type(alpha) is not float)


def test_an_input_error_carries_field_row_and_reason() -> None:
    error = errors.InputError("must be finite numbers", field="scores", row=2)
    assert str(error) == "scores: row 2: must be finite numbers"
    assert str(error.at_line(2)) == "scores: line 4: must be finite numbers"
    copy = pickle.loads(pickle.dumps(error.at_line(2)))
    assert (copy.field, copy.row, str(copy)) == ("scores", 2, str(error.at_line(2)))
    assert copy.reason == error.reason == "must be finite numbers"


def test_an_input_error_says_what_to_do_in_python_and_by_files() -> None:
    cure = ("pass labels - 1", "subtract 1 in the file")
    error = errors.InputError("must be smaller", "labels", 2, cure=cure)
    copy = pickle.loads(pickle.dumps(error.at_line(2)))
    for each in (error.at_line(2), copy):
        assert str(each) == "labels: line 4: must be smaller; pass labels - 1"
        assert each.by_files == "labels: line 4: must be smaller; subtract 1 in the file"
        assert each.reason == "must be smaller"
    assert errors.InputError("no").by_files == "no"


def test_an_input_error_of_a_part_of_the_data_keeps_what_it_carries() -> None:
    cure = ("pass labels - 1", "subtract 1 in the file")
    error = errors.ClassesError("must be smaller", "labels", 2, cure=cure)
    found = error.within("agent 'a'").shifted(4096)
    assert str(found) == "agent 'a': labels: row 4098: must be smaller; pass labels - 1"
    assert found.by_files == "agent 'a': labels: row 4098: must be smaller; subtract 1 in the file"
    assert (type(found), found.field, found.row) == (errors.ClassesError, "labels", 4098)
    assert (found.reason, found.where) == (error.reason, "agent 'a'")
    assert str(found.within("file")).startswith("file: agent 'a': labels: row 4098:")
    assert (error.row, error.where) == (2, "")  # the first one stays as it is
    assert errors.InputError("no").shifted(5).row is None
