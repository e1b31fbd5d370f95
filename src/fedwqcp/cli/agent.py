"""``fedwqcp agent``: answer a round and predict, where the data are."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import numpy as np
import typer

from fedwqcp import metrics, serve
from fedwqcp._io import exists, is_file, keep_apart, write_atomic
from fedwqcp._io import read as read_bytes
from fedwqcp._validation import Bools, Floats, as_labels, named
from fedwqcp.cli import masks
from fedwqcp.cli.output import AllowEmpty, AsJson, LabelsFile, OutFile, Output
from fedwqcp.errors import InputError
from fedwqcp.federation import approval, inspection
from fedwqcp.federation import predict as prediction
from fedwqcp.federation.advice import promised_to_new_site
from fedwqcp.federation.agent import Agent, check_answered
from fedwqcp.federation.batches import calibration_in_batches
from fedwqcp.federation.disclosure_ledger import DisclosureLedger
from fedwqcp.federation.disclosure_limit import USUAL_LIMIT, DisclosureLimit
from fedwqcp.federation.plan import Plan
from fedwqcp.federation.predict import predictor_of
from fedwqcp.federation.privacy_budget import Budget
from fedwqcp.federation.record import load_release
from fedwqcp.federation.release import Release, promise
from fedwqcp.federation.row_fingerprints import calibration_rows
from fedwqcp.federation.signing import SigningKey
from fedwqcp.federation.site_folder import make_site_folder
from fedwqcp.federation.transport import folder
from fedwqcp.findings import Finding
from fedwqcp.groups import as_groups, group_names, in_group
from fedwqcp.methods import Calibration
from fedwqcp.outputs import Outputs, in_file, named_by_line
from fedwqcp.readers import load_outputs
from fedwqcp.readers.batches import batched
from fedwqcp.scores.mask import Mask
from fedwqcp.scores.multi_label import MultiLabel
from fedwqcp.serve import Level, Predictor, parse
from fedwqcp.sets import Intervals, LabelSets, as_csv
from fedwqcp.wire.messages import Round, unknown_agent
from fedwqcp.words import commands
from fedwqcp.words import rounds as words

app = typer.Typer(no_args_is_help=True)

Measured: TypeAlias = metrics.AgentMetrics | metrics.AgentRisk | metrics.MaskRisk

SERVE = Path(serve.__file__).parent

NEW_SITE = "new-site"
"""What names the files of a site that took no part."""
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
    context: typer.Context,
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
    out: OutFile = None,
    as_json: AsJson = False,
) -> None:
    """Score the calibration points, and write the answer to a file."""
    terms = _required(folder.read_round(round), require)
    name, source = _name(agent, terms), outputs if scores is None else scores
    if source is None or None not in (outputs, scores):
        raise InputError("must be given, or --scores in its place", field="--outputs")
    here = Path(source) if "://" not in source else Path(source.rstrip("/").rsplit("/", 1)[-1])
    budget = _budget(privacy_budget, _beside(here, ".privacy", data_set))
    part = (out or Path()).parent / folder.default_name(terms, name, end=".scores")
    read, cal = _calibration(context, terms, source, labels, part, scores=scores is not None)
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
    data, output = read_bytes(path), Output(as_json)
    findings = [
        *(inspection.of_columns(side.plan, read) if scores is None else ()),
        *inspection.of_data(None, read, cal),
        *inspection.of_points(side.plan, None, cal),
        *inspection.of_own_threshold(side.plan, cal, inspection.counts_of(read, cal)),
        *(inspection.of_answer(side.plan, data) if budget is not None else ()),
    ]
    output.tell(findings)
    left = None if budget is None else budget.left
    facts = {"answer": path, "bytes": len(data), "new": written, "budget_left": left}
    output.done(commands.answered, agent=name, findings=findings, **facts)
    output.say(commands.shortened(data.decode().strip(), path))


def _calibration(
    context: typer.Context,
    round: Round,
    source: str,
    labels: Path | None,
    kept: Path,
    *,
    scores: bool,
) -> tuple[Outputs, Calibration]:
    """Read calibration data and score them; what is large in batches, of which the first is given.

    How far it is stands on the error stream.
    """
    batches = batched(source, labels, scores=scores)
    if batches is not None:
        stored = calibration_in_batches(
            round, batches, kept, lambda *rows: typer.echo(words.progress(*rows), err=True)
        )
        return batches.first(), context.with_resource(stored)
    read = load_outputs(Path(source), labels, None)
    with in_file(Path(source), labels):
        return read, prediction.calibration_of(round, read)


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
    kept, limit = DisclosureLedger(folder), DisclosureLimit(max_share)
    if renew:
        kept.renew()
    accounts = [
        {
            "of": account.name,
            "people": account.size,
            "told": account.told,
            "left": max(0, limit.scores_of(account.size) - account.told),
        }
        for account in kept.accounts
    ]
    Output(as_json).done(commands.ledger, ledger=folder, accounts=accounts)


@app.command()
def approve(
    folder: Annotated[Path, typer.Argument(help="The folder of a site over an engine.")],
    round: Annotated[
        str | None, typer.Argument(help="Name of a waiting round, as listed without it.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the rounds that wait for approval, or approve one."""
    if round is not None:
        approval.approve(folder, round)
    waiting, output = approval.waiting_rounds(folder), Output(as_json)
    output.say(commands.waiting(folder, round, waiting))
    output.done(approved=round, waiting=list(waiting))


