"""Pages that the site makes of the package itself: docstrings, and the commands' ``--help``.

``python docs/generate.py`` writes a section for each method, and the table of promises and tests,
into the page on methods.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import typer

import fedwqcp
from fedwqcp import methods, scores
from fedwqcp.cli.main import app
from fedwqcp.wire.release import KINDS, STRENGTHS

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
}
"""Words that a search must find on their page first; `docs/conf.py` makes them index entries."""

ROOT = Path(__file__).resolve().parents[1]
METHODS_PAGE = ROOT / "docs" / "explanation" / "methods.md"
MADE = (
    (
        "<!-- methods, made by `python docs/generate.py` of their docstrings -->",
        "<!-- promises, made by `python docs/generate.py` -->",
    ),
    "<!-- end -->",
)
"""Between these lines of the page are the sections of methods, and the tables."""
HELD = """## Each promise and the test that holds it

Every sentence of a method's guarantee, and promises of other pages and docstrings, with the tests
that would fail if it were false. `python docs/generate.py` makes these tables from docstrings and
the tests' marks; a test fails where they are stale, or a sentence has no test. The tables of
`SECURITY.md` name their tests themselves.
"""

FIGURES = {"docs/beyond.md", "docs/performance.md", "docs/reproduction.md"}
"""Pages of measured figures, which promise nothing: each figure comes from a command."""

_LIMIT = re.compile(
    r"\b(guarantee[sd]?|promise[sd]?|proved|at least|at most|never|no more than|whatever)\b", re.I
)
_OF = re.compile(
    r"\b(cover(s|ed|age)?|thresholds?|loss(es)?|miss(es|ed)?|alarms?|epsilon|private|Byzantine|probability"
    r"|honest)\b", re.I,
)  # fmt: skip
_TEST = re.compile(r"`(?:[\w/.]+::)?(test_\w+)`")

NO_PROMISES = {
    "SECURITY.md": (
        "covers at least 0.90 at each hospital",  # measured: results/disclosure
        "the method's own guarantee, thresholds within",
    ),
    "docs/explanation/label-shift.md": (  # steps of proofs
        "Exchanging scores within a class does not change",
    ),
    "docs/explanation/methods.md": (
        "prediction set holds the labels (or values) whose score is at most",
    ),
    "docs/explanation/monitoring.md": (
        "Conformal prediction promises coverage for data like",
        "Each row is covered with probability at least",  # the hypothesis
        "promises nothing to a single agent",
        "Coverage of people whose labels never arrive",
    ),
    "docs/how-to/add-a-score.md": ("already tests the rest",),
    "docs/how-to/empty-sets.md": ("covers at least as often as the model is right",),
    "docs/how-to/flower.md": ("with a promised coverage",),
    "docs/how-to/monitor.md": ("says whether each agent still gets", "a hard class may lie below"),
    "docs/how-to/nvflare.md": ("with a promised coverage",),
    "docs/reference/api.md": ("| `fw.Release` |", "| `fw.Guarantee` |"),
    "docs/reference/glossary.md": (
        "Byzantine agent**:",
        "prediction set, interval**:",
        "release**:",
        "safe**:",
    ),
    "docs/reference/cli.md": ("| `server close` |", "demo` | `method`, `guarantee`"),
    "docs/reference/wire-format.md": ("A guarantee's `kind` is",),
    "docs/tutorial/first-hour.md": (
        "They want prediction sets that miss",
        "Next it says whether averaging is safe",
    ),
    "fedwqcp.Guarantee": ("What is proved of a released threshold",),  # from here on docstrings
    "fedwqcp.Release": ("What is proved of the thresholds",),
    "fedwqcp.calibrate": ("The thresholds, what is proved of them",),
    "fedwqcp.conformal_rank": ("no finite threshold carries the guarantee",),
    "fedwqcp.weighted_quantile": ("A cumulative weight that misses the level",),
    "fedwqcp.monitor.MonitorTerms": ("which only a calibration by label promises",),
    "fedwqcp.monitor.Standing": ("Least coverage that still keeps the promise",),
    "method new-agent-cp": ("so it is at most Q with probability",),  # a step of the proof
}
"""Words of sentences that sound like a promise of this software and are none: what users want,
definitions, hypotheses, figures, lists of names."""


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
        _section("Methods", [_path(methods.find(name)) for name in methods.available()]),
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
    """A test that says which words it holds: of a method's guarantee, or of a page."""

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


def promising(page: str) -> list[str]:
    """Return the sentences and table rows of a page that promise something."""
    text = re.sub(r"```.*?```", "", _own_text(page), flags=re.DOTALL)
    found = []
    for block in re.split(r"\n\s*\n|\n(?=\s*[-|#] ?|\s*\d\. )", re.sub("<!--.*?-->", "", text)):
        line = " ".join(block.split())
        parts = [line] if line[:1] == "|" else re.split(r"(?<=\.)(?:\*\*)? (?=[A-Z`*\[])", line)
        found += [s for s in parts if line[:1] != "#" and _LIMIT.search(s) and _OF.search(s)]
    return found


@cache
def documented() -> dict[str, str]:
    """Return the docstrings of all exported names, but for examples and methods' guarantees."""
    spaces = {"fedwqcp": fedwqcp} | {name: import_module(name) for name in MODULES}
    found = {
        f"{space}.{name}": getattr(module, name)
        for space, module in spaces.items()
        for name in module.__all__
    }
    found |= {f"method {name}": methods.find(name) for name in methods.available()}
    found |= {f"score {name}": type(scores.get(name)) for name in scores.available()}
    texts = {name: inspect.getdoc(each) or "" for name, each in found.items() if callable(each)}
    guarantee = re.compile(r"\*\*Guarantee\*\*: .*?(?:\n\n|$)", re.DOTALL)
    return {
        name: guarantee.sub("", text.partition("\nExamples\n---")[0])
        for name, text in texts.items()
    }


