"""Nonconformity scores: model outputs and y give V; V <= threshold gives sets. One file each."""

from __future__ import annotations

from fedwqcp.registry import Registry, Setting
from fedwqcp.scores._base import IntervalScore, LabelScore, Rule, Score
from fedwqcp.scores._temperature import fit_temperature, softmax
from fedwqcp.scores._uniforms import key_digest, row_ids, text_ids, uniforms

_registry: Registry[Score] = Registry(Score, "fedwqcp.scores", "score")  # type: ignore[type-abstract]  # only searched for


def available() -> tuple[str, ...]:
    """Return the names of all scores.

    Returns
    -------
    tuple of str
        Sorted names, such as ``"aps"``.
    """
    return _registry.available()


def get(name: str, /, **settings: Setting) -> Score:
    """Return a score by its name.

    Parameters
    ----------
    name : str
        As `available` lists it.
    **settings
        Settings of that score.

    Returns
    -------
    Score
        The score.

    Raises
    ------
    InputError
        If the name or a setting is unknown or wrong.

    Examples
    --------
    >>> get("aps", randomized=False)
    APS(randomized=False, precision='exact')
    """
    return _registry.make(name, settings)


def name_of(score: Score) -> str:
    """Return the name by which `get` gives this kind of score.

    Parameters
    ----------
    score : Score
        A score.

    Returns
    -------
    str
        Its name.
    """
    return _registry.name_of(score)


__all__ = [
    "IntervalScore",
    "LabelScore",
    "Rule",
    "Score",
    "available",
    "fit_temperature",
    "get",
    "key_digest",
    "name_of",
    "row_ids",
    "softmax",
    "text_ids",
    "uniforms",
]
