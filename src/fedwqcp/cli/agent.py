"""``fedwqcp agent``: answer a round and predict, where the data are."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from fedwqcp import metrics
from fedwqcp.errors import InputError
from fedwqcp.federation.agent import Agent
from fedwqcp.federation.files import write_atomic
from fedwqcp.federation.outputs import Outputs, load_outputs
from fedwqcp.federation.scoring import calibration_of
from fedwqcp.federation.scoring import predict as predict_sets
from fedwqcp.federation.store import load
from fedwqcp.federation.transport import folder
from fedwqcp.quantile import conformal_rank
from fedwqcp.sets import Intervals, LabelSets
from fedwqcp.wire.round import Round

app = typer.Typer(no_args_is_help=True)
console = Console(soft_wrap=True)

Name = Annotated[
    str | None, typer.Option("--agent", envvar="FEDWQCP_AGENT", help="Name of this agent.")
]
LabelsFile = Annotated[
    Path | None, typer.Option(help="Labels in an .npy file, where the outputs carry none.")
]


@app.command()
def calibrate(
    round: Annotated[Path, typer.Option(help="The round, as the server sent it.")],
    outputs: Annotated[
        Path, typer.Option(help="Model outputs and labels: npz, npy, csv, parquet.")
    ],
    agent: Name = None,
    ask: Annotated[Path | None, typer.Option(help="A later question of the same round.")] = None,
    labels: LabelsFile = None,
    allow_samples: Annotated[
        bool, typer.Option("--allow-samples", help="Let a method send all scores of single people.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="Where the answer is written  [default: AGENT.json]")
    ] = None,
) -> None:
    """Score the calibration points and write the answer, readable before it is sent."""
    terms = folder.read_round(round)
    name = _name(agent, terms)
    cal = calibration_of(terms, load_outputs(outputs, labels))
    found = re.search(r"\.ask-(\d+)", "" if ask is None else ask.name)
    step = "" if found is None else f".step-{found[1]}"
    path = out or Path(f"{name}{step}.json")
    written = folder.write_answer(Agent(name, terms, cal, allow_samples=allow_samples), path, ask)
    if not written:
        console.print(f"{path} holds this answer already")
    for alpha in terms.alphas:
        if conformal_rank(cal.n, alpha / cal.columns) > cal.n:
            console.print(
                f"note: {cal.n} calibration points are too few for a finite threshold at "
                f"alpha={alpha:g}; what that does is the round's overflow rule",
                style="yellow",
            )
    console.print(f"this is all that leaves ({path}, {path.stat().st_size} bytes):")
    console.print(path.read_text().strip(), markup=False, highlight=False)


@app.command()
def predict(
    release: Annotated[Path, typer.Option(help="The release, as the server sent it.")],
    outputs: Annotated[Path, typer.Option(help="Model outputs on new inputs.")],
    agent: Name = None,
    alpha: Annotated[float | None, typer.Option(help="Which level, if there are several.")] = None,
    calibration: Annotated[
        Path | None, typer.Option(help="Calibration outputs, for methods that need them again.")
    ] = None,
    labels: LabelsFile = None,
    out: Annotated[Path, typer.Option(help="Where the sets are written.")] = Path("sets.csv"),
) -> None:
    """Turn model outputs into prediction sets; with labels, also say how many are covered."""
    terms = load(release)
    name = _name(agent, terms.round)
    new = load_outputs(outputs, labels)
    cal = None
    if calibration is not None:
        cal = calibration_of(terms.round, load_outputs(calibration))
    sets = predict_sets(terms, name, new, alpha=alpha, calibration=cal)
    found = None if new.labels is None or not len(sets) else metrics.measure(name, sets, new.labels)
    write_atomic(out, _table(sets, new).encode())
    mean = f"; mean size {sets.sizes().mean():.4g}" if len(sets) else ""
    console.print(f"{len(sets)} sets in {out}{mean}")
    if found is not None:
        console.print(
            f"coverage {found.coverage:.4f}, 95 % interval {found.low:.4f} to {found.high:.4f}"
        )


def _name(agent: str | None, round: Round) -> str:
    """Return which agent this is."""
    if agent is None and len(round.agents) == 1:
        return round.agents[0]
    if agent is None:
        raise InputError(f"say which agent this is with --agent, one of: {', '.join(round.agents)}")
    if agent not in round.agents:
        raise InputError(
            f"agent {agent!r} is not in the round; its agents: {', '.join(round.agents)}"
        )
    return agent


def _table(sets: LabelSets | Intervals, outputs: Outputs) -> str:
    """Write sets as a table, one line for each row."""
    ids = range(len(sets)) if outputs.ids is None else outputs.ids
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if isinstance(sets, LabelSets):
        writer.writerow(["id", "size", "labels"])
        for row, name in enumerate(ids):
            writer.writerow([name, len(sets[row]), " ".join(map(str, sets[row]))])
    else:
        writer.writerow(["id", "size", "lower", "upper"])
        sizes = sets.sizes()
        for row, name in enumerate(ids):
            writer.writerow([name, repr(float(sizes[row])), *map(repr, sets[row])])
    return text.getvalue()
