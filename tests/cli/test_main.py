"""``--help``: what is written of an option is what is shown."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from command_line import COMMANDS
from fedwqcp.cli.main import app


def test_no_words_of_an_option_are_taken_for_markup_and_dropped():
    programs = get_command(app), *COMMANDS.values()
    options = [each for command in programs for each in command.params]
    assert len(options) > 50
    assert [each.name for each in options if "[" in (getattr(each, "help", None) or "")] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_every_command_fits_80_columns_uncut(name):
    for words in (name.split(), name.split()[:-1]):
        said = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "80"}).output
        assert max(map(len, said.splitlines())) <= 80
        names = r"[\w\]]\.{3} +(<|[A-Z])"  # of an argument that may be given several times
        assert "..." not in re.sub(names, "", said.partition("\n")[2])
        assert "\\" not in said


PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "cli.md"


def tabled(heading, known):
    """Return the commands of a table; "`data list`, `show`" names two of one group."""
    rows = PAGE.read_text().split(heading, 1)[1].split("\n\n", 1)[0].splitlines()[1:]
    found = []
    for row in rows:
        group = ""
        for name in re.findall(r"`([^`]+)`", row.split("|")[1]):
            found.append(f"{group} {name}" if f"{group} {name}" in known else name)
            group = found[-1].split()[0]
    return found


def test_the_reference_names_the_json_of_every_command():
    known = set(COMMANDS)
    found = tabled("| command | fields beside", known)
    assert len(found) > 15
    assert sorted(found) == sorted(known)


@pytest.mark.parametrize(
    ("words", "cure"),
    [
        ("calibrate", "`fedwqcp agent calibrate`"),
        ("open", "`fedwqcp monitor open` or `fedwqcp server open`"),
        ("server opne", "`fedwqcp server open`"),
        ("auditt", "`fedwqcp audit`"),
        ("server open --agents roster.toml --alpha x", "'--alpha'"),
        ("xyzzy", "'xyzzy'"),
    ],
)
def test_what_was_typed_almost_right_is_answered_with_what_to_type(words, cure, monkeypatch):
    """The rest of the sentence is typer's, and differs by version."""
    monkeypatch.setenv("COLUMNS", "160")
    done = CliRunner().invoke(app, shlex.split(words.replace(";", "';'")), prog_name="fedwqcp")
    assert done.exit_code == 2
    assert cure in " ".join(done.output.replace("│", " ").split())
