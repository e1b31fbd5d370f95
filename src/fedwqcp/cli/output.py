"""How commands run, print and parse: errors and exit codes, ``--json``, help, settings."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from enum import Enum
from inspect import unwrap
from itertools import pairwise
from math import isfinite
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import msgspec
import numpy as np
import typer
from rich.console import Console, RenderableType
from typer.core import TyperCommand, TyperGroup

from fedwqcp.errors import FedwqcpError, InputError, MessageError, MissingExtraError, RoundError
from fedwqcp.findings import Finding
from fedwqcp.registry import Setting, parse_setting
from fedwqcp.words.findings import lines

VERSION = 1
"""Version of the objects; a field may be added to one without a new version."""

WIDTH = 120
"""Columns of a table where the output is no terminal."""

AsJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON object instead of text, for scripts.")
]
AllowEmpty = Annotated[
    bool,
    typer.Option(help="Whether sets may be empty; if not, each holds the most probable label."),
]
LabelsFile = Annotated[
    Path | None, typer.Option(help="Labels in an .npy file, where the outputs carry none.")
]


class Output:
    """What a command prints: text, or with ``as_json`` only the object of `done`."""

    def __init__(self, as_json: bool, width: int = WIDTH) -> None:
        self.as_json = as_json
        self.console = Console(quiet=as_json, highlight=False)
        if not self.console.is_terminal and "COLUMNS" not in os.environ:
            self.console.width = width

    def say(self, text: object, style: str | None = None) -> None:
        """Print a line of text as it is."""
        self.console.print(str(text), style=style, markup=False, soft_wrap=True)

    def tell(self, findings: Iterable[Finding]) -> None:
        """Print findings as notes."""
        for line in lines(findings):
            self.say(f"note: {line}", style="yellow")

    def show(self, thing: RenderableType) -> None:
        """Print a table or a plot."""
        self.console.print(thing)

    def done(self, **facts: object) -> None:
        """End with the facts for scripts: numbers, text, paths, records, collections of these."""
        if self.as_json:
            typer.echo(json.dumps({"version": VERSION, **_plain(facts)}, allow_nan=False))

    def done_each(self, every: Sequence[Mapping[str, object]]) -> None:
        """End with the facts of several things of a kind, for scripts."""
        if self.as_json:
            listed = [{"version": VERSION, **_plain(facts)} for facts in every]
            typer.echo(json.dumps(listed, allow_nan=False))


def _plain(value: Any) -> Any:
    """Return a value that JSON can hold; infinities and NaN become text."""
    if isinstance(value, Finding):
        return _plain(value.plain)
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
        return value if isfinite(value) else str(value)
    return str(value)


def run(app: typer.Typer) -> None:
    """Run the commands of an app; an expected error prints its message and sets the exit code.

    Parameters
    ----------
    app : typer.Typer
        The commands.
    """
    try:
        app()
    except FedwqcpError as error:
        if "--debug" in sys.argv:
            raise
        text = f"error: {said_by(error)}"
        Console(stderr=True, soft_wrap=True).print(text, style="bold", markup=False)
        sys.exit(exit_code(error))


def said_by(error: FedwqcpError) -> str:
    """Return the text of an error, with what to do at the command line."""
    return error.by_files if isinstance(error, InputError) else str(error)


def exit_code(error: FedwqcpError) -> int:
    """Return 2 for input, 3 for messages and quorum, 4 for a missing extra."""
    if isinstance(error, MessageError | RoundError):
        return 3
    return 4 if isinstance(error, MissingExtraError) else 2


def without_types(app: typer.Typer) -> None:
    """Show flags without a type in the help of every command and group.

    Parameters
    ----------
    app : typer.Typer
        The commands.
    """
    app.info.cls = _Group
    for command in app.registered_commands:
        command.cls = _Command
    for group in app.registered_groups:
        if group.typer_instance is not None:
            without_types(group.typer_instance)


class _Command(TyperCommand):
    """A command whose flags show no type."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments; say how a percentage, a decimal comma or several are written."""
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            whole = "integer" in error.message  # the type of an option differs by version
            if not (written := _as_written(given, error.param, whole)):
                raise
            said = error.message.rstrip(".") + written
            raise typer.BadParameter(said, error.ctx, error.param) from None

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters; the flag ``--help`` is among them."""
        return _bare(super().get_params(ctx))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Show the help of arguments, which some versions of typer and click leave out."""
        hints = get_type_hints(unwrap(self.callback), include_extras=True) if self.callback else {}
        parameters: list[Any] = list(self.params)  # typer's types of them differ by version
        for parameter in parameters:
            written = getattr(hints.get(str(parameter.name)), "__metadata__", ())
            for each in written:
                if parameter.param_type_name == "argument":
                    parameter.help = each.help
        super().format_help(ctx, formatter)


