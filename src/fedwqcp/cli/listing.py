"""``fedwqcp methods`` and ``fedwqcp scores``: what is there."""

from __future__ import annotations

import dataclasses
from typing import Any

from rich.console import Console
from rich.table import Table

from fedwqcp import methods as all_methods
from fedwqcp import scores as all_scores

console = Console(soft_wrap=True)


def methods() -> None:
    """List every method with its guarantee and settings."""
    table = Table("method", "guarantee", "settings", "what it does")
    for name in all_methods.available():
        method = all_methods.get(name)
        table.add_row(name, method.guarantee.value, _settings(method), _first_line(method))
    console.print(table)


def scores() -> None:
    """List every score with its settings."""
    table = Table("score", "settings", "what it is")
    for name in all_scores.available():
        score = all_scores.get(name)
        table.add_row(name, _settings(score), _first_line(score))
    console.print(table)


def _settings(thing: Any) -> str:
    """Write settings and defaults as they are typed."""
    return ", ".join(f"{f.name}={getattr(thing, f.name)}" for f in dataclasses.fields(thing))


def _first_line(thing: object) -> str:
    """Return the first line of a docstring."""
    return (type(thing).__doc__ or "").partition("\n")[0]
