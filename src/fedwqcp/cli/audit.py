"""``fedwqcp audit``: recompute a release from the answers that were accepted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedwqcp.cli.output import AsJson, Output
from fedwqcp.errors import RecordError
from fedwqcp.federation.record.audit import audit as recompute


def audit(
    folder: Annotated[Path, typer.Argument(help="The server's record of one round.")],
    as_json: AsJson = False,
) -> None:
    """Recompute a release from the accepted answers, and say whether it matches."""
    found = recompute(folder)
    if not found.matches or found.release is None:
        raise RecordError(f"{folder} does not match: {found.difference}")
    release, output = found.release, Output(as_json)
    output.say(
        f"matches: round {release.round.id}, {release.round.method.name}, "
        f"{found.answers} accepted answers of {len(release.used)} agents give the release"
    )
    for agent in release.agents:
        output.say(f"  {agent.name}: {agent.status} {agent.reason}".rstrip())
    output.done(
        matches=True,
        round=release.round.id,
        method=release.round.method.name,
        answers=found.answers,
        agents=release.agents,
    )
