"""``fedwqcp flower``: an app of one's own, and a demonstration between real processes."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from fedwqcp.cli.output import AsJson, Output
from fedwqcp.errors import InputError
from fedwqcp.report.terminal import always_left_out, released

app = typer.Typer(no_args_is_help=True)


@app.command()
def new(
    folder: Annotated[Path, typer.Argument(help="A new folder; it names the app.")],
    as_json: AsJson = False,
) -> None:
    """Write a minimal, commented Flower app of your own that runs as it is."""
    from fedwqcp.federation.transport.flower.deployment import new_app

    output, files = Output(as_json), new_app(folder)
    for path in files:
        output.say(path)
    output.say(f"put your model in outputs(); {folder / 'README.md'} tells how to run it")
    output.done(files=files)


@app.command()
def demo(
    out: Annotated[
        Path | None, typer.Option(help="Folder to keep; by default a temporary one is removed.")
    ] = None,
    method: Annotated[str, typer.Option(help="Name of a method.")] = "fedwq-cp",
    alpha: Annotated[float, typer.Option(help="Miscoverage level.")] = 0.1,
    deadline: Annotated[float, typer.Option(help="Seconds that a step may take.")] = 60.0,
    as_json: AsJson = False,
) -> None:
    """Run one round between a SuperLink and six SuperNodes on this machine, then stop them."""
    output = Output(as_json)
    if out is not None:
        if out.exists() and any(out.iterdir()):
            raise InputError(f"--out must be a new or an empty folder, got {out}")
        out.mkdir(parents=True, exist_ok=True)
        _demo(out, method, alpha, deadline, output)
        output.say(f"kept: {out}; try `fedwqcp audit {out}/records/*`")
        return
    with tempfile.TemporaryDirectory(prefix="fedwqcp-") as folder:
        _demo(Path(folder), method, alpha, deadline, output)


def _demo(folder: Path, method: str, alpha: float, deadline: float, output: Output) -> None:
    """Run the demonstration in a folder, and print what came of it."""
    from fedwqcp.demo.sites import write_sites
    from fedwqcp.federation.audit import audit
    from fedwqcp.federation.transport.deployment import DemoResult
    from fedwqcp.federation.transport.flower.deployment import run_demo

    output.say("training six models on digits")
    sites = write_sites(folder / "sites")
    terms = {"method": method, "alpha": alpha, "n-classes": 10, "deadline": deadline}
    result: DemoResult = run_demo(folder, sites, terms, on_step=output.say)
    guarantee = f"{result.release.guarantee} ({result.release.assumption})"
    table = Table(title=f"{method}, alpha = {alpha:g}; guarantee: {guarantee}")
    for heading in ("site", "status", "bytes up", "bytes down", "stored", "coverage", "mean size"):
        table.add_column(heading, overflow="fold")
    thresholds = released(result.release)
    out = always_left_out(thresholds)
    for row in result.sites:
        status = "left out" if row.agent in out else f"{row.status} {row.reason}".strip()
        numbers = (str(row.bytes_up), str(row.bytes_down), "yes" if row.stored else "no")
        table.add_row(row.agent, status, *numbers, f"{row.coverage:.3f}", f"{row.size:.2f}")
    output.show(table)
    for threshold in thresholds:
        output.say(threshold)
    found = audit(result.record)
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
        thresholds=thresholds,
        seconds=result.seconds,
        matches=found.matches,
    )
