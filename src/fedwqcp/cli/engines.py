"""``fedwqcp flower`` and ``fedwqcp nvflare``: an app or a job of one's own, and demonstrations."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer
from rich.table import Table

from fedwqcp._io import in_folder, make_folder
from fedwqcp.cli.output import AsJson, Output
from fedwqcp.errors import InputError
from fedwqcp.federation.transport.processes import Deployment, run_demo

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
    """Write a minimal, commented Flower app of your own that runs as it is."""
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


@flower.command()
def demo(
    out: Out = None,
    method: MethodName = "auto",
    alpha: Alpha = 0.1,
    deadline: Deadline = 60.0,
    as_json: AsJson = False,
) -> None:
    """Run one round between a SuperLink and four SuperNodes on this machine, then stop them."""
    from fedwqcp.federation.transport.flower.deployment import LocalFederation

    _demo(LocalFederation, out, method, alpha, deadline, Output(as_json))


@nvflare.command("new")
def new_job(
    folder: Annotated[Path, typer.Argument(help="A new folder; it names the job.")],
    as_json: AsJson = False,
) -> None:
    """Write a commented NVIDIA FLARE job: the terms of a round, and no code."""
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
    """Lock a startup kit: it runs only fedwqcp's classes, no code that a job brings."""
    from fedwqcp.federation.transport.nvflare.deployment import allow

    output, files = Output(as_json), allow(kit)
    for path in files:
        output.say(path)
    output.done(files=files)


@nvflare.command("demo")
def demo_nvflare(
    out: Out = None,
    method: MethodName = "auto",
    alpha: Alpha = 0.1,
    deadline: Deadline = 60.0,
    as_json: AsJson = False,
) -> None:
    """Run one round between a FLARE server and four clients on this machine, then stop them."""
    from fedwqcp.federation.transport.nvflare.deployment import FlareFederation

    _demo(FlareFederation, out, method, alpha, deadline, Output(as_json))


def _demo(
    engine: type[Deployment],
    out: Path | None,
    method: str,
    alpha: float,
    deadline: float,
    output: Output,
) -> None:
    """Run a demonstration in a folder that is kept, or in a temporary one; print its result."""
    from fedwqcp.demo.hospitals import write_sites
    from fedwqcp.federation.audit import audit

    if out is not None:
        if in_folder(out):
            raise InputError(f"--out must be a new or an empty folder, got {out}")
        make_folder(out)
    temporary = TemporaryDirectory(prefix="fedwqcp-") if out is None else nullcontext(str(out))
    with temporary as name:
        folder = Path(name)
        output.say("training the models of four hospitals")
        sites = write_sites(folder / "sites")
        terms = {"method": method, "alpha": alpha, "n-classes": 2, "deadline": deadline}
        result = run_demo(engine, folder, sites, terms, on_step=output.say)
        found = audit(result.record)
    output.say(result.release)
    table = Table("site", "stored", "coverage", "mean size")
    for row in result.sites:
        stored = "yes" if row.stored else "no"
        table.add_row(row.agent, stored, f"{row.coverage:.3f}", f"{row.size:.2f}")
    output.show(table)
    output.say(
        f"round trips: {result.release.rounds}; start {result.seconds['start']:.0f} s, "
        f"run {result.seconds['run']:.0f} s; recomputed from the accepted answers: "
        f"{'the same release' if found.matches else found.difference}"
    )
    output.done(
        method=method,
        guarantee=result.release.guarantee,
        rounds=result.release.rounds,
        sites=result.sites,
        seconds=result.seconds,
        matches=found.matches,
    )
    if out is not None:
        output.say(f"kept: {out}; try `fedwqcp audit {out}/records/*`")
