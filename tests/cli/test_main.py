"""``--help``: what is written of an option is what is shown."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from command_line import refusal
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


PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "cli.md"


def commands(command, words=()):
    """Yield every command of the program by its words."""
    below = getattr(command, "commands", None)
    if below is None:
        yield " ".join(words)
        return
    for name, each in below.items():
        yield from commands(each, (*words, name))


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
    known = set(commands(get_command(app)))
    found = tabled("| command | fields beside", known)
    assert len(found) > 15
    assert sorted(found) == sorted(known)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["--alpha", "10%"], ". Write 0.1."),
        (["--alpha", "2,5 %"], ". Write 0.025."),
        (["--alpha=0,1"], ". Write 0.1."),
        (["--alpha", "90%"], ". Write 0.1 for 90 % coverage."),
        (["--alpha", "97.5 %"], ". Write 0.025 for 97.5 % coverage."),
        (["--alpha=0,95"], ". Write 0.05 for 95 % coverage."),
        (["--allow-large-alpha", "--alpha", "90%"], ". Write 0.9."),
        (["--alpha", "100%"], ". Write 1."),
        (["--alpha", "x"], "'--alpha'"),
    ],
)
def test_a_level_with_a_percent_sign_or_a_comma_gets_its_decimals(given, says, monkeypatch):
    """The rest of the sentence is typer's, and differs by version."""
    monkeypatch.setenv("COLUMNS", "120")
    words = ["server", "open", "--agents", "roster.toml", *given]
    done = CliRunner().invoke(app, words, prog_name="fedwqcp")
    assert done.exit_code == 2
    said = " ".join(done.output.replace("│", " ").split())
    assert says in said
    assert ("Write" in said) == ("Write" in says)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("server open --agents roster.toml --alpha 0.1,0.2",
         ". Repeat the option: --alpha 0.1 --alpha 0.2."),
        ("server open --agents roster.toml --alpha=0.1;.05",
         ". Repeat the option: --alpha 0.1 --alpha .05."),
        ("flower demo --alpha 0.1,0.2", ". Write one number, with a point before decimals."),
        ("server open --agents roster.toml --quorum 1,000", ". Write one whole number."),
        ("server open --agents roster.toml --quorum 80%", ". Write a whole number."),
        ("server open --agents roster.toml --alpha 0.1,x", "'--alpha'"),
    ],
)  # fmt: skip
def test_several_numbers_in_one_word_are_told_how_they_are_given(words, says, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    done = CliRunner().invoke(app, words.split(), prog_name="fedwqcp")
    assert done.exit_code == 2
    said = " ".join(done.output.replace("│", " ").split())
    assert says in said
    assert ("Repeat" in said) == ("Repeat" in says)


def test_a_figure_without_its_name_is_told_which_there_are():
    said = refusal("report", "figure", "release.json", "-o", "f.pdf", code=2)
    assert "release.json" in said


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["calibrate"], "Did you mean `fedwqcp agent calibrate`?"),
        (["close"], "Did you mean `fedwqcp server close`?"),
        (["open"], "Did you mean `fedwqcp monitor open` or `fedwqcp server open`?"),
        (["server", "opne"], "Did you mean `fedwqcp server open`?"),
        (["advice"], "Did you mean `fedwqcp advise`?"),
        (["report", "round.record.json"], "Did you mean `fedwqcp report html round.record.json`?"),
        (["xyzzy"], "No such command 'xyzzy'."),
    ],
)
def test_a_command_that_is_none_gets_the_one_that_was_meant(words, says, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    done = CliRunner().invoke(app, words, prog_name="fedwqcp")
    assert done.exit_code == 2
    assert says in " ".join(done.output.replace("│", " ").split())
    assert done.output.count("Did you mean") == ("Did you mean" in says)


def helped(*words):
    """Return the help of a command, in one line."""
    done = CliRunner().invoke(app, [*words, "--help"], prog_name="fedwqcp")
    return " ".join(done.output.replace("│", " ").split())


@pytest.mark.parametrize(
    ("command", "writer"),
    [
        ("server close", "`server open` wrote"),
        ("server close", "`agent calibrate` wrote"),
        ("advise", "`server close` wrote"),
        ("report figure", "`server close` wrote"),
        ("monitor show", "`monitor open` writes"),
        ("server open", "`fedwqcp methods NAME` explains"),
        ("server open", "Not every method allows it: `fedwqcp methods NAME`"),
        ("server open", "`fedwqcp methods NAME` says what overflow means"),
    ],
)
def test_help_says_where_a_file_or_a_value_comes_from(command, writer, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    assert writer in helped(*command.split())
