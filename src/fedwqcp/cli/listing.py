"""``fedwqcp methods`` and ``fedwqcp scores``: what is there."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from fedwqcp import methods as all_methods
from fedwqcp import scores as all_scores

console = Console(soft_wrap=True)


Which = Annotated[str | None, typer.Argument(help="Show one of them in full.")]


def methods(name: Which = None) -> None:
    """List every method with its guarantee and settings; or show one in full."""
    if name is not None:
        console.print(inspect.getdoc(all_methods.find(name)), markup=False, highlight=False)
        return
    table = Table("method", "guarantee", "settings", "what it does")
    for each in all_methods.available():
        method = all_methods.get(each)
        table.add_row(each, method.guarantee.value, _settings(method), _first_line(method))
    console.print(table)


def scores(name: Which = None) -> None:
    """List every score with its settings; or show one in full."""
    if name is not None:
        console.print(inspect.getdoc(type(all_scores.get(name))), markup=False, highlight=False)
        return
    table = Table("score", "settings", "what it is")
    for each in all_scores.available():
        score = all_scores.get(each)
        table.add_row(each, _settings(score), _first_line(score))
    console.print(table)


def _settings(thing: Any) -> str:
    """Write settings and defaults as they are typed."""
    return ", ".join(f"{f.name}={getattr(thing, f.name)}" for f in dataclasses.fields(thing))


def _first_line(thing: object) -> str:
    """Return the first line of a docstring."""
    return escape((type(thing).__doc__ or "").partition("\n")[0])
