"""The monitor: a test for each agent and each class or group, under one false-alarm rate."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from math import log
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from fedwqcp._validation import Labels, as_labels, as_usual_alpha, check_type
from fedwqcp.errors import InputError
from fedwqcp.groups import group_places
from fedwqcp.metrics import MIN_COUNT, Rate
from fedwqcp.monitor.reading import CoverageBatch, batch_of_rows
from fedwqcp.monitor.sequential_tests import (
    SLOPES,
    BettingTest,
    Count,
    advance,
    calibration_slack,
    confidence_sequence,
    coverage_bets,
    rank_bets,
    ranks,
)
from fedwqcp.wire.messages import check_names

_MOST_CLASSES = 10_000
"""More classes are refused."""


_LEAST_DELTA = 1e-100


REMEMBERED = 1000
"""Batches of an agent that are kept, the latest ones."""


RECENT = 4
"""How many of the last batches are judged together, beside all rows."""


CoverageState: TypeAlias = Literal["ok", "watch", "alarm", "too few"]
"""Whether coverage holds; `Standing.state` says what each one means."""


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
    groups : tuple of str, optional
        Or watch each of these groups of rows, which may overlap.
    classes : tuple of str, optional
        Names of the n_classes classes.
    n_labels : int, optional
        Number of classes that a label may name, also where they are not watched; labels beyond are
        refused.
    class_alpha : float, optional
        Misses accepted within a class or group. By default alpha, which only a calibration by label
        promises: other thresholds may cover a hard class less.
    delta : float, optional
        Probability that any alarm is ever false, between one calibration and the next.

    Raises
    ------
    InputError
        If a value is out of range, or a name is bad.
    """

    alpha: float
    agents: tuple[str, ...]
    n_classes: int = 0
    class_alpha: float | None = None
    delta: float = 0.05
    groups: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    n_labels: int = 0

    def __post_init__(self) -> None:
        kinds = {"agents": tuple[str, ...], "n_classes": int, "delta": float}
        for name, kind in kinds.items():
            check_type(getattr(self, name), kind, name)
        as_usual_alpha(self.alpha)
        check_names(self.agents)
        if self.n_classes == 1 or not 0 <= self.n_classes <= _MOST_CLASSES:
            raise InputError(
                f"n_classes must be 0 or from 2 to {_MOST_CLASSES}, got {self.n_classes}"
            )
        if len(set(self.groups)) < len(self.groups) or (self.groups and self.n_classes):
            raise InputError("must be different names, and without n_classes", field="groups")
        if self.classes and not len(set(self.classes)) == len(self.classes) == self.n_classes:
            raise InputError("must be n_classes different names", field="classes")
        if self.class_alpha is not None:
            as_usual_alpha(self.class_alpha)
            if len(self.streams) == 1:
                raise InputError("class_alpha needs n_classes: say how many classes are monitored")
        if not _LEAST_DELTA <= self.delta < 1.0:
            raise InputError(
                f"must be from {_LEAST_DELTA:g} to below 1, got {self.delta!r}", field="delta"
            )

    @property
    def streams(self) -> tuple[int | str | None, ...]:
        """What has a test of its own at each agent: all rows (None), then classes or groups."""
        return (None, *(self.groups or range(self.n_classes)))

    def limit(self, label: int | str | None = None) -> float:
        """Return the share of misses that is accepted: of all rows, or within a class or group.

        Parameters
        ----------
        label : int or str, optional
            Within this class or group; of all rows by default.

        Returns
        -------
        float
            alpha, to which an agent's tolerance is added.
        """
        within = None if label is None else self.class_alpha
        return self.alpha if within is None else within

    def check_tolerance(self, tolerance: float) -> None:
        """Refuse a tolerance that accepts every miss.

        Parameters
        ----------
        tolerance : float
            That of an agent.

        Raises
        ------
        InputError
            If alpha + tolerance is not below 1.
        """
        if (limit := max(self.alpha, self.class_alpha or 0.0) + tolerance) >= 1.0:
            raise InputError(f"alpha + tolerance must be below 1, got {limit:g}")

    def share(self, label: int | str | None = None) -> float:
        """Return the part of delta that one stream of an agent spends.

        Parameters
        ----------
        label : int or str, optional
            The stream of this class or group; that of all rows by default.

        Returns
        -------
        float
            The parts of all streams of all agents sum to delta.
        """
        part = self.delta / len(self.agents)
        if (others := len(self.streams) - 1) == 0:
            return part
        return part / 2 if label is None else part / (2 * others)


