"""``fedwqcp monitor``: tell whether a threshold is still valid, now that labels arrive."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from fedwqcp._io import check_file_name, read
from fedwqcp.cli.output import AsJson, Output
from fedwqcp.errors import InputError, MissingExtraError
from fedwqcp.metrics import MIN_COUNT
from fedwqcp.monitor import (
    BatchCounts,
    Monitor,
    MonitorTerms,
    Standing,
    changing,
    load_monitor,
    read_batches,
    read_column,
    save_monitor,
)
from fedwqcp.monitor.state import record_of
from fedwqcp.monitor.tables import batch_row, gravest, standing_row
from fedwqcp.serve import parse
from fedwqcp.words import monitor as words

app = typer.Typer(no_args_is_help=True)

State = Annotated[
    Path,
    typer.Argument(help="The monitor's file, which `monitor open` writes, such as state.json."),
]
Check = Annotated[
    bool, typer.Option("--check", help="Exit with code 5 while there is an alarm, for schedulers.")
]
Rows = Annotated[Path, typer.Argument(help="Rows in CSV or JSON; - is stdin.")]
OneAgent = Annotated[
    str | None, typer.Option(envvar="FEDWQCP_AGENT", help="Agent whose rows these are.")
]
BatchName = Annotated[
    str | None,
    typer.Option(
        help="Name of these rows, such as week-7: alarms name it, a repeated one is refused. Rows "
        "that are added again without a name, or under another, count again."
    ),
]
Points = Annotated[
    list[int] | None,
    typer.Option(
        help="Calibration points of each agent (one number for all, or repeat it for each): "
        "adds a tolerance for the chance in calibration."
    ),
]
ALARMED = 5

BATCHES = 12
"""Batches of an agent that are printed, the latest ones."""


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
        list[Path] | None,
        typer.Option(
            help="A site's predictor, which tells agent, level and classes or groups; repeat for "
            "each site."
        ),
    ] = None,
    classes: Annotated[int, typer.Option(help="Number of classes, to monitor each one too.")] = 0,
    class_alpha: Annotated[
        float | None, typer.Option(help="Miscoverage accepted within a class; by default alpha.")
    ] = None,
    delta: Annotated[float, typer.Option(help="Probability of any false alarm.")] = 0.05,
    calibrated_on: Points = None,
    as_json: AsJson = False,
) -> None:
    """Start to monitor agents after a release."""
    groups: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    if predictor:
        sites = [parse(read(path), str(path)) for path in predictor]
        first, levels = sites[0], [site.level(alpha) for site in sites]
        if any(site.score_object.losses for site in sites):
            raise InputError("controls a risk: a monitor watches coverage", field="--predictor")
        agent = agent or [site.agent or "new-site" for site in sites]
        promised = {max(level.alpha, 1 - (level.proved or 1.0)) for level in levels}
        if len(promised) > 1 or any(
            (site.classes, site.n_classes, site.groups)
            != (first.classes, first.n_classes, first.groups)
            for site in sites
        ):
            raise InputError(
                "must promise the same level for the same classes or groups: open a monitor for "
                "each that differs",
                field="--predictor",
            )
        (alpha,) = promised
        groups = first.groups
        if first.by == "label":  # else nothing is promised within a class
            classes = first.n_classes or 0
        names = first.classes if len(first.classes) == classes else ()
    if not agent or alpha is None:
        raise InputError("must be given, or --predictor", field="--agent and --alpha")
    terms = MonitorTerms(alpha, tuple(agent), classes, class_alpha, delta, groups, names)
    monitor = Monitor(terms, _points(agent, calibrated_on))
    save_monitor(monitor, state, replace=False)
    floors = {one.agent: one.floor for one in monitor.standings() if one.label is None}
    output = Output(as_json)
    output.say(
        f"{state}: alarms when coverage falls below {min(floors.values()):.4f}"
        + (f" to {max(floors.values()):.4f}" if len(set(floors.values())) > 1 else "")
    )
    output.say(f"Any false alarm until the next calibration: probability {delta:g} at most")
    output.done(state=state, agents=agent, limits=floors, delta=delta)


@app.command()
def update(
    state: State,
    rows: Rows,
    agent: OneAgent = None,
    sets: Annotated[
        Path | None, typer.Option(help="Sets of `agent predict`; rows then hold id and label.")
    ] = None,
    batch: BatchName = None,
    check: Check = False,
    as_json: AsJson = False,
) -> None:
    """Add rows whose labels have arrived, in order of arrival."""
    check_file_name(state)
    batches = read_batches(_read(rows), agent, None if sets is None else read(sets))
    if not batches:
        Output(as_json).say(f"{rows}: no rows, so nothing was added")
    with changing(state) as monitor:
        for name, rows_of in batches.items():
            monitor.absorb(name, rows_of, batch)
    concerned = {*batches, *(alarm.agent for alarm in monitor.alarms)}  # an alarm stands
    _end(state, monitor, [name for name in monitor.sites if name in concerned], check, as_json)


@app.command()
def inputs(
    state: State,
    rows: Rows,
    agent: Annotated[str, typer.Option(envvar="FEDWQCP_AGENT", help="Agent whose rows these are.")],
    column: Annotated[
        str, typer.Option(help="The number to test: size of the set, or a score of the top label.")
    ] = "size",
    batch: BatchName = None,
    baseline: Annotated[
        bool, typer.Option("--baseline", help="Rows from when the threshold was known to hold.")
    ] = False,
    check: Check = False,
    as_json: AsJson = False,
) -> None:
    """Test inputs before labels arrive, such as sizes of sets."""
    values = read_column(_read(rows), column)
    with changing(state) as monitor:
        monitor.update_inputs(agent, values, batch=batch, baseline=baseline)
    _end(state, monitor, [agent], check, as_json)


@app.command()
def show(
    state: State,
    agent: Annotated[
        str | None, typer.Option(help="Show the batches of this agent; by default all agents.")
    ] = None,
    openmetrics: Annotated[
        bool, typer.Option("--openmetrics", help="Print gauges for a textfile collector.")
    ] = False,
    check: Check = False,
    as_json: AsJson = False,
) -> None:
    """Show the state of every agent and class, at any time."""
    monitor = load_monitor(state)
    standings = monitor.standings(agent)
    names = list(dict.fromkeys(one.agent for one in standings))
    if openmetrics:
        typer.echo(_openmetrics(standings), nl=False)
        return
    output = Output(as_json)
    for line in _batch_table(monitor, names[0]) if len(names) == 1 else _agent_table(monitor):
        output.say(line)
    _end(state, monitor, names, check, as_json, table=True)


@app.command()
def recalibrated(
    state: State,
    agent: Annotated[list[str], typer.Option(help="An agent that has a new threshold.")],
    calibrated_on: Points = None,
    as_json: AsJson = False,
) -> None:
    """Restart agents that were calibrated again; their alarms end."""
    points = _points(agent, calibrated_on)
    with changing(state) as monitor:
        for name in agent:
            monitor.recalibrated(name, calibrated_on=points.get(name))
    output = Output(as_json)
    output.say(f"{', '.join(agent)}: earlier rows no longer count")
    output.done(state=state, agents=agent)


def _read(rows: Path) -> bytes:
    return sys.stdin.buffer.read() if str(rows) == "-" else read(rows)


def _points(agents: Sequence[str], sizes: Sequence[int] | None) -> dict[str, int]:
    """Return the calibration points of each agent, where they are given."""
    if len(sizes or ()) not in (0, 1, len(agents)):
        raise InputError(
            f"--calibrated-on must be given once or for each of {len(agents)} agents, got "
            f"{len(sizes or ())} numbers"
        )
    every = list(sizes or ()) * (len(agents) if len(sizes or ()) == 1 else 1)
    return dict(zip(agents, every, strict=False))


def _end(
    file: Path, monitor: Monitor, agents: list[str], check: bool, as_json: bool, table: bool = False
) -> None:
    """Say how agents stand; with ``check`` exit with a code of its own on an alarm."""
    output = Output(as_json)
    standings = [one for name in agents for one in monitor.standings(name)]
    for name in agents:
        streams = [one for one in standings if one.agent == name]
        bad = any("alarm" in (one.state, one.inputs) for one in streams)
        if not table or bad:
            for line in _lines(streams, monitor.sites[name].batches, str(file), short=table):
                output.say(line, style="bold red" if bad and not line.startswith(" ") else None)
    alarms = [one for one in standings if one.state == "alarm"]
    changed = [one for one in standings if one.inputs == "alarm"]
    output.done(
        alarms=len(alarms),
        input_alarms=len(changed),
        streams=[record_of(one) for one in standings],
        batches={name: monitor.sites[name].batches for name in agents},
    )
    if check and (alarms or changed):
        raise typer.Exit(ALARMED)


def _lines(
    streams: Sequence[Standing], batches: Sequence[BatchCounts], file: str, *, short: bool
) -> Iterator[str]:
    """Say in at most five lines how an agent stands, and what to do."""
    whole, *parts = streams
    alarms = [one for one in streams if one.state == "alarm"]
    yield words.state(streams, batches[-1] if batches and not short else None)
    if whole.coverage is not None and not short:
        yield f"  {words.coverage(whole)}"
    if whole.inputs == "alarm":
        yield f"  {words.inputs_changed(whole)}"
    for one in alarms[:1]:
        yield f"  {words.fallen(one, rows=one.since_n >= MIN_COUNT)}"
    if (states := words.part_states(parts)) and (alarms or not short):
        yield f"  {states}"
    if alarms:
        yield f"  {words.recalibrate(whole.agent, file)}"


def _batch_table(monitor: Monitor, agent: str) -> Iterator[str]:
    """Show the latest batches of an agent, then all its rows since the calibration."""
    whole, batches = monitor.standings(agent)[0], monitor.sites[agent].batches[-BATCHES:]
    yield f"{agent}: alarms when coverage falls below {whole.floor:.3f}"
    yield "The interval of all rows holds however often you look; that of a batch is its own."
    rows = [*map(batch_row, batches), {**_row(whole), "batch": "all rows"}]
    yield from _lines_of(rows, "batch", "mean size")


def _agent_table(monitor: Monitor) -> Iterator[str]:
    """Show one line for each agent, the gravest first."""
    agents = gravest(one for one in monitor.standings() if one.label is None)
    yield from _lines_of([_row(one) for one in agents], "agent", "last 4 batches")


def _row(one: Standing) -> dict[str, str]:
    return {**standing_row(one), "rows": f"{one.n:,}", "inputs": one.inputs}


def _lines_of(rows: Iterable[Mapping[str, str]], name: str, number: str) -> Iterator[str]:
    """Return a table of at most 80 columns."""
    columns = {name: "<16", "rows": ">9", "coverage": ">8", "95 % interval": "<14", number: ">9"}
    columns |= {"state": "<8", "inputs": "<"}
    for row in ({column: column.removesuffix(" batches") for column in columns}, *rows):
        cells = ["-" if row[column] == "?" else row[column] for column in columns]
        cells[0] = cells[0] if len(cells[0]) <= 16 else f"{cells[0][:15]}…"
        yield " ".join(map(format, cells, columns.values())).rstrip()


def _openmetrics(standings: Sequence[Standing]) -> str:
    """Return gauges; a class of fewer than ten rows has none."""
    try:
        from prometheus_client import CollectorRegistry, Gauge
        from prometheus_client.openmetrics.exposition import generate_latest
    except ImportError as error:
        raise MissingExtraError("printing gauges", "openmetrics") from error
    registry, gauges = CollectorRegistry(), {}
    for name, about in _GAUGES.items():
        gauges[name] = Gauge(f"fedwqcp_{name}", about, ["agent", "class"], registry=registry)
    for one in standings:
        whole, told = one.label is None, one.n >= MIN_COUNT
        values = {
            "coverage_limit": one.floor,
            "alarm": one.state == "alarm",
            "watch": one.state == "watch",
            "inputs_alarm": one.inputs == "alarm" if whole else None,
            "rows": one.n if whole or told else None,
            "coverage": one.coverage if told else None,
            "coverage_low": one.low if told else None,
            "coverage_high": one.high if told else None,
            "coverage_recent": one.recent_hits / one.recent_n
            if one.recent_n >= MIN_COUNT
            else None,
        }
        for name, value in values.items():
            if value is not None:
                gauges[name].labels(one.agent, one.name).set(float(value))
    text: bytes = generate_latest(registry)
    return text.decode()


_GAUGES = {
    "coverage": "Share of rows covered since the calibration",
    "coverage_low": "Lower end of its 95 % confidence sequence",
    "coverage_high": "Upper end of its 95 % confidence sequence",
    "coverage_limit": "Coverage below which an alarm is due",
    "coverage_recent": "Share of rows covered in the last four batches",
    "rows": "Rows since the calibration",
    "alarm": "1 while coverage has dropped",
    "watch": "1 while a whole interval lies below the limit",
    "inputs_alarm": "1 while inputs have changed",
}
