"""``fedwqcp audit``: recompute a release from the answers that were accepted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedwqcp.cli.output import AsJson, Output
from fedwqcp.errors import InputError
from fedwqcp.federation.audit import Audit
from fedwqcp.federation.audit import audit as recompute
from fedwqcp.federation.record import LOG
from fedwqcp.report.terminal import always_left_out, released

DIFFERS = 1
"""Exit code where a record does not give its release."""


def audit(
    folders: Annotated[
        list[Path],
        typer.Argument(
            help="The server's record of a round: a folder, a folder of such, or round.record.json."
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Recompute a release from the accepted answers, and say whether it matches."""
    records = [record for folder in folders for record in _records(folder)]
    found, output = {record: recompute(record) for record in records}, Output(as_json)
    for record, each in found.items():
        _say(record, each, output)
    facts = [_facts(record, each) for record, each in found.items()]
    if records == folders[:1]:
        output.done(**facts[0])
    else:
        output.done_each(facts)
    if not all(each.matches for each in found.values()):
        raise typer.Exit(DIFFERS)


def _records(path: Path) -> list[Path]:
    """Return the record that a path is, or those that it holds."""
    if (path / LOG).is_file() or (path.is_file() and path.name.endswith(".record.json")):
        return [path]
    within = sorted(log.parent for log in path.glob(f"*/{LOG}")) if path.is_dir() else []
    if not within:
        what = "that is a file" if path.is_file() else "it holds none"
        what = what if path.exists() else "it does not exist"
        raise InputError(
            f"cannot read {path}: must be the folder that a Flower coordinator keeps of a round "
            f"(records/ID, with {LOG} in it), a folder of such, or the round.record.json of a "
            f"round by files; {what}"
        )
    return within


def _say(record: Path, found: Audit, output: Output) -> None:
    """Say whether a record matches, and what became of each agent."""
    release = found.release
    if release is None or not found.matches:
        output.say(f"{record} does not match: {found.difference}", style="bold red")
        return
    agents = len(release.used)
    given = f"{found.answers} accepted answers of {agents} agents give the release"
    if found.sums:
        given = f"the sums over {agents} agents give the release"
    elif not found.answers:
        given = "its terms alone give the release, no agent sends anything"
    output.say(f"matches: round {release.round.id}, {release.round.method.name}, {given}")
    out = always_left_out(released(release))
    for agent in release.agents:
        status = "left out" if agent.name in out else agent.status
        output.say(f"  {agent.name}: {status} {agent.reason}".rstrip())


def _facts(record: Path, found: Audit) -> dict[str, object]:
    """Return what scripts are told of a record."""
    release = found.release
    return {
        "record": record,
        "matches": found.matches,
        "difference": found.difference,
        "round": None if release is None else release.round.id,
        "method": None if release is None else release.round.method.name,
        "answers": found.answers,
        "sums": found.sums,
        "agents": () if release is None else release.agents,
    }