def promising_docstring(name: str) -> list[str]:
    """Return the sentences of a docstring that promise something."""
    found = []
    for block in re.split(r"\n\s*\n|\n-{3,}\n|\n(?=\S[^\n]* : )", documented()[name]):
        line = re.sub(r"^[\w, *]+ : [^\n]*\n", "", block)  # what a parameter is called
        parts = re.split(r"(?<=\.) (?=[A-Z`*])", " ".join(line.split()))
        found += [s for s in parts if _LIMIT.search(s) and _OF.search(s)]
    return found


def unheld_in_docstrings() -> list[tuple[str, str]]:
    """Return exported names and sentences of their docstrings which no test is marked to hold."""
    found = []
    for name in documented():
        words = [mark.words for mark in marks() if mark.source == name]
        words += NO_PROMISES.get(name, ())
        for sentence in promising_docstring(name):
            if not any(each in sentence for each in words):
                found.append((name, sentence))
    return found


def unheld() -> list[tuple[str, str]]:
    """Return pages and their sentences that promise something which no test is marked to hold."""
    tests = {node.name for _, node in _tests()}
    pages = [ROOT / "README.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").rglob("*.md"))]
    found = []
    for path in pages:
        page = path.relative_to(ROOT).as_posix()
        if page in FIGURES or not page.startswith(("README", "SECURITY", *_SECTIONS)):
            continue
        words = [mark.words for mark in marks() if mark.source == page]
        words += NO_PROMISES.get(page, ())
        for sentence in promising(page):
            named = set(_TEST.findall(sentence))
            if not (named and named <= tests) and not any(each in sentence for each in words):
                found.append((page, sentence))
    return found


_SECTIONS = tuple(
    f"docs/{name}" for name in ("explanation/", "how-to/", "reference/", "tutorial/", "index.md")
)


def _own_text(page: str) -> str:
    """Return a page without the tables that are made here."""
    made = re.compile("|".join(f"{begin}.*?{MADE[1]}" for begin in MADE[0]), re.DOTALL)
    return made.sub(" ", (ROOT / page).read_text())


def sentence_with(mark: Mark) -> str | None:
    """Return the sentence of a guarantee that a mark is about, or its words of a page."""
    if mark.source in methods.available():
        return next((each for each in guarantee_of(mark.source) if mark.words in each), None)
    docstring = documented().get(mark.source)
    text = _own_text(mark.source) if docstring is None else docstring
    return mark.words if mark.words in " ".join(text.split()) else None


def promises() -> str:
    """Return the table of every promise and the tests that hold it, as Markdown."""
    held: dict[tuple[str, str], list[str]] = {
        (name, each): [] for name in methods.available() for each in guarantee_of(name)
    }
    for mark in marks():
        sentence = sentence_with(mark)
        if sentence is None:
            raise SystemExit(f"{mark.test}: {mark.source} does not say {mark.words!r}")
        held.setdefault((mark.source, sentence), []).append(mark.test)
    rows = [HELD, "| of | promise | held by |", "|---|---|---|"]
    for (source, sentence), tests in held.items():
        of = Path(source).name if source.endswith(".md") else source
        names = ", ".join(f"`{test.partition('/')[2]}`" for test in tests) or "**no test**"
        rows.append(f"| {of} | {sentence.replace('|', '&#124;').replace('``', '`')} | {names} |")
    return "\n".join(rows)


def kinds() -> str:
    """Return what kinds and strengths of guarantees mean, as Markdown."""
    parts = []
    for title, meaning in (("kind", KINDS), ("strength", STRENGTHS)):
        rows = "\n".join(f"| `{name}` | {text} |" for name, text in meaning.items())
        parts.append(f"| {title} | |\n|---|---|\n{rows}")
    return "\n\n".join(parts)


def sections() -> str:
    """Return a section for every method, from its docstring: who gets a guarantee comes first."""
    order = [*KINDS][1:] + [*KINDS][:1]

    def place(name: str) -> tuple[int, bool, str]:
        method = methods.get(name)
        return order.index(method.guarantee.kind), bool(method.summaries), name

    return "\n\n".join(section(name) for name in sorted(methods.available(), key=place))


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


HOW_FIRM = {
    "finite-sample": "in finite samples",
    "asymptotic": "in large samples",
    "approximate": "approximately",
}


def _for_whom(method: Any) -> str:
    """Return a guarantee's kind and strength as a sentence, or what is said of none."""
    if not method.guarantee:
        return _capital(" ".join(guarantee_of(methods.name_of(method))))
    return _capital(f"{KINDS[method.guarantee.kind]}, {HOW_FIRM[method.guarantee.strength]}.")


def _capital(text: str) -> str:
    """Begin with a capital."""
    return text[:1].upper() + text[1:]


def with_promises(page: str) -> str:
    """Return the page on methods with its sections and tables as they are now."""
    for begin, made in zip(MADE[0], (sections(), f"{kinds()}\n\n{promises()}"), strict=True):
        start = page.index(begin)
        end = page.index(MADE[1], start)
        page = f"{page[:start]}{begin}\n\n{made}\n\n{page[end:]}"
    return page


if __name__ == "__main__":
    METHODS_PAGE.write_text(with_promises(METHODS_PAGE.read_text()))
