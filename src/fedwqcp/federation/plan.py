"""A round's terms turned into objects: its method, its score and its tasks."""

from __future__ import annotations

import secrets
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from fedwqcp import methods, scores
from fedwqcp._io import exists, load_toml
from fedwqcp._validation import (
    Floats,
    as_classes,
    as_usual_alpha,
    check_same_classes,
    plain,
    several_columns,
    shown,
)
from fedwqcp._versions import __version__
from fedwqcp.errors import ClassesError, InputError, OutOfRangeError, SizeError
from fedwqcp.groups import group_places, most_groups
from fedwqcp.methods import Calibration, Method, Terms, Traits
from fedwqcp.quantile import Overflow, finite_range
from fedwqcp.registry import Setting, settings_of
from fedwqcp.scores import IntervalScore, LabelScore, Rule, Score
from fedwqcp.scores.aps import APS
from fedwqcp.scores.custom import Custom
from fedwqcp.wire.limits import check_tasks
from fedwqcp.wire.messages import (
    TARGETS,
    Answer,
    Ask,
    Begin,
    Choice,
    Payload,
    Round,
    SharedThreshold,
    Summary,
    Target,
)
from fedwqcp.wire.terms import full_digest, terms


@dataclass(frozen=True)
class Task:
    """One threshold to find: for a level, divided by the columns, one column and one group."""

    alpha: float
    column: int
    group: int | None = None


