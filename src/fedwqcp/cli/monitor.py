"""``fedwqcp monitor``: tell whether a threshold is still valid, now that labels arrive."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from fedwqcp._io import check_file_name, exists, locked, read
from fedwqcp.cli.output import AsJson, Output
from fedwqcp.errors import InputError
from fedwqcp.monitor import (
    Monitor,
    MonitorTerms,
    Standing,
    calibration_slack,
    changing,
    load_monitor,
    read_batches,
    save_monitor,
)
from fedwqcp.monitor.state import (
    RoundEvent,
    check_days,
    claim_round,
    log_line,
    note_round,
    record_of,
)
from fedwqcp.scores import LabelScore
from fedwqcp.serve import parse

app = typer.Typer(no_args_is_help=True)

State = Annotated[
    Path,
    typer.Argument(help="The monitor's file, which `monitor open` writes, such as state.json."),
]
Check = Annotated[
    bool, typer.Option("--check", help="Exit with code 5 while there is an alarm, for schedulers.")
]
ALARMED = 5


@app.command("open")
def open_state(
    state: State,
    agent: Annotated[
        list[str] | None, typer.Option(help="An agent to monitor; repeat for each.")
    ] = None,
    alpha: Annotated[
        float | None, typer.Option(help="Miscoverage level that was promised.")
    ] = None,
    predictor: Annotated[
        Path | None,
        typer.Option(help="A site's predictor, which tells agent, level and number of classes."),
    ] = None,
    classes: Annotated[int, typer.Option(help="Number of classes, to monitor each one too.")] = 0,
    class_alpha: Annotated[
        float | None, typer.Option(help="Miscoverage accepted within a class; by default alpha.")
    ] = None,
    delta: Annotated[float, typer.Option(help="Probability of any false alarm.")] = 0.05,
    tolerance: Annotated[
        float, typer.Option(help="How much less than 1 - alpha is still accepted.")
    ] = 0.0,
    calibrated_on: Annotated[
        list[int] | None,
        typer.Option(
            help="Calibration points of each agent (one number for all, or repeat it for each): "
            "adds a tolerance for the chance in calibration."
        ),
    ] = None,
    allow_large_alpha: Annotated[
        bool, typer.Option("--allow-large-alpha", help="Accept a level above 0.5.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Start to monitor agents after a release."""
    if predictor is not None:
        own = parse(read(predictor), str(predictor))
        level, agent = own.level(alpha), agent or [own.agent or "new-site"]
        alpha = max(level.alpha, 1 - (level.proved or 1.0))
        several = isinstance(own.score_object, LabelScore)
        classes = classes or (own.n_classes or 0 if several else 0)
    if not agent or alpha is None:
        raise InputError("must be given, or --predictor", field="--agent and --alpha")
    sizes = calibrated_on or []
    if len(sizes) not in (0, 1, len(agent)):
        raise InputError(
            f"--calibrated-on must be given once or for each of {len(agent)} agents, got "
            f"{len(sizes)} numbers"
        )
    slack = max((calibration_slack(n, alpha, agents=len(agent)) for n in sizes), default=0.0)
    terms = MonitorTerms(
        alpha,
        tuple(agent),
        classes,
        class_alpha,
        delta,
        tolerance + slack,
        allow_large_alpha=allow_large_alpha,
    )
    save_monitor(Monitor(terms), state, replace=False)
    output, where = Output(as_json), f"one of {len(agent)} agents" if len(agent) > 1 else agent[0]
    output.say(
        f"{state}: alarms when coverage falls below {1 - terms.limit():.4f} at {where}; any false "
        f"alarm until they are calibrated again has probability {delta:g} at most"
    )
    output.done(state=state, agents=agent, limit=1 - terms.limit(), delta=delta)


@app.command()
def update(
    state: State,
    rows: Annotated[Path, typer.Argument(help="Rows with labels: CSV or JSON; - is stdin.")],
    agent: Annotated[
        str | None, typer.Option(envvar="FEDWQCP_AGENT", help="Agent whose rows these are.")
    ] = None,
    sets: Annotated[
        Path | None, typer.Option(help="Sets of `agent predict`; rows then hold id and label.")
    ] = None,
    batch: Annotated[
        str | None,
        typer.Option(
            help="Name of these rows; a repeated name is refused. Rows that are added again "
            "without a name, or under another, count again."
        ),
    ] = None,
    log: Annotated[
        Path | None, typer.Option(help="JSON lines, one for each update; by default STATE.log.")
    ] = None,
    on_alarm: Annotated[
        str | None,
        typer.Option(help="Command that opens the next round; it runs once for each alarm."),
    ] = None,
    on_alarm_days: Annotated[
        float, typer.Option(help="Minimum days between two rounds that --on-alarm opens.")
    ] = 7.0,
    check: Check = False,
    as_json: AsJson = False,
) -> None:
    """Add rows whose labels have arrived, in order of arrival."""
    words = None if on_alarm is None else _words(on_alarm)
    check_days(on_alarm_days)
    check_file_name(state)
    data = sys.stdin.buffer.read() if str(rows) == "-" else read(rows)
    batches = read_batches(data, agent, None if sets is None else read(sets))
    if not batches:
        Output(as_json).say(f"{rows}: no rows, so nothing was added")
    said: list[Standing] = []
    now = datetime.now(UTC).isoformat(timespec="seconds")
    with changing(state, log or state.with_name(f"{state.name}.log")) as monitor:
        for name, own in batches.items():
            standings = monitor.absorb(name, own, batch)
            monitor.unlogged += (log_line(monitor.updates, now, standings),)
            said += standings
        others = [alarm for alarm in monitor.alarms if alarm.agent not in batches]
    standings = (*said, *others)  # an alarm stands until its agent is calibrated again
    opened = {} if words is None else _open_round(state, words, on_alarm_days, standings)
    _end(standings, check, as_json, opened)


