"""From the thresholds of groups to what a set needs: one number, one per label or one per row."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from fedwqcp.arrays import Floats, Labels, group_places
from fedwqcp.errors import InputError
from fedwqcp.wire.round import Round


def threshold_by(
    round: Round,
    of_group: Callable[[int], Floats],
    group: str | int | npt.ArrayLike | None = None,
) -> Floats:
    """Return the threshold of one group, of each label or of each row.

    Parameters
    ----------
    round : Round
        The terms.
    of_group : callable
        Gives the threshold of the group at a place: shape () shared, (C,) per label, (columns,) per
        column of the score, (n, 1) or (n, columns) per input.
    group : str, int or array_like, optional
        Name of one group, or one for each row. A round by label needs none: its candidate labels
        are the groups.

    Returns
    -------
    Floats
        What ``of_group`` gives for one group; shape (C,) or (n, C) by label; (n, 1), (n, C) or
        (n, columns) for rows.

    Raises
    ------
    InputError
        If the round has no groups and one is named, if it has groups and none is named, or if a
        group is unknown.
    """
    names = round.group_names
    if not names:
        if group is not None:
            raise InputError("the round has one threshold for all groups: leave group out")
        return of_group(0)
    if round.by == "label":
        labels = range(len(names)) if group is None else [_place(group, names)]
        found = [_of_label(of_group(label), label) for label in labels]
        return np.stack(np.broadcast_arrays(*found), axis=-1) if group is None else found[0]
    if group is None:
        raise InputError(
            "the round has a threshold for each group: pass group, the name of one or one for each "
            f"row; its groups: {', '.join(names)}"
        )
    if np.ndim(group) == 0:
        return of_group(_place(group, names))
    places = group_places(group, names)
    return _of_rows({int(g): of_group(int(g)) for g in np.unique(places)}, places)


def _place(group: object, names: tuple[str, ...]) -> int:
    """Return where one group stands."""
    if str(group) not in names:
        raise InputError(f"group must be one of {', '.join(names)}, got {group!r}")
    return names.index(str(group))


def _of_label(threshold: Floats, label: int) -> Floats:
    """Return what a group of one label says of that label."""
    if not threshold.ndim:
        return threshold
    return np.asarray(threshold[..., label if threshold.shape[-1] > 1 else 0])


def _of_rows(values: Mapping[int, Floats], places: Labels) -> Floats:
    """Return one threshold for each row, or one row of them."""
    width = max((q.shape[-1] for q in values.values() if q.ndim), default=1)
    found = np.empty((len(places), width))
    for group, q in values.items():
        rows = places == group
        found[rows] = q[rows] if q.ndim == 2 else q
    return found
