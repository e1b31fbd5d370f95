import ast
import inspect
import pickle
import re
from pathlib import Path

import pytest

from fedwqcp import errors

SOURCE = Path(errors.__file__).parent

MESSAGES = (errors.MalformedMessageError, errors.WrongRoundError, errors.ImplausibleValueError)


def exceptions_of(path: Path) -> list[str]:
    """The exceptions and warnings that a file defines."""
    classes = (node for node in ast.walk(ast.parse(path.read_text())) if type(node) is ast.ClassDef)
    return [each.name for each in classes if re.search("(Error|Warning)$", each.name)]


EVERY = [(name, path) for path in sorted(SOURCE.rglob("*.py")) for name in exceptions_of(path)]


WITHIN_A_TRANSPORT = {"RefusedError", "LostSitesError"}


def load(name: str, path: Path) -> type[Exception]:
    """Import an exception, or skip where an extra is missing."""
    module = ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts)
    kind: type[Exception] = getattr(pytest.importorskip(module, exc_type=ImportError), name)
    return kind


def test_every_exception_of_the_package_is_drawn() -> None:
    text = errors.__doc__ or ""
    drawn = re.findall(r"^[ │├└─]+(\w+Error)\b", text, flags=re.MULTILINE)
    named = re.findall(r"`(\w+(?:Error|Warning))`", text)
    public = [name for name, _ in EVERY if not name.startswith("_")]
    assert sorted(drawn + named) == sorted(public)
    assert len(drawn) > 10
    assert all(issubclass(e, errors.MessageError) for e in MESSAGES)
    assert {name for name in named if name.endswith("Error")} == WITHIN_A_TRANSPORT


@pytest.mark.parametrize(("name", "path"), EVERY, ids=[name for name, _ in EVERY])
def test_what_leaves_the_package_is_of_one_tree(name: str, path: Path) -> None:
    ours = issubclass(load(name, path), errors.FedwqcpError | UserWarning)
    assert ours is (name not in WITHIN_A_TRANSPORT)


@pytest.mark.parametrize(("name", "path"), EVERY, ids=[name for name, _ in EVERY])
def test_every_exception_can_be_sent_to_another_process(name: str, path: Path) -> None:
    kind = load(name, path)
    takes = inspect.signature(kind.__init__).parameters.values()
    needed = [p for p in takes if p.default is p.empty and p.annotation is not p.empty]
    error = kind(*(3 if p.annotation == "int" else p.name for p in needed) if needed else ("text",))
    for each in (error, error.at_line(2).within("x")) if hasattr(error, "at_line") else (error,):
        copy = pickle.loads(pickle.dumps(each))
        assert (type(copy), str(copy), copy.args) == (kind, str(each), error.args)
        assert vars(copy) == vars(each)
        assert getattr(copy, "msg", None) == getattr(error, "msg", None)  # an ImportError's


def test_common_handlers_catch_ours() -> None:
    assert issubclass(errors.InputError, ValueError)
    assert issubclass(errors.MissingExtraError, ImportError)


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


def test_an_input_error_carries_field_row_and_reason() -> None:
    error = errors.InputError("must be finite numbers, {row} is not", field="scores", row=2)
    assert str(error) == "scores: must be finite numbers, row 2 is not"
    assert str(error.at_line(2)) == "scores: must be finite numbers, line 4 is not"
    copy = pickle.loads(pickle.dumps(error.at_line(2)))
    assert (copy.field, copy.row, copy.first_line) == ("scores", 2, 2)
    assert copy.reason == error.reason


def test_braces_in_the_callers_own_words_stay_as_they_are() -> None:
    assert str(errors.InputError("unknown score '{cure}' {row}")) == "unknown score '{cure}' {row}"
    named = "['{row}', '{cure}']"
    error = errors.InputError(f"{named}: {{row}} is none: {{cure}}", row=2, cure=("add", "write"))
    for each in (error, pickle.loads(pickle.dumps(error))):
        assert str(each) == "['{row}', '{cure}']: row 2 is none: add"
        assert each.by_files == "['{row}', '{cure}']: row 2 is none: write"
    assert str(error.at_line(2)) == "['{row}', '{cure}']: line 4 is none: add"
    assert str(error.from_row_one()) == "['{row}', '{cure}']: row 3 is none: add"
    assert str(error.within("agent '{row}'")).startswith("agent '{row}': ['{row}', '{cure}']: row")


def test_an_input_error_says_what_to_do_in_python_and_by_files() -> None:
    cure = ("pass labels - 1", "subtract 1 in the file")
    error = errors.InputError("{row} is too large: {cure}", "labels", 2, cure=cure)
    copy = pickle.loads(pickle.dumps(error.at_line(2)))
    for each in (error.at_line(2), copy):
        assert str(each) == "labels: line 4 is too large: pass labels - 1"
        assert each.by_files == "labels: line 4 is too large: subtract 1 in the file"
        assert each.reason == "{row} is too large: pass labels - 1"
    assert errors.InputError("no").by_files == "no"


def test_an_input_error_of_a_part_of_the_data_keeps_what_it_carries() -> None:
    cure = ("pass labels - 1", "subtract 1 in the file")
    error = errors.ClassesError("{row} is too large: {cure}", "labels", 2, cure=cure)
    found = error.within("agent 'a'").shifted(4096)
    assert str(found) == "agent 'a': labels: row 4098 is too large: pass labels - 1"
    assert found.by_files == "agent 'a': labels: row 4098 is too large: subtract 1 in the file"
    assert (type(found), found.field, found.row) == (errors.ClassesError, "labels", 4098)
    assert (found.reason, found.where) == (error.reason, "agent 'a'")
    assert str(found.from_row_one().within("file")).startswith("file: agent 'a': labels: row 4099 ")
    assert found.from_row_one().row == 4098
    assert (error.row, error.where) == (2, "")  # the first one stays as it is
    assert errors.InputError("no").shifted(5).row is None


@pytest.mark.parametrize(
    ("source", "begins"),
    [(name, f"agent {name!r}: ") for name in ("st-mary", "st.json", "a/b")]
    + [(Path(name), f"{name}: ") for name in ("round.json", "rounds/ask", "ask")]
    + [("server", "the server's message: ")],
)
def test_a_refused_message_names_a_file_as_a_file_and_the_server_as_the_server(
    source: str | Path, begins: str
) -> None:
    error = errors.WrongRoundError(source, "round", "is another")
    assert str(error) == f"{begins}round: is another"