@app.command("folder")
def new_folder(
    folder: Annotated[Path, typer.Argument(help="Where the site is to keep what it sends.")],
    as_json: AsJson = False,
) -> None:
    """Make the folder of a site over Flower or FLARE."""
    Output(as_json).done(commands.site_folder, folder=folder, new=make_site_folder(folder))


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
    valid_until: Annotated[
        str | None, typer.Option(help="Last day of its use, such as 2027-06-30; later ones warn.")
    ] = None,
    out: OutFile = None,
    as_json: AsJson = False,
) -> None:
    """Write what this site predicts with to one file that stays here."""
    taken = _release_of(release, round, require, None)
    who = _who(taken, agent, new_site=new_site)
    read = (calibration, calibration_labels, scores)
    site = _resolve(context, taken, who, None, *read, model=model, valid_until=valid_until)
    made, name = site.predictor, who or NEW_SITE
    out = out or folder.default_name(taken.round, "predictor", agent=name)
    keep_apart(out, release, _path(calibration), calibration_labels, round, model)
    write_atomic(out, made.encoded())
    output = Output(as_json)
    output.say("" if new_site else commands.wrapped(*promise(made, who, made.levels[0])))
    counts, groups = inspection.counts_of(site.calibration_outputs, site.cal), made.groups or None
    tables = [made.thresholds(level.alpha) for level in made.levels]
    found = [
        finding
        for table in tables
        for finding in inspection.of_thresholds(taken.round, table, groups, counts)
    ]
    findings = [*site.findings, *found]
    output.tell(findings)
    facts = {"levels": made.levels, "provenance": made.provenance, "findings": findings}
    output.done(commands.resolved, agent=name, predictor=out, **facts)


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
    out: OutFile = None,
    as_json: AsJson = False,
) -> None:
    """Turn model outputs into prediction sets, and measure them."""
    if predictor is not None:
        if release or calibration or round:
            raise InputError("needs no --release, --round or --calibration", field="--predictor")
        site = _Site(parse(read_bytes(predictor), str(predictor)))
    elif release is None:
        raise InputError("must be given, or --predictor in its place", field="--release")
    else:
        taken = _release_of(release, round, require, alpha)
        who = _who(taken, agent, new_site=new_site)
        site = _resolve(context, taken, who, alpha, calibration, calibration_labels, None)
    made, output = site.predictor, Output(as_json)
    made.check_model(model)
    name, level = made.agent or NEW_SITE, made.level(alpha)
    if predictor is not None and agent not in (None, name):
        raise InputError(f"is {agent}, the predictor is of {name}", field="--agent")
    promised = "" if new_site else commands.wrapped(*promise(made, made.agent, level))
    if isinstance(made.score_object, Mask):
        out = out or Path(f"masks-{name}-{made.round}")
        keep_apart(out, outputs, _path(calibration))
        n, risk = masks.write(made, outputs, out, alpha)
        rates = [] if risk is None else [risk]
        missed = _missed(rates, level.alpha, _proved(site, level))
        findings = [*site.findings, *missed]
        output.say("\n".join([promised, *map(str, rates)]))
        output.tell(findings)
        output.done(commands.masked, masks=out, n=n, measured=risk, findings=findings)
        return
    new = load_outputs(outputs, labels, made.classes)
    with in_file(outputs):
        sets = made.apply(new, alpha, allow_empty)
    with in_file(outputs, labels):
        measured = _measured(made, sets, new)
    out = out or Path(f"sets-{name}-{made.round}.csv")
    beside = (predictor, model, calibration_labels, round, labels)
    keep_apart(out, release, outputs, _path(calibration), *beside)
    write_atomic(out, as_csv(sets, new.ids).encode())
    groups = new.groups if made.by == "group" else None
    thresholds = np.atleast_1d(made.thresholds_of(groups, alpha, len(sets)))
    empty = float(sets.empty().mean()) if len(sets) else None
    points = site.cal.n if site.cal else next(iter(made.calibrated_on), None)
    full = bool(len(sets) and isinstance(sets, LabelSets) and sets.mask.all())
    findings = [
        *site.findings,
        *(_of_release(site, release, new, sets, thresholds) if site.release else ()),
        *([Finding.of("full-sets", alphas=(), by=None, parts=())] if full and predictor else ()),
        *([Finding.of("empty-sets")] if empty and isinstance(sets, LabelSets) else ()),
        *_missed(measured, level.alpha, _proved(site, level), n=points),
    ]
    if site.release is not None and measured:
        repeated = calibration_rows(site.release.round, new, site.calibration_outputs)
        findings += [repeated] if repeated else []
    within = _within(site.release, site.cal, level.alpha)
    parts = [words.within(**part) for part in within]
    output.say("\n".join([promised, *parts, *map(str, measured)]))
    output.tell(findings)
    output.done(
        commands.predicted,
        agent=name,
        sets=out,
        n=len(sets),
        threshold=[thresholds.min(), thresholds.max()] if thresholds.size else [],
        findings=findings,
        proved=level.proved,
        within=within,
        size=float(sets.sizes().mean()) if len(sets) else None,
        empty=empty,
        measured=measured,
    )


