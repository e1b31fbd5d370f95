"""Named choices of score, set rule and overflow rule that belong together."""

from __future__ import annotations

from dataclasses import dataclass

from fedwqcp.errors import InputError
from fedwqcp.quantile import Overflow
from fedwqcp.scores import Rule
from fedwqcp.scores.aps import APS


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
    if name not in _PRESETS:
        raise InputError(f"unknown preset {name!r}; known: {', '.join(sorted(_PRESETS))}")
    return _PRESETS[name]
