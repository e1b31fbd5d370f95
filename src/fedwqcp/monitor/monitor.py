"""The monitor: a track for each agent and each watched class, under one false-alarm rate."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from math import log

import numpy.typing as npt

from fedwqcp.errors import InputError
from fedwqcp.monitor.batch import Batch, batch_of_counts, batch_of_rows
from fedwqcp.monitor.sequence import confidence_sequence
from fedwqcp.monitor.site import REMEMBERED, Site
from fedwqcp.monitor.standing import Standing
from fedwqcp.monitor.terms import Terms
from fedwqcp.monitor.track import Track, advance


class Monitor:
    """Watches coverage after release, as labels arrive.

    Parameters
    ----------
    terms : Terms
        Whom to watch, for which coverage, and how seldom to alarm falsely.

    Notes
    -----
    **Guarantee.** An agent whose every row is covered with probability at least
    1 - alpha - tolerance given all rows before it raises an alarm, ever, with probability at most
    delta/K for K agents; a class in the same way. With classes, an agent spends one half on all
    rows and the other half on its C classes in equal parts. So the probability of any false alarm
    is at most delta, over any number of rows and looks, until agents are calibrated again; a new
    calibration of an agent starts its tests anew, with the same share.

    The order of rows is that in which labels arrive, and it must not depend on whether they are
    covered: where doubtful cases are labelled first, their coverage is what is tested.

    Examples
    --------
    >>> monitor = Monitor(Terms(alpha=0.1, agents=("st-mary", "lakeside")))
    >>> for standing in monitor.update("st-mary", [1] * 40 + [0] * 12):
    ...     print(standing.status, standing.alarm, standing.current)
    alarm 47 0.0
    """

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self.updates = 0
        self.unlogged: tuple[str, ...] = ()
        self.sites = dict.fromkeys(terms.agents, Site((Track(),) * terms.n_classes))

    def update(
        self,
        agent: str,
        covered: npt.ArrayLike,
        labels: npt.ArrayLike | None = None,
        *,
        batch: str | None = None,
    ) -> tuple[Standing, ...]:
        """Take in rows whose labels have arrived, in the order of arrival.

        Parameters
        ----------
        agent : str
            Whose rows.
        covered : array_like, shape (n,)
            1 where the set held the label, else 0, such as ``sets.cover(labels)``.
        labels : array_like, shape (n,), optional
            The labels, for the classes; nothing but counts is kept of them.
        batch : str, optional
            Name of these rows; a name that was used before is refused.

        Returns
        -------
        tuple of Standing
            Of this agent, then of its classes.

        Raises
        ------
        InputError
            If the agent is not watched, a value is wrong, or the batch was taken in before; then
            nothing is changed.
        """
        return self.absorb(agent, batch_of_rows(covered, labels), batch)

    def update_counts(
        self,
        agent: str,
        n: npt.ArrayLike,
        hits: npt.ArrayLike,
        classes: npt.ArrayLike | None = None,
        *,
        batch: str | None = None,
    ) -> tuple[Standing, ...]:
        """Take in rows of which only counts are known.

        Parameters
        ----------
        agent : str
            Whose rows.
        n, hits : int or array_like
            Rows, and how many were covered; several entries are in the order of arrival.
        classes : array_like, optional
            The class of each entry; all entries then arrived together.
        batch : str, optional
            Name of these rows; a name that was used before is refused.

        Returns
        -------
        tuple of Standing
            Of this agent, then of its classes.

        Raises
        ------
        InputError
            As of `update`.
        """
        return self.absorb(agent, batch_of_counts(n, hits, classes), batch)

    def absorb(self, agent: str, batch: Batch, name: str | None = None) -> tuple[Standing, ...]:
        """Take in a batch, such as `read_batches` gives.

        Parameters
        ----------
        agent : str
            Whose rows.
        batch : Batch
            The rows.
        name : str, optional
            Name of the batch.

        Returns
        -------
        tuple of Standing
            Of this agent, then of its classes.

        Raises
        ------
        InputError
            As of `update`.
        """
        site, terms = self._site(agent), self.terms
        digest = () if name is None else (_digest(name),)
        if digest and digest[0] in site.batches:
            raise InputError(f"agent {agent!r}: this batch was taken in before; nothing is changed")
        if terms.n_classes and (batch.classes >= terms.n_classes).any():
            raise InputError(f"labels must be from 0 to {terms.n_classes - 1}, one is outside")
        self.sites[agent] = replace(
            site,
            rows=advance(site.rows, batch.sizes, batch.hits, terms.limit(), terms.share()),
            classes=tuple(
                advance(track, *batch.of_class(label), terms.limit(label), terms.share(label))
                for label, track in enumerate(site.classes)
            ),
            batches=(*site.batches, *digest)[-REMEMBERED:],
        )
        self.updates += 1
        return self.standings(agent)

    def recalibrated(self, agent: str) -> None:
        """Start anew for an agent that has a new threshold; its alarms end.

        Parameters
        ----------
        agent : str
            Which agent.

        Raises
        ------
        InputError
            If it is not watched.
        """
        site = self._site(agent)
        self.sites[agent] = Site(
            classes=(Track(),) * self.terms.n_classes,
            calibration=site.calibration + 1,
            batches=site.batches,
        )
        self.updates += 1

    def standings(self, agent: str | None = None) -> tuple[Standing, ...]:
        """Say how agents and classes stand.

        Parameters
        ----------
        agent : str, optional
            Which agent; all by default.

        Returns
        -------
        tuple of Standing
            Each agent, followed by its classes.
        """
        names = self.terms.agents if agent is None else (agent,)
        return tuple(
            self._standing(name, label, track)
            for name in names
            for label, track in [
                (None, self._site(name).rows),
                *enumerate(self.sites[name].classes),
            ]
        )

    @property
    def alarms(self) -> tuple[Standing, ...]:
        """The streams with an alarm: what must be calibrated again."""
        return tuple(each for each in self.standings() if each.status == "alarm")

    def _standing(self, agent: str, label: int | None, track: Track) -> Standing:
        """Say how one stream stands."""
        low, high = confidence_sequence(track.n, track.hits)
        before, since_n, since_hits = track.drop
        return Standing(
            agent=agent,
            label=label,
            calibration=self.sites[agent].calibration,
            floor=1.0 - self.terms.limit(label),
            n=track.n,
            hits=track.hits,
            low=low,
            high=high,
            evidence=track.evidence,
            bar=-log(self.terms.share(label)),
            alarm=track.alarm,
            before=before,
            since_n=since_n,
            since_hits=since_hits,
        )

    def _site(self, agent: str) -> Site:
        """Return what is kept of an agent."""
        if agent not in self.sites:
            watched = ", ".join(self.terms.agents)
            raise InputError(f"agent {agent!r} is not watched; agents: {watched}")
        return self.sites[agent]


def _digest(name: str) -> str:
    """Return what is kept of a batch's name, which may say more than is ours to keep."""
    if not isinstance(name, str):
        raise InputError(f"batch must be a name, got {type(name).__name__}: write it as text")
    return sha256(name.encode(errors="surrogatepass")).hexdigest()[:32]