def _within(release: Release | None, cal: Calibration | None, alpha: float) -> list[dict[str, Any]]:
    """Return how many points a site has of each group, and what they prove there."""
    if release is None or cal is None or release.round.by != "group":
        return []
    parts = prediction.proved_within(release.round, cal, alpha)
    return [{"part": part, "n": n, "proved": proved} for part, n, proved in parts]


@app.command()
def page(
    out: Annotated[Path, typer.Argument(help="Where it is written, such as sets.html.")],
    as_json: AsJson = False,
) -> None:
    """Write an offline page that reads a predictor and gives sets."""
    html, script = (read_bytes(SERVE / name) for name in ("page.html", "predictor.js"))
    write_atomic(out, html.replace(b"/* predictor.js */", script), shared=True)
    Output(as_json).done(commands.files, files=[out])


@dataclass(frozen=True)
class _Site:
    """What a site predicts with, and the release and calibration data that it comes from."""

    predictor: Predictor
    release: Release | None = None
    calibration_outputs: Outputs | None = None
    cal: Calibration | None = None
    findings: tuple[Finding, ...] = ()


def _resolve(
    context: typer.Context,
    release: Release,
    agent: str | None,
    alpha: float | None,
    calibration: str | None,
    labels: Path | None,
    scores: str | None,
    **stated: Any,
) -> _Site:
    """Resolve a site's thresholds; its calibration data are read as when it answered the round."""
    if calibration is None and labels is not None:
        raise InputError("--calibration-labels needs --calibration, the outputs they belong to")
    if None not in (calibration, scores):
        raise InputError("takes the place of --calibration: leave one out", field="--scores")
    terms, source = release.round, calibration if scores is None else scores
    rows, cal = None, None
    if source is not None:
        part = folder.default_name(terms, "calibration", end=".scores")
        of_scores = scores is not None
        read, cal = _calibration(context, terms, source, labels, Path(part), scores=of_scores)
        rows = read if cal.n <= len(read.values) else None  # of large data this is a part
    resolved = predictor_of(release, agent, cal, **stated)
    findings = [] if agent else [promised_to_new_site(release, alpha or terms.alphas[0])]
    if agent is not None and cal is not None:
        check_answered(release, agent, cal)
    return _Site(resolved, release, rows, cal, tuple(findings))


