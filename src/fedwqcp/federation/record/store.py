"""Saving and loading releases: versioned files, readable, free of pickle."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

from fedwqcp import methods
from fedwqcp.errors import InputError, MalformedMessageError, RecordError
from fedwqcp.federation.files import read, write_atomic
from fedwqcp.federation.plan import Plan, kinds_of
from fedwqcp.methods import Method
from fedwqcp.wire.codec import decode, encode, method_of
from fedwqcp.wire.payload import ToAll, ToEach
from fedwqcp.wire.release import Release


def save(release: Release, path: str | Path) -> None:
    """Write a release to a file, whole or not at all.

    Parameters
    ----------
    release : Release
        What a round ended with. What agents of this process found for themselves (``local``) is
        not written: an agent takes such a threshold from its own data, never from a file.
    path : str or Path
        Where; an existing file is replaced.

    Raises
    ------
    InputError
        If the file cannot be written.
    """
    write_atomic(Path(path), encode(replace(release, local={})))


def load(path: str | Path) -> Release:
    """Read a release from a file.

    Parameters
    ----------
    path : str or Path
        A file that `save` or a server wrote.

    Returns
    -------
    Release
        What the round ended with.

    Raises
    ------
    InputError
        If there is no such file.
    RecordError
        If it is damaged, of another version or an unknown method, or holds what no round of its
        method ends with.
    """
    return parse(read(Path(path)), str(path))


def parse(data: bytes, source: str) -> Release:
    """Read a release that someone handed over.

    Parameters
    ----------
    data : bytes
        What came.
    source : str
        Where it came from, for the error.

    Returns
    -------
    Release
        What the round ended with.

    Raises
    ------
    RecordError
        As of `load`.
    """
    try:
        found = methods.find(method_of(data, source))
    except InputError as error:
        raise RecordError(f"{source}: {error}") from None
    try:
        release = decode(data, Release, kinds_of(found), source)
    except MalformedMessageError as error:
        raise RecordError(f"{source} is damaged: {error.field}: {error.reason}") from None
    _check(release, found, source)
    return release


def _check(release: Release, method: type[Method[Any]], source: str) -> None:
    """Refuse what no server of this method releases: it would pass by what an agent checks."""
    if release.local:
        raise RecordError(
            f"{source}: local: must be empty: an agent takes a threshold of its own from its own "
            "calibration data, never from a file"
        )
    try:
        plan = Plan.of(release.round)
    except InputError as error:
        raise RecordError(f"{source}: {error}") from None
    guarantee, tasks = plan.method.guarantee, len(plan.tasks)
    if len(release.outcomes) != tasks:
        raise RecordError(
            f"{source}: outcomes: must be {tasks}, one for each level, group and column of the "
            f"score, got {len(release.outcomes)}"
        )
    if release.guarantee not in (guarantee, guarantee.after_a_choice()):
        raise RecordError(
            f"{source}: guarantee: {release.round.method.name} with these settings has "
            f"'{guarantee}', the release says '{release.guarantee}': it was changed"
        )
    for task, outcome in enumerate(release.outcomes):
        there = sum(release.position(name, task) is not None for name in release.used)
        if isinstance(outcome, ToEach) and len(outcome.values) != there:
            raise RecordError(
                f"{source}: outcomes: must hold one threshold for each of {there} agents, got "
                f"{len(outcome.values)}"
            )
        nobody = release.round.by is not None and outcome == ToAll(inf)  # has a point of the group
        if type(outcome) not in method.outcomes and not nobody:
            known = ", ".join(kind.kind for kind in method.outcomes)
            raise RecordError(
                f"{source}: outcomes: must be of the kinds that {release.round.method.name} ends "
                f"with ({known}), got {getattr(outcome, 'kind', 'none')!r}"
            )
