"""What the site makes of the package itself: docstrings, messages, and the commands' ``--help``."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, get_args

import typer

import fedwqcp
from fedwqcp import methods, scores
from fedwqcp.cli.main import app
from fedwqcp.wire import limits
from fedwqcp.wire.messages import Answer, Ask, Round
from fedwqcp.wire.release import GuaranteeKind
from fedwqcp.words.rounds import guarantee

MODULES = (
    "fedwqcp.metrics",
    "fedwqcp.theory",
    "fedwqcp.monitor",
    "fedwqcp.plot",
    "fedwqcp.sklearn",
)
"""Modules beside the package itself whose public names are documented."""

SEARCHED = {
    "Byzantine": "docs/explanation/byzantine",
    "secure aggregation": "docs/how-to/secure-aggregation",
    "label shift": "docs/explanation/label-shift",
    "new site": "docs/how-to/new-site",
    "empty set": "docs/how-to/empty-sets",
    "small site": "docs/how-to/small-agents",
    "which method": "docs/explanation/which-method",
    "governance": "docs/how-to/governance",
}
"""Words that a search must find on their page first; `docs/conf.py` makes them index entries."""

KINDS = get_args(GuaranteeKind)
ROOT = Path(__file__).resolve().parents[1]
METHODS_PAGE = ROOT / "docs" / "explanation" / "methods.md"


def write(folder: Path) -> None:
    """Write both pages; a page that is there with the same text is left alone.

    Parameters
    ----------
    folder : Path
        Where to; it is made where it is missing.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (("python.rst", python()), ("commands.md", commands())):
        page = folder / name
        if not page.exists() or page.read_text() != text:
            page.write_text(text)


def python() -> str:
    """Return the reference of public names, which autosummary fills from their docstrings.

    Returns
    -------
    str
        reStructuredText.
    """
    public = [name for name in fedwqcp.__all__ if not inspect.ismodule(getattr(fedwqcp, name))]
    parts = [
        _title("Python reference", "="),
        "Every public name in full, from its docstring. The page *API reference* is the overview.",
        _section("fedwqcp", [f"fedwqcp.{name}" for name in public]),
        _section("Methods", [_path(methods.find(name)) for name in methods.built_in()]),
        _section("Scores", [_path(type(scores.get(name))) for name in scores.available()]),
    ]
    for name in MODULES:
        public = import_module(name).__all__
        parts.append(_section(name, [f"{name}.{each}" for each in public]))
    return "\n\n".join(parts) + "\n"


def commands() -> str:
    """Return every command with its arguments and options, as ``--help`` prints them.

    Returns
    -------
    str
        Markdown.
    """
    parts = [
        "# Every command and option",
        "The text of `--help`. [Command line](../cli.md) is the overview.",
    ]
    for words, command in walk(typer.main.get_command(app)):
        context = command.make_context(" ".join(words), [], resilient_parsing=True)
        usage = command.get_usage(context).removeprefix("Usage: ")
        parts += [f"## {' '.join(words[1:])}", command.help or "", f"```text\n{usage}\n```"]
        parts.append(_parameters(command, context))
    return "\n\n".join(part for part in parts if part) + "\n"


def walk(
    command: Any, words: tuple[str, ...] = ("fedwqcp",)
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Go through all commands.

    Parameters
    ----------
    command : command of typer
        Where to begin.
    words : tuple of str, optional
        How it is called.

    Yields
    ------
    tuple of words and command
        One for each command that does something.
    """
    inner = getattr(command, "commands", None)  # typer brings its own click, or uses the other
    if inner is None:
        yield words, command
        return
    for name, each in inner.items():
        yield from walk(each, (*words, name))


def _parameters(command: Any, context: Any) -> str:
    """Return a table of arguments and options."""
    rows = []
    for parameter in command.params:
        record = parameter.get_help_record(context)
        if record is not None:
            name, text = (part.replace("|", "\\|").replace("\n", " ") for part in record)
            rows.append(f"| `{name}` | {text} |")
    return "\n".join(["| parameter | meaning |", "|---|---|", *rows]) if rows else ""


def _section(title: str, names: list[str]) -> str:
    """Return a heading and the names below it."""
    own = "\n".join(f"   {name}" for name in dict.fromkeys(names))
    return f"{_title(title, '-')}\n\n.. autosummary::\n   :toctree: api\n\n{own}"


def _title(text: str, line: str) -> str:
    """Underline a title."""
    return f"{text}\n{line * len(text)}"


def _path(kind: type) -> str:
    """Return where a class is imported from."""
    return f"{kind.__module__}.{kind.__qualname__}"


class Mark(NamedTuple):
    """A test that says which words it holds: of a method's guarantee, or of SECURITY.md."""

    source: str
    words: str
    test: str


@cache
def marks() -> list[Mark]:
    """Return every ``@pytest.mark.guarantee(source, words)`` of the tests."""
    found = []
    for path, node in _tests():
        for mark in node.decorator_list:
            if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.guarantee":
                source, words = (ast.literal_eval(each) for each in mark.args)
                found.append(Mark(source, words, f"{path.relative_to(ROOT)}::{node.name}"))
    return found


@cache
def _tests() -> list[tuple[Path, ast.FunctionDef]]:
    """Return every function of the tests, with its file."""
    return [
        (path, node)
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef)
    ]