_PLAIN_NUMBER = re.compile(r"\d*\.?\d+")


def _as_written(args: Sequence[str], option: Any, whole: bool) -> str:
    """Say how a percentage, a decimal comma or several numbers of an option are written.

    ``whole``: the option takes a whole number, which no percentage or decimal becomes.
    """
    flags = getattr(option, "opts", ())
    pairs = [*pairwise(args), *(tuple(word.split("=", 1)) for word in args if "=" in word)]
    for flag, value in pairs:
        number = re.fullmatch(r"(\d+)(?:([.,])(\d+))? *(%?)", value)
        decimal = number and number[2] == "," and number[1] == "0"
        if flag in flags and number and (number[4] or decimal):
            if whole:
                return ". Write a whole number."
            share = float(f"{number[1]}.{number[3] or 0}") / (100 if number[4] else 1)
            if "--alpha" in flags and 0.5 < share < 1 and "--allow-large-alpha" not in args:
                return f". Write {1 - share:g} for {100 * share:g} % coverage."
            return f". Write {share:g}."
        several = re.split("[,;] *", value)
        if flag in flags and len(several) > 1 and all(map(_PLAIN_NUMBER.fullmatch, several)):
            if not option.multiple:
                how = "one whole number" if whole else "one number, with a point before decimals"
                return f". Write {how}."
            return f". Repeat the option: {' '.join(f'{flag} {each}' for each in several)}."
    return ""


class _Group(TyperGroup):
    """A group whose flags show no type, and that says which command was meant."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return a command; for an unknown name fail, and name the nearest commands."""
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            near = meant(args[0], ctx.command_path, ctx.find_root().command)
            ctx.fail(f"No such command {args[0]!r}.{near}")
        return super().resolve_command(ctx, args)

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters; the flag ``--help`` is among them."""
        return _bare(super().get_params(ctx))


def meant(word: str, path: str, root: Any) -> str:
    """Say which command of the whole program was most likely meant; empty where none is near.

    A file in place of a command is most likely the argument of ``report html``.
    """
    from difflib import get_close_matches

    commands, groups = [], [(root.name or "fedwqcp", root)]
    while groups:
        at, group = groups.pop()
        for name, command in group.commands.items():
            commands.append(f"{at} {name}")
            if hasattr(command, "commands"):
                groups.append((f"{at} {name}", command))
    if path.endswith(" report") and Path(word).suffix:
        found = [f"{path} html {word}"]
    else:
        last = {each: each.split()[-1] for each in commands}
        here = [each for each in commands if each.rpartition(" ")[0] == path]
        found = [each for each, name in last.items() if name == word]
        found = found or [e for e in here if get_close_matches(word, [last[e]])]
        found = found or [e for e in commands if get_close_matches(word, [last[e]])]
    return f" Did you mean {' or '.join(f'`{each}`' for each in sorted(found))}?" if found else ""


def _bare(parameters: list[Any]) -> list[Any]:
    """Show no type behind a flag, which takes no value."""
    for parameter in parameters:
        if getattr(parameter, "is_flag", False) and parameter.metavar is None:
            parameter.metavar = ""
    return parameters


def parse_settings(given: Sequence[str]) -> dict[str, Setting]:
    """Turn ``name=value`` into settings.

    Examples
    --------
    >>> parse_settings(["overflow=clip", "points=32", "target=0.5,0.5"])
    {'overflow': 'clip', 'points': 32, 'target': (0.5, 0.5)}
    """
    settings: dict[str, Setting] = {}
    for entry in given:
        name, equals, value = entry.partition("=")
        if not equals or not name:
            raise InputError(f"a setting is written name=value, got {entry!r}")
        key = name.replace("-", "_")
        if key in settings:
            raise InputError(f"setting {key!r} is given twice")
        settings[key] = parse_setting(value)
    return settings
