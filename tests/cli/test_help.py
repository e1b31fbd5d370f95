"""``--help``: what is written of an option is what is shown."""

from __future__ import annotations

from typer.main import get_command

from fedwqcp.cli.main import app


def options(command):
    """Return every option and argument below a command, with its help."""
    for below in getattr(command, "commands", {}).values():
        yield from options(below)
    for parameter in command.params:
        yield parameter.name, getattr(parameter, "help", None) or ""


def test_no_words_of_an_option_are_taken_for_markup_and_dropped():
    found = list(options(get_command(app)))
    assert len(found) > 50
    assert [name for name, text in found if "[" in text] == []
