"""Advice from the records of rounds, and calibration that follows it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Any

from fedwqcp import methods
from fedwqcp._validation import named
from fedwqcp.errors import InputError, MessageError, RecordError
from fedwqcp.federation.plan import Plan
from fedwqcp.federation.release import Release
from fedwqcp.federation.server import check_answers
from fedwqcp.methods import Method
from fedwqcp.methods.fedls_cp import FedLSCP
from fedwqcp.methods.fedwq_cp import FedWQCP
from fedwqcp.quantile import least_sample
from fedwqcp.theory import Advice, advise, diagnose_release
from fedwqcp.theory.diagnosis import VERDICTS
from fedwqcp.theory.method_choice import DEMAND, RULES
from fedwqcp.wire.messages import MOST_TAIL, Begin, LocalQuantile, SharedThresholdWithin, Summary

_CHOSEN = (
    "; the method was chosen by the thresholds of these same data, which no proof accounts for"
)
"""What is added to the assumption of a method that was chosen."""


def advise_on(*records: Release, alpha: float | None = None, new_site: bool = False) -> Advice:
    """Choose a method from the records of one or more rounds with the same agents.

    Parameters
    ----------
    *records : Release
        The server's records: of a method whose agents send thresholds (``fedwq-cp``, best with
        ``tail=16``), class counts, or both (``fedls-cp``).
    alpha : float, optional
        Which level; by default every level of the first round is judged, and the most demanding
        choice decides for all (`DEMAND`; among equals the smallest level).
    new_site : bool, optional
        Advise for a site that joins later, without labels; of the roster every agent counts.

    Returns
    -------
    Advice
        What to use and why; ``levels`` names the rule at each level where there are several.

    Raises
    ------
    InputError
        If no record holds local thresholds, records differ in score, rule, target, groups or level,
        the target is a distribution in numbers, or a round was private or masked, or has a score of
        several columns.
    RecordError
        If a record holds answers that the server cannot have admitted.
    """
    terms = [record.round for record in records]
    if len({(str(each.score), each.rule, each.target, each.by) for each in terms}) != 1:
        raise InputError(
            "advice needs records of at least one round, all with the same score, rule, target and "
            "groups"
        )
    if not isinstance(terms[0].target, str):
        raise InputError(
            "advice is for the targets 'own' and 'mixture': for a distribution in numbers name the "
            "method, such as fedls-cp"
        )
    for record in records:
        check_record(record)
    levels = records[0].round.alphas if alpha is None else (alpha,)
    found = [_at_level(records, level, new_site=new_site) for level in levels]
    first = min(found, key=_demand)
    before = [*_without_points(records[0]), *(each.first for each in found if each.first)]
    chosen = [record.round.method for record in records if record.round.method.name == first.method]
    keep = any(first.settings.items() <= method.settings.items() for method in chosen)
    rules = {each.alpha: each.code for each in found}
    return replace(first, levels=rules, keep=keep, first=" ".join(before))


def next_step(record: Release) -> Advice | str:
    """Say what to do after a round, as `advise_on` does, or why nothing can be advised.

    Where agents send nothing that advice could rest on, the text says at most which classes or
    groups nobody has a point of.
    """
    try:
        return advise_on(record)
    except _NothingSentError:
        return " ".join(_without_points(record))
    except InputError as error:
        return " ".join([*_without_points(record), f"no advice: {error}"])


def calibrate_as_advised(
    attempt: Callable[[Method[Any]], Release], *, labelled: bool, target: str = "own"
) -> tuple[Release, Advice]:
    """Assess a first round, then calibrate with the method that is advised.

    ``attempt`` runs a round with a method. ``labelled``: agents know the labels of their points, so
    that class counts can be asked for; with the target ``"mixture"`` they matter in a safe round
    too. Rounds and bytes of the release count the first rounds as well.
    """
    first = FedWQCP(tail=MOST_TAIL)
    done: dict[Method[Any], Release] = {first: attempt(first)}
    advice = advise_on(*done.values())
    own = target == "own"
    settled = own and not methods.find(advice.method).questions  # own thresholds, whatever labels
    matter = ("unsafe", "cannot-tell") if own else ("unsafe", "cannot-tell", "safe")
    if labelled and advice.code in matter and not settled:
        second = FedLSCP(floor=True)  # what is then advised, if label distributions differ
        done[second] = attempt(second)
        advice = advise_on(*done.values())
    chosen = methods.get(advice.method, **advice.settings)  # the round brings its target
    if advice.method == methods.name_of(first) and not advice.settings:
        chosen = first  # its threshold is the same, and nothing more is sent
    if chosen not in done:
        done[chosen] = attempt(chosen)
    last, advice = done[chosen], replace(advice, keep=False)
    release = replace(
        last,
        advice=str(advice),
        guarantee=last.guarantee.after_a_choice(),
        assumption=f"{last.assumption}{_CHOSEN}",
        rounds=sum(each.rounds for each in done.values()),
        agents=tuple(
            replace(
                agent,
                bytes_up=sum(each.bytes_up(agent.name) for each in done.values()),
                bytes_down=sum(each.bytes_down(agent.name) for each in done.values()),
            )
            for agent in last.agents
        ),
    )
    return release, advice


def promised_to_new_site(release: Release, alpha: float) -> tuple[str, ...]:
    """Say what a round promises, at one level, to a site that took no part and has no labels.

    The first sentence says what is promised.
    """
    groups = range(len(release.round.group_names) or 1)
    tasks = [task for group in groups for task in release.tasks_of(alpha, group)]
    shared = [release.outcomes[task].threshold(None) for task in tasks]
    said = Plan.of(release.round).method.new_agent_promise(alpha)
    if not said:
        lead = (
            "A site that took no part has no threshold: each agent has its own."
            if None in shared
            else "Nothing is promised to a site that took no part: the threshold is for those that "
            "did."
        )
        needs = (
            "new-agent-cp promises coverage at a new site that is exchangeable with the others. "
            f"At alpha={alpha:g} it needs at least {least_sample(alpha)} agents; this round has "
            f"{len(release.round.agents)}."
        )
        try:
            advice = f"Advice: {advise_on(release, alpha=alpha, new_site=True)}"
        except (InputError, RecordError):  # agents sent nothing that it could rest on
            return lead, needs
        return lead, needs, advice
    more = "Here the threshold is +inf, and its sets exclude nothing: more agents are needed."
    return (f"{said}, if {release.assumption}.", *((more,) if inf in shared else ()))


def _demand(advice: Advice) -> tuple[int, bool, float]:
    """Return what sorts the most demanding of several choices first."""
    return DEMAND.index(advice.method), advice.code == "no-data", advice.alpha


def _at_level(records: Sequence[Release], alpha: float, *, new_site: bool) -> Advice:
    """Return the advice at one level; of several groups the most demanding decides for all."""
    terms = records[0].round
    by_group = {
        name: advice
        for place, name in enumerate(terms.group_names or ("",))
        if (advice := _for_group(records, alpha, place, new_site=new_site)) is not None
    }
    if not by_group:
        raise _nothing_sent(records)
    name = min(by_group, key=lambda each: _demand(by_group[each]))
    first = by_group[name]
    if terms.by is None:
        return first
    verdict = min((each.verdict for each in by_group.values()), key=VERDICTS.index)  # the gravest
    before = [
        f"{terms.by.capitalize()} {n}: {_too_few(each)}"
        for n, each in by_group.items()
        if n != name and (each.code == "no-data" or (each.code == "few" != first.code))
    ]
    others = ", ".join(f"{n}: {RULES[each.code]}" for n, each in by_group.items() if n != name)
    why = f"Decided by {terms.by} {name}" + (f" ({others}): " if others else ": ")
    notes = first.notes
    sent = (
        own
        for record in records
        for place in range(len(terms.group_names))
        for own in thresholds_in(record, alpha, place).values()
    )
    if any(own.n and own.threshold == inf for own in sent):
        coarser = "Classes that are merged" if terms.by == "label" else "Coarser groups"
        notes += (f"{coarser} have more points each, for a finite threshold in each.",)
    why += first.why
    return replace(first, why=why, verdict=verdict, notes=notes, first=" ".join(before))


def _for_group(
    records: Sequence[Release], alpha: float, group: int, *, new_site: bool
) -> Advice | None:
    """Return the advice at one level for one group; None where nobody sent a threshold of it."""
    holding = next((each for each in records if thresholds_in(each, alpha, group)), None)
    if holding is None:
        return None
    thresholds = thresholds_in(holding, alpha, group)
    counts = [found for each in records if (found := _counts_in(each, alpha, group))]
    fitting = next((found for found in counts if set(found) == set(thresholds)), None)
    terms = records[0].round
    if new_site:
        counts, fitting = [], None  # labels of those who took part tell nothing of the new one
        silent = [name for name in holding.round.agents if name not in thresholds]
        thresholds |= dict.fromkeys(silent, LocalQuantile(inf, 0))
    bounds = records[0].score.bounds(terms.n_classes)
    (task,) = holding.tasks_of(alpha, group)
    advice = advise(
        thresholds,
        alpha,
        counts=fitting,
        score=terms.score.name,
        bounds=bounds,
        diagnosis=diagnose_release(holding, task, alpha, bounds),
        target=terms.target,  # type: ignore[arg-type]  # checked before
        new_site=new_site,
        exact=all(sent.exact_threshold for sent in _sent(holding, alpha, group).values()),
        by=terms.by,
    )
    if not counts or fitting is not None:
        return advice
    note = "Class counts were not used: they are of other agents than the thresholds."
    return replace(advice, notes=(*advice.notes, note))


def _too_few(advice: Advice) -> str:
    """Say that a group has too few points, where the method is chosen for another one."""
    if advice.code == "no-data":
        return advice.why
    return (
        f"too few points at {named(advice.agents)}, and all together are too few to pool: collect "
        "more, or thresholds can stay +inf."
    )


def without_points(by: str, parts: Sequence[str]) -> str:
    """Say of which labels or groups nobody has a point, and what helps."""
    what = "class" if by == "label" else by
    out = f"the {what}" if len(parts) == 1 else f"these {what}{'es' if by == 'label' else 's'}"
    return (
        f"No agent has a point of {by} {named(parts)}: collect some, or take {out} out of the "
        "round."
    )


def _without_points(record: Release) -> Iterator[str]:
    """Say of which classes or groups of a round no agent has a point."""
    empty = [part for part, at in record.absent.items() if set(record.used) <= set(at)]
    if empty and record.round.by is not None:
        yield without_points(record.round.by, empty)


# ---- what a record holds


class _NothingSentError(InputError):
    """A record holds nothing that advice could rest on."""


def _nothing_sent(records: Sequence[Release]) -> _NothingSentError:
    """Name the methods of records without thresholds, and methods whose records have them."""
    used = ", ".join(dict.fromkeys(record.round.method.name for record in records))
    return _NothingSentError(
        "advice needs thresholds or class sketches that agents sent, and in this round of "
        f"{used} they sent neither: open a round of fedwq-cp with tail=16, or of fedls-cp"
    )


def check_record(record: Release) -> None:
    """Refuse a record that nothing can be advised on, or that no server can have written."""
    plan = Plan.of(record.round)
    if plan.method.private:
        raise InputError(
            f"advice needs exact thresholds: those of {record.round.method.name} carry "
            "noise, and every method that could be advised would send numbers that are not "
            "private. Stay with it: thresholds of +inf need a larger epsilon or more points, and "
            "where one agent may be wrong, set combine=weighted-median-cp. Or open a round of "
            "fedwq-cp, if the agents agree to send their thresholds"
        )
    if any(isinstance(outcome, SharedThresholdWithin) for outcome in record.outcomes):
        raise InputError(
            "advice needs each agent's own threshold: the server has only totals of masked sums, "
            "and any advised method would show it more. Stay with this method; or open a "
            "round without masks, if the agents agree"
        )
    if plan.score.columns > 1:
        raise InputError("advice needs a score of one column")
    if not record.received and plan.method.questions:
        raise _NothingSentError(
            "this is the release that agents get: advice needs thresholds or class sketches that "
            "agents sent, which the server's record holds",
            cure=(
                "pass that record",
                "`server close` writes it beside the round, as round-ID.record.json",
            ),
        )
    if not record.received:
        raise _nothing_sent([record])
    _check_received(record, plan)


def _check_received(record: Release, plan: Plan) -> None:
    """Refuse answers of agents outside the round, and those that a server would not admit."""
    terms, received = record.round, record.received
    if set(received) != set(record.used):
        odd = ", ".join(sorted(set(received) ^ set(record.used)))
        raise RecordError(
            f"the record of round {terms.id!r} is damaged: it must hold the answers of the agents "
            f"that were used, and of no others; see {odd}"
        )
    for name, answers in received.items():
        try:
            check_answers(plan.answer(name, answers), plan, (Begin(),) * len(plan.tasks))
        except MessageError as error:
            raise RecordError(f"the record of round {terms.id!r} is damaged: {error}") from None
    kinds = {type(answer) for answers in received.values() for answer in answers}
    if len(kinds - {type(None)}) > 1:  # an agent without points of a group sends nothing of it
        raise RecordError(
            f"the record of round {terms.id!r} is damaged: all agents must have answered alike"
        )


def _counts_in(record: Release, alpha: float, group: int) -> dict[str, tuple[int, ...]]:
    """Return the points of each class by agent; empty where agents did not send them."""
    read, sent = Plan.of(record.round).method.read_counts, _sent(record, alpha, group)
    return {name: found for name in sent if (found := read(sent[name])) is not None}


def thresholds_in(record: Release, alpha: float, group: int = 0) -> dict[str, LocalQuantile]:
    """Return the agents' own thresholds, as sent or read from sketches; empty without either."""
    read, sent = Plan.of(record.round).method.read_threshold, _sent(record, alpha, group)
    return {name: found for name in sent if (found := read(sent[name], alpha)) is not None}


def _sent(record: Release, alpha: float, group: int) -> Mapping[str, Summary]:
    """Return what each agent sent in answer to the first question, at one level of one group."""
    (task,) = record.tasks_of(alpha, group)
    sent = {name: answers[task] for name, answers in record.received.items()}
    return {name: answer for name, answer in sent.items() if answer is not None}