def _of_release(
    site: _Site, path: Path | None, new: Outputs, sets: LabelSets | Intervals, thresholds: Floats
) -> Iterator[Finding]:
    """Find what is to be said of a release that is predicted from."""
    release, resolved = site.release, site.predictor
    assert release is not None
    if release.received:
        yield Finding.of("servers-record", file=path)
    calibration = site.calibration_outputs
    yield from inspection.of_columns(
        Plan.of(release.round), new, test=True, calibration=calibration
    )
    if len(new.values):
        groups = new.groups if resolved.by == "group" else None
        full = isinstance(sets, LabelSets) and bool(sets.mask.all())
        counts = inspection.counts_of(site.calibration_outputs, site.cal)
        yield from inspection.of_thresholds(release.round, thresholds, groups, counts, full=full)
    if resolved.agent is not None:
        yield from inspection.of_agent(release, resolved.agent)


def _required(round: Round, method: str | None) -> Round:
    """Return the terms, if the site knows what they name, and requires no other method."""
    Plan.of(round)
    if method not in (None, round.method.name):
        raise InputError(
            f"is {method}, the round's method is {round.method.name}", field="--require"
        )
    return round


def _release_of(
    path: Path, round: Path | None, require: str | None, alpha: float | None
) -> Release:
    """Read a release, if it is of the terms that the site answered or names."""
    release = load_release(path)
    if round is not None:
        prediction.check_same_round(release, folder.read_round(round), path)
    elif None in (require, alpha):
        raise InputError(
            "must be given, or --require METHOD and --alpha: a release by itself may hold any "
            "method and level",
            field="--round",
        )
    _required(release.round, require)
    return release


def _who(release: Release, agent: str | None, *, new_site: bool) -> str | None:
    """Return which agent this is; None for a site that took no part."""
    if not new_site:
        return _name(agent, release.round, newcomer=True)
    if agent is not None and release.round.expects(agent):
        raise InputError(
            f"is for a site that took no part, and {agent!r} did: leave it out, or --agent (or "
            "FEDWQCP_AGENT)",
            field="--new-site",
        )
    return None


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
            + ("; a site that took no part passes --new-site" if newcomer else "")
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


def _proved(site: _Site, level: Level) -> dict[str | None, float | None]:
    """Return what is proved at a level, and within each label or group where that is known."""
    proved: dict[str | None, float | None] = {None: level.proved}
    if site.release is not None and site.cal is not None and site.release.round.by:
        round = site.release.round
        for part, _, share in prediction.proved_within(round, site.cal, level.alpha):
            proved[f"{round.by} {part}"] = share
    return proved


def _missed(
    rates: Sequence[Measured],
    alpha: float,
    proved: Mapping[str | None, float | None],
    *,
    n: int | None = None,
) -> Iterator[Finding]:
    """Find rates beyond what is promised; ``n`` calibrated, where that is known."""
    for index, one in enumerate(rates):
        part = one.agent if index and not isinstance(one, metrics.MaskRisk) else None
        level = min(proved.get(part) or 1 - alpha, 1 - alpha)
        if isinstance(one, metrics.AgentMetrics):
            chance = one.coverage >= metrics.explained(one.n, None if index else n, alpha)
            asked = {"asked": 1 - alpha} if level < 1 - alpha - 1e-12 else {}
            if one.high < level:
                yield Finding.of("coverage-low", part=part, level=level, chance=chance, **asked)
        elif one.low > 1 - level:
            asked = {"asked": alpha} if level < 1 - alpha - 1e-12 else {}
            yield Finding.of("risk-high", part=part, level=1 - level, **asked)
