"""Help texts that name no type behind an option that takes no value."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup


def without_types(app: typer.Typer) -> None:
    """Let every command and group show its flags as flags.

    Parameters
    ----------
    app : typer.Typer
        The program, with all that belongs to it.
    """
    app.info.cls = _Group
    for command in app.registered_commands:
        command.cls = _Command
    for group in app.registered_groups:
        if group.typer_instance is not None:
            without_types(group.typer_instance)


class _Command(TyperCommand):
    """A command whose flags show no type."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters; the flag ``--help`` is among them."""
        return _bare(super().get_params(ctx))


class _Group(TyperGroup):
    """A group whose flags show no type."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters; the flag ``--help`` is among them."""
        return _bare(super().get_params(ctx))


def _bare(parameters: list[Any]) -> list[Any]:
    """Take the name of a value from options that have none."""
    for parameter in parameters:
        if getattr(parameter, "is_flag", False) and parameter.metavar is None:
            parameter.metavar = ""
    return parameters
