"""The command line ``fedwqcp``: its groups of commands, and the commands without a group."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

from fedwqcp import __version__
from fedwqcp import methods as all_methods
from fedwqcp import scores as all_scores
from fedwqcp._io import make_folder, to_toml
from fedwqcp.cli import agent, engines, monitor, report, server
from fedwqcp.cli.output import AsJson, Output, run, with_help
from fedwqcp.demo import demo as four
from fedwqcp.demo.hospitals import hospitals
from fedwqcp.errors import InputError
from fedwqcp.federation.signing import SigningKey, new_key
from fedwqcp.federation.transport.logs import configure_logs
from fedwqcp.kernels import dispatch
from fedwqcp.methods import Method
from fedwqcp.registry import settings_of, typed
from fedwqcp.report.figures import draw_demo, require_matplotlib
from fedwqcp.words import commands

Which = Annotated[str | None, typer.Argument(help="Show one of them in full.")]

app = typer.Typer(
    help="Federated conformal prediction: agree on thresholds while data stay where they are.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
keys = typer.Typer(no_args_is_help=True)
app.add_typer(server.app, name="server", help="Open and close rounds.")
app.add_typer(agent.app, name="agent", help="Answer rounds and predict, where the data are.")
app.add_typer(monitor.app, name="monitor", help="Watch coverage after release, as labels arrive.")
app.add_typer(engines.flower, name="flower", help="Rounds over Flower: an app of your own.")
app.add_typer(engines.nvflare, name="nvflare", help="Rounds over NVIDIA FLARE: a job of your own.")
app.add_typer(keys, name="keys", help="Keys that sign answers.")


def main() -> None:
    """Run the command line."""
    configure_logs()
    run(app)


def _version(show: bool) -> None:
    if show:
        typer.echo(f"fedwqcp {__version__}\nkernels: {dispatch.backend().name}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")] = False,
) -> None:
    """Federated conformal prediction: agree on thresholds while data stay where they are."""
    del version, debug  # both are read before a command runs
    dispatch.backend()  # what the environment says is refused now, not on large data
    dispatch.threads()


def demo(
    out: Annotated[Path, typer.Option(help="Folder for report and figure.")] = Path("out"),
    seed: Annotated[int, typer.Option(help="The same seed gives the same numbers.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Show four real hospitals: what is promised, and what it costs."""
    output = Output(as_json)
    from fedwqcp.report import html

    require_matplotlib()
    html.require_report()
    make_folder(out)
    sites, spread = hospitals(seed), four.committed()
    release = four.calibrated(sites, "auto", seed)
    report = release.report(out / "report.html", {site.name: site.test for site in sites})
    figure = draw_demo(spread, out / "demo.png")
    output.say(four.screen(sites, release, spread))
    covered = {site.name: four.rates(release, site)[0] for site in sites}
    output.done(commands.pictured, files=(figure,), report=report, covered=covered)


def certs(
    folder: Annotated[Path, typer.Argument(help="Where to write; nothing is replaced.")],
    agent: Annotated[list[str], typer.Option(help="Name of a site; repeat for each.")],
    host: Annotated[
        list[str] | None, typer.Option(help="Name or address of the server; repeat for several.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make a trial certificate of a server, and a key for each site."""
    from fedwqcp.federation.certs import DAYS, make_certs

    files = make_certs(folder, agent, host or ["localhost", "127.0.0.1"])
    Output(as_json).done(commands.certificates, files=files, days=DAYS)


@keys.command("new")
def new_signing_key(
    key: Annotated[Path, typer.Argument(help="Where the private key is written.")],
    as_json: AsJson = False,
) -> None:
    """Make a private key, and print its public half for the roster."""
    public, output = new_key(key), Output(as_json)
    output.done(commands.new_key, key=key, public=public)
    output.say(_roster_line(key, public))


@keys.command("show")
def show_public_key(
    key: Annotated[Path, typer.Argument(help="A private key.")], as_json: AsJson = False
) -> None:
    """Print the public half of a private key."""
    public, output = SigningKey(key).public, Output(as_json)
    output.say(_roster_line(key, public))
    output.done(key=key, public=public)


def _roster_line(key: Path, public: str) -> str:
    """Return what the roster says of a key, under [keys]."""
    plain = re.fullmatch(r"[A-Za-z0-9_-]+", key.stem)
    return f"{key.stem if plain else to_toml(key.stem)} = {to_toml(public)}"


def methods(name: Which = None, as_json: AsJson = False) -> None:
    """List all methods with guarantee and settings, or show one."""
    _list(all_methods, name, Output(as_json), "methods")


def scores(name: Which = None, as_json: AsJson = False) -> None:
    """List all scores with their settings, or show one."""
    _list(all_scores, name, Output(as_json), "scores")


def _list(known: ModuleType, name: str | None, output: Output, kind: str) -> None:
    """List all methods with their guarantees, or all scores; or show one in full."""
    if name is not None:
        formula = re.compile(r"\n\.\. math::\n(\n| .*\n)*")  # LaTeX is for the site
        text = formula.sub("\n", inspect.getdoc(known.get(name)) or "").partition("Examples\n--")[0]
        output.say(text.rstrip())
        output.done(name=name, text=text.rstrip())
        return
    listed, written = [], []
    for key in known.available():
        try:
            thing = known.get(key)
        except InputError as error:  # a faulty plug-in hides no other method
            output.say(error, style="yellow")
            continue
        settings = {name: getattr(thing, name) for name in settings_of(thing)}
        summary = (type(thing).__doc__ or "").partition("\n")[0]
        proved = {"guarantee": thing.guarantee} if isinstance(thing, Method) else {}
        listed.append({"name": key, "settings": settings, "summary": summary} | proved)
        written.append(", ".join(f"{name}={typed(value)}" for name, value in settings.items()))
    output.say(commands.known(zip(listed, written, strict=True)))
    output.done(**{kind: listed})


for command in (demo, server.audit, report.report, certs, methods, scores):
    app.command()(command)
with_help(app)