@dataclass(frozen=True)
class Plan:
    """What a round computes."""

    round: Round
    method: Method[Any]
    score: Score
    tasks: tuple[Task, ...]

    @classmethod
    def of(
        cls, round: Round, method: Method[Any] | None = None, score: Score | None = None
    ) -> Plan:
        """Look up the objects that the terms name, unless they are at hand; once for each round."""
        plan: Plan | None = vars(round).get(_PLAN)
        if plan is None:
            method = method or methods.get(round.method.name, **round.method.settings)
            score = score or scores.get(round.score.name, **round.score.settings)
            plan = vars(round)[_PLAN] = cls._made(round, with_target(method, round.target), score)
        return plan

    @classmethod
    def _made(cls, round: Round, method: Method[Any], score: Score) -> Plan:
        """Check that method and score fit the terms, and list the thresholds to find."""
        if getattr(method, "max_groups", round.max_groups) != round.max_groups:
            method = replace(method, max_groups=round.max_groups)  # type: ignore[type-var]  # a dataclass
        if score.losses and (stand_in := method.traits.for_losses) is not None:
            method = stand_in()
        groups, columns = range(len(round.group_names)) or (None,), score.columns
        check_tasks(len(round.alphas) * len(groups) * columns)
        tasks = tuple([
            Task(alpha / columns, column, group)
            for alpha in round.alphas
            for group in groups
            for column in range(columns)
        ])  # fmt: skip
        plan = cls(round, method, score, tasks)
        plan._check_choices()
        plan._check_traits()
        return plan

    def _check_choices(self) -> None:
        """Refuse a rule, groups or a method that do not fit the score."""
        round, score, traits = self.round, self.score, self.traits
        labels = isinstance(score, LabelScore)
        without = f"sets of labels, which score {round.score.name!r} does not make"
        if isinstance(score, LabelScore):
            score.check_rule(round.rule)  # type: ignore[arg-type]  # or refuses it
        elif round.rule != "leq":
            raise InputError(f"rule {round.rule!r} is for {without}: leave the rule out")
        if round.classes and isinstance(score, IntervalScore):
            raise InputError(f"must be left out: they name {without}", field="classes")
        if traits.per_label and isinstance(score, IntervalScore):
            raise InputError(f"method {round.method.name!r} is for {without}")
        wanted = None if traits.corrects_shift_of == "features" else round.n_classes
        if not isinstance(round.target, str) and wanted not in (None, len(round.target)):
            raise InputError(
                f"must hold {wanted} numbers, one for each of the {traits.corrects_shift_of}, got "
                f"{len(round.target)}",
                field="target",
            )
        scores_alone = isinstance(score, Custom) and score.columns == 1  # its sets may be of labels
        if round.by == "label" and not (labels or scores_alone):
            raise InputError(
                f"'label' is for {without}; use by='group', with groups that are known before y is",
                field="by",
            )
        if score.losses and not traits.controls_risk:
            raise InputError(
                f"score {round.score.name!r} is for methods that control a risk, such as "
                f"'fed-crc'; {round.method.name!r} does not"
            )

    def _check_traits(self) -> None:
        """Refuse a range of scores, a number of thresholds or a target that a method refuses."""
        traits, method, (low, high) = self.traits, self.round.method.name, self.bounds
        stated, takes, most = traits.stated_range, traits.score_range, traits.most_thresholds
        if not isinstance(self.score, Custom):  # a caller's own have no range
            if takes is not None and not takes[0] <= low <= high <= takes[1] + 0.01:  # float32
                raise OutOfRangeError(
                    f"{method} takes scores from {takes[0]:g} to {takes[1]:g}, such as those of "
                    f"lac or aps; {self.round.score.name} goes from {low:g} to {high:g}",
                    field="score",
                )
            if stated is not None and not stated[0] <= low <= high <= stated[1]:
                raise OutOfRangeError(
                    f"must be stated for scores from {low:g} to {high:g}, chosen without looking "
                    "at the data: bounds=(0, 50)",
                    field="bounds",
                )
        if (better := traits.dominated_by) is not None:
            raise InputError(
                f"{method} with these settings and this target is never better than {better}, "
                f"which assumes less: use {better}",
                field="method",
            )
        if most is not None and len(self.tasks) > most:
            raise InputError(
                f"{method} with these settings takes at most {most} thresholds, got "
                f"{len(self.tasks)}",
                field="method",
            )

    @cached_property
    def traits(self) -> Traits:
        """What the method needs and does, with its settings."""
        return self.method.traits

    @cached_property
    def kinds(self) -> tuple[type[Payload], ...]:
        """Every kind of payload that occurs in the round."""
        return kinds_of(self.method)

    @property
    def assumption(self) -> str:
        """What the method's guarantee rests on, in each group where there are groups."""
        round, assumed = self.round, self.method.assumption
        if not self.method.guarantee:
            assumed = f"in finite samples nothing is proved: {assumed}"
        if round.by is not None:
            assumed = f"within each {round.by}, {assumed}"
        if round.max_groups > 1:
            assumed += "; a point of several groups takes the largest of their thresholds"
        if not isinstance(round.target, str):
            return f"{assumed}; target: the distribution that the round names"
        if self.traits.floors:
            return assumed
        if self.traits.corrects_shift_of is not None:
            return f"{assumed}; target {round.target!r}: {TARGETS[round.target]}"
        if round.target == "own":
            return assumed
        return (
            f"{assumed}; this method does not use the round's target {round.target!r}: its "
            "thresholds are the same, and nothing is proved of people unlike those an agent "
            "calibrated on"
        )

    def proved(self, n: int, alpha: float) -> float | None:
        """Return the coverage that n points prove at their agent, over the columns of the score."""
        columns, proved = self.score.columns, self.traits.proved
        if proved is None:
            return None
        return max(0.0, 1 - columns * (1 - proved(n, alpha / columns)))

    @cached_property
    def terms(self) -> str:
        """The short digest of the round's terms, which every answer holds."""
        return terms(self.round)

    @cached_property
    def digest(self) -> bytes:
        """The full digest of the round's terms, which signatures cover."""
        return full_digest(self.round)

    @cached_property
    def first_ask(self) -> Ask:
        """The first question, which the terms imply."""
        return Ask(self.round.id, 0, (Begin(),) * len(self.tasks))

    @cached_property
    def bounds(self) -> tuple[float, float]:
        """The range of the score."""
        return self.score.bounds(self.round.n_classes)

    @cached_property
    def task_terms(self) -> tuple[Terms, ...]:
        """What the answers of each task are checked against."""
        n_classes, bounds = self.round.n_classes, self.bounds
        return tuple([Terms(task.alpha, n_classes, *bounds) for task in self.tasks])

    def answer(
        self, agent: str, answers: tuple[Summary | None, ...], step: int = 0, signature: str = ""
    ) -> Answer:
        """Return what an agent answers in a step, on the terms of the round."""
        round = self.round
        return Answer(
            round=round.id,
            terms=self.terms,
            step=step,
            agent=agent,
            method=round.method.name,
            score=round.score.name,
            alphas=round.alphas,
            answers=answers,
            signature=signature,
        )

    def check(self, cal: Calibration) -> None:
        """Refuse calibration data that do not fit the round, or whose groups are not known.

        A private round looks at no value of theirs: a refusal would tell of it.
        """
        round, name = self.round, self.round.method.name
        if cal.weights is not None and not self.traits.controls_risk:
            raise InputError(f"weights are for methods that control a risk; {name!r} does not")
        if round.classes and cal.classes:
            check_same_classes(cal.classes, round.classes)
        known = cal.class_count("a round by label") if round.by == "label" else cal.n_classes
        if None not in (known, round.n_classes) and known != round.n_classes:
            raise ClassesError(
                f"n_classes must be the round's {round.n_classes}, got {known}",
                cure=(
                    "give one column for each class of the round",
                    "give one column for each class, or ask the server for a round with these",
                ),
            )
        if round.by == "group":
            if cal.groups is None:
                raise InputError(
                    "a round by group needs the group of each calibration point",
                    cure=(
                        "pass groups=... with the scores or outputs",
                        "add a column 'group' to the file (in an .npz file an array groups)",
                    ),
                )
            _check_overlap(round, cal, self.traits.private)
            if not self.traits.private:
                group_places(cal.groups, round.groups)
        columns, wanted = cal.columns, self.score.columns
        if columns > wanted == 1:
            raise InputError(several_columns(cal.scores))
        if columns != wanted:
            raise InputError(f"the score has {wanted} column(s), the calibration {columns}")
        if self.traits.private:
            return
        if cal.n > round.max_n:
            raise SizeError(
                f"n must be at most the round's max_n = {round.max_n}, got {cal.n}; "
                "ask the server for a round with a larger max_n"
            )
        low, high = self.score.bounds()  # of any number of classes and any penalty of the round
        high = max(high, self.bounds[1])
        ends = finite_range(cal.scores)
        if ends is not None and not (low <= ends[0] and ends[1] <= high):
            raise OutOfRangeError(
                f"scores must lie between {low:g} and {high:g} for {round.score.name}; "
                "are they from another score?"
            )


