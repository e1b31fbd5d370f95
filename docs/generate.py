"""Pages that the site makes of the package itself: docstrings, and the program's ``--help``."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import typer

import fedwqcp
from fedwqcp import methods, scores
from fedwqcp.cli.main import app

MODULES = ("fedwqcp.metrics", "fedwqcp.theory", "fedwqcp.monitor", "fedwqcp.sklearn")
"""Modules beside the package itself whose public names are documented."""


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
        "Every public name in full, from its docstring. The page *Public names* is the overview.",
        _section("fedwqcp", [f"fedwqcp.{name}" for name in public]),
        _section("Methods", [_path(methods.find(name)) for name in methods.available()]),
        _section("Scores", [_path(type(scores.get(name))) for name in scores.available()]),
    ]
    for name in MODULES:
        public = import_module(name).__all__
        parts.append(_section(name, [f"{name}.{each}" for each in public]))
    return "\n\n".join(parts) + "\n"


def commands() -> str:
    """Return every command with its arguments and options, as ``--help`` tells them.

    Returns
    -------
    str
        Markdown.
    """
    parts = [
        "# Every command and option",
        "What `--help` tells. [The program](../cli.md) is the overview.",
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
        told = parameter.get_help_record(context)
        if told is not None:
            name, text = (part.replace("|", "\\|").replace("\n", " ") for part in told)
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
