"""``fedwqcp methods``, ``scores`` and ``warm-up``: what is there, and what is compiled."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from types import ModuleType
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from fedwqcp import methods as all_methods
from fedwqcp import scores as all_scores
from fedwqcp.cli.output import AsJson, Output
from fedwqcp.errors import MissingExtraError
from fedwqcp.kernels import compilation, dispatch
from fedwqcp.methods import Method
from fedwqcp.registry import settings_of, typed

Which = Annotated[str | None, typer.Argument(help="Show one of them in full.")]


def methods(name: Which = None, as_json: AsJson = False) -> None:
    """List every method with its guarantee and settings; or show one in full."""
    _list(all_methods, name, Output(as_json), "method", "what it does")


def scores(name: Which = None, as_json: AsJson = False) -> None:
    """List every score with its settings; or show one in full."""
    _list(all_scores, name, Output(as_json), "score", "what it is")


def _list(known: ModuleType, name: str | None, output: Output, kind: str, about: str) -> None:
    """List what is known by name, methods with their guarantees; or show one in full."""
    if name is not None:
        _show(name, type(known.get(name)), output)
        return
    found = {each: known.get(each) for each in known.available()}
    proved = {n: thing.guarantee for n, thing in found.items() if isinstance(thing, Method)}
    table = Table(kind, *(("guarantee",) if proved else ()), "settings", about)
    listed = []
    for each, thing in found.items():
        own = [proved[each].in_words] if proved else []
        table.add_row(each, *own, _settings(thing), _first_line(thing))
        settings = {name: getattr(thing, name) for name in settings_of(thing)}
        facts = {"name": each, "settings": settings, "summary": str(_first_line(thing))}
        listed.append(facts | ({"guarantee": proved[each]} if proved else {}))
    output.show(table)
    output.done(**{f"{kind}s": listed})


def _show(name: str, kind: type, output: Output) -> None:
    """Show one method or score in full."""
    formula = re.compile(r"\n\.\. math::\n(\n| .*\n)*")  # LaTeX is for the site
    text = _with_imports(kind, formula.sub("\n", inspect.getdoc(kind) or ""))
    output.say(text)
    output.done(name=name, text=text)


def _with_imports(kind: type, text: str) -> str:
    """Put the imports before a docstring's example that its file makes for it, so that it runs."""
    import doctest

    code = "".join(example.source for example in doctest.DocTestParser().get_examples(text))
    used = {node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)}
    known = vars(sys.modules[kind.__module__])
    lines = [">>> import numpy as np\n"] if "np" in used else []
    for name in sorted(used & known.keys() - {"np"}):
        lines.append(f">>> from {known[name].__module__} import {name}\n")
    head, line, example = text.partition("Examples\n--------\n")
    return f"{head}{line}{''.join(lines)}{example}"


def warm_up(
    classes: Annotated[
        list[int], typer.Option(min=2, help="Number of classes of a model; may be repeated.")
    ] = [2, 10, 100],  # noqa: B006  # never changed
    as_json: AsJson = False,
) -> None:
    """Compile the fast loops now, so that no later call has to; needs numba (extra fast)."""
    output = Output(as_json)
    if not compilation.installed():
        raise MissingExtraError("warm-up", "fast")
    seconds = dispatch.warm_up(classes)
    for kind, took in seconds.items():
        output.say(f"{took:6.1f} s  {kind}")
    output.say(f"{len(seconds)} loops ready, kept for later processes")
    output.done(seconds=seconds)


def _settings(thing: Any) -> str:
    """Write settings and defaults as they are typed."""
    return ", ".join(f"{name}={typed(getattr(thing, name))}" for name in settings_of(thing))


def _first_line(thing: object) -> Text:
    """Return the first line of a docstring."""
    return Text((type(thing).__doc__ or "").partition("\n")[0])
