"""How much of a claimed sample size counts."""

from __future__ import annotations

from collections.abc import Sequence

from fedwqcp.errors import InputError


def capped(sizes: Sequence[int], cap: int | None) -> list[int]:
    """Return the sizes, none of them above the cap.

    Without a cap the lower median of the sizes is taken: more than half of the agents then count in
    full and alike, and fewer than half cannot raise it above every honest size.

    Parameters
    ----------
    sizes : sequence of int
        What agents claim, at least 1 each.
    cap : int or None
        Largest size that counts.

    Returns
    -------
    list of int
        In the same order.

    Examples
    --------
    >>> capped([50, 1_000_000, 80, 60], cap=None)
    [50, 60, 60, 60]
    """
    if not sizes:
        return []
    most = sorted(sizes)[(len(sizes) - 1) // 2] if cap is None else cap
    return [min(n, most) for n in sizes]


def check_cap(cap: int | None) -> None:
    """Refuse a cap that is no size.

    Parameters
    ----------
    cap : int or None
        The setting.

    Raises
    ------
    InputError
        If it is not an integer of at least 1.
    """
    if cap is not None and (isinstance(cap, bool) or not isinstance(cap, int) or cap < 1):
        raise InputError(f"cap must be an integer of at least 1, or none, got {cap!r}")


def check_liars(liars: int | None) -> None:
    """Refuse what is no number of liars.

    Parameters
    ----------
    liars : int or None
        The setting.

    Raises
    ------
    InputError
        If it is not an integer of at least 0.
    """
    if liars is not None and (isinstance(liars, bool) or not isinstance(liars, int) or liars < 0):
        raise InputError(f"liars must be an integer of at least 0, or none, got {liars!r}")
