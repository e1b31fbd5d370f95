"""``fedwqcp agent``: answer a round and predict, where the data are."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import numpy as np
import typer

from fedwqcp import metrics
from fedwqcp._io import exists, is_file, keep_apart, write_atomic
from fedwqcp._io import read as read_bytes
from fedwqcp._validation import Bools, Floats, as_labels, named
from fedwqcp.cli import masks
from fedwqcp.cli.output import AllowEmpty, AsJson, LabelsFile, Output
from fedwqcp.errors import InputError
from fedwqcp.federation import approval, inspection
from fedwqcp.federation import predict as prediction
from fedwqcp.federation.advice import promised_to_new_site
from fedwqcp.federation.agent import Agent
from fedwqcp.federation.batches import calibration_in_batches
from fedwqcp.federation.disclosure_ledger import DisclosureLedger
from fedwqcp.federation.disclosure_limit import USUAL_LIMIT, DisclosureLimit
from fedwqcp.federation.fingerprints import calibration_rows
from fedwqcp.federation.plan import Plan
from fedwqcp.federation.predict import predictor_of
from fedwqcp.federation.privacy_budget import Budget
from fedwqcp.federation.record import load_release
from fedwqcp.federation.release import Release, promise
from fedwqcp.federation.signing import SigningKey
from fedwqcp.federation.site_folder import make_site_folder
from fedwqcp.federation.transport import folder
from fedwqcp.findings import Finding
from fedwqcp.groups import as_groups, group_names, in_group
from fedwqcp.methods import Calibration
from fedwqcp.outputs import Outputs, in_file, named_by_line
from fedwqcp.readers import load_outputs
from fedwqcp.readers.batches import OutputBatches, batched
from fedwqcp.scores.mask import Mask
from fedwqcp.scores.multi_label import MultiLabel
from fedwqcp.serve import Predictor, parse
from fedwqcp.sets import Intervals, LabelSets, as_csv
from fedwqcp.wire.messages import Round, unknown_agent
from fedwqcp.words import rounds as words

app = typer.Typer(no_args_is_help=True)

Measured: TypeAlias = metrics.AgentMetrics | metrics.AgentRisk

NEW_SITE = "new-site"
"""What names the files of a site that took no part."""
LONGEST = 2000
"""Characters of an answer that are printed."""

Name = Annotated[
    str | None, typer.Option("--agent", envvar="FEDWQCP_AGENT", help="Name of this agent.")
]
Require = Annotated[
    str | None, typer.Option(help="The one method that this site accepts, such as auto.")
]
NewSite = Annotated[
    bool,
    typer.Option(
        "--new-site", help="This site took no part: use the threshold that all agents share."
    ),
]
ModelFile = Annotated[
    Path | None, typer.Option("--model", help="File of the model; its SHA-256 names it.")
]
ModelName = Annotated[str | None, typer.Option(help="Name of the model, in place of --model.")]
MaxShare = Annotated[
    float, typer.Option(help="Largest share of the people whose scores all rounds may learn.")
]
AnsweredRound = Annotated[
    Path | None,
    typer.Option("--round", help="The round that was answered: no other release is taken."),
]
CalibrationFile = Annotated[
    str | None,
    typer.Option(
        "--calibration",
        help="This agent's calibration outputs, which auto and split-cp read again.",
    ),
]
CalibrationLabels = Annotated[
    Path | None,
    typer.Option("--calibration-labels", help="Their labels in an .npy file, if apart."),
]


@app.command()
def calibrate(
    round: Annotated[Path, typer.Option(help="The round, as the server sent it.")],
    outputs: Annotated[
        str | None,
        typer.Option(
            help="Model outputs and labels: npz, npy, csv, parquet; a folder or URI of parquet "
            "files; a folder or zip of images. What is large is read in batches."
        ),
    ] = None,
    scores: Annotated[
        str | None,
        typer.Option(
            help="In place of the outputs, scores that were made elsewhere: parquet files with "
            "columns score, label and group."
        ),
    ] = None,
    agent: Name = None,
    labels: LabelsFile = None,
    allow_samples: Annotated[
        bool,
        typer.Option("--allow-samples", help="Let a method send single scores, without a limit."),
    ] = False,
    max_share: MaxShare = USUAL_LIMIT.share,
    min_class: Annotated[
        int, typer.Option(help="A class or group with fewer points reveals no scores.")
    ] = USUAL_LIMIT.min_class,
    privacy_budget: Annotated[
        float | None,
        typer.Option(
            envvar="FEDWQCP_PRIVACY_BUDGET",
            help="Epsilon that these outputs may spend over all rounds.",
        ),
    ] = None,
    data_set: Annotated[
        str | None,
        typer.Option(
            help="Name of the people in these outputs, by default the file's: NAME.ledger and "
            "NAME.privacy beside it keep what all rounds were told of them."
        ),
    ] = None,
    require: Require = None,
    sign_key: Annotated[
        Path | None,
        typer.Option(
            envvar="FEDWQCP_SIGN_KEY", help="This agent's private key, for rounds that need one."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Where the answer is written; by default AGENT-ID.json.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Score the calibration points, and write the answer to a file."""
    terms, output = _required(folder.read_round(round), require), Output(as_json)
    name, source = _name(agent, terms), outputs if scores is None else scores
    if source is None or None not in (outputs, scores):
        raise InputError("must be given, or --scores in its place", field="--outputs")
    here = Path(source) if "://" not in source else Path(source.rstrip("/").rsplit("/", 1)[-1])
    budget = _budget(privacy_budget, _beside(here, ".privacy", data_set))
    with ExitStack() as opened:
        batches = batched(source, labels, scores=scores is not None)
        if batches is None:
            read = load_outputs(here, labels, None)
            with in_file(here, labels):
                cal = prediction.calibration_of(terms, read)
        else:
            read = batches.first()
            part = (out or Path()).parent / folder.default_name(terms, name, end=".scores")
            cal = opened.enter_context(_in_batches(terms, batches, part))
        side = Agent(
            name,
            terms,
            cal,
            allow_samples=allow_samples,
            limit=DisclosureLimit(max_share, min_class),
            budget=budget,
            ledger=DisclosureLedger(_beside(here, ".ledger", data_set)),
            sign_key=None if sign_key is None else SigningKey(sign_key),
        )
        path = out or folder.default_name(terms, name)
        written = folder.write_answer(side, path)
        data = read_bytes(path)
        findings = [
            *(inspection.of_columns(side.plan, read) if scores is None else ()),
            *inspection.of_data(None, read, cal),
            *inspection.of_points(side.plan, None, cal),
            *(inspection.of_answer(side.plan, data) if budget is not None else ()),
        ]
    if not written:
        output.say(f"{path} holds this answer already")
    output.tell(findings)
    if budget is not None:
        output.say(f"privacy budget: {budget.left:g} of {privacy_budget:g} is left")
    output.say(f"this is all that is sent ({path}, {len(data)} bytes):")
    text = data.decode().strip()
    output.say(text if len(text) <= LONGEST else f"{text[:LONGEST]} ... (the rest is in {path})")
    left = None if budget is None else budget.left
    facts = {"findings": findings, "budget_left": left}
    output.done(agent=name, answer=path, bytes=len(data), new=written, **facts)


