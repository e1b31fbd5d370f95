"""How commands run, print and parse: errors and exit codes, ``--json``, help, settings."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from difflib import get_close_matches
from enum import Enum
from inspect import unwrap
from math import isfinite
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import msgspec
import numpy as np
import typer
from rich.console import Console
from typer.core import TyperCommand, TyperGroup

from fedwqcp.errors import (
    ExpiredPredictorWarning,
    FedwqcpError,
    FindingWarning,
    InputError,
    MessageError,
    MissingExtraError,
    RoundError,
)
from fedwqcp.findings import Finding
from fedwqcp.registry import Setting, parse_setting
from fedwqcp.words.commands import wrapped
from fedwqcp.words.findings import lines

VERSION = 1
"""Version of the objects; a field may be added to one without a new version."""

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
AllowEmpty = Annotated[
    bool,
    typer.Option(
        " /--no-allow-empty", show_default=False, help="The most probable label is in every set."
    ),
]
OutFile = Annotated[
    Path | None,
    typer.Option(help="Where it is written; by default a name that holds the round's id."),
]
LabelsFile = Annotated[
    Path | None, typer.Option(help="Labels in an .npy file, where the outputs carry none.")
]


class Output:
    """What a command prints: text, or with ``as_json`` only the object of `done`."""

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json
        self.console = Console(quiet=as_json, highlight=False)

    def say(self, text: object, style: str | None = None) -> None:
        """Print text as it is; nothing of an empty one."""
        if str(text):
            self.console.print(str(text), style=style, markup=False, soft_wrap=True)

    def tell(self, findings: Iterable[Finding]) -> None:
        """Print findings as notes."""
        for line in lines(findings):
            self.say(wrapped(f"note: {line}"), style="yellow")

    def done(self, text: Callable[..., str] | None = None, /, **facts: Any) -> None:
        """End with the facts for scripts, or with the text that `words` makes of them.

        Facts are numbers, text, paths, records and collections of these.
        """
        if self.as_json:
            typer.echo(json.dumps({"version": VERSION, **_plain(facts)}, allow_nan=False))
        elif text is not None:
            self.say(text(**facts))


def _plain(value: Any) -> Any:
    """Return a value that JSON can hold; infinities and NaN become text."""
    if isinstance(value, Finding):
        return _plain(value.plain)
    if is_dataclass(value) and not isinstance(value, type):
        return _plain(asdict(value))
    if isinstance(value, msgspec.Struct):
        return _plain(msgspec.structs.asdict(value))
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, np.generic | np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    if isinstance(value, Enum):
        return value.value
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if isfinite(value) else str(value)
    return str(value)


def run(app: typer.Typer) -> None:
    """Run the commands of an app; an expected error prints its message and sets the exit code.

    Warnings of this package print as notes.

    Parameters
    ----------
    app : typer.Typer
        The commands.
    """
    errors, others = Console(stderr=True, soft_wrap=True), warnings.showwarning

    def _show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        if issubclass(category, ExpiredPredictorWarning | FindingWarning):
            errors.print(wrapped(f"note: {message}"), style="yellow", markup=False)
        else:
            others(message, category, *where, **more)

    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show
            app()
    except FedwqcpError as error:
        if "--debug" in sys.argv:
            raise
        errors.print(f"error: {said_by(error)}", style="bold", markup=False)
        sys.exit(exit_code(error))


def said_by(error: FedwqcpError) -> str:
    """Return the text of an error, with what to do at the command line."""
    return error.by_files if isinstance(error, InputError) else str(error)


def exit_code(error: FedwqcpError) -> int:
    """Return 2 for input, 3 for messages and quorum, 4 for a missing extra."""
    if isinstance(error, MessageError | RoundError):
        return 3
    return 4 if isinstance(error, MissingExtraError) else 2


def with_help(app: typer.Typer) -> None:
    """Let every command explain its arguments, and every group say which command was meant.

    Parameters
    ----------
    app : typer.Typer
        The commands.
    """
    app.info.cls, app.rich_markup_mode = _Group, None
    for command in app.registered_commands:
        command.cls = _Command
    for group in app.registered_groups:
        if group.typer_instance is not None:
            with_help(group.typer_instance)


class _Command(TyperCommand):
    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write plain text; versions of typer and click differ in theirs, and in its escapes."""
        hints = get_type_hints(unwrap(self.callback), include_extras=True) if self.callback else {}
        sections: dict[str, list[tuple[str, str]]] = {"argument": [], "option": []}
        parameters: list[Any] = self.get_params(ctx)  # of click, or of the copy in a newer typer
        for parameter in parameters:
            name, text = parameter.get_help_record(ctx) or (parameter.make_metavar(ctx), "")
            if parameter.param_type_name == "argument":  # whose help some versions leave out
                (stated,) = hints[str(parameter.name)].__metadata__
                text = stated.help
            sections[parameter.param_type_name].append((name.strip(" /"), text.replace("\\[", "[")))
        self.format_usage(ctx, formatter)
        self.format_help_text(ctx, formatter)
        for kind, rows in sections.items():
            if rows:
                with formatter.section(f"{kind.capitalize()}s"):
                    formatter.write_dl(rows)


class _Group(TyperGroup):
    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return a command; for an unknown name fail, and name the nearest commands."""
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            root = ctx.find_root().command
            names = {path: path.split()[-1] for path in _commands(root, "fedwqcp")}
            near = get_close_matches(args[0], names.values(), n=1)
            meant = " or ".join(f"`{path}`" for path in sorted(names) if names[path] in near)
            ctx.fail(f"No such command {args[0]!r}.{f' Did you mean {meant}?' if meant else ''}")
        return super().resolve_command(ctx, args)


def _commands(group: Any, path: str) -> Iterator[str]:
    """Give every command below a group, with the words before it."""
    for name, command in getattr(group, "commands", {}).items():
        yield f"{path} {name}"
        yield from _commands(command, f"{path} {name}")


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
