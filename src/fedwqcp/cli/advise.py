"""``fedwqcp advise``: which method to use, from the record of a round."""

from __future__ import annotations

import json
import re
import shlex
from itertools import count
from pathlib import Path
from typing import Annotated

import typer

from fedwqcp import methods
from fedwqcp.cli.output import AsJson, Output
from fedwqcp.federation.advising import advise_on
from fedwqcp.federation.plan import choose_score
from fedwqcp.federation.record import load
from fedwqcp.theory import Advice
from fedwqcp.wire.payload import ToAll, ToEach
from fedwqcp.wire.round import Round, Setting


def advise(
    records: Annotated[
        list[Path],
        typer.Argument(help="The server's records of rounds: files, or folders of rounds."),
    ],
    alpha: Annotated[
        float | None, typer.Option(help="One level of several; by default all are judged.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say which method to use for the agents of a round, and why."""
    rounds = [load(path / "record.json" if path.is_dir() else path) for path in records]
    advice = advise_on(*rounds, alpha=alpha)
    terms, output = rounds[0].round, Output(as_json)
    if advice.keep:
        output.say(advice)
        output.say("this method is in use already: no new round is needed")
        output.done(advice=advice, command=[], roster="")
        return
    command, roster = _command(terms, advice, _next(records[0])), _roster(terms)
    output.say(advice)
    output.say(
        f"next round, on the same terms:\n{shlex.join(command)}\nwhere ROSTER says:\n{roster}"
    )
    method = methods.get(advice.method, **advice.settings)
    if not method.questions:
        output.say(f"{advice.method} asks for no answers: close the round without any")
    sent = any(issubclass(kind, ToAll | ToEach) for kind in method.outcomes)
    if not sent or advice.settings.get("own"):
        output.say("each agent predicts with --calibration, its own calibration outputs")
    output.done(advice=advice, command=command, roster=roster)


def _command(terms: Round, advice: Advice, out: Path) -> list[str]:
    """Return the words that open the next round: what is advised, all else as it was."""
    has = set(methods.find(advice.method).settings())
    before = terms.method.settings
    kept = {"overflow": before["overflow"]} if "overflow" in has & set(before) else {}
    settings = {**kept, **advice.settings}
    score = terms.score if advice.score == terms.score.name else choose_score(advice.score)
    return [
        *("fedwqcp", "server", "open", "--method", advice.method, *_settings("setting", settings)),
        *("--score", score.name, *_settings("score-setting", score.settings)),
        *("--rule", terms.rule),
        *(word for level in advice.levels for word in ("--alpha", repr(level))),
        *("--quorum", str(terms.quorum), "--agents", "ROSTER", "--out", str(out)),
        *(("--require-signatures",) if terms.keys else ()),
    ]


def _settings(option: str, settings: dict[str, Setting]) -> list[str]:
    """Return settings as they are typed."""

    def _typed(value: Setting) -> str:
        """Write one value as `parse_settings` reads it."""
        return ",".join(map(repr, value)) if isinstance(value, tuple) else str(value)

    words = [(f"--{option}", f"{name}={_typed(value)}") for name, value in settings.items()]
    return [word for pair in words for word in pair]


def _roster(terms: Round) -> str:
    """Return the roster of a round, as a file says it."""
    classes = [] if terms.n_classes is None else [f"n_classes = {terms.n_classes}"]
    agents = json.dumps(list(terms.agents))  # a list of such names reads the same in TOML
    keys = [f"{json.dumps(name)} = {json.dumps(key)}" for name, key in terms.keys.items()]
    table = ["[keys]", *keys] if keys else []
    return "\n".join([f"agents = {agents}", f"max_n = {terms.max_n}", *classes, *table])


def _next(record: Path) -> Path:
    """Return a name beside the record that no round has yet."""
    name = record.resolve().name.removesuffix(".json").removesuffix(".record")
    stem = re.sub(r"-\d+$", "", name)
    names = (record.parent / f"{stem}-{number}.json" for number in count(2))
    return next(path for path in names if not path.exists())
