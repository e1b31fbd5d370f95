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
    error = errors.InputError("must be finite numbers", field="scores", row=2)
    assert str(error) == "scores: row 2: must be finite numbers"
    assert str(error.at_line(2)) == "scores: line 4: must be finite numbers"
    assert str(error.from_row_one()) == "scores: row 3: must be finite numbers"
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
    assert str(found.from_row_one().within("file")).startswith("file: agent 'a': labels: row 4099:")
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
