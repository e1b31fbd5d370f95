"""The command line in tests: in this process, or as a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from fedwqcp.cli.main import app
from fedwqcp.cli.output import VERSION, exit_code
from fedwqcp.errors import FedwqcpError


def call(*words, code=0, stdin=None):
    """Run a command and return what it prints; an error of the package is raised."""
    return _invoke(words, code, stdin).output


def call_json(*words, code=0):
    """Run a command with ``--json`` and return the one object that it prints."""
    (line,) = _invoke((*words, "--json"), code).stdout.splitlines()
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
        [sys.executable, "-m", "fedwqcp", *map(str, words)],
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


def _invoke(words, code, stdin=None):
    done = CliRunner().invoke(app, [*map(str, words)], input=stdin)
    if isinstance(done.exception, FedwqcpError):
        raise done.exception
    assert done.exit_code == code, (done.output, done.exception)
    return done
