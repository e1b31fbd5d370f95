"""``fedwqcp server``: open a round, close it with the answers that came."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from fedwqcp import methods, scores
from fedwqcp.cli.agents_table import agents_table
from fedwqcp.cli.output import AsJson, Output
from fedwqcp.cli.settings import parse_settings
from fedwqcp.errors import InputError
from fedwqcp.federation.plan import Roster, choose_method, choose_score, load_roster, new_id
from fedwqcp.federation.plan import preset as find_preset
from fedwqcp.federation.transport import folder
from fedwqcp.report.terminal import released
from fedwqcp.scores import Score
from fedwqcp.theory import Diagnosis, GroupDiagnosis, diagnose_groups, diagnose_release
from fedwqcp.wire.release import Release
from fedwqcp.wire.round import Round

app = typer.Typer(no_args_is_help=True)

_NEXT = (
    "to the agents, who answer with `fedwqcp agent calibrate --ask`; then close it again with the "
    "answers of all steps so far"
)


@app.command("open")
def open_(
    agents: Annotated[Path, typer.Option(help="Roster: a TOML file that names the agents.")],
    alpha: Annotated[list[float], typer.Option(help="Miscoverage level; repeat for several.")],
    method: Annotated[
        str, typer.Option(help="Name of a method; `fedwqcp advise` chooses one from a record.")
    ] = "fedwq-cp",
    setting: Annotated[
        list[str] | None, typer.Option(help="Setting of the method, name=value.")
    ] = None,
    score: Annotated[str | None, typer.Option(help="Name of a score; by default aps.")] = None,
    score_setting: Annotated[
        list[str] | None, typer.Option(help="Setting of the score, name=value.")
    ] = None,
    rule: Annotated[
        str | None, typer.Option(help="Set rule: leq, leq_top1 or until; by default leq.")
    ] = None,
    preset: Annotated[
        str | None, typer.Option(help="Score, rule and overflow together: sound or paper.")
    ] = None,
    by: Annotated[
        str | None, typer.Option(help="A threshold for each label, or for each group.")
    ] = None,
    group: Annotated[
        list[str] | None, typer.Option(help="Name of a group, for --by group; repeat for all.")
    ] = None,
    quorum: Annotated[int | None, typer.Option(help="Sound answers that a release needs.")] = None,
    require_signatures: Annotated[
        bool,
        typer.Option(
            "--require-signatures",
            help="Take answers alone that are signed with the keys that the roster names.",
        ),
    ] = False,
    out: Annotated[Path, typer.Option(help="Where the round is written.")] = Path("round.json"),
    as_json: AsJson = False,
) -> None:
    """Open a round: write its terms for the agents."""
    roster = load_roster(agents)
    settings = parse_settings(setting or [])
    chosen_score: Score
    if preset is not None:
        if score or score_setting or rule:
            raise InputError(f"--preset {preset} sets score and rule: leave out --score and --rule")
        chosen = find_preset(preset)
        chosen_score, rule = chosen.score, chosen.rule
        if "overflow" in methods.find(method).settings():
            settings = {"overflow": chosen.overflow, **settings}
    else:
        chosen_score = scores.get(score or "aps", **parse_settings(score_setting or []))  # type: ignore[arg-type]  # checked there
    round = Round(
        id=new_id(),
        method=choose_method(methods.get(method, **settings)),
        score=choose_score(chosen_score),
        alphas=tuple(alpha),
        agents=roster.agents,
        quorum=_first_given(quorum, roster.quorum, len(roster.agents)),
        max_n=_first_given(roster.max_n, Round.max_n),
        rule=rule or "leq",
        key=new_id(),
        n_classes=roster.n_classes,
        by=by,
        groups=tuple(group or ()),
        keys=_keys(roster, agents) if require_signatures else {},
    )
    folder.open_round(round, out)
    output = Output(as_json)
    output.say(f"round {round.id} is open: send {out} to {', '.join(round.agents)}")
    if roster.keys and not require_signatures:
        output.say(f"note: {agents} names keys, and this round takes unsigned answers alone")
    output.done(round=round.id, file=out, agents=round.agents)


@app.command()
def close(
    round: Annotated[Path, typer.Argument(help="The round, as it was opened.")],
    answers: Annotated[list[Path] | None, typer.Argument(help="Answers of the agents.")] = None,
    out: Annotated[Path, typer.Option(help="Where the release is written.")] = Path("release.json"),
    as_json: AsJson = False,
) -> None:
    """Close a round: admit or refuse each answer, and release the thresholds."""
    closed, output = folder.close_round(round, answers or [], out), Output(as_json)
    refused = [str(refusal) for refusal in closed.refusals]
    for refusal in refused:
        output.say(f"refused: {refusal}", style="yellow")
    if closed.release is None:
        names = ", ".join(str(path) for path in closed.asks)
        output.say(f"the round goes on: send {names} {_NEXT}")
        output.done(closed=False, asks=closed.asks, refused=refused)
        return
    if closed.replaced:
        output.say(f"{out} held something else and was replaced", style="yellow")
    if closed.already:
        output.say("this round was closed before: its record decides, and no answer is added")
    else:
        output.say(f"closed: send {out} to the agents; the record beside {round} stays here")
    release = closed.release
    output.show(agents_table(release, ascii=output.console.options.ascii_only))
    thresholds, found = released(release), list(_diagnoses(release))
    for line in (*thresholds, *found):
        output.say(line)
    output.done(
        closed=True,
        already=closed.already,
        release=out,
        refused=refused,
        method=release.round.method.name,
        guarantee=release.guarantee,
        assumption=release.assumption,
        rounds=release.rounds,
        agents=release.agents,
        thresholds=thresholds,
        diagnoses=found,
    )


def _keys(roster: Roster, path: Path) -> dict[str, str]:
    """Return the public key of every agent."""
    keys = roster.keys or {}
    missing = [name for name in roster.agents if name not in keys]
    if missing:
        raise InputError(
            f"--require-signatures needs a public key of every agent: {path} names none for "
            f"{', '.join(missing)}; each site makes its own with `fedwqcp keys new` and sends the "
            "public half"
        )
    return keys


def _first_given(*values: int | None) -> int:
    """Return the first value that was given; 0 is one."""
    return next(value for value in values if value is not None)


def _diagnoses(release: Release) -> Iterator[Diagnosis | GroupDiagnosis]:
    """Assess from the summaries whether averaging was safe, where thresholds were averaged."""
    score = scores.get(release.round.score.name, **release.round.score.settings)  # type: ignore[arg-type]  # checked there
    bounds = score.bounds(release.round.n_classes)
    for alpha in release.round.alphas:
        if release.round.by is not None:
            yield diagnose_groups(release, alpha, bounds)
            continue
        tasks = release.tasks_of(alpha)
        for task in tasks:
            if found := diagnose_release(release, task, alpha / len(tasks), bounds):
                yield found
