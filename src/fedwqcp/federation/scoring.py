"""From a model's outputs to calibration data, and from a release to prediction sets."""

from __future__ import annotations

from fedwqcp.arrays import Floats, as_floats, as_indicators
from fedwqcp.errors import InputError
from fedwqcp.federation.outputs.reading import Outputs
from fedwqcp.federation.outputs.rows import named_by_line, row_uniforms
from fedwqcp.federation.plan import Plan
from fedwqcp.federation.thresholds import thresholds
from fedwqcp.methods import Calibration
from fedwqcp.scores import IntervalScore, LabelScore
from fedwqcp.scores.multi_label import MultiLabel
from fedwqcp.sets import Intervals, LabelSets
from fedwqcp.wire.release import Release
from fedwqcp.wire.round import Round


@named_by_line
def calibration_of(round: Round, outputs: Outputs) -> Calibration:
    """Score an agent's calibration points with the round's score.

    Parameters
    ----------
    round : Round
        The terms.
    outputs : Outputs
        What the agent's model put out on its calibration points, with labels.

    Returns
    -------
    Calibration
        Scores, labels and features; they stay at the agent.

    Raises
    ------
    InputError
        If labels are missing, or outputs do not fit the round.
    """
    if outputs.labels is None:
        raise InputError("calibration needs labels beside the outputs (labels, label or y)")
    _check_kind(outputs)
    score = Plan.of(round).score
    x, groups = outputs.features, outputs.groups
    if isinstance(score, LabelScore):
        _check_classes(round, outputs)
        values = score.of(outputs.values, outputs.labels, u=_uniforms(round, score, outputs))
        return Calibration(values, outputs.labels, x, outputs.values.shape[1], groups=groups)
    if isinstance(score, MultiLabel):
        _check_classes(round, outputs)
        values = score.of_every_label(outputs.values)
        as_indicators(outputs.labels, values.shape)
        return Calibration(values, None, x, groups=groups, weights=score.weights(outputs.labels))
    if isinstance(score, IntervalScore):
        return Calibration(score.of(outputs.values, outputs.labels), None, x, groups=groups)
    raise InputError(
        f"score {round.score.name!r} is the caller's own: its scores are not made here"
    )


@named_by_line
def predict(
    release: Release,
    agent: str,
    outputs: Outputs,
    *,
    alpha: float | None = None,
    calibration: Calibration | None = None,
) -> LabelSets | Intervals:
    """Turn an agent's model outputs into prediction sets.

    Parameters
    ----------
    release : Release
        What the round ended with.
    agent : str
        Name of the agent.
    outputs : Outputs
        What the agent's model put out on new inputs.
    alpha : float, optional
        Which level, where the round has several.
    calibration : Calibration, optional
        The agent's calibration data, for methods that need them once more.

    Returns
    -------
    LabelSets or Intervals
        One set for each row.

    Raises
    ------
    InputError
        If outputs do not fit the round, or calibration data are missing.
    """
    _check_kind(outputs)
    round = release.round
    score = Plan.of(round).score
    features = None
    if outputs.features is not None:
        features = as_floats(outputs.features, "features", (len(outputs.values), None))
    group = outputs.groups if round.by == "group" else None
    if round.by == "group" and group is None:
        raise InputError(
            "a round by group needs the group of each row beside the outputs (groups, or a column "
            f"'group'); its groups: {', '.join(round.groups)}"
        )
    threshold = thresholds(release, agent, alpha, calibration, features, group=group)
    if isinstance(score, LabelScore):
        _check_classes(round, outputs)
        rule = round.rule
        u = _uniforms(round, score, outputs)
        return score.invert(outputs.values, threshold, rule, u)  # type: ignore[arg-type]  # Plan.of checked it
    if isinstance(score, MultiLabel):
        _check_classes(round, outputs)
    if isinstance(score, MultiLabel | IntervalScore):
        return score.invert(outputs.values, threshold)
    raise InputError(f"score {round.score.name!r} is the caller's own: its sets are not made here")


def _uniforms(round: Round, score: LabelScore, outputs: Outputs) -> Floats | None:
    """Return the uniforms of a randomised score: keyed by id, or by the row's content."""
    return row_uniforms(round.key, outputs) if score.randomized else None


def _check_classes(round: Round, outputs: Outputs) -> None:
    """Refuse outputs with another number of classes than the round's."""
    classes = outputs.values.shape[1] if outputs.values.ndim == 2 else 1
    if round.n_classes is not None and classes != round.n_classes:
        raise InputError(f"the round has {round.n_classes} classes, the outputs have {classes}")


def _check_kind(outputs: Outputs) -> None:
    """Refuse logits, which are no outputs of a model until their temperature is known."""
    if outputs.logits:
        raise InputError(
            "the outputs are logits, which only `agent calibrate` and `agent predict` read: give "
            "probabilities, fw.softmax(logits)"
        )
