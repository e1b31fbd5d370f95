"""What fits a round, and its groups: classes, or a column of the user's, each with its own tasks.

Every method gets its class-conditional (Mondrian) form from here: a task sees the points of one
group alone, and an agent that has none takes no part in it.
"""

from __future__ import annotations

from typing import Any, get_args

from fedwqcp.arrays import group_places
from fedwqcp.errors import InputError
from fedwqcp.methods import Calibration, Method
from fedwqcp.scores import IntervalScore, LabelScore, Rule, Score
from fedwqcp.scores.custom import Custom
from fedwqcp.scores.multi_label import MultiLabel
from fedwqcp.wire.round import Round


def check_choices(round: Round, method: Method[Any], score: Score) -> None:
    """Refuse a rule, groups or a method that do not fit the score.

    Parameters
    ----------
    round : Round
        The terms.
    method, score : Method, Score
        What they name.

    Raises
    ------
    InputError
        Saying what to choose instead.
    """
    labels = isinstance(score, LabelScore)
    without = f"sets of labels, which score {round.score.name!r} does not make"
    if round.rule not in get_args(Rule):
        raise InputError(f"rule must be one of {get_args(Rule)}, got {round.rule!r}")
    if round.rule != "leq" and not labels:
        raise InputError(f"rule {round.rule!r} is for {without}: leave the rule out")
    if isinstance(score, LabelScore):
        score.fitting(round.rule)  # type: ignore[arg-type]  # checked above
    if method.needs_labels and isinstance(score, IntervalScore):
        raise InputError(f"method {round.method.name!r} is for {without}")
    own = isinstance(score, Custom) and score.columns == 1  # the caller's own sets may be of labels
    if round.by == "label" and not (labels or own):
        raise InputError(
            f"by: 'label' is for {without}; use by='group', with groups that are known before y is"
        )
    if isinstance(score, MultiLabel) and not method.controls_risk:
        raise InputError(
            f"score {round.score.name!r} is for methods that control a risk, such as 'fed-crc'; "
            f"{round.method.name!r} does not"
        )


def check_points(round: Round, method: Method[Any], cal: Calibration) -> None:
    """Refuse calibration points whose group is not known, or weights that nobody reads.

    Parameters
    ----------
    round : Round
        The terms.
    method : Method
        Its method.
    cal : Calibration
        An agent's data.

    Raises
    ------
    InputError
        If labels or groups are missing, or a point is of no group of the round.
    """
    if cal.weights is not None and not method.controls_risk:
        raise InputError(
            f"weights are for methods that control a risk; {round.method.name!r} does not"
        )
    known = cal.labelled("a round by label")[1] if round.by == "label" else cal.n_classes
    if None not in (known, round.n_classes) and known != round.n_classes:
        raise InputError(f"n_classes must be the round's {round.n_classes}, got {known}")
    if round.by == "group":
        if cal.groups is None:
            raise InputError(
                "a round by group needs the group of each calibration point: "
                "pass Calibration(scores, groups=...), or a file with a column 'group'"
            )
        group_places(cal.groups, round.groups)


def part_of(round: Round, cal: Calibration, group: int | None) -> Calibration:
    """Return the points of one group.

    Parameters
    ----------
    round : Round
        The terms.
    cal : Calibration
        An agent's data.
    group : int or None
        Place of the group; None for all points.

    Returns
    -------
    Calibration
        These points alone; there may be none.
    """
    if group is None:
        return cal
    if round.by == "label":
        labels, _ = cal.labelled("a round by label")
        return cal.take(labels == group)
    assert cal.groups is not None  # checked when the data came
    return cal.take(cal.groups == round.groups[group])


def told_by_group(round: Round, assumption: str) -> str:
    """Say of a method's assumption that it holds for each group by itself.

    Parameters
    ----------
    round : Round
        The terms.
    assumption : str
        The method's own words.

    Returns
    -------
    str
        The same where the round has no groups.
    """
    if round.by is None:
        return assumption
    return (
        f"for each {round.by} by itself, counting its points and the agents that have some: "
        + assumption
    )