_KEY = "fedwqcp"
"""Key of the random part of scores, one for all rosters.

With another key a round would ask for other random scores of the same people, which count against
what a site tells; with the same one a second round like the first tells nothing new.
"""
_PLAN = "_plan"
"""Attribute of a round with its plan; in no message and no copy."""


def kinds_of(method: Method[Any] | type[Method[Any]]) -> tuple[type[Payload], ...]:
    """Return the payloads of a method, and `SharedThreshold`: a group without points has +inf."""
    return tuple(
        dict.fromkeys((*method.summaries, *method.questions, *method.outcomes, SharedThreshold))
    )


def with_target(method: Method[Any], target: Target) -> Method[Any]:
    """Return the method with the round's target; itself where it does not use one."""
    if getattr(method, "target", None) == target:
        return method
    if method.traits.corrects_shift_of is not None:
        return replace(method, target=target)  # type: ignore[type-var]  # all are dataclasses
    if not isinstance(target, str):
        raise InputError(
            "a distribution in numbers is for methods that correct a shift, such as fedls-cp: "
            "leave target out",
            field="target",
        )
    return method


def choose_method(method: str | Method[Any]) -> Choice:
    """Return a method as a round names it."""
    chosen = methods.get(method) if isinstance(method, str) else method
    return Choice(methods.name_of(chosen), _settings(chosen))


def choose_score(score: str | Score) -> Choice:
    """Return a score as a round names it."""
    chosen = scores.get(score) if isinstance(score, str) else score
    return Choice(scores.name_of(chosen), _settings(chosen))


def _settings(thing: Any) -> dict[str, Setting]:
    return {name: getattr(thing, name) for name in settings_of(thing)}


def new_round(
    agents: Sequence[str],
    method: str | Method[Any],
    score: str | Score,
    alphas: Sequence[float],
    *,
    rule: str = "leq",
    allow_empty: bool = True,
    key: str = _KEY,
    quorum: int | None = None,
    classes: Sequence[str] = (),
    n_classes: int | None = None,
    **terms: Any,
) -> Round:
    """Return a new round of all agents, with a fresh id.

    A release needs the answers of all but one, unless ``quorum`` says otherwise; of two agents it
    needs both, but where an agent's own data prove its coverage (`Traits.floors`).
    """
    names = as_classes(classes) if len(classes) else ()
    chosen = methods.get(method) if isinstance(method, str) else method
    floors = chosen.traits.floors and terms.get("target", "own") == "own"
    spare = len(agents) > (1 if floors else 2)
    return Round(
        id=new_id(),
        method=choose_method(chosen),
        score=choose_score(score),
        alphas=tuple(alphas),
        agents=tuple(agents),
        quorum=len(agents) - spare if quorum is None else quorum,
        rule="leq_top1" if rule == "leq" and not allow_empty else rule,
        key=key,
        classes=names,
        n_classes=len(names) if names and n_classes is None else n_classes,
        provenance=stamp(),
        **terms,
    )


def stamp() -> dict[str, str]:
    """Return when (in UTC) and with which software something is made."""
    made = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return {"created": made, "software": f"fedwqcp {__version__}"}


