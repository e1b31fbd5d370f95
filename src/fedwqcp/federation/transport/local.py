"""Agents and server in one process. The same bytes travel as between machines."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
from numpy.random import BitGenerator, Generator, SeedSequence, default_rng

from fedwqcp._validation import as_classes, listed, shown, unchecked
from fedwqcp.errors import ClassesError, InputError, OutOfRangeError, QuorumError
from fedwqcp.federation import inspection
from fedwqcp.federation.agent import Agent
from fedwqcp.federation.batches import stored_calibration
from fedwqcp.federation.plan import Plan, new_round
from fedwqcp.federation.predict import localize, scored
from fedwqcp.federation.release import Release
from fedwqcp.federation.secure import SecureServer, run_sums, secure_round
from fedwqcp.federation.server import Server
from fedwqcp.findings import Finding
from fedwqcp.groups import group_names, most_groups
from fedwqcp.methods import Calibration, Method
from fedwqcp.methods._answers import most_common
from fedwqcp.outputs import MaskOutputs, Outputs, check_ids
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
    classes: tuple[str, ...] = (),
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
    n_classes = len(classes) or _most_classes(cals.values())
    cals = {name: _counted(name, cal, n_classes) for name, cal in cals.items()}
    groups = [cal.groups for cal in cals.values() if cal.groups is not None and by == "group"]
    round = new_round(
        tuple(cals),
        method,
        score,
        alphas,
        quorum=len(cals),
        max_n=max([cal.n for cal in cals.values()], default=0) or 1,
        classes=classes,
        n_classes=n_classes,
        by=by,
        groups=tuple(sorted(set(chain(*map(group_names, groups))))),
        max_groups=max(map(most_groups, groups), default=1),
        target=target,
        **terms,
    )
    plan = Plan.of(round, method, score)
    _check_stated_range(plan, cals)
    if secure:  # masked sizes are bounded with their noise
        sized = msgspec.structs.replace(round, max_n=round.max_n + plan.traits.size_noise)
        plan = Plan.of(secure_round(sized, secure))
    sides = {}
    for (name, cal), stream in zip(cals.items(), _streams(rng, len(cals)), strict=True):
        try:
            sides[name] = Agent(name, plan, cal, allow_samples=True, limit=None, rng=stream)
        except InputError as error:
            raise error.within(f"agent {name!r}") from None
    if secure:
        return run_sums(SecureServer(plan), sides)
    release = run(Server(plan), sides)
    release.local.update(_localized(plan, release, cals))
    return release


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
        values: list[Number] = []
        for task in range(len(plan.tasks)):
            threshold = localize(plan, release, name, task, cal)
            values.append(tuple(threshold.tolist()) if threshold.ndim else float(threshold))
        thresholds[name] = tuple(values)
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
    known = {
        name: inspection.counts_of(data if isinstance(data, Outputs) else None, cals[name])
        for name, data in agents.items()
    }
    of_round = tuple(inspection.of_release(release, known))
    yield from of_round
    infinite = {
        (name, alpha)
        for finding in of_round
        if finding.code == "infinite-threshold"
        for name in finding.agents
        for alpha in finding["alphas"]
    }
    plan = Plan.of(release.round)
    for name in agents:
        for finding in inspection.of_points(plan, name, cals[name]):
            if (name, finding.facts.get("alpha")) not in infinite:
                yield finding
        yield from inspection.of_agreement(name, known[name])


def default_score(agents: Mapping[str, object]) -> Score | None:
    """Return the score of outputs where none is named: randomised APS, of masks `Mask`."""
    outputs = {name: data for name, data in agents.items() if isinstance(data, Outputs)}
    if not outputs:
        return None
    if any(isinstance(data, MaskOutputs) for data in outputs.values()):
        return Mask()
    for name, data in outputs.items():
        y = data.labels
        real = y is not None and y.dtype.kind == "f" and bool((y != np.rint(y)).any())
        if data.values.ndim == 1 or (data.values.shape[1] == 2 and real):
            raise InputError(
                f"agent {name!r}: these are a regressor's outputs: name their score, "
                "'absolute-residual' for a prediction, 'cqr' for a lower and an upper quantile, "
                "'normalized-residual' for a prediction and its sigma; of two classes pass both "
                "columns of predict_proba"
            )
    return APS()


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
            "must be passed to calibrate where columns are found by name and labels are numbers: "
            "nothing else says which class a number stands for",
            field="classes",
        )
    first = (ordered or naming)[0]
    if without := [name for name, names in named.items() if not names]:
        raise ClassesError(
            f"agent {first!r} names its classes and {listed(without, 5)} none: pass classes=[...] "
            "with every agent's data, or once to calibrate if all have the same columns",
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

    def _of(outputs: Outputs) -> Calibration:
        assert chosen is not None  # outputs have a default one
        check_ids(chosen, outputs.ids)
        return scored(chosen, key, outputs.in_classes(classes))

    cals: dict[str, Calibration] = {}
    for name, data in agents.items():
        try:
            if isinstance(data, Outputs):
                cals[name] = _of(data)
            elif isinstance(data, OutputBatches):
                folder = Path(opened.enter_context(TemporaryDirectory()), "scores")
                cals[name] = opened.enter_context(stored_calibration(data, _of, folder, ""))
            else:
                cals[name] = data if isinstance(data, Calibration) else Calibration(data)
        except InputError as error:
            raise error.within(f"agent {name!r}") from None
    return cals


def _most_classes(cals: Collection[Calibration]) -> int | None:
    """Return how many classes most agents know of; else as many as their labels need."""
    if known := [cal.n_classes for cal in cals if cal.n_classes is not None]:
        return most_common(known)
    labels = [cal.labels for cal in cals if cal.labels is not None]
    return max([int(y.max(initial=-1)) + 1 for y in labels], default=None)


def _counted(name: str, cal: Calibration, n_classes: int | None) -> Calibration:
    """Return calibration data that know how many classes there are."""
    if cal.n_classes is not None or n_classes is None:
        return cal
    if cal.labels is None:
        return unchecked(cal, n_classes=n_classes)
    try:
        return replace(cal, n_classes=n_classes)
    except InputError as error:
        raise error.within(f"agent {name!r}") from None
