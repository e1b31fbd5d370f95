"""What software made a number."""

from __future__ import annotations

import os
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import fedwqcp


@cache
def code() -> str:
    """Return the versions that numbers depend on.

    Returns
    -------
    str
        This package, with its commit where it runs from a repository or ``FEDWQCP_COMMIT`` tells
        it (for a copy without one), and those below it.
    """
    own = f"fedwqcp {fedwqcp.__version__}{_commit()}"
    return ", ".join([own, *(part for name in ("numpy", "scipy", "torch") if (part := _of(name)))])


def _of(name: str) -> str:
    """Return name and version of an installed distribution."""
    try:
        return f"{name} {version(name)}"
    except PackageNotFoundError:
        return ""


def _commit() -> str:
    """Return the commit that ``FEDWQCP_COMMIT`` names, else that of this file's repository."""
    if named := os.environ.get("FEDWQCP_COMMIT"):
        return f" ({named})"
    here = Path(__file__)
    git = ["git", "-C", str(here.parent)]
    try:
        subprocess.run(
            [*git, "ls-files", "--error-unmatch", here.name], check=True, capture_output=True
        )
        found = subprocess.run(
            [*git, "rev-parse", "--short=12", "HEAD"], check=True, capture_output=True, text=True
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return f" ({found.stdout.strip()})"