def as_alphas(
    alpha: float | Sequence[float] | Floats, *, allow_large: bool = False
) -> tuple[float, ...]:
    """Return one or several miscoverage levels as a tuple; above 0.5 only if allowed."""
    given = plain(alpha)
    several = isinstance(given, Sequence) and not isinstance(given, str | bytes)
    levels = given if several else (given,)
    if not levels:
        raise InputError("alpha must be at least one level, got none")
    return tuple([as_usual_alpha(level, allow_large=allow_large) for level in levels])


def as_target(text: str) -> Target:
    """Return a target as it is typed: a word, or numbers with commas."""
    if not any(letter.isdigit() for letter in text):
        return text
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise InputError(
            f"must be own, mixture or numbers with commas, got {text!r}", field="target"
        ) from None


def new_id() -> str:
    """Return a random id for a round."""
    return secrets.token_hex(8)


def _check_overlap(round: Round, cal: Calibration, private: bool) -> None:
    """Refuse points of more groups than the round allows; in a private round by columns alone."""
    assert cal.groups is not None
    most = cal.groups.shape[-1] if private and cal.groups.ndim == 2 else most_groups(cal.groups)
    if most > round.max_groups:
        raise InputError(
            f"the round takes points of at most {round.max_groups}, got some of {most}",
            field="max_groups",
            cure=(
                f"open the round with max_groups={most}",
                f"ask the server for a round with max_groups = {most} in its roster",
            ),
        )


def part_of(round: Round, cal: Calibration, group: int | None) -> Calibration:
    """Return the points of one group."""
    if group is None:
        return cal
    if round.by == "label":
        return cal.part(label=group)
    return cal.part(group=round.groups[group])


class Roster(msgspec.Struct, frozen=True):
    """Who takes part, and what is asked of them."""

    agents: Annotated[tuple[str, ...], Meta(description="a list of names")] = ()
    quorum: Annotated[int | None, Meta(description="an integer")] = None
    max_n: Annotated[int | None, Meta(description="an integer")] = None
    n_classes: Annotated[int | None, Meta(description="an integer")] = None
    classes: Annotated[tuple[str, ...], Meta(description="a list of names")] = ()
    groups: Annotated[tuple[str, ...], Meta(description="a list of names")] = ()
    max_groups: Annotated[int, Meta(description="an integer")] = 1
    keys: Annotated[dict[str, str] | None, Meta(description="a table of public keys by agent")] = (
        None
    )


def load_roster(path: Path) -> Roster:
    """Read a roster from a TOML file: ``agents = ["st-mary", "lakeside"]`` and optional settings.

    These are ``quorum``, ``max_n``, ``n_classes``, ``classes`` and ``groups`` (lists of names),
    ``max_groups``, and a table ``[keys]`` of public keys by agent, whose answers are then signed.
    """
    if not exists(path):
        raise InputError(
            f"cannot read {path}: there is no such file; a roster is a TOML file that lists the "
            'agents, such as roster.toml with the line agents = ["st-mary", "lakeside"]'
        )
    roster = load_toml(path, Roster)
    agents = tuple(unicodedata.normalize("NFC", name) for name in roster.agents)
    keys = {unicodedata.normalize("NFC", name): key for name, key in (roster.keys or {}).items()}
    roster = msgspec.structs.replace(roster, agents=agents, keys=keys or None)
    if not roster.agents:
        raise InputError(f'{path} must list the agents: agents = ["st-mary", "lakeside"]')
    return roster


@dataclass(frozen=True)
class Preset:
    """Settings that belong together.

    Parameters
    ----------
    score : APS
        The score of labels.
    rule : {"leq", "leq_top1", "until"}
        How a threshold becomes a set.
    overflow : {"propagate", "clip", "exclude"}
        What an agent with too few points does.
    """

    score: APS
    rule: Rule
    overflow: Overflow


_PRESETS = {
    "sound": Preset(APS(), "leq", "propagate"),
    "paper": Preset(APS(randomized=False, precision="float32"), "leq_top1", "clip"),
}


def preset(name: str) -> Preset:
    """Return a preset by its name.

    Parameters
    ----------
    name : {"sound", "paper"}
        ``sound``: randomised APS, plain sets, +inf where points are too few; the defaults.
        ``paper``: what comes closest to the published tables of FedWQ-CP: deterministic APS in
        float32, sets with the most probable label always in, local maxima where points are too few.

    Returns
    -------
    Preset
        Score, rule and overflow rule.

    Raises
    ------
    InputError
        If there is no such preset.

    Examples
    --------
    >>> preset("paper").rule
    'leq_top1'
    """
    if not isinstance(name, str) or name not in _PRESETS:
        raise InputError(f"unknown preset {shown(name)}; known: {', '.join(sorted(_PRESETS))}")
    return _PRESETS[name]
