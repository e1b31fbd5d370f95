"""What the demo keeps for its report, computed from trained agents and their records."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import isqrt

import numpy as np

from fedwqcp import theory
from fedwqcp.arrays import Floats
from fedwqcp.demo.agents import Problem, Side
from fedwqcp.demo.record import Record
from fedwqcp.demo.shown import Example, Portrait, Traffic
from fedwqcp.metrics import histogram
from fedwqcp.quantile import conformal_quantile
from fedwqcp.scores import LabelScore

MOST = 12
"""Examples of each dataset."""

OURS = "fedwq-cp"
"""The method whose gap is divided."""


def portraits(problem: Problem, records: Sequence[Record]) -> tuple[Portrait, ...]:
    """Return every agent's calibration data as counts, and its coverage gap in two parts.

    Parameters
    ----------
    problem : Problem
        The trained agents.
    records : sequence of Record
        What the methods gave them.

    Returns
    -------
    tuple of Portrait
        One for each agent.
    """
    alpha = records[0].alpha
    released = next(r.threshold for r in records if r.method == OURS)
    q_hat = released if isinstance(released, float) else released[0]
    q_mix = theory.mixture_quantile(
        {side.recipe.name: side.calibration.scores for side in problem.sides}, alpha
    )
    tested = {side.recipe.name: true_scores(problem, side) for side in problem.sides}
    gaps = theory.decompose(tested, q_hat, q_mix, alpha)
    found = []
    for side, gap in zip(problem.sides, gaps, strict=True):
        bars = histogram(side.calibration.scores)
        found.append(
            Portrait(
                dataset=problem.dataset,
                agent=gap.agent,
                counts=_counts(side),
                edges=bars.edges,
                people=bars.people,
                local=float(conformal_quantile(side.calibration.scores, alpha)),
                released=q_hat,
                mixture=q_mix,
                level=gap.level,
                coverage=gap.coverage,
                coverage_mixture=gap.coverage_mix,
            )
        )
    return tuple(found)


def examples(problem: Problem, records: Sequence[Record], most: int = MOST) -> tuple[Example, ...]:
    """Return the test points that the models find hardest, with every method's sets.

    Hard is a truth that the models find unlikely, or a value far from what they predict, on average
    over the agents' ranks.

    Parameters
    ----------
    problem : Problem
        The trained agents.
    records : sequence of Record
        What the methods gave them.
    most : int, optional
        How many points.

    Returns
    -------
    tuple of Example
        One for each agent and point, the hardest point first.
    """
    ranks = [np.argsort(np.argsort(_hardness(problem, side))) for side in problem.sides]
    rows = np.argsort(-np.sum(ranks, axis=0), kind="stable")[:most]
    found = []
    for side in problem.sides:
        own = {r.method: r.threshold for r in records if r.agent == side.recipe.name}
        drawn = {
            name: problem.predict(side, q if isinstance(q, float) else np.array(q))
            for name, q in own.items()
        }
        for row in rows.tolist():
            probs = side.outputs[row] if problem.task == "classification" else None
            truth = float(problem.targets[row])
            found.append(
                Example(
                    dataset=problem.dataset,
                    agent=side.recipe.name,
                    row=row,
                    truth=truth,
                    said=float(side.outputs[row] if probs is None else probs.argmax()),
                    probability=None if probs is None else float(probs[int(truth)]),
                    pixels=() if probs is None else _pixels(problem.inputs[row]),
                    sets={name: tuple(map(float, sets[row])) for name, sets in drawn.items()},
                )
            )
    return tuple(found)


def traffic(
    dataset: str,
    method: str,
    sizes: Mapping[str, Sequence[tuple[int, int]]],
    left_out: Collection[str] = (),
) -> tuple[Traffic, ...]:
    """Write down the bytes of every question and its answer.

    Parameters
    ----------
    dataset, method : str
        Where.
    sizes : mapping of str to sequence of (int, int)
        By agent: bytes down and up of each step.
    left_out : collection of str, optional
        Agents whose answers did not count.

    Returns
    -------
    tuple of Traffic
        One for each agent.
    """
    return tuple(
        Traffic(
            dataset=dataset,
            method=method,
            agent=agent,
            down=tuple(down for down, _ in own),
            up=tuple(up for _, up in own),
            used=agent not in left_out,
        )
        for agent, own in sizes.items()
    )


def true_scores(problem: Problem, side: Side) -> Floats:
    """Return the scores of the test points at the truth.

    Parameters
    ----------
    problem : Problem
        The test points.
    side : Side
        Whose model.

    Returns
    -------
    Floats, shape (n,)
        The scores.
    """
    if isinstance(problem.score, LabelScore):
        return problem.score.of(side.outputs, problem.targets, u=problem.uniforms)
    return problem.score.of(side.outputs, problem.targets)


def _hardness(problem: Problem, side: Side) -> Floats:
    """Return how far each truth is from what a model says of it."""
    if problem.task == "classification":
        truth = problem.targets.astype(np.int64)
        return np.asarray(-side.outputs[np.arange(len(truth)), truth])
    return np.abs(side.outputs - problem.targets)


def _counts(side: Side) -> tuple[int, ...]:
    """Count an agent's calibration points, by class where there are any."""
    cal = side.calibration
    if cal.labels is None:
        return (cal.n,)
    return tuple(np.bincount(cal.labels, minlength=cal.n_classes or 0).tolist())


def _pixels(values: Floats) -> tuple[int, ...]:
    """Return a square image as whole numbers from 0 to 255."""
    square = isqrt(len(values)) ** 2 == len(values)
    return tuple(np.rint(255 * values).astype(int).tolist()) if square else ()
