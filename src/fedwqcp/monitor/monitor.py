"""The monitor: a test for each agent and each monitored class, under one false-alarm rate."""

from __future__ import annotations

from hashlib import sha256
from math import exp, log
from typing import Annotated, Literal, TypeAlias

import msgspec
import numpy.typing as npt
from msgspec.structs import replace

from fedwqcp._validation import as_labels, as_usual_alpha
from fedwqcp.errors import InputError
from fedwqcp.monitor.reading import CoverageBatch, batch_of_counts, batch_of_rows
from fedwqcp.monitor.sequential_tests import Count, DropTest, advance, confidence_sequence
from fedwqcp.wire.messages import check_names

_MOST_CLASSES = 10_000
"""More classes are refused."""


_LEAST_DELTA = 1e-100


REMEMBERED = 1000
"""How many batch ids of an agent are remembered, the latest ones."""


Share: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=1)]
"""A part of a whole, checked where it is read."""


class MonitorTerms(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a monitor watches, and how seldom it may alarm falsely.

    Parameters
    ----------
    alpha : float
        Miscoverage level that was promised.
    agents : tuple of str
        All agents that will be monitored; the false-alarm rate is shared among them.
    n_classes : int, optional
        Watch each of so many classes as well, where labels are given.
    class_alpha : float or tuple of float, optional
        Misses accepted within a class, one for all or one for each. By default alpha, which only a
        calibration by label promises: other thresholds may cover a hard class less.
    delta : float, optional
        Probability that any alarm is ever false, between one calibration and the next.
    tolerance : float, optional
        How much less than 1 - alpha is still accepted, such as `calibration_slack` gives.
    allow_large_alpha : bool, optional
        Accept an alpha above 0.5; by default it is refused, as it is most likely a coverage.

    Raises
    ------
    InputError
        If a value is out of range, or a name is bad.
    """

    alpha: float
    agents: tuple[str, ...]
    n_classes: int = 0
    class_alpha: float | tuple[float, ...] | None = None
    delta: float = 0.05
    tolerance: float = 0.0
    allow_large_alpha: bool = False

    def __post_init__(self) -> None:
        as_usual_alpha(self.alpha, allow_large=self.allow_large_alpha)
        if not isinstance(self.agents, tuple):
            raise InputError(f"agents must be a tuple of names, got {self.agents!r}")
        check_names(self.agents)
        if isinstance(self.n_classes, bool) or not isinstance(self.n_classes, int):
            raise InputError(f"n_classes must be a whole number, got {self.n_classes!r}")
        if self.n_classes == 1 or not 0 <= self.n_classes <= _MOST_CLASSES:
            raise InputError(
                f"n_classes must be 0 or from 2 to {_MOST_CLASSES}, got {self.n_classes}"
            )
        if self.class_alpha is not None and not self.n_classes:
            raise InputError("class_alpha needs n_classes: say how many classes are monitored")
        if isinstance(self.class_alpha, tuple) and len(self.class_alpha) != self.n_classes:
            raise InputError(
                f"class_alpha must be one number or {self.n_classes}, got {len(self.class_alpha)}"
            )
        if not (isinstance(self.delta, float) and _LEAST_DELTA <= self.delta < 1.0):
            raise InputError(
                f"must be from {_LEAST_DELTA:g} to below 1, got {self.delta!r}", field="delta"
            )
        if not (isinstance(self.tolerance, int | float) and self.tolerance >= 0.0):
            raise InputError(f"tolerance must be at least 0, got {self.tolerance!r}")
        for label in (None, *range(self.n_classes)):
            if not self.limit(label) < 1.0:
                raise InputError(f"alpha + tolerance must be below 1, got {self.limit(label):g}")

    def limit(self, label: int | None = None) -> float:
        """Return the share of misses that is still accepted.

        Parameters
        ----------
        label : int, optional
            Within this class; of all rows by default.

        Returns
        -------
        float
            alpha + tolerance.
        """
        alpha = self.alpha if label is None or self.class_alpha is None else self.class_alpha
        own = alpha[label] if isinstance(alpha, tuple) and label is not None else alpha
        return as_usual_alpha(own, allow_large=self.allow_large_alpha) + self.tolerance

    def share(self, label: int | None = None) -> float:
        """Return the part of delta that one stream of an agent spends.

        Parameters
        ----------
        label : int, optional
            The stream of this class; that of all rows by default.

        Returns
        -------
        float
            The parts of all streams of all agents sum to delta.
        """
        own = self.delta / len(self.agents)
        if not self.n_classes:
            return own
        return own / 2 if label is None else own / (2 * self.n_classes)


class Monitor:
    """Watches coverage after release, as labels arrive.

    Parameters
    ----------
    terms : MonitorTerms
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
    >>> monitor = Monitor(MonitorTerms(alpha=0.1, agents=("st-mary", "lakeside")))
    >>> for standing in monitor.update("st-mary", [1] * 40 + [0] * 12):
    ...     print(standing.status, standing.alarm, standing.current)
    alarm 47 0.0
    """

    def __init__(self, terms: MonitorTerms) -> None:
        self.terms = terms
        self.updates = 0
        self.unlogged: tuple[str, ...] = ()
        self.sites = dict.fromkeys(terms.agents, AgentState((DropTest(),) * terms.n_classes))

    def update(
        self,
        agent: str,
        covered: npt.ArrayLike,
        labels: npt.ArrayLike | None = None,
        *,
        batch: str | None = None,
    ) -> tuple[Standing, ...]:
        """Add rows whose labels have arrived, in order of arrival.

        Parameters
        ----------
        agent : str
            Whose rows.
        covered : array_like, shape (n,)
            1 where the set held the label, else 0, such as ``sets.cover(labels)``.
        labels : array_like, shape (n,), optional
            The labels, for the classes; nothing but counts is kept of them.
        batch : str, optional
            Name of these rows; one of the agent's latest 1000 names is refused.

        Returns
        -------
        tuple of Standing
            Of this agent, then of its classes.

        Raises
        ------
        InputError
            If the agent is not monitored, a value is wrong, or the batch was added before; then
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
            Name of these rows; one of the agent's latest 1000 names is refused.

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

    def absorb(
        self, agent: str, batch: CoverageBatch, name: str | None = None
    ) -> tuple[Standing, ...]:
        """Take in a batch, such as `read_batches` gives.

        Parameters
        ----------
        agent : str
            Whose rows.
        batch : CoverageBatch
            The rows.
        name : str, optional
            Name of the batch, as of `update`.

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
            raise InputError(f"agent {agent!r}: this batch was already added; nothing is changed")
        if terms.n_classes:
            try:
                as_labels(batch.classes, len(batch.classes), terms.n_classes)
            except InputError as error:
                raise error.from_row_one() from None
        self.sites[agent] = replace(
            site,
            rows=advance(site.rows, batch.sizes, batch.hits, terms.limit(), terms.share()),
            classes=tuple(
                advance(test, *batch.of_class(label), terms.limit(label), terms.share(label))
                for label, test in enumerate(site.classes)
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
            If it is not monitored.
        """
        site = self._site(agent)
        self.sites[agent] = AgentState(
            classes=(DropTest(),) * self.terms.n_classes,
            calibration=site.calibration + 1,
            batches=site.batches,
        )
        self.updates += 1

    def standings(self, agent: str | None = None) -> tuple[Standing, ...]:
        """Return the state of agents and classes.

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
            self._standing(name, label, test)
            for name in names
            for label, test in [(None, self._site(name).rows), *enumerate(self.sites[name].classes)]
        )

    @property
    def alarms(self) -> tuple[Standing, ...]:
        """The streams with an alarm: what must be calibrated again."""
        return tuple(each for each in self.standings() if each.status == "alarm")

    def _standing(self, agent: str, label: int | None, test: DropTest) -> Standing:
        low, high = confidence_sequence(test.n, test.hits)
        before, since_n, since_hits = test.drop
        return Standing(
            agent=agent,
            label=label,
            calibration=self.sites[agent].calibration,
            floor=1.0 - self.terms.limit(label),
            n=test.n,
            hits=test.hits,
            low=low,
            high=high,
            evidence=test.evidence,
            bar=-log(self.terms.share(label)),
            alarm=test.alarm,
            before=before,
            since_n=since_n,
            since_hits=since_hits,
        )

    def _site(self, agent: str) -> AgentState:
        if agent not in self.sites:
            known = ", ".join(self.terms.agents)
            raise InputError(f"agent {agent!r} is not monitored; agents: {known}")
        return self.sites[agent]


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one stream of rows, in counts: nothing of a single row is in it.

    Parameters
    ----------
    agent : str
        Whose rows.
    label : int or None
        Which class; None for all rows.
    calibration : int
        Which calibration they follow; the first is 1.
    floor : float
        Least coverage that still keeps the promise: 1 - alpha - tolerance.
    n, hits : int
        Rows since that calibration, and how many were covered.
    low, high : float
        95 % confidence sequence of their mean coverage.
    evidence : float
        log M, the evidence of a drop.
    bar : float
        log(1/delta) of this stream: evidence that raises the alarm.
    alarm : int or None
        The row at which it was raised.
    before, since_n, since_hits : int
        The likeliest beginning of a drop: rows before it, rows and hits since. It means something
        where there is an alarm.
    """

    agent: str
    label: Count | None
    calibration: Count
    floor: Share
    n: Count
    hits: Count
    low: Share
    high: Share
    evidence: float
    bar: float
    alarm: Count | None
    before: Count
    since_n: Count
    since_hits: Count

    def __post_init__(self) -> None:
        if not (self.hits <= self.n and self.since_hits <= self.since_n <= self.n):
            raise ValueError("a stream counts more hits than rows")

    @property
    def status(self) -> Literal["alarm", "ok", "no rows"]:
        """Whether there is an alarm; it stands until the agent is calibrated again."""
        if self.alarm is not None:
            return "alarm"
        return "ok" if self.n else "no rows"

    @property
    def coverage(self) -> float | None:
        """Share of all rows that were covered."""
        return self.hits / self.n if self.n else None

    @property
    def current(self) -> float | None:
        """Estimate of the coverage now: since the likeliest drop if there is an alarm."""
        if self.alarm is None or not self.since_n:
            return self.coverage
        return self.since_hits / self.since_n

    def __str__(self) -> str:
        name = self.agent if self.label is None else f"{self.agent}, class {self.label}"
        if self.coverage is None or self.current is None:
            return f"{name}: no rows yet"
        seen = (
            f"{self.coverage:.4f} of {self.n} rows (95 % interval, valid at every row: "
            f"{self.low:.4f} to {self.high:.4f})"
        )
        if self.alarm is None:
            return (
                f"{name}: ok, coverage {seen}; evidence that it is below {self.floor:.4g}: "
                f"{exp(self.evidence):.3g} (at most 1 on average if it is not; alarm from "
                f"{exp(self.bar):.4g} on)"
            )
        return (
            f"{name}: ALARM at row {self.alarm}: coverage has dropped below {self.floor:.4g}; "
            f"recalibrate. Since about row {self.before + 1} it is {self.current:.4f} "
            f"({self.since_n} rows); over all {seen}"
        )


class AgentState(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is kept of one agent, however many rows there were.

    The tests are of rows since its last calibration, of each class where classes are monitored;
    ``batches`` are digests of the latest batch ids.
    """

    classes: tuple[DropTest, ...] = ()
    rows: DropTest = DropTest()
    calibration: Count = 1
    batches: tuple[str, ...] = ()


def _digest(name: str) -> str:
    """Return the hash of a batch's name; the name may tell what the state must not hold."""
    if not isinstance(name, str):
        raise InputError(f"batch must be a name, got {type(name).__name__}: write it as text")
    return sha256(name.encode(errors="surrogatepass")).hexdigest()[:32]
