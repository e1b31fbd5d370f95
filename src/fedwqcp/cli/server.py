"""What the server runs: ``server open``, ``server close`` and ``audit``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from msgspec.structs import asdict

from fedwqcp import methods, scores
from fedwqcp._io import in_folder, is_file, is_folder, read
from fedwqcp._validation import named
from fedwqcp.cli.output import AllowEmpty, AsJson, OutFile, Output, parse_settings
from fedwqcp.errors import InputError
from fedwqcp.federation import inspection
from fedwqcp.federation.advice import advise_on
from fedwqcp.federation.audit import Audit
from fedwqcp.federation.audit import audit as recompute
from fedwqcp.federation.plan import (
    Roster,
    as_alphas,
    as_target,
    load_roster,
    new_round,
)
from fedwqcp.federation.record import LOG
from fedwqcp.federation.release import Release, statuses
from fedwqcp.federation.transport import folder
from fedwqcp.findings import Finding
from fedwqcp.theory import Diagnosis, diagnose_release
from fedwqcp.wire.codec import mistaken_for
from fedwqcp.wire.messages import MAX_N
from fedwqcp.words import commands
from fedwqcp.words import rounds as words

app = typer.Typer(no_args_is_help=True)


@app.command("open")
def open_(
    agents: Annotated[
        Path,
        typer.Option(
            help="Roster: a TOML file that lists the agents; it may also state classes, groups, "
            "quorum, max_n and keys."
        ),
    ],
    alpha: Annotated[
        list[float],
        typer.Option(help="Miscoverage level, 0.1 for 90 % coverage; repeat for several."),
    ],
    method: Annotated[
        str,
        typer.Option(help="Name of a method (`fedwqcp methods` lists them)."),
    ] = "auto",
    setting: Annotated[
        list[str] | None,
        typer.Option(
            help="Setting of the method, such as tail=16 (`fedwqcp methods NAME`); repeat for "
            "several."
        ),
    ] = None,
    score: Annotated[str, typer.Option(help="Name of a score (`fedwqcp scores`).")] = "aps",
    score_setting: Annotated[
        list[str] | None,
        typer.Option(help="Setting of the score (`fedwqcp scores NAME`); repeat for several."),
    ] = None,
    allow_empty: AllowEmpty = True,
    by: Annotated[
        str | None,
        typer.Option(
            help="label or group: a threshold for each label, or for each of the groups that the "
            "roster names. Not every method allows it."
        ),
    ] = None,
    target: Annotated[
        str,
        typer.Option(
            help="Whom agents will predict: own (people like their own), mixture (people of all "
            "agents), or label shares with commas."
        ),
    ] = "own",
    out: OutFile = None,
    as_json: AsJson = False,
) -> None:
    """Open a round: write its terms for the agents."""
    roster = load_roster(agents)
    round = new_round(
        roster.agents,
        methods.get(method, **parse_settings(setting or [])),
        scores.get(score, **parse_settings(score_setting or [])),
        as_alphas(alpha),
        allow_empty=allow_empty,
        quorum=roster.quorum,
        max_n=MAX_N if roster.max_n is None else roster.max_n,
        n_classes=roster.n_classes,
        classes=roster.classes,
        by=by,
        groups=roster.groups if by == "group" else (),
        max_groups=roster.max_groups if by == "group" else 1,
        keys=_keys(roster, agents),
        target=as_target(target),
    )
    out = out or folder.default_name(round, "round")
    folder.open_round(round, out)
    facts = {"round": round.id, "file": out, "agents": round.agents, "target": round.target}
    Output(as_json).done(commands.opened, **facts)


@app.command()
def close(
    round: Annotated[
        Path, typer.Argument(help="The file that `server open` wrote, such as round-ID.json.")
    ],
    answers: Annotated[
        list[Path] | None,
        typer.Argument(help="Files that `agent calibrate` wrote at the sites, or folders of them."),
    ] = None,
    out: OutFile = None,
    as_json: AsJson = False,
) -> None:
    """Accept or refuse each answer, and release the thresholds."""
    out = out or folder.default_name(folder.read_round(round), "release")
    files = folder.answer_files(round, answers or [], out)
    closed, output = folder.close_round(round, files, out), Output(as_json)
    release, diagnoses = closed.release, _diagnoses(closed.release)
    output.say(release)
    for part, diagnosis in diagnoses:
        output.say(words.averaging_in(release.round.by, part, diagnosis))
    notes = [Finding.of("replaced", file=out)] if closed.replaced else []
    if inspection.is_useless(release):
        notes.append(Finding.of("useless", file=out))
    output.tell(notes)
    output.done(
        commands.closed,
        already=closed.already,
        release=out,
        record=folder.record_file(round),
        refused=[str(refusal) for refusal in closed.refusals],
        method=release.round.method.name,
        guarantee=release.guarantee,
        assumption=release.assumption,
        rounds=release.rounds,
        agents=_agents(release),
        diagnoses=[diagnosis for _, diagnosis in diagnoses],
        findings=[*notes, *release.findings],
        advice=advise_on(release) if diagnoses else None,
    )


def _agents(release: Release) -> list[dict[str, object]]:
    """Return what became of each agent, with the status that the table shows."""
    status = statuses(release)
    return [
        {**asdict(agent), "status": status[agent.name], "within": _within(release, agent.name)}
        for agent in release.agents
    ]


def _within(release: Release, agent: str) -> list[dict[str, object]]:
    """Return how many points an agent has of each group, and what they prove there."""
    return [
        {
            "part": group,
            "n": release.points(agent, group),
            "proved": release.proved(agent, group=group),
        }
        for group in release.round.groups
    ]


def _keys(roster: Roster, path: Path) -> dict[str, str]:
    """Return the keys of a roster, which has that of every agent or none."""
    keys = roster.keys or {}
    if keys and (missing := [name for name in roster.agents if name not in keys]):
        raise InputError(
            f"{path} must name a key of every agent, or none; it lacks {named(missing)}: each site "
            "makes its own with `fedwqcp keys new` and sends the public half"
        )
    return keys


def _diagnoses(release: Release) -> list[tuple[str, Diagnosis]]:
    """Judge averaging at each level and in each group, where thresholds were averaged."""
    return [
        (part, diagnosis)
        for alpha in release.round.alphas
        for part, diagnosis in diagnose_release(release, alpha).items()
    ]


DIFFERS = 1
"""Exit code where a record does not give its release."""
NO_RELEASE = 6
"""Exit code where a sound record is of a round that ended without a release."""


def audit(
    folders: Annotated[
        list[Path],
        typer.Argument(
            help="Records that `server close` wrote beside the rounds (round-ID.record.json), "
            "folders records/ID of a Flower coordinator, or a folder of such."
        ),
    ],
    round: Annotated[
        Path | None,
        typer.Option(help="The round that was answered: a record of other terms does not match."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Recompute a release from the accepted answers, and compare."""
    terms = None if round is None else folder.read_round(round)
    audits = {record: recompute(record, terms) for path in folders for record in _records(path)}
    output, facts = Output(as_json), [_facts(*item) for item in audits.items()]
    for (record, result), known in zip(audits.items(), facts, strict=True):
        status = {} if result.release is None else statuses(result.release)
        made = known["opened"], known["released"]
        output.say(commands.audited(record, result, status, *made))
    output.done(records=facts)
    unmatched = [result for result in audits.values() if not result.matches]
    if unmatched:
        raise typer.Exit(NO_RELEASE if all(result.failed for result in unmatched) else DIFFERS)


