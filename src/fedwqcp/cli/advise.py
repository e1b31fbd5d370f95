"""``fedwqcp advise``: which method, score and overflow rule to use, from a first look."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedwqcp.cli.output import AsJson, Output
from fedwqcp.federation.advising import advise_on
from fedwqcp.federation.record.store import load


def advise(
    records: Annotated[
        list[Path],
        typer.Argument(help="The server's records of first looks: files, or folders of rounds."),
    ],
    alpha: Annotated[float | None, typer.Option(help="Which level, if there are several.")] = None,
    as_json: AsJson = False,
) -> None:
    """Say which method to use for the agents of a round, and why."""
    looks = [load(path / "record.json" if path.is_dir() else path) for path in records]
    advice = advise_on(*looks, alpha=alpha)
    output = Output(as_json)
    output.say(advice)
    levels = "".join(f" --alpha {level:g}" for level in looks[0].round.alphas)
    settings = "".join(f" --setting {name}={value}" for name, value in advice.settings.items())
    output.say(
        f"next round: fedwqcp server open --method {advice.method}{settings} "
        f"--score {advice.score}{levels} --agents ROSTER"
    )
    output.done(advice=advice)
