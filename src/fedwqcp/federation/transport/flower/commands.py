"""The commands of Flower that a federation on this machine needs, each read as JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedwqcp.errors import InputError

FLWR = Path(sys.executable).parent / "flwr"
"""Flower's program in the environment of this Python."""

_QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
}


def environment(home: Path) -> dict[str, str]:
    """Return the environment that Flower's programs run in.

    Parameters
    ----------
    home : Path
        Folder for Flower's own files.

    Returns
    -------
    dict
        Silent towards the outside, with this Python's programs first on the path.
    """
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    return {**kept, **_QUIET, "FLWR_HOME": str(home), "PATH": path, "COLUMNS": "200"}


@dataclass(frozen=True)
class Run:
    """How a run ended.

    Parameters
    ----------
    id : str
        Flower's id of the run.
    status : str
        ``finished:completed``, ``finished:failed``, ``finished:stopped`` or ``timeout``.
    """

    id: str
    status: str


class Commands:
    """Flower's own program, for one federation.

    Parameters
    ----------
    folder : Path
        Where commands run.
    env : mapping
        Their environment.
    """

    def __init__(self, folder: Path, env: Mapping[str, str]) -> None:
        self._folder = folder
        self._env = dict(env)

    def online(self) -> int:
        """Return how many nodes are online.

        Returns
        -------
        int
            As the SuperLink counts them.
        """
        listed = self.flwr("supernode", "list", "fed", "--format", "json")
        return sum(node.get("status") == "online" for node in listed.get("nodes", []))

    def submit(self, app: Path, config: Mapping[str, object]) -> str:
        """Start an app without waiting for it.

        Parameters
        ----------
        app : Path
            Folder of the app.
        config : mapping
            Run configuration that replaces the app's own.

        Returns
        -------
        str
            Flower's id of the run.

        Raises
        ------
        InputError
            If it could not be started.
        """
        said = " ".join(f"{name}={as_toml(value)}" for name, value in config.items())
        started = self.flwr("run", str(app), "fed", "--format", "json", "-c", said)
        if not started.get("success"):
            raise InputError(f"the run could not be started: {started.get('error-message')}")
        return str(started["run-id"])

    def wait(self, run: str, seconds: float, done: Callable[[], bool] = lambda: True) -> Run:
        """Wait until a run ends.

        Parameters
        ----------
        run : str
            Its id.
        seconds : float
            How long to wait.
        done : callable, optional
            Tells cheaply that the end is near; Flower is asked only then.

        Returns
        -------
        Run
            How it ended; ``timeout`` if it did not.
        """
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if not done():
                time.sleep(0.2)
                continue
            listed = self.flwr("list", "fed", "--run-id", run, "--format", "json")
            for found in listed.get("runs", []):
                if str(found.get("status", "")).startswith("finished"):
                    return Run(run, str(found["status"]))
            time.sleep(1.0)
        return Run(run, "timeout")

    def flwr(self, *arguments: str) -> dict[str, Any]:
        """Run one ``flwr`` command and read its JSON.

        Parameters
        ----------
        *arguments : str
            What follows ``flwr``.

        Returns
        -------
        dict
            What it printed; empty if that is no JSON.
        """
        done = subprocess.run(
            [str(FLWR), *arguments],
            cwd=self._folder,
            env=self._env,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        try:
            found = json.loads(done.stdout[done.stdout.index("{") :])
        except ValueError:
            return {"success": False, "error-message": done.stdout + done.stderr}
        return found if isinstance(found, dict) else {}


def as_toml(value: object) -> str:
    """Write a value as a configuration does.

    Parameters
    ----------
    value : object
        A bool, a number or anything that is text.

    Returns
    -------
    str
        The same in TOML.
    """
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else json.dumps(str(value))
