"""``fedwqcp monitor``: tell whether a threshold is still valid, now that labels arrive."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from fedwqcp._io import read
from fedwqcp.cli.output import AsJson, Output
from fedwqcp.errors import InputError, MissingExtraError
from fedwqcp.metrics import MIN_COUNT
from fedwqcp.monitor import (
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
from fedwqcp.outputs import in_file
from fedwqcp.serve import Predictor, parse
from fedwqcp.words import monitor as words

app = typer.Typer(no_args_is_help=True)

State = Annotated[
    Path,
    typer.Argument(help="The monitor's file, which `monitor open` writes, such as state.json."),
]
Check = Annotated[
    bool, typer.Option("--check", help="Exit with code 5 while there is an alarm, for schedulers.")
]
Rows = Annotated[Path, typer.Argument(help="Rows in CSV; - is stdin.")]
OneAgent = Annotated[
    str | None,
    typer.Option(
        envvar="FEDWQCP_AGENT", help="Agent whose rows these are; not needed if there is only one."
    ),
]
BatchName = Annotated[
    str | None,
    typer.Option(
        help="Name of these rows, such as week-7: alarms name it, a repeated one is refused. Rows "
        "that are added again without a name, or under another, count again."
    ),
]
Agents = Annotated[list[str] | None, typer.Option(help="An agent; repeat for each.")]
Predictors = Annotated[
    list[Path] | None,
    typer.Option(
        help="A site's predictor, which tells agent, level, classes or groups, and calibration "
        "points; repeat for each site."
    ),
]
Points = Annotated[
    int | None,
    typer.Option(
        help="Calibration points of each agent: adds a tolerance for the chance in calibration. A "
        "predictor knows its own."
    ),
]
ALARMED = 5

BATCHES = 12
"""Batches of an agent that are printed, the latest ones."""


@app.command("open")
def open_state(
    state: State,
    agent: Agents = None,
    alpha: Annotated[
        float | None, typer.Option(help="Miscoverage level that was promised.")
    ] = None,
    predictor: Predictors = None,
    classes: Annotated[int, typer.Option(help="Number of classes, to monitor each one too.")] = 0,
    class_alpha: Annotated[
        float | None, typer.Option(help="Miscoverage accepted within a class; by default alpha.")
    ] = None,
    delta: Annotated[float, typer.Option(help="Probability of any false alarm.")] = 0.05,
    calibrated_on: Points = None,
    as_json: AsJson = False,
) -> None:
    """Start to monitor agents after a release."""
    sites, promised = _sites(predictor, alpha, agent)
    names, first = tuple(agent or sites), next(iter(sites.values()), None)
    alpha = alpha if promised is None else promised
    if not names or alpha is None:
        raise InputError("must be given, or --predictor", field="--agent and --alpha")
    if first is not None and first.by == "label":  # else nothing is promised within a class
        classes = first.n_classes or 0
    labels = first.classes if first is not None and len(first.classes) == classes else ()
    groups = () if first is None else first.groups
    n_labels = 0 if first is None else first.n_classes or 0
    terms = MonitorTerms(alpha, names, classes, class_alpha, delta, groups, labels, n_labels)
    rounds = {name: site.round for name, site in sites.items() if name in names}
    monitor = Monitor(terms, _points(names, sites, calibrated_on), rounds)
    save_monitor(monitor, state, replace=False)
    whole = [one for one in monitor.standings() if one.label is None]
    output = Output(as_json)
    output.say(f"{state}: {words.limits(whole, 1 - alpha)}")
    output.say(f"any false alarm until the next calibration: probability {delta:g} at most")
    limits = {one.agent: one.floor for one in whole}
    output.done(state=state, agents=names, limits=limits, delta=delta)


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
    data, beside = _read(rows), None if sets is None else read(sets)
    with changing(state) as monitor:
        files = (_called(rows), str(sets))
        batches = read_batches(data, agent or _only(monitor), beside, files)
        for name, rows_of in batches.items():
            try:
                monitor.absorb(name, rows_of, batch)
            except InputError as error:
                named = error if len(batches) > 1 else error.at_line(2)
                raise named.within(files[0]) from None
    output = Output(as_json)
    if not batches:
        output.say(f"{rows}: no rows, so nothing was added")
    concerned = {*batches, *(alarm.agent for alarm in monitor.alarms)}  # an alarm stands
    names = [name for name in monitor.sites if name in concerned]
    of_one = _lines(monitor, names[0], str(state), batch) if len(names) == 1 else ()
    for line in of_one or (_agent_table(monitor, names, str(state)) if names else ()):
        output.say(line)
    _end(output, monitor, names, check)


@app.command()
def inputs(
    state: State,
    rows: Rows,
    agent: OneAgent = None,
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
    values, output = read_column(_read(rows), column, _called(rows)), Output(as_json)
    with changing(state) as monitor:
        if (name := agent or _only(monitor)) is None:
            raise InputError("must name one of several agents", field="--agent")
        with in_file(Path(_called(rows))):
            whole = monitor.update_inputs(name, values, batch=batch, baseline=baseline)
    if baseline or not whole.inputs:  # nothing came before
        of = name if batch is None else f"{name}, {batch}"
        output.say(f"{of}: {len(values):,} rows kept as the baseline of its inputs")
    else:
        output.say(words.state([whole], batch or monitor.sites[name].batches[-1].name))
        if whole.inputs == "alarm":
            output.say(f"  {words.inputs_changed(whole)}")
    _end(output, monitor, [name], check)


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
    output, names = Output(as_json), list(dict.fromkeys(one.agent for one in standings))
    if openmetrics:
        typer.echo(_openmetrics(standings), nl=False)
        _exit(standings, check)
        return
    of_one = _batch_table(monitor, names[0], str(state)) if len(names) == 1 else ()
    for line in of_one or _agent_table(monitor, names, str(state)):
        output.say(line)
    _end(output, monitor, names, check)


@app.command()
def recalibrated(
    state: State,
    agent: Agents = None,
    predictor: Predictors = None,
    calibrated_on: Points = None,
    as_json: AsJson = False,
) -> None:
    """Restart agents that were calibrated again; their alarms end."""
    with changing(state) as monitor:
        sites, promised = _sites(predictor, None, agent)
        if not (names := list(dict.fromkeys([*(agent or ()), *sites]))):
            raise InputError(
                "must be given: the predictor of the new calibration, or --agent and "
                "--calibrated-on",
                field="--predictor",
            )
        if promised not in (None, monitor.terms.alpha):
            raise InputError("promises another level: open a monitor for it", field="--predictor")
        points = _points(names, sites, calibrated_on)
        for name in names:
            of_round = sites[name].round if name in sites else ""
            monitor.recalibrated(name, calibrated_on=points.get(name), of_round=of_round)
    output = Output(as_json)
    for name in names:
        limit = words.limits(monitor.standings(name)[:1], 1 - monitor.terms.alpha)
        output.say(f"{name}: earlier rows and the baseline of inputs no longer count; {limit}")
    output.done(state=state, agents=names)


def _read(rows: Path) -> bytes:
    return sys.stdin.buffer.read() if str(rows) == "-" else read(rows)


def _called(rows: Path) -> str:
    return "stdin" if str(rows) == "-" else str(rows)


def _only(monitor: Monitor) -> str | None:
    """Return the agent of a monitor that has only one."""
    return monitor.terms.agents[0] if len(monitor.terms.agents) == 1 else None


def _sites(
    files: Sequence[Path] | None, alpha: float | None, agents: Sequence[str] | None
) -> tuple[dict[str, Predictor], float | None]:
    """Return predictors by agent, and the miscoverage that all of them promise.

    One that names no agent is of a new site, which has the first name that was given.
    """
    sites = [parse(read(path), str(path)) for path in files or ()]
    if any(site.score_object.losses for site in sites):
        raise InputError("controls a risk: a monitor watches coverage", field="--predictor")
    promised = {
        (
            max(level.alpha, 1 - (level.proved or 1.0)),
            *(site.n_classes, site.classes, site.by, site.groups),
        )
        for site in sites
        for level in [site.level(alpha)]
    }
    if len(promised) > 1:
        raise InputError(
            "must promise the same level for the same classes or groups: open a monitor for each "
            "that differs",
            field="--predictor",
        )
    level = next(iter(promised))[0] if promised else None
    new, *_ = agents or ("new-site",)
    return {site.agent or new: site for site in sites}, level


def _points(
    agents: Iterable[str], sites: Mapping[str, Predictor], given: int | None
) -> dict[str, int | tuple[int, ...]]:
    """Return the calibration points of each agent, as given, or as its predictor knows them."""
    if given is not None:
        return dict.fromkeys(agents, given)
    return {name: site.calibrated_on for name, site in sites.items() if site.calibrated_on}


def _end(output: Output, monitor: Monitor, agents: Sequence[str], check: bool) -> None:
    """Tell scripts how agents stand; with ``check`` exit with a code of its own on an alarm."""
    standings = [one for name in agents for one in monitor.standings(name)]
    alarms = sum(one.state == "alarm" for one in standings)
    changed = sum(one.inputs == "alarm" for one in standings)
    output.done(
        alarms=alarms,
        input_alarms=changed,
        streams=[record_of(one) for one in standings],
        batches={name: monitor.sites[name].batches for name in agents},
    )
    _exit(standings, check)


def _exit(standings: Iterable[Standing], check: bool) -> None:
    """End with a code of its own on an alarm, where that is asked for."""
    if check and any("alarm" in (one.state, one.inputs) for one in standings):
        raise typer.Exit(ALARMED)


def _lines(monitor: Monitor, agent: str, file: str, batch: str | None) -> Iterator[str]:
    """Say in at most five lines how an agent stands, and what to do."""
    streams = monitor.standings(agent)
    now = streams[0].calibration
    batches = [one for one in monitor.sites[agent].batches if one.calibration == now]
    last = next((one for one in batches if one.name == batch), batches[-1])
    yield words.state(streams, last.name)
    if streams[0].coverage is not None:
        yield f"  {words.coverage(streams[0], batch_row(last))}"
    yield from _concerns(streams, file)


def _concerns(streams: Sequence[Standing], file: str) -> Iterator[str]:
    """Say what does not stand well, and what to do."""
    alarms = [one for one in streams if one.state == "alarm"]
    for one in alarms[:1]:
        yield f"  {words.fallen(one, rows=one.since_n >= MIN_COUNT)}"
    if unproved := words.unproved(streams[0]):
        yield f"  {unproved}"
    if states := words.part_states(streams[1:]):
        yield f"  {states}"
    if alarms:
        yield f"  {words.recalibrate(streams[0].agent, file)}"


def _batch_table(monitor: Monitor, agent: str, file: str) -> Iterator[str]:
    """Show the latest batches of an agent, and all its rows since the calibration."""
    whole, *parts = monitor.standings(agent)
    yield f"{agent}: {words.limits([whole], 1.0)}"
    batches = monitor.sites[agent].batches
    since = [one for one in batches if one.calibration == whole.calibration]
    rows = [
        *map(batch_row, since[-BATCHES:]),
        {**_row(whole), "batch": "all rows", "mean size": "?", "state after": whole.state},
    ]
    yield from _table(rows, "batch", "mean size", "state after")
    if whole.inputs == "alarm":
        yield f"  {words.inputs_changed(whole)}"
    yield from _concerns([whole, *parts], file)


def _agent_table(monitor: Monitor, names: Sequence[str], file: str) -> Iterator[str]:
    """Show one line for each agent, the gravest first, and what to do about alarms."""
    streams = {name: monitor.standings(name) for name in names}
    agents = gravest(whole for whole, *_ in streams.values())
    yield from _table([_row(one) for one in agents], "agent", "last 4 batches")
    for one in agents:
        if one.inputs == "alarm":
            yield f"  {words.inputs_changed(one)}"
        if "alarm" in (stream.state for stream in streams[one.agent]):
            yield from _concerns(streams[one.agent], file)


def _row(one: Standing) -> dict[str, str]:
    return {**standing_row(one), "rows": f"{one.n:,}", "inputs": one.inputs}


def _table(
    rows: Iterable[Mapping[str, str]], name: str, number: str, state: str = "state"
) -> Iterator[str]:
    """Return a table of at most 80 columns."""
    columns = {name: "<16", "rows": ">8", "coverage": ">8", "95 % interval": "<14", number: ">9"}
    columns |= {state: f"<{max(8, len(state))}", "inputs": "<"}
    for row in ({column: column.removesuffix(" batches") for column in columns}, *rows):
        cells = ["-" if row[column] == "?" else row[column] for column in columns]
        cells[0] = cells[0] if len(cells[0]) <= 16 else f"{cells[0][:15]}…"
        yield " ".join(map(format, cells, columns.values())).rstrip()


def _openmetrics(standings: Sequence[Standing]) -> str:
    """Return gauges for Prometheus."""
    try:
        from prometheus_client import CollectorRegistry, Gauge
        from prometheus_client.openmetrics.exposition import generate_latest
    except ImportError as error:
        raise MissingExtraError("printing gauges", "openmetrics") from error
    registry, gauges = CollectorRegistry(), {}
    for one in standings:
        for name, about, value in _gauges(one):
            if name not in gauges:
                gauges[name] = Gauge(name, about, ["agent", "class"], registry=registry)
            if value is not None:
                gauges[name].labels(one.agent, one.name).set(float(value))
    text: bytes = generate_latest(registry)
    return text.decode()


def _gauges(one: Standing) -> Iterator[tuple[str, str, float | None]]:
    """Give name, meaning and value; None where there are fewer than ten rows."""
    whole, told = one.label is None, one.n >= MIN_COUNT
    recent = one.recent if one.recent_n >= MIN_COUNT else None
    rows = one.n if whole or told else None
    changed = one.inputs == "alarm" if whole else None
    yield "fedwqcp_rows", "Rows since the calibration", rows
    yield "fedwqcp_coverage", "Share of them that was covered", one.coverage if told else None
    yield "fedwqcp_coverage_recent", "The same in the last four batches", recent
    yield "fedwqcp_coverage_limit", "An alarm proves that it is below", one.floor
    yield "fedwqcp_alarm", "1 while coverage has dropped", one.state == "alarm"
    yield "fedwqcp_watch", "1 while a whole interval lies below", one.state == "watch"
    yield "fedwqcp_inputs_alarm", "1 while inputs have changed", changed
