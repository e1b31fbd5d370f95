"""What a command says: words for people, or with ``--json`` one object for scripts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, is_dataclass
from enum import Enum
from math import isinf, isnan
from typing import Annotated, Any

import msgspec
import numpy as np
import typer
from rich.console import Console, RenderableType

VERSION = 1
"""Version of the objects; a field may be added to one without a new version."""

WIDTH = 120
"""Columns of a table where the output is no terminal."""

AsJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON object and no words, for scripts.")
]


class Output:
    """Where one call of a command prints to.

    Parameters
    ----------
    as_json : bool
        Whether `done` prints the facts, and nothing else is printed.
    width : int, optional
        Columns where the output is no terminal.
    """

    def __init__(self, as_json: bool, width: int = WIDTH) -> None:
        self.as_json = as_json
        self.console = Console(quiet=as_json, highlight=False)
        if not self.console.is_terminal:
            self.console.width = width

    def say(self, text: object, style: str | None = None) -> None:
        """Print a line of text as it is.

        Parameters
        ----------
        text : object
            What to print.
        style : str, optional
            How it looks, in rich's words.
        """
        self.console.print(str(text), style=style, markup=False, soft_wrap=True)

    def show(self, thing: RenderableType) -> None:
        """Print a table or a plot.

        Parameters
        ----------
        thing : rich renderable
            What to print.
        """
        self.console.print(thing)

    def done(self, **facts: object) -> None:
        """End with what scripts are told.

        Parameters
        ----------
        **facts : object
            By name: numbers, text, paths, dataclasses, and collections of these.
        """
        if self.as_json:
            typer.echo(json.dumps({"version": VERSION, **_plain(facts)}, allow_nan=False))

    def done_each(self, every: Sequence[Mapping[str, object]]) -> None:
        """End with what scripts are told of several things of a kind.

        Parameters
        ----------
        every : sequence of mapping
            The facts of each, as of `done`.
        """
        if self.as_json:
            told = [{"version": VERSION, **_plain(facts)} for facts in every]
            typer.echo(json.dumps(told, allow_nan=False))


def _plain(value: Any) -> Any:
    """Return a value as JSON knows it; what is infinite or not a number becomes text."""
    if is_dataclass(value) and not isinstance(value, type):
        return _plain(asdict(value))
    if isinstance(value, msgspec.Struct):
        return _plain(msgspec.structs.asdict(value))
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, np.generic | np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(each) for each in value]
    if isinstance(value, Enum):
        return value.value
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return str(value) if isinf(value) or isnan(value) else float(value)
    return str(value)
