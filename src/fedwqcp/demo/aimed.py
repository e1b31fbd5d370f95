"""Methods with the settings that the demo's data ask for."""

from __future__ import annotations

from typing import Any

from fedwqcp import methods
from fedwqcp.demo.agents import Problem
from fedwqcp.methods import Method

RANGE = 30.0
"""Friedman's function runs from 0 to 30: the range of residuals that is stated beforehand."""


EPSILON = 4.0
"""What a private threshold spends here: at 1, most agents have too few points."""


def aimed(name: str, problem: Problem) -> Method[Any]:
    """Return a method, set up for these data.

    A method that corrects a shift is aimed at what the test data follow. A private threshold takes
    the range of the scores without looking at them, and an epsilon at which agents of a hundred
    points can have one at all; agents that still have too few are left out.

    Parameters
    ----------
    name : str
        The method.
    problem : Problem
        The trained agents and their test data.

    Returns
    -------
    Method
        With its settings.
    """
    if name == "dp-fedcp" and problem.label_law is not None:
        return methods.get(name, target=problem.label_law)
    if name == "private-fedwq-cp":
        bounds = (0.0, RANGE) if problem.task == "regression" else None
        return methods.get(name, epsilon=EPSILON, form="tight", overflow="exclude", bounds=bounds)
    return methods.get(name, target="mixture") if name == "cphet" else methods.get(name)
