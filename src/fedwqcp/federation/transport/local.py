"""Agents and server in one process. The same bytes travel as between machines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from fedwqcp.arrays import Floats
from fedwqcp.errors import InputError, QuorumError
from fedwqcp.federation.agent import Agent, DisclosureLimit, localize
from fedwqcp.federation.plan import Plan, as_alphas, choose_method, choose_score, new_id
from fedwqcp.federation.secure import SecureServer, run_masked, secure_round
from fedwqcp.federation.server import Server
from fedwqcp.methods import Calibration, Method
from fedwqcp.scores import Rule, Score
from fedwqcp.scores.custom import Custom
from fedwqcp.wire.payload import Number
from fedwqcp.wire.release import Release
from fedwqcp.wire.round import Round

OnExchange: TypeAlias = Callable[[int, str, int, int], None]
"""Told of a question and its answer: step, agent, bytes down and bytes up."""


_CHOSEN = (
    "; the method was chosen by the thresholds of these same data, which no proof accounts for"
)
"""What ``method="auto"`` adds to the assumption of the method that it chose."""


def calibrate(
    agents: Mapping[str, npt.ArrayLike | Calibration],
    *,
    method: str | Method[Any] = "fedwq-cp",
    alpha: float | Sequence[float],
    score: str | Score | None = None,
    rule: Rule = "leq",
    by: Literal["label", "group"] | None = None,
    groups: Sequence[str] | None = None,
    allow_samples: bool = False,
    limit: DisclosureLimit | None = None,
    seed: int | None = None,
    secure: bool | tuple[float, float] = False,
    on_exchange: OnExchange | None = None,
) -> Release:
    """Agree on thresholds between agents of this process.

    Parameters
    ----------
    agents : mapping of str to array_like or Calibration
        For each agent its scores, shape (n,), or its `Calibration` where the method needs labels
        or features. An agent may be empty.
    method : str or Method, optional
        Name of a method, or a method with settings: ``methods.get("fedwq-cp", overflow="clip")``.
        ``"auto"`` asks for thresholds and up to sixteen more order statistics first (and for class
        counts, if it must) and uses what `fedwqcp.theory.advise` then says; the release tells why.
    alpha : float or sequence of float
        Miscoverage level, or several: each gets a threshold of its own.
    score : str or Score, optional
        Where the scores come from; without it they count as the caller's own, without bounds.
    rule : {"leq", "leq_top1", "until"}, optional
        How a threshold becomes a set of labels; stored with the release.
    by : {"label", "group"}, optional
        A threshold of its own for each class, or for each group that a `Calibration` names in
        ``groups``: coverage then holds within each, as the method promises it.
    groups : sequence of str, optional
        Names of the groups; by default those that occur.
    allow_samples : bool, optional
        Let methods pass on all scores of single people, as the exact forms of some need.
    limit : DisclosureLimit, optional
        How much of their scores agents tell. Between machines ``DisclosureLimit()`` holds unless a
        site says otherwise; here, where all data lie in one process, nothing is limited by default.
    seed : int, optional
        Seed of the agents' noise; by default from the operating system.
    secure : bool or tuple of float, optional
        Add the agents' numbers under masks, so that the server sees only sums; for methods that
        need no more. Scores without a finite range need one: ``secure=(low, high)``.
    on_exchange : callable, optional
        Told of every question and its answer: step, agent, bytes down and bytes up.

    Returns
    -------
    Release
        The thresholds, what is proved of them, and what it cost.

    Raises
    ------
    InputError
        If an array, a name or a setting is wrong.

    Examples
    --------
    >>> release = calibrate({"a": [0.1, 0.2, 0.3, 0.4], "b": [0.2, 0.4]}, alpha=0.4)
    >>> round(release.threshold("a"), 3), str(release.guarantee), release.rounds
    (0.333, 'none', 1)
    """
    if not isinstance(agents, Mapping):
        raise InputError(
            f"agents must map names to scores, such as {{'a': [0.1, 0.2]}}, got "
            f"{type(agents).__name__}"
        )
    cals = _calibrations(agents)
    if method == "auto":
        if by is not None or secure:
            raise InputError(
                'method="auto" needs the thresholds of all agents: name a method for rounds by '
                "label or group, and for masked sums"
            )
        options = {"score": score, "rule": rule, "seed": seed, "on_exchange": on_exchange}
        limits = {"allow_samples": allow_samples, "limit": limit}
        advised = _as_advised(cals, alpha=alpha, **limits, **options)
        left = advised.guarantee.after_a_choice()
        return replace(advised, guarantee=left, assumption=f"{advised.assumption}{_CHOSEN}")
    columns = max((cal.columns for cal in cals.values()), default=1)
    round = Round(
        id=new_id(),
        method=choose_method(method),
        score=choose_score(Custom(columns) if score is None else score),
        alphas=as_alphas(alpha),
        agents=tuple(cals),
        quorum=len(cals),
        max_n=max(1, *(cal.n for cal in cals.values()), 1),
        rule=rule,
        n_classes=next((cal.n_classes for cal in cals.values()), None),
        by=by,
        groups=_group_names(cals, by, groups),
    )
    plan = Plan.of(round)
    if secure:  # masked sizes are bounded with their noise
        sized = replace(round, max_n=round.max_n + plan.method.size_noise)
        plan = Plan.of(secure_round(sized, secure))
    seeds = np.random.SeedSequence(seed).spawn(len(cals))
    told = None if secure else limit  # the server sees only sums
    sides = {
        name: Agent(
            name,
            plan,
            cal,
            allow_samples=allow_samples,
            limit=told,
            rng=np.random.default_rng(own),
        )
        for (name, cal), own in zip(cals.items(), seeds, strict=True)
    }
    if secure:
        return run_masked(SecureServer(plan), sides)
    release = run(Server(plan), sides, on_exchange)
    return replace(release, local=_localized(plan, release, cals))


def _as_advised(cals: Mapping[str, Calibration], **terms: Any) -> Release:
    """Assess a first round, then calibrate with what is advised."""
    from fedwqcp.federation.advising import calibrate_as_advised

    labelled = all(cal.labels is not None or not cal.n for cal in cals.values())
    return calibrate_as_advised(
        lambda chosen: calibrate(cals, method=chosen, **terms), labelled=labelled
    )


def run(
    server: Server,
    agents: Mapping[str, Agent],
    on_exchange: OnExchange | None = None,
    *,
    strict: bool = True,
) -> Release:
    """Carry a round's messages until it ends.

    Parameters
    ----------
    server : Server
        The server of the round.
    agents : mapping of str to Agent
        Its agents.
    on_exchange : callable, optional
        Told of every question and its answer.
    strict : bool, optional
        Whether a refused answer stops the round; else it goes on without that agent.

    Returns
    -------
    Release
        What the round ended with.

    Raises
    ------
    InputError
        If an answer is refused and ``strict``: in one process that is a mistake of the caller's.
    QuorumError
        If the answers cannot keep what the method's settings promise.
    """
    while not server.ended:
        for name, ask in server.asks().items():
            answer = agents[name].answer(ask if server.step else None)
            server.receive(answer, source=name, sender=name)
            if on_exchange is not None:
                on_exchange(server.step, name, len(ask), len(answer))
        try:
            server.close_step()
        except QuorumError:
            if not (strict and server.refusals):  # else the refusal below says more
                raise
        if strict and server.refusals:
            raise InputError(str(server.refusals[0]))
    return server.release()


def _localized(
    plan: Plan, release: Release, cals: Mapping[str, Calibration]
) -> dict[str, tuple[Number, ...]]:
    """Return the thresholds that agents find for themselves, where the server has none."""
    if all(outcome.threshold(0) is not None for outcome in release.outcomes):
        return {}
    return {
        name: tuple(
            _number(localize(plan, release, name, task, cal)) for task in range(len(plan.tasks))
        )
        for name, cal in cals.items()
    }


def _number(threshold: Floats) -> Number:
    """Return a threshold as it is stored."""
    return tuple(threshold.tolist()) if threshold.ndim else float(threshold)


def _calibrations(agents: Mapping[str, npt.ArrayLike | Calibration]) -> dict[str, Calibration]:
    """Check what each agent brings; an error names the agent."""
    found = {}
    for name, data in agents.items():
        try:
            found[name] = data if isinstance(data, Calibration) else Calibration(data)
        except InputError as error:
            raise InputError(f"agent {name!r}: {error}") from None
    return _same_classes(found)


def _same_classes(cals: dict[str, Calibration]) -> dict[str, Calibration]:
    """Give every agent the same number of classes."""
    known = {cal.n_classes for cal in cals.values() if cal.n_classes is not None}
    if len(known) > 1:
        raise InputError(f"n_classes must be the same for all agents, got {sorted(known)}")
    found = [int(cal.labels.max(initial=-1)) + 1 for cal in cals.values() if cal.labels is not None]
    n_classes = next(iter(known), max(found, default=None))
    return {
        name: Calibration(
            cal.scores,
            cal.labels,
            cal.features,
            n_classes,
            groups=cal.groups,
            weights=cal.weights,
        )
        for name, cal in cals.items()
    }


def _group_names(
    cals: Mapping[str, Calibration], by: str | None, groups: Sequence[str] | None
) -> tuple[str, ...]:
    """Return the names of the groups: those given, or all that occur."""
    if groups is not None:
        return tuple(map(str, groups))
    if by != "group":
        return ()
    return tuple(
        sorted({str(g) for cal in cals.values() if cal.groups is not None for g in cal.groups})
    )
