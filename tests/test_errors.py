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