@app.command()
def show(state: State, check: Check = False, as_json: AsJson = False) -> None:
    """Show the state of every agent and class, at any time."""
    _end(load_monitor(state).standings(), check, as_json)


@app.command()
def recalibrated(
    state: State,
    agent: Annotated[list[str], typer.Option(help="An agent that has a new threshold.")],
    as_json: AsJson = False,
) -> None:
    """Restart agents that were calibrated again; their alarms end."""
    with changing(state) as monitor:
        for name in agent:
            monitor.recalibrated(name)
        if exists(rounds := _rounds(state)):
            note_round(rounds, RoundEvent(datetime.now(UTC), "recalibrated", tuple(agent)))
    output = Output(as_json)
    output.say(f"{', '.join(agent)}: monitored again, from the first row")
    output.done(state=state, agents=agent)


def _words(command: str) -> list[str]:
    """Split a command into words, and refuse one that cannot be run before any row is added."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise InputError(f"--on-alarm must be a shell command: {error}") from None
    if not words:
        raise InputError("--on-alarm must be a command, got nothing")
    if shutil.which(words[0]) is None:
        raise InputError(f"--on-alarm: there is no program {words[0]!r} here that can be run")
    return words


def _rounds(state: Path) -> Path:
    """Return the file that lists the rounds opened by alarms."""
    return state.with_name(f"{state.name}.rounds")


def _open_round(
    state: Path, words: list[str], days: float, standings: tuple[Standing, ...]
) -> dict[str, object]:
    """Run the command that opens the next round.

    Not where this alarm already opened one, or where the last is less than so many days old.
    """
    alarmed = {standing.agent for standing in standings if standing.status == "alarm"}
    now = datetime.now(UTC)
    with locked(state.parent):
        agents, earliest = claim_round(_rounds(state), alarmed, now, days)
    if not agents:
        return {"opened": (), "earliest": None if earliest is None else earliest.isoformat()}
    try:
        done = subprocess.run(
            words,
            env={**os.environ, "FEDWQCP_ALARMED": ",".join(agents)},
            capture_output=True,
            text=True,
            check=False,
        )
        why = "" if done.returncode == 0 else f"it ended with code {done.returncode}"
        if not why and _says_that_it_failed(done.stdout):
            why = "it says that it failed"
        typer.echo(done.stdout + done.stderr, err=True, nl=False)
    except OSError as error:
        why = str(error.strerror)
    if why:
        with locked(state.parent):
            note_round(_rounds(state), RoundEvent(datetime.now(UTC), "failed", agents))
        raise InputError(f"--on-alarm: no round was opened by {words[0]}: {why}; the alarm stays")
    return {"opened": agents, "earliest": None}


def _says_that_it_failed(printed: str) -> bool:
    """Tell whether the JSON that a command printed says so: ``flwr run`` still ends with code 0."""
    try:
        found = json.loads(printed[printed.index("{") :])
    except ValueError:
        return False
    return isinstance(found, dict) and found.get("success") is False


def _end(
    standings: tuple[Standing, ...],
    check: bool,
    as_json: bool,
    opened: dict[str, object] | None = None,
) -> None:
    """Print the state of each stream; with ``check`` exit with a code of its own on an alarm."""
    output = Output(as_json)
    alarms = [standing for standing in standings if standing.status == "alarm"]
    for standing in standings:
        output.say(standing, style="bold red" if standing in alarms else None)
    if opened and opened["opened"]:
        output.say("the next round was opened; the current release stays in use until it closes")
    elif opened and opened["earliest"]:
        output.say(f"the next round may be opened from {opened['earliest']} on")
    streams = [record_of(standing) for standing in standings]
    output.done(alarms=len(alarms), streams=streams, **(opened or {}))
    if check and alarms:
        raise typer.Exit(ALARMED)
