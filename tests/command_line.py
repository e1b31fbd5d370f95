"""The command line in tests: in this process, or as a process of its own.

A process of its own has its folder, environment, streams and exit code. It forks from one that has
imported the package: importing takes most of a command's time, and tests start some hundreds.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from functools import cache
from pathlib import Path

import pytest
import typer.main
import typer.testing
from typer.testing import CliRunner

from fedwqcp.cli.main import app, main
from fedwqcp.cli.output import VERSION, exit_code, said_by
from fedwqcp.errors import FedwqcpError

# Commands are built from type hints at every call, which takes longer than most of them run.
typer.main.get_command = typer.testing._get_command = cache(typer.main.get_command)


def commands(program):
    """Return every command of a program by its words."""
    inner = getattr(program, "commands", None)
    if inner is None:
        return {"": program}
    return {
        f"{name} {words}".strip(): command
        for name, each in inner.items()
        for words, command in commands(each).items()
    }


COMMANDS = commands(typer.main.get_command(app))

OPEN = ("server", "open", "--method", "fedwq-cp")
"""Opens a round of a method that sends one threshold and its size."""


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
    known = _documented().get(" ".join(map(str, words[:2]))) or _documented()[words[0]]
    assert set(facts) - {"version"} <= known, "docs/reference/cli.md names every field"
    return facts


@cache
def _documented():
    """Return the fields of each command that the page on the command line names for scripts."""
    page = Path(__file__).parents[1] / "docs" / "reference" / "cli.md"
    section = page.read_text().partition("## For scripts")[2].partition("\n## ")[0]
    found = {}
    for row in re.findall(r"^\| (`.*?) \| (.*) \|$", section, re.MULTILINE):
        commands, fields = (re.findall(r"`([^`]+)`", cell) for cell in row)
        group = commands[0].partition(" ")[0]  # `monitor open`, `recalibrated`
        for command in commands:
            found[command] = found[f"{group} {command}"] = set(fields)
    return found


def refusal(*words, code):
    """Run a command that is refused; return the text of its error."""
    with pytest.raises(FedwqcpError) as error:
        call(*words)
    assert exit_code(error.value) == code
    return said_by(error.value)


def call_process(folder, *words, code=0):
    """Run a command in a folder as a process of its own; return what it prints on both streams."""
    done = subprocess.run(
        [programs() / "fedwqcp", *with_plain_names(words, folder)],
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
    release.json and sets.csv are easier to read.
    """
    words = [*map(str, words)]
    kind = tuple(words[:2])
    if kind not in {("server", "open"), ("server", "close"), ("agent", "calibrate"),
                    ("agent", "predict")} or {"--help", "--predictor"} & {*words}:  # fmt: skip
        return words
    names = {"open": "round.json", "close": "release.json", "predict": "sets.csv"}
    if kind[0] == "agent":
        option = "--round" if kind[1] == "calibrate" else "--release"
        terms = Path(folder, words[words.index(option) + 1])
        agent = words[words.index("--agent") + 1] if "--agent" in words else _only_agent(terms)
        names["calibrate"] = f"{agent}.json"
        if kind[1] == "predict" and not {"--round", "--new-site", "--require"} & {*words}:
            words += ["--round", "round.json"]
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


CLIENT = """
import json, os, socket, sys
link = socket.socket(socket.AF_UNIX)
link.connect(sys.argv[1])
said = json.dumps([os.getcwd(), sys.argv[2:], dict(os.environ)]).encode()
socket.send_fds(link, [len(said).to_bytes(4, "big")], [0, 1, 2])
link.sendall(said)
code = link.recv(1)
sys.exit(code[0] if code else 1)
"""


@cache
def programs():
    """Start the process that commands fork from; return a folder with a program ``fedwqcp``."""
    folder = Path(tempfile.mkdtemp(prefix="fedwqcp-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    address, begin = str(folder / "s"), f"sys.path.insert(0, {str(Path(__file__).parent)!r})"
    code = f"import sys; {begin}; from command_line import serve; serve({address!r})"
    server = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1"},  # a process that forks has one thread
    )
    atexit.register(server.stdin.close)  # it ends with this process
    assert server.stdout.read(1) == b"!", "it listens"
    client = shlex.join([sys.executable, "-ISc", CLIENT, address])
    (folder / "fedwqcp").write_text(f'#!/bin/sh\nexec {client} "$@"\n')
    (folder / "fedwqcp").chmod(0o755)
    return folder


def serve(address):
    """Fork a process for each command that a client asks for, until standard input ends."""
    typer.main.get_command(app)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen(16)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    os.write(1, b"!")
    while listener in select.select([listener, 0], [], [])[0]:
        link = listener.accept()[0]
        if os.fork() == 0:
            listener.close()
            code = 1
            try:
                code = _serve_one(link)
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                link.sendall(bytes([code]))
                os._exit(code)
        link.close()


def _serve_one(link):
    """Run one command with the client's words, folder, environment and streams."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    head, streams, _, _ = socket.recv_fds(link, 4, 3)
    said = b""
    while len(said) < int.from_bytes(head, "big"):
        said += link.recv(1 << 16)
    folder, words, environment = json.loads(said)
    for at, stream in enumerate(streams):
        os.dup2(stream, at)
        os.close(stream)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["fedwqcp", *words]
    try:
        main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0
