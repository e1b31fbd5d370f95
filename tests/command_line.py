"""The command line in tests: in this process, or as a process of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedwqcp.cli.main import app
from fedwqcp.cli.output import VERSION, exit_code
from fedwqcp.errors import FedwqcpError


def call(*words, code=0, stdin=None, plain=True):
    """Run a command and return what it prints; an error of the package is raised.

    Files that it writes get plain names, or those that the command itself gives them.
    """
    return _invoke(words, code, stdin, plain).output


def call_json(*words, code=0, plain=True):
    """Run a command with ``--json`` and return the one object that it prints."""
    (line,) = _invoke((*words, "--json"), code, plain=plain).stdout.splitlines()
    facts = json.loads(line)
    assert facts["version"] == VERSION
    return facts


def refusal(*words, code):
    """Run a command that is refused; return the text of its error."""
    with pytest.raises(FedwqcpError) as error:
        call(*words)
    assert exit_code(error.value) == code
    return str(error.value)


def call_process(folder, *words, code=0):
    """Run a command in a folder as a process of its own; return what it prints on both streams."""
    done = subprocess.run(
        [sys.executable, "-m", "fedwqcp", *with_plain_names(words, folder)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "COLUMNS": "200", "PYTHONIOENCODING": "utf-8"},
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


def with_plain_names(words, folder="."):
    """Name the files that a command of a round writes, where a test names none.

    By default they hold the round's id, which a test does not know: round.json, AGENT.json,
    AGENT.temperature, release.json and sets.csv are easier to read.
    """
    words = [*map(str, words)]
    kind = tuple(words[:2])
    if kind not in {("server", "open"), ("server", "close"), ("agent", "calibrate"),
                    ("agent", "predict")} or "--help" in words:  # fmt: skip
        return words
    names = {"open": "round.json", "close": "release.json", "predict": "sets.csv"}
    if kind[0] == "agent":
        option = "--round" if kind[1] == "calibrate" else "--release"
        terms = Path(folder, words[words.index(option) + 1])
        agent = words[words.index("--agent") + 1] if "--agent" in words else _only_agent(terms)
        step = ""
        if "--ask" in words:
            step = ".step-" + re.search(r"ask-(\d+)", words[words.index("--ask") + 1])[1]
        names["calibrate"] = f"{agent}{step}.json"
        if "--temperature-file" not in words:
            words += ["--temperature-file", f"{agent}.temperature"]
    return words if "--out" in words else [*words, "--out", names[kind[1]]]


def _only_agent(path):
    """The one agent of a round or release, where a command need not be told."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return "nobody"
    return found.get("round", found)["agents"][0] if "agents" in found else "nobody"


def _invoke(words, code, stdin=None, plain=True):
    named = with_plain_names(words) if plain else [*map(str, words)]
    done = CliRunner().invoke(app, named, input=stdin)
    if isinstance(done.exception, FedwqcpError):
        raise done.exception
    assert done.exit_code == code, (done.output, done.exception)
    return done
