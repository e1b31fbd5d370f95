"""The command line in tests: in this process, or as a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys

from typer.testing import CliRunner

from fedwqcp.cli.main import app
from fedwqcp.errors import FedwqcpError


def call(*words, code=0, stdin=None):
    """Run a command and return what it prints; an error of the package is raised."""
    done = CliRunner().invoke(app, [*map(str, words)], input=stdin)
    if isinstance(done.exception, FedwqcpError):
        raise done.exception
    assert done.exit_code == code, (done.output, done.exception)
    return done.output


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
