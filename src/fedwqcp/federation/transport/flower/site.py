"""A site's own folder: every message that left it, the terms it answered, and the releases."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fedwqcp.errors import InputError, traced
from fedwqcp.federation.agent import USUAL_LIMIT, DisclosureLimit
from fedwqcp.federation.files import write_atomic
from fedwqcp.federation.predict import check_terms
from fedwqcp.federation.privacy_budget import Budget
from fedwqcp.wire.codec import decode
from fedwqcp.wire.release import Release
from fedwqcp.wire.round import Round, check_names

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


@dataclass(frozen=True)
class Site:
    """Who a node is, and where it keeps what it sent.

    Parameters
    ----------
    agent : str
        Name of the agent.
    folder : Path or None
        Where messages are kept: ``rounds/ID/round.json``, ``rounds/ID/step-K.json`` and the
        release; None keeps nothing.
    allow_samples : bool
        Whether scores of single people may leave, as many as a round asks for.
    limit : DisclosureLimit
        How many may leave otherwise.
    max_seconds : float
        Longest computation that the site allows, whatever the server says.
    privacy_budget : float or None
        Epsilon that the calibration data may spend over all rounds, kept in ``privacy/``.
    secure_only : bool
        Whether answers leave in secure rounds alone.
    sign_key : Path or None
        The site's private key; with it only rounds that require signatures are answered.
    """

    agent: str
    folder: Path | None
    allow_samples: bool = False
    max_seconds: float = 600.0
    privacy_budget: float | None = None
    secure_only: bool = False
    limit: DisclosureLimit = USUAL_LIMIT
    sign_key: Path | None = None

    @classmethod
    def of(cls, config: Mapping[str, object]) -> Site:
        """Read the node's own configuration.

        Parameters
        ----------
        config : mapping
            ``agent`` (by default ``agent-`` and the partition id), ``folder`` (by default
            ``fedwqcp-site/AGENT`` where the node was started; empty keeps nothing),
            ``allow-samples``, ``max-share``, ``min-class``, ``max-seconds``, ``privacy-budget``,
            ``sign-key`` (a file) and
            ``secure-only`` (anything but false switches it on).

        Returns
        -------
        Site
            The site.

        Raises
        ------
        InputError
            If the node has no name, or a bad one.
        """
        agent = config.get("agent")
        if agent is None and "partition-id" in config:
            agent = f"agent-{config['partition-id']}"
        if agent is None:
            raise InputError("name this agent: --node-config \"agent='st-mary' ...\"")
        check_names((str(agent),))
        budget = config.get("privacy-budget")
        folder = str(config.get("folder", Path("fedwqcp-site") / str(agent)))
        return cls(
            str(agent),
            Path(folder) if folder else None,
            config.get("allow-samples", False) is True,
            float(str(config.get("max-seconds", 600.0))),
            None if budget is None else float(str(budget)),
            config.get("secure-only", False) is not False,
            _limit(config),
            Path(str(config["sign-key"])) if "sign-key" in config else None,
        )

    @property
    def budget(self) -> Budget | None:
        """The privacy budget, where the site has one; it needs a folder to be kept in."""
        kept = None if self.folder is None else self.folder / "privacy"
        if self.privacy_budget is None:
            if kept is not None and kept.exists():
                raise InputError(f"{kept} keeps a privacy budget: say how much: privacy-budget=3")
            return None
        if kept is None:
            raise InputError("a privacy budget must be kept: give this agent a folder")
        return Budget(kept, self.privacy_budget)

    def kept(self, round: Round, data: bytes, name: str) -> bytes | None:
        """Return what was answered before.

        Parameters
        ----------
        round : Round
            The terms.
        data : bytes
            The same, as they came.
        name : str
            Which answer: ``step-0``, ``step-1``, ..., or ``ready``.

        Returns
        -------
        bytes or None
            The same bytes again: a second answer with fresh noise would tell more.

        Raises
        ------
        InputError
            If the id of the round is no file name, or stands for other terms already.
        """
        place = self._place(round.id)
        if place is None:
            return None
        terms = place / "round.json"
        if terms.exists() and terms.read_bytes() != data:
            raise InputError("another round with this id was answered before")
        path = place / f"{name}.json"
        return path.read_bytes() if path.exists() else None

    def keep(self, round: Round, data: bytes, name: str, answer: bytes) -> None:
        """Write down what is about to leave.

        Parameters
        ----------
        round : Round
            The terms.
        data : bytes
            The same, as they came.
        name : str
            Which answer.
        answer : bytes
            What leaves.
        """
        place = self._place(round.id)
        if place is not None:
            place.mkdir(parents=True, exist_ok=True)
            write_atomic(place / "round.json", data)
            write_atomic(place / f"{name}.json", answer)

    def store(self, release: Release, data: bytes) -> None:
        """Write down the release of a round, once.

        Parameters
        ----------
        release : Release
            What the site was handed.
        data : bytes
            The same, as it came.

        Raises
        ------
        WrongRoundError
            If the site answered this round on other terms.
        InputError
            If the round has another release already.
        """
        place = self._place(release.round.id)
        if place is None or self.folder is None:
            return
        path, terms = place / "release.json", place / "round.json"
        if terms.exists():
            check_terms(release, decode(terms.read_bytes(), Round, source=str(terms)))
        if path.exists() and path.read_bytes() != data:
            raise InputError("this round has another release already")
        if not path.exists():
            place.mkdir(parents=True, exist_ok=True)
            write_atomic(path, data)
            write_atomic(self.folder / "release.json", data)

    def note(self, error: BaseException) -> None:
        """Write down what failed, for the site's own engineer; it never leaves.

        Parameters
        ----------
        error : BaseException
            What happened. Only errors of this package are quoted: others may quote data.
        """
        if self.folder is None:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        write_atomic(self.folder / "last-error.txt", traced(error).encode())

    def _place(self, round: str) -> Path | None:
        """Return the folder of one round."""
        if self.folder is None:
            return None
        if not _ID.fullmatch(round):
            raise InputError("the id of a round has letters, digits, '_' and '-' only")
        return self.folder / "rounds" / round


def _limit(config: Mapping[str, object]) -> DisclosureLimit:
    """Read how much of its scores a site tells."""
    share, least = config.get("max-share"), config.get("min-class")
    return DisclosureLimit(
        USUAL_LIMIT.share if share is None else float(str(share)),
        USUAL_LIMIT.min_class if least is None else int(str(least)),
    )