def guarantee_of(method: str) -> list[str]:
    """Return the sentences of a method's paragraph **Guarantee**."""
    doc = inspect.getdoc(methods.find(method)) or ""
    paragraph = doc.partition("**Guarantee**: ")[2].partition("\n\n")[0]
    return re.split(r"(?<=\.) (?=[A-Z`])", " ".join(paragraph.split()))


def kinds() -> str:
    """Return what kinds of guarantees mean, as Markdown."""
    rows = [f"| `{kind}` | {guarantee(kind, 'finite-sample')} |" for kind in KINDS]
    return "\n".join(["| kind | |", "|---|---|", *rows])


def sentence_with(mark: Mark) -> str | None:
    """Return the sentence that a mark is about, or None where it is gone."""
    if mark.source == "SECURITY.md":
        text = " ".join((ROOT / mark.source).read_text().split())
        return mark.words if mark.words in text else None
    return next((each for each in guarantee_of(mark.source) if mark.words in each), None)


def sections() -> str:
    """Return a section for every method, from its docstring: who gets a guarantee comes first."""
    order = [*KINDS[1:], KINDS[0]]

    def place(name: str) -> tuple[int, bool, str]:
        method = methods.get(name)
        return order.index(method.guarantee.kind), bool(method.summaries), name

    return "\n\n".join(section(name) for name in sorted(methods.built_in(), key=place))


def section(name: str) -> str:
    """Return the section of a method: idea, picture, formula, guarantee, cost, when it fails."""
    method = methods.get(name)
    doc = inspect.getdoc(type(method)) or ""
    summary = " ".join(doc.partition("\n\n")[0].split())
    formula = re.search(r"\.\. math::\n\n((?: +.*\n)+)", doc)
    picture = METHODS_PAGE.parent / "pictures" / f"{name}.svg"
    parts = [f"## {name}", summary]
    if picture.exists():
        says = re.search(rf">({name}: [^<]*)<", picture.read_text())
        parts.append(f"![{says[1] if says else name}](pictures/{name}.svg)")
    said = {
        title: " ".join(doc.partition(f"**{title}**: ")[2].partition("\n\n")[0].split())
        for title in ("Idea", "Guarantee", "Cost", "Fails")
    }
    parts.append(f"**Idea.** {_capital(said['Idea'])}")
    if formula:
        parts.append(f"$$\n{inspect.cleandoc(formula[1])}\n$$")
    parts.append(f"**Guarantee.** {_for_whom(method)}")
    if method.guarantee:
        parts.append(_capital(said["Guarantee"]))
    parts += [f"**Cost.** {_capital(said['Cost'])}", f"**Fails** {said['Fails']}"]
    return "\n\n".join(map(_symbols, parts))


def _symbols(text: str) -> str:
    """Write symbols of a docstring's prose as symbols, outside code and formulas."""
    if text.startswith(("$$", "#", "!")):
        return text
    prose = re.split(r"(`[^`]*`)", text.replace("``", "`"))
    for place in range(0, len(prose), 2):
        part = re.sub(r"\b([A-Za-z])_([a-zA-Z])\b", r"$\1_\2$", prose[place])
        part = part.replace("<=", "≤").replace(">=", "≥")
        prose[place] = re.sub(
            r"\balpha\b",
            "\N{GREEK SMALL LETTER ALPHA}",
            re.sub(r"\bepsilon\b", "\N{GREEK SMALL LETTER EPSILON}", part),
        )
    return "".join(prose)


def _for_whom(method: Any) -> str:
    """Return a guarantee's kind and strength as a sentence, or what is said of none."""
    if not method.guarantee:
        return _capital(" ".join(guarantee_of(methods.name_of(method))))
    return _capital(f"{method.guarantee.in_words}.")


def _capital(text: str) -> str:
    """Begin with a capital."""
    return text[:1].upper() + text[1:]


def fields(kind: type) -> str:
    """Return the fields of a message as a Markdown table, from its docstring."""
    part = (inspect.getdoc(kind) or "").partition("Parameters\n----------\n")[2]
    rows = ["| field | type | meaning |", "|---|---|---|"]
    found = re.findall(r"^(\S[^\n]*) : ([^\n]*)\n((?:    [^\n]*\n?)+)", part, re.MULTILINE)
    for names, types, meaning in found:
        each = ", ".join(f"`{name}`" for name in names.split(", "))
        rows.append(f"| {each} | {types} | {' '.join(meaning.replace('``', '`').split())} |")
    return "\n".join(rows)


def limit_table() -> str:
    """Return the table of limits as Markdown."""

    def text(value: float) -> str:
        return f"{value:,}" if isinstance(value, int) else f"{value:g}"

    rows = [f"| {x.name} | {text(x.least)} | {text(x.most)} | {x.holds} |" for x in limits.ALL]
    return "\n".join(["| limit | from | to | holds for |", "|---|---|---|---|", *rows])


MADE = {
    "methods": sections,
    "kinds of guarantees": kinds,
    "Round": lambda: fields(Round),
    "Answer": lambda: fields(Answer),
    "Ask": lambda: fields(Ask),
    "Release": lambda: fields(fedwqcp.Release),
    "limits": limit_table,
}
"""What the site puts where a page has ``<!-- made: NAME -->``."""
