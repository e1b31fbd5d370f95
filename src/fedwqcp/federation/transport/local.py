"""Agents and server in one process. The same bytes travel as between machines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
from numpy.random import BitGenerator, Generator, SeedSequence, default_rng

from fedwqcp._validation import (
    Texts,
    as_classes,
    check_same_classes,
    listed,
    several_columns,
    shown,
    unchecked,
)
from fedwqcp.errors import (
    ClassesError,
    InputError,
    OutOfRangeError,
    QuorumError,
)
from fedwqcp.federation import inspection
from fedwqcp.federation.agent import Agent
from fedwqcp.federation.batches import stored_calibration
from fedwqcp.federation.plan import (
    Plan,
    new_round,
)
from fedwqcp.federation.predict import (
    check_ids,
    localize,
    scored,
)
from fedwqcp.federation.release import Release
from fedwqcp.federation.secure import SecureServer, run_masked, secure_round
from fedwqcp.federation.server import Server
from fedwqcp.findings import Finding
from fedwqcp.groups import group_names, most_groups
from fedwqcp.methods import Calibration, Method
from fedwqcp.methods._stored import StoredCalibration
from fedwqcp.outputs import MaskOutputs, Outputs
from fedwqcp.quantile import finite_range
from fedwqcp.readers.batches import OutputBatches
from fedwqcp.scores import Score
from fedwqcp.scores.aps import APS
from fedwqcp.scores.mask import Mask
from fedwqcp.wire.messages import Number, Target

SeedLike: TypeAlias = int | Sequence[int] | SeedSequence | BitGenerator | Generator
"""What `numpy.random.default_rng` takes."""


def one_round(
    cals: Mapping[str, Calibration],
    method: Method[Any],
    *,
    score: Score,
    alphas: tuple[float, ...],
    by: str | None = None,
    target: Target = "own",
    rng: SeedLike | None = None,
    secure: bool | tuple[float, float] = False,
    **terms: Any,
) -> Release:
    """Run one round of a method between agents of this process."""
    if getattr(method, "target", "own") not in ("own", target):
        raise InputError(
            "target is a term of the round: leave it out of the method, and write "
            f"calibrate(..., target={method.target!r})"  # type: ignore[attr-defined]  # it has one
        )
    first = next(iter(cals.values()))
    if by == "label" and first.n_classes is None:
        raise InputError(
            "'label' needs labels that are classes, and no agent brings any: pass Outputs or a "
            "Calibration with labels, or use by='group', with groups that are known before y is",
            field="by",
        )
    round = new_round(
        tuple(cals),
        method,
        score,
        alphas,
        quorum=len(cals),
        max_n=max(cal.n for cal in cals.values()) or 1,
        n_classes=first.n_classes,
        classes=first.classes,
        by=by,
        groups=_group_names(cals) if by == "group" else (),
        max_groups=max(map(most_groups, _groups(cals)), default=1) if by == "group" else 1,
        target=target,
        **terms,
    )
    plan = Plan.of(round, method, score)
    _check_stated_range(plan, cals)
    if secure:  # masked sizes are bounded with their noise
        sized = msgspec.structs.replace(round, max_n=round.max_n + plan.traits.size_noise)
        plan = Plan.of(secure_round(sized, secure))
    sides = {
        name: Agent(name, plan, cal, allow_samples=True, limit=None, rng=stream)
        for (name, cal), stream in zip(cals.items(), _streams(rng, len(cals)), strict=True)
    }
    if secure:
        return run_masked(SecureServer(plan), sides)
    release = run(Server(plan), sides)
    return msgspec.structs.replace(release, local=_localized(plan, release, cals))


def _check_stated_range(plan: Plan, cals: Mapping[str, Calibration]) -> None:
    """Refuse scores beyond an unstated range; an agent elsewhere counts them at its ends."""
    if plan.traits.stated_range is None:
        return
    for name, cal in cals.items():
        ends = finite_range(cal.scores)
        if ends is not None and not 0 <= ends[0] <= ends[1] <= 1:
            raise OutOfRangeError(
                "must be stated for scores beyond 0 and 1: bounds=(0, 50)", field="bounds"
            ).within(f"agent {name!r}")


def run(
    server: Server,
    agents: Mapping[str, Agent],
    *,
    strict: bool = True,
) -> Release:
    """Carry a round's messages until it ends.

    With ``strict`` a refused answer is an error: in one process it is a mistake of the caller's.
    """
    while not server.ended:
        for name, ask in server.asks().items():
            server.receive(agents[name].answer(ask if server.step else None), name)
        try:
            server.close_step()
        except QuorumError:
            if not (strict and server.refusals):  # else the refusal below says more
                raise
        if strict and server.refusals:
            refusal = server.refusals[0]
            raise InputError(refusal.reason, refusal.field).within(f"agent {refusal.agent!r}")
    return server.release()


def _localized(
    plan: Plan, release: Release, cals: Mapping[str, Calibration]
) -> dict[str, tuple[Number, ...]]:
    """Return the thresholds that agents find for themselves, where the server has none."""
    if all(outcome.threshold(0) is not None for outcome in release.outcomes):
        return {}
    thresholds: dict[str, tuple[Number, ...]] = {}
    for name, cal in cals.items():
        values = [localize(plan, release, name, task, cal) for task in range(len(plan.tasks))]
        thresholds[name] = tuple(tuple(q.tolist()) if q.ndim else float(q) for q in values)
    return thresholds


def _streams(rng: SeedLike | None, agents: int) -> list[Generator]:
    """Return a stream of random numbers for each agent."""
    try:
        return default_rng(rng).spawn(agents)
    except (TypeError, ValueError):
        raise InputError(
            "rng must be None, an integer of at least 0, a SeedSequence, a BitGenerator or a "
            f"Generator, got {shown(rng)}"
        ) from None


def findings_of(
    release: Release, agents: Mapping[str, object], cals: Mapping[str, Calibration]
) -> Iterator[Finding]:
    """Find what is to be said of a release and of the data that it was made from."""
    of_round = tuple(inspection.of_release(release))
    yield from of_round
    infinite = {name for f in of_round if f.code == "infinite-threshold" for name in f.agents}
    plan = Plan.of(release.round)
    for name, data in agents.items():
        outputs = data.in_classes(plan.round.classes) if isinstance(data, Outputs) else None
        few = inspection.of_points(plan, name, cals[name])
        yield from (f for f in few if name not in infinite or f.code != "too-few-points")
        yield from inspection.of_data(name, outputs, cals[name])


def default_score(agents: Mapping[str, object]) -> Score | None:
    """Return the score of outputs where none is named: randomised APS, of masks `Mask`."""
    outputs = {name: data for name, data in agents.items() if isinstance(data, Outputs)}
    if not outputs:
        return None
    if any(isinstance(data, MaskOutputs) for data in outputs.values()):
        return Mask()
    for name, data in outputs.items():
        if data.values.ndim == 1:
            raise InputError(
                f"agent {name!r}: one number per row is a regressor's prediction: name its score, "
                "score='absolute-residual'; of two classes pass both columns of predict_proba"
            )
        if data.values.shape[1] == 2 and data.labels is not None and _is_real(data.labels):
            raise InputError(
                f"agent {name!r}: two numbers per row and labels that are no whole numbers are a "
                "regressor's: name its score, score='cqr' for a lower and an upper quantile, "
                "'normalized-residual' for a prediction and its sigma"
            )
    return APS()


def _is_real(labels: npt.NDArray[Any]) -> bool:
    """Tell whether labels are true values of a regression: numbers, some of them not whole."""
    return labels.dtype.kind == "f" and bool((labels != np.rint(labels)).any())


def agreed_classes(agents: Mapping[str, object], classes: Sequence[str] | None) -> tuple[str, ...]:
    """Return the names of the classes: those given, or those of the first agent that names any.

    Columns that are found by name have no order, so such an agent comes last.
    """
    if classes is not None:
        return as_classes(classes)
    named = {
        name: data.classes
        for name, data in agents.items()
        if isinstance(data, Outputs | Calibration) and data.labels is not None
    }  # scores alone are of no class
    naming = [name for name, names in named.items() if names]
    ordered = [name for name in naming if not getattr(agents[name], "by_name", False)]
    if not naming:
        return ()
    if not ordered and any(_labels_are_numbers(data) for data in agents.values()):
        raise ClassesError(
            "must be passed to calibrate where every agent's columns are found by name and labels "
            "are numbers: nothing else says which class a number stands for",
            field="classes",
        )
    first = (ordered or naming)[0]
    if without := [name for name, names in named.items() if not names]:
        raise ClassesError(
            f"agent {first!r} names its classes and {listed(without, 5)} none, so that nobody "
            "could check their order: pass classes=[...] with every agent's data, or once to "
            "calibrate if all have the same columns",
            field="classes",
        )
    return named[first]


def _labels_are_numbers(data: object) -> bool:
    """Tell whether an agent gives its labels as numbers of classes."""
    return isinstance(data, Outputs) and data.labels is not None and data.labels.dtype.kind in "iu"


def calibrations(
    agents: Mapping[str, npt.ArrayLike | Calibration | Outputs | OutputBatches],
    chosen: Score | None,
    key: str,
    classes: tuple[str, ...],
    opened: ExitStack,
) -> dict[str, Calibration]:
    """Check what each agent brings, and score what a model put out; an error names the agent.

    Scores of what is read in batches stay on disk until ``opened`` is closed.
    """
    cals = {}
    if not classes:  # else their names are compared
        tables = {n: d.values for n, d in agents.items() if isinstance(d, Outputs)}
        _check_same_number({n: v.shape[1] for n, v in tables.items() if v.ndim == 2}, "columns")
    for name, data in agents.items():
        try:
            if isinstance(data, Outputs):
                assert chosen is not None  # outputs have a default one
                cals[name] = scored(chosen, key, data.in_classes(classes))
            elif isinstance(data, OutputBatches):
                score_of = partial(_scored, chosen, key, classes)
                folder = Path(opened.enter_context(TemporaryDirectory()))
                stored = stored_calibration(data, score_of, folder / "scores", "")
                cals[name] = opened.enter_context(stored)
            elif isinstance(data, tuple) and _are_parts(data):
                raise InputError("a model's outputs and labels go into fw.Outputs(probs, labels)")
            else:
                cals[name] = data if isinstance(data, Calibration) else Calibration(data)
            if chosen is None and cals[name].columns > 1:  # these need a score that is named
                raise InputError(several_columns(cals[name].scores))
            if classes and cals[name].classes:
                check_same_classes(cals[name].classes, classes)
        except InputError as error:
            raise error.within(f"agent {name!r}") from None
    same = _same_classes(cals, classes)
    for name, data in agents.items():  # last, so that no other mistake hides behind it
        if isinstance(data, Outputs) and chosen is not None:
            check_ids(chosen, data, whose=f"agent {name!r}: ")
    return same


def _scored(
    score: Score | None, key: str, classes: tuple[str, ...], outputs: Outputs
) -> Calibration:
    assert score is not None  # outputs have a default one
    check_ids(score, outputs)
    return scored(score, key, outputs.in_classes(classes))


def _are_parts(data: tuple[Any, ...]) -> bool:
    """Tell whether a tuple holds outputs and labels: a table first, or two columns."""
    try:
        first = np.ndim(data[0]) if data else 0
    except ValueError:  # rows of different lengths, which are no scores either
        return True
    return first == 2 or (first == 1 and len(data) == 2 and len(data[0]) > 2)


def _same_classes(cals: dict[str, Calibration], classes: tuple[str, ...]) -> dict[str, Calibration]:
    """Give every agent the same classes."""
    for name, cal in cals.items() if classes else ():
        if cal.n_classes not in (None, len(classes)):
            raise ClassesError(
                f"agent {name!r}: n_classes must be {len(classes)}, as many as classes are named, "
                f"got {cal.n_classes}"
            )
    known = {name: cal.n_classes for name, cal in cals.items() if cal.n_classes is not None}
    _check_same_number(known, "n_classes")
    least = [int(cal.labels.max(initial=-1)) + 1 for cal in cals.values() if cal.labels is not None]
    n_classes = len(classes) or next(iter(known.values()), max(least, default=None))
    agreed = n_classes, classes
    return {
        name: cal
        if (cal.n_classes, cal.classes) == agreed
        else unchecked(cal, n_classes=n_classes, classes=classes)
        if isinstance(cal, StoredCalibration)
        else replace(cal, n_classes=n_classes, classes=classes)
        for name, cal in cals.items()
    }


def _check_same_number(numbers: Mapping[str, int], field: str) -> None:
    """Refuse agents of different numbers of classes; those that most have come first."""
    alike: dict[int, list[str]] = {}
    for name, number in numbers.items():
        alike.setdefault(number, []).append(name)
    if len(alike) > 1:
        largest_first = sorted(alike.items(), key=lambda one: -len(one[1]))
        listing = "; ".join(f"{number} at {listed(names, 5)}" for number, names in largest_first)
        raise ClassesError(f"must be the same at all agents, got {listing}", field=field)


def _group_names(cals: Mapping[str, Calibration]) -> tuple[str, ...]:
    """Return the names of all groups that occur."""
    return tuple(sorted({name for groups in _groups(cals) for name in group_names(groups)}))


def _groups(cals: Mapping[str, Calibration]) -> list[Texts]:
    return [cal.groups for cal in cals.values() if cal.groups is not None]
