"""``fedwqcp flower`` and ``fedwqcp nvflare``: an app or a job of one's own, and demonstrations."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from contextlib import nullcontext
from math import nan
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer
from msgspec.structs import asdict
from rich.table import Table

from fedwqcp._io import exists, in_folder, make_folder
from fedwqcp.cli.output import AsJson, Output
from fedwqcp.demo.hospitals import write_sites
from fedwqcp.errors import InputError, QuorumError
from fedwqcp.federation.audit import audit
from fedwqcp.federation.record import load_release
from fedwqcp.federation.release import Release
from fedwqcp.federation.transport.processes import Deployment, round_ended
from fedwqcp.readers import load_outputs

flower = typer.Typer(no_args_is_help=True)
nvflare = typer.Typer(no_args_is_help=True)

Out = Annotated[
    Path | None, typer.Option(help="Folder to keep; by default a temporary one is removed.")
]
MethodName = Annotated[str, typer.Option(help="Name of a method.")]
Alpha = Annotated[float, typer.Option(help="Miscoverage level.")]
Deadline = Annotated[float, typer.Option(help="Seconds that a step may take.")]


@flower.command()
def new(
    folder: Annotated[Path, typer.Argument(help="A new folder; it names the app.")],
    sites: Annotated[
        int | None, typer.Option(help="How many sites take part; asked for in a terminal, else 2.")
    ] = None,
    publisher: Annotated[
        str, typer.Option(help="Who publishes it; on Flower Hub the name of your account.")
    ] = "your-organisation",
    as_json: AsJson = False,
) -> None:
    """Write a commented Flower app of your own that runs as it is."""
    from fedwqcp.federation.transport.flower.deployment import new_app

    if sites is None:
        asked = sys.stdin.isatty() and sys.stdout.isatty() and not as_json
        sites = typer.prompt("How many sites take part?", default=2, type=int) if asked else 2
    output, files = Output(as_json), new_app(folder, sites, publisher)
    for path in files:
        output.say(path)
    output.say(
        f"a roster of {sites} sites; put your model in outputs(); {folder / 'README.md'} says how "
        "to run it"
    )
    output.done(files=files, sites=sites)


@nvflare.command("new")
def new_job(
    folder: Annotated[Path, typer.Argument(help="A new folder; it names the job.")],
    as_json: AsJson = False,
) -> None:
    """Write a commented FLARE job: the terms of a round, and no code."""
    from fedwqcp.federation.transport.nvflare.deployment import new_job

    output, files = Output(as_json), new_job(folder)
    for path in files:
        output.say(path)
    output.say(f"state the roster and the terms in {files[2]}; {files[1]} says how to run it")
    output.done(files=files)


@nvflare.command()
def allow(
    kit: Annotated[Path, typer.Argument(help="Startup kit of a site or of the coordinator.")],
    as_json: AsJson = False,
) -> None:
    """Lock a startup kit: it runs no code that a job brings."""
    from fedwqcp.federation.transport.nvflare.deployment import allow

    output, files = Output(as_json), allow(kit)
    for path in files:
        output.say(path)
    output.done(files=files)


@flower.command("demo")
def demo_flower(
    out: Out = None,
    method: MethodName = "auto",
    alpha: Alpha = 0.1,
    deadline: Deadline = 60.0,
    as_json: AsJson = False,
) -> None:
    """Run one round between a SuperLink and four SuperNodes here."""
    from fedwqcp.federation.transport.flower.deployment import LocalFederation

    terms = {"method": method, "alpha": alpha, "deadline": deadline}
    _demo(LocalFederation, out, terms, Output(as_json))


@nvflare.command("demo")
def demo_nvflare(
    out: Out = None,
    method: MethodName = "auto",
    alpha: Alpha = 0.1,
    deadline: Deadline = 60.0,
    as_json: AsJson = False,
) -> None:
    """Run one round between a FLARE server and four clients here."""
    from fedwqcp.federation.transport.nvflare.deployment import FlareFederation

    terms = {"method": method, "alpha": alpha, "deadline": deadline}
    _demo(FlareFederation, out, terms, Output(as_json))


def _demo(
    engine: type[Deployment], out: Path | None, terms: Mapping[str, object], output: Output
) -> None:
    """Run a demonstration in a folder that is kept, or in a temporary one; print its result."""
    if out is not None and in_folder(out):
        raise InputError(f"--out must be a new or an empty folder, got {out}")
    temporary = TemporaryDirectory(prefix="fedwqcp-") if out is None else nullcontext(str(out))
    with temporary as name:
        folder = Path(name).resolve()
        make_folder(folder)
        record, seconds = _round_between(engine, folder, terms, output)
        release, checked = load_release(record / "record.json"), audit(record)
        sites = [_site(release, agent.name, folder / "sites") for agent in release.agents]
    output.say(release)
    table = Table("site", "stored", "coverage", "mean size")
    for site in sites:
        stored = "yes" if site["stored"] else "no"
        table.add_row(site["agent"], stored, f"{site['coverage']:.3f}", f"{site['size']:.2f}")
    output.show(table)
    output.say(
        f"round trips: {release.rounds}; start {seconds['start']:.0f} s, "
        f"run {seconds['run']:.0f} s; recomputed from the accepted answers: "
        f"{'the same release' if checked.matches else checked.difference}"
    )
    output.done(
        method=terms["method"],
        guarantee=release.guarantee,
        rounds=release.rounds,
        sites=sites,
        seconds=seconds,
        matches=checked.matches,
    )
    if out is not None:
        output.say(f"kept: {out}; try `fedwqcp audit {out}/records/*`")


def _round_between(
    engine: type[Deployment], folder: Path, terms: Mapping[str, object], output: Output
) -> tuple[Path, dict[str, float]]:
    """Start an engine and a process for each site, run one round, and stop everything."""
    output.say("training the models of four hospitals")
    sites, records = write_sites(folder / "sites"), folder / "records"
    clock, seconds = time.monotonic(), dict[str, float]()
    output.say(engine.starting)
    with engine(folder / "federation", sites) as federation:
        output.say(f"starting {len(sites)} {engine.sites_run}")
        for name in sites:
            home = folder / "sites" / name
            federation.start_site(name, {"outputs": home / "cal.npz", "folder": home / "kept"})
        federation.wait_online(len(sites))
        seconds["start"] = time.monotonic() - clock
        output.say("calibrating; then handing over the release")
        clock = time.monotonic()
        roster = {"agents": ",".join(sites), "n-classes": 2, "records": str(records)}
        run = federation.submit_round(folder, {**terms, **roster})
        status = federation.wait(run, 180.0, lambda: round_ended(records))
        seconds["run"] = time.monotonic() - clock
        output.say("stopping every process")
    kept = sorted(records.glob("*/record.json"))
    if status.lower() != "finished:completed" or not kept:
        raise QuorumError(f"the run ended as {status}; see {folder / 'federation' / 'logs'}")
    return kept[0].parent, seconds


def _site(release: Release, name: str, sites: Path) -> dict[str, Any]:
    """Return what became of a site, with its stored release measured on its test outputs."""
    path, record = sites / name / "kept" / "release.json", asdict(release.record(name))
    facts = {"agent": record.pop("name"), **record, "stored": exists(path)}
    if not exists(path):
        return {**facts, "coverage": nan, "size": nan}
    calibration, test = (load_outputs(sites / name / file) for file in ("cal.npz", "test.npz"))
    measured = load_release(path).measure(name, test, calibration=calibration)
    return {**facts, "coverage": measured.coverage, "size": measured.size}
