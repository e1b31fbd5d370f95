"""``fedwqcp audit``: recompute a release from the answers that were accepted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from fedwqcp.errors import RecordError
from fedwqcp.federation.audit import audit as recompute

console = Console(soft_wrap=True, highlight=False)


def audit(
    folder: Annotated[Path, typer.Argument(help="The server's record of one round.")],
) -> None:
    """Recompute a release from the accepted answers, and say whether it matches."""
    found = recompute(folder)
    if not found.matches or found.release is None:
        raise RecordError(f"{folder} does not match: {found.difference}")
    release = found.release
    console.print(
        f"matches: round {release.round.id}, {release.round.method.name}, "
        f"{found.answers} accepted answers of {len(release.used)} agents give the release",
        markup=False,
    )
    for agent in release.agents:
        console.print(f"  {agent.name}: {agent.status} {agent.reason}".rstrip(), markup=False)