def _in_batches(
    round: Round, source: OutputBatches, kept: Path
) -> AbstractContextManager[Calibration]:
    """Score a large source, and say on the error stream how far it is."""

    def _progress(rows: int, of: int | None) -> None:
        typer.echo(words.progress(rows, of), err=True)

    return calibration_in_batches(round, source, kept, _progress)


@app.command()
def ledger(
    folder: Annotated[
        Path, typer.Argument(help="Outputs that calibrated, or ledger/DATA-SET in a site's folder.")
    ],
    max_share: MaxShare = USUAL_LIMIT.share,
    renew: Annotated[
        bool, typer.Option("--renew", help="Count from here, and forget what was sent so far.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show how many people's scores were sent, and how many may be."""
    if is_file(folder):
        folder = _beside(folder, ".ledger")
    elif not exists(folder) or exists(folder / "ledger"):
        raise InputError(
            f"{folder} must be a file of outputs, or the folder ledger/DATA-SET of a site"
        )
    output, kept, limit = Output(as_json), DisclosureLedger(folder), DisclosureLimit(max_share)
    if renew:
        kept.renew()
        output.say("renewed: what was sent so far counts no more")
    rows = []
    for account in kept.accounts:
        left = max(0, limit.scores_of(account.size) - account.told)
        rows.append(
            {"of": account.name, "people": account.size, "told": account.told, "left": left}
        )
        output.say(
            f"{account.name}: {account.told} of {account.size} people's scores sent, {left} more "
            "may be sent"
        )
    if not rows:
        output.say("no score was sent by files; over an engine see FOLDER/ledger/DATA-SET")
    output.done(ledger=folder, accounts=rows)


@app.command()
def approve(
    folder: Annotated[Path, typer.Argument(help="The folder of a site over an engine.")],
    round: Annotated[
        str | None, typer.Argument(help="Name of a waiting round, as listed without it.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the rounds that wait for approval, or approve one."""
    output = Output(as_json)
    if round is not None:
        approval.approve(folder, round)
        output.say(f"approved {round}: the server can open it again")
    waiting = approval.waiting_rounds(folder)
    for name, terms in waiting.items():
        levels = ", ".join(f"{alpha:g}" for alpha in terms.alphas)
        asked, score = (f"{c.name} {c.settings or ''}".strip() for c in (terms.method, terms.score))
        output.say(
            f"{name} waits: {asked}, score {score}, alpha {levels}, by {terms.by or 'nothing'}, "
            f"{len(terms.agents)} agents; all its terms: {folder / 'waiting' / name}.json"
        )
    if not waiting:
        output.say("no round waits")
    output.done(approved=round, waiting=list(waiting))


@app.command("folder")
def new_folder(
    folder: Annotated[Path, typer.Argument(help="Where the site is to keep what it sends.")],
    as_json: AsJson = False,
) -> None:
    """Make the folder of a site over Flower or FLARE."""
    output, new = Output(as_json), make_site_folder(folder)
    output.say(
        f"{folder} "
        + ("is ready: what leaves the site is kept there" if new else "is there already")
    )
    output.done(folder=folder, new=new)


@app.command()
def predictor(
    context: typer.Context,
    release: Annotated[Path, typer.Option(help="The release, as it was sent.")],
    round: Annotated[Path, typer.Option(help="Its round: no other release is taken.")],
    agent: Name = None,
    new_site: NewSite = False,
    calibration: CalibrationFile = None,
    scores: Annotated[
        str | None, typer.Option(help="Or the scores that `agent calibrate --scores` read.")
    ] = None,
    calibration_labels: CalibrationLabels = None,
    require: Require = None,
    model: ModelFile = None,
    model_name: ModelName = None,
    data_period: Annotated[
        str | None, typer.Option(help="When the calibration data are from, in words.")
    ] = None,
    valid_until: Annotated[
        str | None, typer.Option(help="Last day of its use, such as 2027-06-30; later ones warn.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Where it is written; by default predictor-AGENT-ID.json.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write what this site predicts with to one file that stays here."""
    taken, who = _release_of(release, agent, round, require, None, new_site=new_site)
    made = _resolve(
        context,
        taken,
        who,
        calibration,
        calibration_labels,
        scores,
        model=_model(model, model_name),
        data_period=data_period,
        valid_until=valid_until,
    )
    resolved = made.predictor
    name, level = resolved.agent or NEW_SITE, resolved.levels[0]
    out = out or folder.default_name(taken.round, "predictor", agent=name)
    keep_apart(out, release, _path(calibration), calibration_labels, round, model)
    findings = [promised_to_new_site(taken, level.alpha)] if new_site else [*made.findings]
    if exists(out):
        findings.append(Finding.of("replaced", file=out))
    write_atomic(out, resolved.encoded())
    output = Output(as_json)
    output.say(
        f"{out}: written. Keep it as private as the calibration data: a threshold may be one "
        "person's score"
    )
    output.tell(findings)
    for line in () if new_site else promise(resolved, who, level):
        output.say(line)
    facts = {"levels": resolved.levels, "provenance": resolved.provenance, "findings": findings}
    output.done(agent=name, predictor=out, **facts)


@app.command()
def predict(
    context: typer.Context,
    outputs: Annotated[Path, typer.Option(help="Model outputs on new inputs.")],
    release: Annotated[Path | None, typer.Option(help="The release, as it was sent.")] = None,
    predictor: Annotated[
        Path | None, typer.Option(help="In place of the release: a file of `agent predictor`.")
    ] = None,
    agent: Name = None,
    new_site: NewSite = False,
    alpha: Annotated[float | None, typer.Option(help="Level to use, if there are several.")] = None,
    calibration: CalibrationFile = None,
    calibration_labels: CalibrationLabels = None,
    round: AnsweredRound = None,
    labels: LabelsFile = None,
    require: Require = None,
    allow_empty: AllowEmpty = True,
    model: ModelFile = None,
    model_name: ModelName = None,
    out: Annotated[
        Path | None, typer.Option(help="Where the sets are written; by default sets-AGENT-ID.csv.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Turn model outputs into prediction sets, and measure them."""
    output, bound = Output(as_json), _model(model, model_name)
    if predictor is not None:
        if release or calibration or round:
            raise InputError(
                "stands alone, without release, calibration or round", field="--predictor"
            )
        taken, made = None, _Resolved(parse(read_bytes(predictor), str(predictor)))
        score, classes = made.predictor.score_object, made.predictor.classes
    elif release is None or bound is not None:
        raise InputError("must be given; a model is compared with --predictor", field="--release")
    else:
        taken, who = _release_of(release, agent, round, require, alpha, new_site=new_site)
        score, classes = taken.score, taken.round.classes
    new = None if isinstance(score, Mask) else load_outputs(outputs, labels, classes)
    if taken is not None:
        made = _resolve(context, taken, who, calibration, calibration_labels, None)
    resolved = made.predictor
    resolved.check_model(bound)
    name, level = resolved.agent or NEW_SITE, resolved.level(alpha)
    promised = promise(resolved, resolved.agent, level)
    if new is None:
        out = out or Path(f"masks-{name}-{resolved.round}")
        keep_apart(out, outputs, _path(calibration))
        masks.predict(resolved, outputs, out, promised, output, alpha, made.findings)
        return
    with in_file(outputs):
        sets = resolved.apply(new, alpha, allow_empty)
    with in_file(outputs, labels):
        measured = _measured(resolved, sets, new)
    repeated = None
    if taken is not None and measured:
        repeated = calibration_rows(taken.round, new, made.calibration_outputs)
    out = out or Path(f"sets-{name}-{resolved.round}.csv")
    beside = (predictor, model, calibration_labels, round, labels)
    keep_apart(out, release, outputs, _path(calibration), *beside)
    replaced = exists(out)
    write_atomic(out, as_csv(sets, new.ids).encode())
    empty = float(sets.empty().mean()) if len(sets) else None
    size = float(sets.sizes().mean()) if len(sets) else None
    groups = new.groups if resolved.by == "group" else None
    thresholds = np.atleast_1d(resolved.thresholds_of(groups, alpha, len(sets)))
    more = f", mean size {size:.4g}, threshold {_span(thresholds)}" if thresholds.size else ""
    output.say(f"{len(sets)} sets in {out}{more}")
    for line in (*(() if new_site else promised), *measured):
        output.say(line)
    findings = [
        *([promised_to_new_site(taken, level.alpha)] if taken and new_site else ()),
        *([Finding.of("replaced", file=out)] if replaced else ()),
        *made.findings,
        *(_of_release(taken, resolved, release, new, thresholds) if taken else ()),
        *([Finding.of("empty-sets")] if empty and isinstance(sets, LabelSets) else ()),
        *([repeated] if repeated else ()),
        *_missed(measured, level.alpha, None if made.cal is None else made.cal.n),
    ]
    output.tell(findings)
    output.done(
        agent=name,
        sets=out,
        n=len(sets),
        threshold=[thresholds.min(), thresholds.max()] if thresholds.size else [],
        findings=findings,
        proved=level.proved,
        size=size,
        empty=empty,
        measured=measured,
        like_calibration=repeated["rows"] if repeated else 0,
    )


def _of_release(
    release: Release, resolved: Predictor, path: Path | None, new: Outputs, thresholds: Floats
) -> Iterator[Finding]:
    """Find what is to be said of a release that is predicted from."""
    if release.received:
        yield Finding.of("servers-record", file=path)
    yield from inspection.of_columns(Plan.of(release.round), new)
    if len(new.values):
        groups = new.groups if resolved.by == "group" else None
        yield from inspection.of_thresholds(release.round, thresholds, groups)
    if resolved.agent is not None:
        yield from inspection.of_agent(release, resolved.agent)


@dataclass(frozen=True)
class _Resolved:
    """What a site predicts with, and the calibration data that it was resolved from."""

    predictor: Predictor
    calibration_outputs: Outputs | None = None
    cal: Calibration | None = None
    findings: tuple[Finding, ...] = ()


def _resolve(
    context: typer.Context,
    release: Release,
    agent: str | None,
    calibration: str | None,
    labels: Path | None,
    scores: str | None,
    **stated: Any,
) -> _Resolved:
    """Resolve a site's thresholds; its calibration data are read as when it answered the round.

    Large data are read in batches, and give no `Outputs`.
    """
    if calibration is None and labels is not None:
        raise InputError("--calibration-labels needs --calibration, the outputs they belong to")
    if None not in (calibration, scores):
        raise InputError("takes the place of --calibration: leave one out", field="--scores")
    terms, source = release.round, calibration if scores is None else scores
    rows, cal = None, None
    batches = None if source is None else batched(source, labels, scores=scores is not None)
    if batches is not None:
        part = folder.default_name(terms, "calibration", end=".scores")
        cal = context.with_resource(_in_batches(terms, batches, part))
    elif source is not None:
        rows = load_outputs(Path(source), labels, terms.classes)
        with in_file(Path(source), labels):
            cal = prediction.calibration_of(terms, rows)
    resolved = predictor_of(release, agent, cal, **stated)
    findings = () if agent is None or cal is None else _other_data(release, agent, cal)
    return _Resolved(resolved, rows, cal, tuple(findings))


def _other_data(release: Release, agent: str, cal: Calibration) -> Iterator[Finding]:
    """Find that data which an agent predicts from would not have given the answer that it sent."""
    plan, local = Plan.of(release.round), Plan.of(release.round).traits.predicts_from_own_data
    if not local or release.rounds != 1 or release.round.signed or release.census:
        return
    sent, size = release.record(agent), len(Agent(agent, plan, cal, limit=None).answer())
    if sent.status == "used" and size != sent.bytes_up:
        yield Finding.of("other-data", agent, sent=sent.bytes_up, bytes=size)


def _model(file: Path | None, name: str | None) -> Path | str | None:
    """Return the model that was named: by its file or by its name."""
    if None not in (file, name):
        raise InputError("takes the place of --model: leave one out", field="--model-name")
    return file or name


def _required(round: Round, method: str | None) -> Round:
    """Return the terms, if they are of the method that the site requires."""
    if method not in (None, round.method.name):
        raise InputError(f"must be {method}, got {round.method.name}", field="method")
    return round


def _release_of(
    path: Path,
    agent: str | None,
    round: Path | None,
    require: str | None,
    alpha: float | None,
    *,
    new_site: bool,
) -> tuple[Release, str | None]:
    """Read a release, and tell which agent this is; None for a site that took no part."""
    release = load_release(path)
    if round is not None:
        prediction.check_same_round(release, folder.read_round(round), (path, round))
    elif None in (require, alpha):
        raise InputError(
            "name the round that this site answered, or, where it answers none, --require METHOD "
            "and --alpha: a release by itself may hold any method and level",
            field="--round",
        )
    terms = _required(release.round, require)
    if not new_site:
        return release, _name(agent, terms, newcomer=True)
    if agent is not None and terms.expects(agent):
        raise InputError(
            f"is for a site that took no part, {agent!r} did: leave one of --new-site and --agent "
            "(or FEDWQCP_AGENT) out",
            field="--new-site",
        )
    return release, None


def _span(threshold: Floats) -> str:
    """Write a threshold, or the least and the largest of several."""
    ends = (float(threshold.min()), float(threshold.max()))
    low, high = ("+inf" if end == inf else f"{end:.4g}" for end in ends)
    return low if low == high else f"{low} to {high}"


def _path(source: str | None) -> Path | None:
    return None if source is None or "://" in source else Path(source)


def _budget(total: float | None, kept: Path) -> Budget | None:
    """Return the privacy budget of a file of outputs."""
    if total is not None:
        return Budget(kept, total)
    if exists(kept):
        raise InputError(f"{kept} keeps a privacy budget: say how much with --privacy-budget")
    return None


def _beside(outputs: Path, end: str, name: str | None = None) -> Path:
    """Return a folder beside a file, or beside the one that a link leads to."""
    outputs = outputs.resolve() if outputs.is_symlink() else outputs
    return outputs.parent / f"{name or outputs.name}{end}"


def _name(agent: str | None, round: Round, *, newcomer: bool = False) -> str:
    """Return which agent this is."""
    agent = None if agent is None else unicodedata.normalize("NFC", agent)
    if agent is None and len(round.agents) == 1:
        return round.agents[0]
    if agent is None:
        raise InputError(f"say which agent this is with --agent, one of: {named(round.agents, 12)}")
    if not round.expects(agent):
        raise InputError(
            unknown_agent(agent, round.agents)
            + (
                "; a site that took no part predicts with --new-site where all share a threshold; "
                "with labelled points of its own it takes part in the next round"
                if newcomer
                else ""
            )
        )
    return agent


@named_by_line
def _measured(predictor: Predictor, sets: LabelSets | Intervals, new: Outputs) -> list[Measured]:
    """Measure all rows, and those of each label or group that has a threshold of its own."""
    truth, score = new.labels, predictor.score_object
    if truth is None or not len(sets):
        return []

    def _of(name: str, rows: Bools | slice) -> Measured:
        if isinstance(score, MultiLabel) and isinstance(sets, LabelSets):
            return metrics.measure_risk(name, sets[rows], truth[rows])
        return metrics.measure(name, sets[rows], truth[rows])

    rates = [_of(predictor.agent or "new site", slice(None))]
    parts = as_labels(truth, len(sets), None) if predictor.by == "label" else new.groups
    if predictor.by is not None and parts is not None:
        names = as_groups(parts, len(sets))
        classes = predictor.classes if predictor.by == "label" else ()
        shown = {str(label): name for label, name in enumerate(classes)}
        rates += [
            _of(f"{predictor.by} {shown.get(name, name)}", in_group(names, name))
            for name in group_names(names)
        ]
    return rates


def _missed(rates: Sequence[Measured], alpha: float, points: int | None) -> Iterator[Finding]:
    """Find rates beyond what was asked for; ``points`` calibrated, where they are known."""
    for index, one in enumerate(rates):
        part = one.agent if index else None
        if isinstance(one, metrics.AgentMetrics) and one.high < 1 - alpha:
            n = None if index else points
            chance = one.coverage >= metrics.explained(one.n, n, alpha)
            yield Finding.of("coverage-low", part=part, level=1 - alpha, chance=chance)
        if isinstance(one, metrics.AgentRisk) and one.low > alpha:
            yield Finding.of("risk-high", part=part, level=alpha)