class Monitor:
    """Watches coverage after release, as labels arrive, and inputs before they do.

    Parameters
    ----------
    terms : MonitorTerms
        Whom to watch, for which coverage, and how seldom to alarm falsely.
    calibrated_on : mapping of str to int or sequence of int, optional
        Calibration points behind an agent's threshold: its tolerance is `calibration_slack`. Where
        each class or group has a threshold of its own: all points, then those of each.
    rounds : mapping of str to str, optional
        Id of the round that an agent's threshold is of: it is no new calibration later.

    Notes
    -----
    **Guarantee.** An agent whose every row is covered with probability at least
    1 - alpha - tolerance given all rows before it raises an alarm, ever, with probability at most
    delta/K for K agents; a class in the same way. With classes, an agent spends one half on all
    rows and the other half on its C classes in equal parts. So the probability of any false alarm
    is at most delta, over any number of rows and looks, until agents are calibrated again; a new
    calibration of an agent starts its tests anew, with the same share.

    `update_inputs` needs no labels and has a rate of its own: where the rows of all agents are
    exchangeable with their baselines and each other, any alarm is ever raised with probability at
    most delta. It tests inputs, not coverage: inputs may change while coverage holds, and coverage
    may fall while inputs look the same.

    The order of rows is that in which labels arrive, and it must not depend on whether they are
    covered: where doubtful cases are labelled first, their coverage is what is tested.

    Examples
    --------
    >>> monitor = Monitor(MonitorTerms(alpha=0.1, agents=("st-mary", "lakeside")))
    >>> for standing in monitor.update("st-mary", [1] * 40 + [0] * 12, batch="week-1"):
    ...     print(standing.state, standing.since, standing.current)
    alarm week-1 0.0
    """

    def __init__(
        self,
        terms: MonitorTerms,
        calibrated_on: Mapping[str, int | Sequence[int]] | None = None,
        rounds: Mapping[str, str] | None = None,
    ) -> None:
        calibrated_on, rounds = calibrated_on or {}, rounds or {}
        check_type(calibrated_on, Mapping[str, Any], "calibrated_on")
        self.terms = terms
        streams = len(terms.streams)
        fresh = AgentState((BettingTest.begin(),) * streams, (0.0,) * streams)
        self.sites = dict.fromkeys(terms.agents, fresh)
        for name, points in calibrated_on.items():
            self.sites[name] = replace(self._site(name), tolerances=self._slack(points))
        for name, of_round in rounds.items():
            self.sites[name] = replace(self._site(name), round=of_round)

    def update(
        self,
        agent: str,
        covered: npt.ArrayLike,
        labels: npt.ArrayLike | None = None,
        *,
        groups: npt.ArrayLike | None = None,
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
        groups : array_like, shape (n,), optional
            The groups, as `Outputs` takes them; likewise.
        batch : str, optional
            Name of these rows, such as ``"week-7"``: alarms name it, and a repeated one is refused.

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
        return self.absorb(agent, batch_of_rows(covered, labels, groups), batch)

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
        entry = self._entry(agent, name, "n")
        places = self._places(batch)
        n, hits = int(batch.sizes.sum()), int(batch.hits.sum())
        if not n:
            return self.standings(agent)

        tests = []
        for place, (label, test) in enumerate(zip(terms.streams, site.tests, strict=True), -1):
            sizes, covered = batch.steps
            if label is not None:
                inside = (places == place).any(axis=1)
                sizes, covered = batch.sizes[inside], batch.hits[inside]
            limit = terms.limit(label) + site.tolerances[place + 1]
            bets = coverage_bets(sizes, covered, limit)
            share = terms.share(label)
            tests.append(advance(test, bets, sizes, covered, delta=share, batch=entry.name))
        self.sites[agent] = replace(site, tests=tuple(tests))
        entry = replace(entry, n=n, hits=hits, size=batch.size)
        self._keep(agent, entry)
        standings = self.standings(agent)
        self._keep(agent, replace(entry, state=standings[0].state))
        return standings

    def update_inputs(
        self,
        agent: str,
        values: npt.ArrayLike,
        *,
        batch: str | None = None,
        baseline: bool = False,
    ) -> Standing:
        """Test inputs without labels, by one number for each row.

        Parameters
        ----------
        agent : str
            Whose rows.
        values : array_like, shape (n,)
            The same statistic each time, such as the size of the set or the score of the top label;
            three digits of it count.
        batch : str, optional
            Name of these rows; their labels may follow under the same name.
        baseline : bool, optional
            Whether the rows are from when the threshold was known to hold: they are not tested.
            An agent's first rows always are its baseline: nothing came before them.

        Returns
        -------
        Standing
            Of this agent.

        Raises
        ------
        InputError
            If the agent is not monitored, a value is no finite number, or the batch was added
            before.
        """
        numbers = np.asarray(values, dtype=np.float64)
        if numbers.ndim != 1 or not np.isfinite(numbers).all():
            raise InputError("values must be one finite number for each row")
        entry = self._entry(agent, name=batch, kind="inputs")
        rounded = np.array([float(f"{value:.3g}") for value in numbers.tolist()])
        before = self._site(agent).inputs
        baseline = baseline or not before.cells
        seed = before.seed if before.cells else secrets.randbits(48)
        u = np.random.default_rng([seed, sum(before.cells.values())]).uniform(size=len(rounded))
        p, cells = ranks(before.cells, rounded, u)
        test, ones = before.test, np.ones(len(p), dtype=np.int64)
        if not baseline:
            share = self.terms.delta / len(self.terms.agents)
            test = advance(test, rank_bets(p), ones, 0 * ones, delta=share, batch=entry.name)
        inputs = InputState(seed, cells, test)
        self.sites[agent] = replace(self.sites[agent], inputs=inputs)
        if not baseline or batch is not None:
            self._keep(agent, replace(entry, inputs="baseline" if baseline else inputs.state))
        return self.standings(agent)[0]

    def recalibrated(
        self,
        agent: str,
        *,
        calibrated_on: int | Sequence[int] | None = None,
        of_round: str = "",
    ) -> None:
        """Start anew for an agent that has a new threshold; its alarms end.

        Parameters
        ----------
        agent : str
            Which agent.
        calibrated_on : int or sequence of int, optional
            Points behind the new threshold, as of the monitor.
        of_round : str, optional
            Id of the round that the new threshold is of.

        Raises
        ------
        InputError
            If it is not monitored, its threshold is still of this round, or there are too few
            points.
        """
        site = self._site(agent)
        if of_round and of_round == site.round:
            raise InputError(
                f"agent {agent!r} must be calibrated again first: its threshold of round "
                f"{of_round} is the one that is watched; pass the predictor of the new calibration"
            )
        self.sites[agent] = AgentState(
            (BettingTest.begin(),) * len(self.terms.streams),
            site.tolerances if calibrated_on is None else self._slack(calibrated_on),
            calibration=site.calibration + 1,
            batches=site.batches,
            round=of_round or site.round,
        )

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
            self._standing(self._site(name), name, label, place)
            for name in names
            for place, label in enumerate(self.terms.streams)
        )

    @property
    def alarms(self) -> tuple[Standing, ...]:
        """The streams with an alarm: what must be calibrated again."""
        return tuple(standing for standing in self.standings() if standing.state == "alarm")

    def _standing(
        self, site: AgentState, agent: str, label: int | str | None, place: int
    ) -> Standing:
        test, tolerance = site.tests[place], site.tolerances[place]
        recent = [one for one in site.batches if one.n and one.calibration == site.calibration]
        recent = recent[-RECENT:] if label is None else []
        rates = [Rate(n=n, hits=hits) for n, hits in map(_counts, (recent, recent[-1:]))]
        low, high = confidence_sequence(test.n, test.hits)
        _, since_n, since_hits = test.drop if test.alarm is not None else (0, 0, 0)
        of_inputs = site.inputs.state if label is None and site.inputs.test.n else ""
        return Standing(
            agent=agent,
            label=label,
            name=self._name(label),
            calibration=site.calibration,
            floor=1.0 - self.terms.limit(label) - tolerance,
            n=test.n,
            hits=test.hits,
            low=low,
            high=high,
            evidence=test.evidence,
            bar=-log(self.terms.share(label)),
            alarm=test.alarm,
            since="" if test.alarm is None else test.since,
            since_n=since_n,
            since_hits=since_hits,
            recent_n=rates[0].n,
            recent_hits=rates[0].hits,
            recent_high=min((rate.high for rate in rates if rate.n >= MIN_COUNT), default=1.0),
            inputs=of_inputs,
            inputs_since=site.inputs.test.since if of_inputs == "alarm" else "",
        )

    def _name(self, label: int | str | None) -> str:
        """Return the name of a class or group; none of all rows."""
        if isinstance(label, int) and self.terms.classes:
            return self.terms.classes[label]
        return "" if label is None else str(label)

    def _slack(self, points: int | Sequence[int]) -> tuple[float, ...]:
        """Return the tolerance of each stream of an agent that was calibrated on so many points."""
        terms, streams = self.terms, len(self.terms.streams)
        counts = tuple(points) if isinstance(points, Sequence) else (points,)
        if len(counts) not in (1, streams):
            raise InputError("must be of all rows, then of each class or group", "calibrated_on")
        agents = len(terms.agents) * len(
            counts
        )  # so many thresholds, each with a chance of its own
        slacks = tuple(calibration_slack(n, terms.alpha, agents=agents) for n in counts)
        terms.check_tolerance(max(slacks))
        return slacks if len(slacks) == streams else slacks * streams

    def _places(self, batch: CoverageBatch) -> Labels:
        """Return where the class or groups of each step stand among the streams, shape (k, g)."""
        n, places = len(batch.sizes), batch.classes
        if places is not None and (n_labels := self.terms.n_classes or self.terms.n_labels):
            as_labels(places, n, n_labels)
        if self.terms.groups:
            if batch.groups is None:
                raise InputError("must be given for each row", field="groups")
            places = group_places(batch.groups, self.terms.groups, n)
        return np.full((n, 1), -1) if places is None else places.reshape(n, -1)

    def _site(self, agent: str) -> AgentState:
        if agent not in self.sites:
            known = ", ".join(self.terms.agents)
            raise InputError(f"agent {agent!r} is not monitored; agents: {known}")
        return self.sites[agent]

    def _entry(self, agent: str, name: str | None, kind: Literal["n", "inputs"]) -> BatchCounts:
        """Return the line of a batch, which a line of its inputs may have begun."""
        site = self._site(agent)
        if name is None:
            name = f"batch {len(site.batches) + 1}"
        elif not isinstance(name, str) or not 0 < len(name) <= 100 or not name.isprintable():
            raise InputError("batch must be a name of 1 to 100 printable characters")
        same = [one for one in site.batches if one.name == name]
        if any(getattr(one, kind) for one in same):
            raise InputError(f"agent {agent!r}: this batch was already added; nothing is changed")
        now = [one for one in same if one.calibration == site.calibration]
        return now[0] if now else BatchCounts(name, site.calibration)

    def _keep(self, agent: str, entry: BatchCounts) -> None:
        """Put the line of a batch where it was, or last."""
        site = self.sites[agent]
        key = (entry.name, entry.calibration)
        lines = [entry if (one.name, one.calibration) == key else one for one in site.batches]
        if entry not in lines:
            lines.append(entry)
        self.sites[agent] = replace(site, batches=tuple(lines[-REMEMBERED:]))


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one stream of rows, in counts: nothing of a single row is in it.

    Parameters
    ----------
    agent : str
        Whose rows.
    label : int, str or None
        Which class, or which group; None for all rows.
    name : str
        Name of the class, its number where it has none, or the group; empty for all rows.
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
    since : str
        The batch in which the drop most likely began.
    since_n, since_hits : int
        Rows and hits since the drop most likely began.
    recent_n, recent_hits : int
        Rows and hits of an agent's last four batches.
    recent_high : float
        Upper end of the exact 95 % interval of the last batch, or of these together if lower.
    inputs, inputs_since : str
        "ok" or "alarm" where inputs are tested without labels; the batch since which they have
        most likely changed.
    """

    agent: str
    label: int | str | None
    name: str
    calibration: int
    floor: float
    n: int
    hits: int
    low: float
    high: float
    evidence: float
    bar: float
    alarm: int | None
    since: str
    since_n: int
    since_hits: int
    recent_n: int
    recent_hits: int
    recent_high: float
    inputs: str
    inputs_since: str

    @property
    def state(self) -> CoverageState:
        """What coverage is known to be.

        ``alarm``: the rows prove that it has fallen below the floor; this stands until the agent is
        calibrated again.
        ``watch``: a whole interval lies below the floor: of all rows, the last batch or the last
        four. It ends when none does.
        ``too few``: even without any miss these rows could not show that it holds.
        """
        if self.alarm is not None:
            return "alarm"
        if self.n < MIN_COUNT:
            return "too few"
        if min(self.high, self.recent_high) < self.floor:
            return "watch"
        few = self.n * (1.0 - self.floor) < 3 - 1e-9  # the rule of three
        return "too few" if few else "ok"

    @property
    def coverage(self) -> float | None:
        """Share of all rows that were covered."""
        return self.hits / self.n if self.n else None

    @property
    def recent(self) -> float | None:
        """Share of the rows of the last four batches that were covered."""
        return self.recent_hits / self.recent_n if self.recent_n else None

    @property
    def current(self) -> float | None:
        """Estimate of the coverage now: since the likeliest drop if there is an alarm."""
        return self.since_hits / self.since_n if self.since_n else self.coverage


class BatchCounts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The counts of one batch.

    ``size`` is the mean size of its sets where known, ``state`` and ``inputs`` how the agent stood
    after it.
    """

    name: str
    calibration: Count
    n: Count = 0
    hits: Count = 0
    size: float | None = None
    state: str = ""
    inputs: str = ""


class InputState(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The test of inputs: how often each value came, and the seed that breaks ties."""

    seed: Count = 0
    cells: dict[float, Count] = {}
    test: BettingTest = BettingTest.begin(len(SLOPES))

    @property
    def state(self) -> Literal["ok", "alarm"]:
        """Whether inputs have changed."""
        return "ok" if self.test.alarm is None else "alarm"


class AgentState(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is kept of one agent, however many rows there were.

    The tests are of rows since its last calibration, one for each of the terms' ``streams``;
    ``tolerances`` how much less than 1 - alpha is still accepted of each; ``round`` is the one
    that its threshold is of, where that is known.
    """

    tests: tuple[BettingTest, ...]
    tolerances: tuple[Annotated[float, msgspec.Meta(ge=0, lt=1)], ...]
    inputs: InputState = InputState()
    calibration: Count = 1
    batches: tuple[BatchCounts, ...] = ()
    round: str = ""


def _counts(batches: Sequence[BatchCounts]) -> tuple[int, int]:
    """Return the rows and hits of batches together."""
    return sum(one.n for one in batches), sum(one.hits for one in batches)