def _records(path: Path) -> list[Path]:
    """Return the record that a path is, or those that it holds."""
    if is_file(path / LOG) or (is_file(path) and path.name.endswith(".record.json")):
        return [path]
    held = in_folder(path) if is_folder(path) else []
    of_coordinator = any(is_file(file / LOG) for file in held)  # it keeps nothing but records
    within = [
        file
        for file in held
        if file.name.endswith(".record.json") or (of_coordinator and is_folder(file))
    ]
    if not within:
        kind = mistaken_for("record", read(path)) if is_file(path) else ""
        raise InputError(
            f"{path} must be a record that `server close` wrote (round-ID.record.json), the folder "
            f"records/ID of a coordinator, or a folder of such"
            + (f"; it is {kind}" if kind else "")
        )
    return within


def _facts(record: Path, result: Audit) -> dict[str, object]:
    release = result.release
    return {
        "record": record,
        "matches": result.matches,
        "difference": result.difference,
        "failed": result.failed,
        "missing": result.missing,
        "round": None if release is None else release.round.id,
        "method": None if release is None else release.round.method.name,
        "answers": result.answers,
        "sums": result.sums,
        "signed": release is not None and release.round.signed,
        "agents": () if release is None else _agents(release),
        "opened": {} if release is None else release.round.provenance,
        "released": {} if release is None else release.provenance,
    }
