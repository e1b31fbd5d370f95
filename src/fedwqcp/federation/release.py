"""A release as people use it: it predicts with its own score, key, rule and groups, and prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from importlib import import_module
from pathlib import Path
from typing import Any, Generic, Unpack

import numpy as np
import numpy.typing as npt

from fedwqcp._validation import Bools, check_type, checked
from fedwqcp.errors import InputError
from fedwqcp.federation.inspection import of_outcomes, of_release
from fedwqcp.federation.plan import Plan
from fedwqcp.federation.predict import calibration_of, guaranteed, predictor_of
from fedwqcp.federation.row_fingerprints import check_own, known_rows
from fedwqcp.findings import Finding
from fedwqcp.methods import Calibration
from fedwqcp.outputs import Outputs, check_ids
from fedwqcp.scores import Score
from fedwqcp.serve import Level, Predictor
from fedwqcp.serve.predictor import IntervalOptions, Rows, SetOptions
from fedwqcp.sets import Intervals, LabelSets
from fedwqcp.theory.diagnosis import excluded, local_thresholds
from fedwqcp.wire.messages import O, PerAgentThresholds, S
from fedwqcp.wire.release import ReleaseRecord, place_of
from fedwqcp.words import release as words
from fedwqcp.words import rounds
from fedwqcp.words.findings import warn as warn_of

_MOST_SHOWN = 20
"""Agents in a printed release."""

_FINDINGS = "_findings"
"""Attribute of a release with what `calibrate` found; in no file and no copy."""
_PREDICTORS = "_predictors"
"""Attribute of a release with the predictors that were asked for; in no file and no copy."""


class Release(ReleaseRecord[O, S], Generic[O, S]):
    """What a round ends with, and what an agent predicts with.

    `calibrate`, a server and `load` make it; nobody else needs to. It knows the score, the key of
    the uniforms, the set rule and the groups of its round, so that `predict_set` and
    `predict_interval` need an agent's name and what its model puts out. ``threshold(agent)`` gives
    the number itself.

    Parameters
    ----------
    round : Round
        The terms.
    guarantee : Guarantee
        What is proved of the thresholds: for whom, and how firmly.
    assumption : str
        Under which assumption, in words.
    rounds : int
        Round trips that were needed.
    agents : tuple of AgentRecord
        Every agent of the roster.
    outcomes : tuple of Outcome
        One for each task: alphas times groups times columns of the score.
    local : dict
        Thresholds that agents found for themselves, by agent; known only where agents share a
        process with the caller, and in no file.
    received : dict
        What each used agent sent in the first step; kept by the server, never sent to agents.
    absent : dict
        By group, the used agents that have no calibration point of it and took no part in it.
    census : Census or None
        What agents are sent instead of the entries of a long roster.
    signatures : dict
        Where the round names keys, what each used agent signed its answers with, step by step; kept
        by the server.
    provenance : dict
        Text by name: when, with which software and model, of which data, until when.

    Examples
    --------
    >>> import fedwqcp as fw
    >>> cal = fw.Outputs([[0.2, 0.8], [0.7, 0.3], [0.6, 0.4]], labels=[1, 0, 1])
    >>> release = fw.calibrate({"a": cal, "b": cal}, score="lac", alpha=0.4)
    >>> print(release)
    auto with score lac, alpha 0.4; 1 round trip
    guarantee: at each agent, at least 60 % of future cases like those it calibrated
      on will have their label in the set
    assumed: an agent's future cases are exchangeable with its calibration cases,
      and score and key were chosen without looking at these
    agent  status  points  threshold  proved  bytes up
    a      used         3        0.6     0.6       213
    b      used         3        0.6     0.6       213
    >>> print(release.predict_set("a", [[0.1, 0.9], [0.45, 0.55]]))
    2 sets, of 2 possible labels; mean size 1.5
    size  1  2
    sets  1  1
    row 0: 1
    row 1: 0 1
    >>> print(release.measure("b", [[0.1, 0.9], [0.45, 0.55]], [1, 1]))
    b: coverage 1.0000, exact 95 % interval 0.1581 to 1.0000, of 2; mean size 1.5, 0.0 % empty
    """

    @property
    def score(self) -> Score:
        """The nonconformity score of the round."""
        return Plan.of(self.round).score

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What was found in the round: who was refused, thresholds of +inf, too few points.

        Each has a code, agents and facts. Where `calibrate` made the release, its data count too.
        """
        kept: tuple[Finding, ...] | None = vars(self).get(_FINDINGS)
        return (*(of_release(self) if kept is None else kept), *of_outcomes(self))

    @checked
    def predict_set(
        self,
        agent: str | None,
        probs: Rows,
        *,
        calibration: Calibration | Outputs | None = None,
        **options: Unpack[SetOptions],
    ) -> LabelSets:
        """Return a set of labels for each row.

        Parameters
        ----------
        agent : str or None
            Whose model gave the outputs; None for a site that took no part, where all agents share
            one threshold. Only a guarantee for new agents then applies to it.
        probs : array_like, shape (n, C), or Outputs
            Class probabilities; `Outputs` bring their ids, groups and classes.
        calibration : Calibration or Outputs, optional
            The agent's own calibration data, for methods that need them once more.
        **options
            ``ids`` (a randomised score needs them), ``alpha``, ``groups``, ``classes`` and
            ``allow_empty``, as `Predictor.predict_set` takes them.

        Returns
        -------
        LabelSets
            One set for each row.

        Raises
        ------
        InputError
            If the agent or level is not of the round, the outputs do not fit it, ids are missing,
            the release is of intervals, or ``calibration`` is what another agent brought to the
            `calibrate` that returned this release.
        """
        return self._resolved(agent, calibration).predict_set(probs, **options)

    @checked
    def predict_interval(
        self,
        agent: str | None,
        outputs: Rows,
        *,
        calibration: Calibration | Outputs | None = None,
        **options: Unpack[IntervalOptions],
    ) -> Intervals:
        """Return an interval for each row.

        Parameters
        ----------
        agent : str or None
            As `predict_set` takes it.
        outputs : array_like, shape (n,) or (n, 2), or Outputs
            What the score reads: predictions, predictions and sigmas, or lower and upper quantiles.
        calibration : Calibration or Outputs, optional
            The agent's own calibration data, for methods that need them once more.
        **options
            ``alpha`` and ``groups``, as `Predictor.predict_interval` takes them.

        Returns
        -------
        Intervals
            One interval for each row.

        Raises
        ------
        InputError
            As `predict_set`; or if the release is of sets of labels.
        """
        return self._resolved(agent, calibration).predict_interval(outputs, **options)

    @checked
    def predict_mask(
        self,
        agent: str | None,
        probability_map: npt.ArrayLike,
        *,
        calibration: Calibration | Outputs | None = None,
        **options: Any,
    ) -> Bools:
        """Return the mask of one image.

        Parameters
        ----------
        agent : str or None
            As `predict_set` takes it.
        probability_map : array_like, shape (height, width) or more dimensions
            Probability of each pixel or voxel.
        calibration : Calibration or Outputs, optional
            The agent's own calibration data, for methods that need them once more.
        **options
            ``alpha`` and ``group``, as `Predictor.predict_mask` takes them.

        Returns
        -------
        Bools
            True in the mask, in the shape of the map; everywhere where the threshold is +inf.

        Raises
        ------
        InputError
            As `predict_set`; or if the release is not of masks.
        """
        return self._resolved(agent, calibration).predict_mask(probability_map, **options)

    @checked
    def measure(
        self,
        agent: str | None,
        outputs: Rows,
        labels: npt.ArrayLike | None = None,
        *,
        calibration: Calibration | Outputs | None = None,
        alpha: float | None = None,
        allow_empty: bool = True,
        level: float = 0.95,
        **rows: Any,
    ) -> Any:
        """Return how an agent's sets, intervals or masks do on labelled test points.

        Parameters
        ----------
        agent : str or None
            As `predict_set` takes it.
        outputs : array_like or Outputs
            As `predict_set` or `predict_interval` takes them; or `MaskOutputs`.
        labels : array_like, shape (n,) or (n, L), optional
            The true labels or values, or which labels are there; `Outputs` bring their own.
        calibration : Calibration or Outputs, optional
            The agent's own calibration data, for methods that need them once more; test rows that
            are among them are counted in a warning.
        alpha : float, optional
            Which level, where the round has several.
        allow_empty : bool, optional
            As `Predictor.predict_set` takes it.
        level : float, optional
            Confidence of the interval: exact (Clopper-Pearson) for a coverage.
        **rows
            ``ids``, ``groups`` and ``classes``, as `Predictor.predict_set` takes them.

        Returns
        -------
        AgentMetrics, AgentRisk or MaskRisk
            Coverage with its interval, mean size, shares of empty and full sets; of labels that
            occur together the false-negative rate and the size; of masks the missed share and the
            area.

        Raises
        ------
        InputError
            As `predict_set`; or if there is no row or label.

        Warns
        -----
        CalibrationRowsWarning
            If rows have the id and outputs of calibration rows, or without ids look the same. These
            are ``calibration``; or what `calibrate` was given, if it returned this release.
        """
        predictor = self._resolved(agent, calibration)
        new = predictor.outputs(outputs, labels=labels, **rows)
        measured = predictor.measure(new, alpha=alpha, allow_empty=allow_empty, level=level)
        self._warn_of_calibrated(agent, new, calibration)
        return measured

    @checked
    def predictor(
        self,
        agent: str | None,
        calibration: Calibration | Outputs | None = None,
        *,
        model: str | Path | None = None,
        data_period: str | None = None,
        valid_until: str | date | None = None,
    ) -> Predictor:
        """Resolve what an agent predicts with, for a service that holds no calibration data.

        Parameters
        ----------
        agent : str or None
            Whose; None for a site that took no part, where all agents share one threshold.
        calibration : Calibration or Outputs, optional
            The agent's own calibration data, for methods that need them once more; none of its rows
            is kept.
        model : str or Path, optional
            Name of the agent's model, or its file, of which the SHA-256 is kept. Predictions that
            name another model are refused.
        data_period : str, optional
            When the calibration data are from.
        valid_until : str or date, optional
            The last day (UTC) of its use, such as 2027-06-30; later ones warn.

        Returns
        -------
        Predictor
            Thresholds for every level, label and group, and all else that predicts.

        Raises
        ------
        InputError
            If the method needs calibration data that are not given, the score is the caller's own,
            or a text cannot be kept.
        """
        cal = calibration
        if isinstance(cal, Outputs):
            check_ids(self.score, cal.ids)
            cal = calibration_of(self.round, cal)
        if calibration is not None and agent is not None:
            check_own(self, agent, calibration)
        known = {} if agent is None else {a: self.proved(agent, a) for a in self.round.alphas}
        n = None if agent is None or self.round.by else self.points(agent)
        bound = {
            "points": () if n is None else (n,),
            "model": model,
            "data_period": data_period,
            "valid_until": valid_until,
        }
        return predictor_of(self, agent, cal, proved=known, **bound)  # type: ignore[arg-type]  # one for each

    def proved(
        self, agent: str, alpha: float | None = None, *, group: str | int | None = None
    ) -> float | None:
        """Return the coverage that an agent's own calibration points prove there.

        Parameters
        ----------
        agent : str
            Name of the agent.
        alpha : float, optional
            Which level; by default the one where least is proved.
        group : str or int, optional
            In this group, or of this label, where there are some; by default the least over those
            of which the agent has points.

        Returns
        -------
        float or None
            None where its own points prove nothing, or their number is not known here.

        Raises
        ------
        InputError
            If the round has no such group.
        """
        plan, sizes = Plan.of(self.round), self._sizes(agent, group)
        levels = self.round.alphas if alpha is None else (alpha,)
        shares = (plan.proved(n, level) for level in levels for n in sizes if n is not None)
        return min((share for share in shares if share is not None), default=None)

    @checked
    def points(self, agent: str, group: str | int | None = None) -> int | None:
        """Return how many calibration points an agent said it has, n_G in a group G.

        Parameters
        ----------
        agent : str
            Name of the agent.
        group : str or int, optional
            In this group, or of this label; by default in all, where no point is in several.

        Returns
        -------
        int or None
            None where it is not known here: only the server, and who shares a process with all
            agents, has their answers. Files of a release have no sizes.

        Raises
        ------
        InputError
            If the round has no such group.
        """
        sizes = self._sizes(agent, group)
        if not sizes or (group is None and self.round.max_groups > 1):
            return None
        return sum(n or 0 for n in sizes)

    def _sizes(self, agent: str, group: str | int | None) -> list[int | None]:
        """Return the points of an agent in one or all groups; None where it took no part in one.

        Empty where they are not known here, or noise hides them.
        """
        names, alphas = self.round.group_names, self.round.alphas
        parts = range(len(names) or 1) if group is None else (place_of(group, names),)
        answers = self.received.get(agent)
        if answers is None or Plan.of(self.round).traits.size_noise:
            return []
        first = (answers[self.tasks_of(alphas[0], part)[0]] for part in parts)
        return [None if sent is None else sum(sent.sizes()) for sent in first]

    @checked
    def report(
        self, path: str | Path, tests: Mapping[str, Outputs] | None = None, title: str = ""
    ) -> Path:
        """Write one HTML page: who is covered, how large the sets are, what was sent.

        Parameters
        ----------
        path : str or Path
            Where; a file that is there is replaced.
        tests : mapping of str to Outputs, optional
            Labelled test points of agents, for their coverage.
        title : str, optional
            Title of the page; by default the method and the number of agents.

        Returns
        -------
        Path
            The file.

        Raises
        ------
        InputError
            If an agent is not of the round, or its test points do not fit it.
        MissingExtraError
            If what the extra ``report`` brings is not installed.
        """
        # report is a higher layer: it is imported by name, and only when this is called
        pages = import_module("fedwqcp.report.html")
        tests = tests or {}
        for agent, test in tests.items():
            check_type(test, Outputs, f"tests[{agent!r}]")
        written: Path = pages.write_release(self, Path(path), tests, title)
        for agent, test in tests.items():
            self._warn_of_calibrated(agent, test)
        return written

    def _resolved(self, agent: str | None, calibration: Calibration | Outputs | None) -> Predictor:
        """Return an agent's predictor, which is kept where calibration data are not given again."""
        if calibration is not None:
            return self.predictor(agent, calibration)
        kept: dict[str | None, Predictor] = vars(self).setdefault(_PREDICTORS, {})
        if agent not in kept:
            kept[agent] = self.predictor(agent)
        return kept[agent]

    def _warn_of_calibrated(
        self, agent: str | None, new: Outputs, calibration: Calibration | Outputs | None = None
    ) -> None:
        """Warn of test rows that also calibrated, where the calibration data are at hand."""
        if rows := known_rows(self, agent, new, calibration):
            whose = agent or "new site"
            warn_of([replace(rows, agents=(whose,))])

    def __repr__(self) -> str:
        most = max(1, _MOST_SHOWN // max(1, len(self.round.groups)))  # each has a line a group
        promised = promise(self) if self.guarantee else ["guarantee: none"]
        return words.printed(self, agent_table(self, most=most), promised, len(self.agents) - most)

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre>{escape(repr(self))}</pre>"


def agent_table(
    release: Release, alphas: Sequence[float] | None = None, most: int | None = None
) -> dict[str, list[Any]]:
    """Return what is known of each agent: a column by its heading, with None for the unknown.

    In a round by group an agent has a row for each. A cell of thresholds holds those of all labels,
    or says why there is none. Where there are more agents than ``most``, those that were not used
    come first.
    """
    groups = release.round.groups or (None,)
    levels = release.round.alphas if alphas is None else alphas
    agents, columns = release.agents, dict[str, list[Any]]()
    if release.census is not None:  # which stands for all of them
        rows = [("", group) for group in groups]
        columns["agent"] = [release.census.used for _ in rows]
        columns["status"] = ["used" if release.rounds else "not asked" for _ in rows]
    else:
        if most is not None and len(agents) > most:
            agents = tuple(sorted(agents, key=lambda agent: agent.status == "used")[:most])
        rows, status = [(one.name, group) for one in agents for group in groups], statuses(release)
        columns["agent"] = [name for name, _ in rows]
        columns["status"] = [status[name] for name, _ in rows]
    columns["group"] = [group for _, group in rows]
    columns["points"] = [release.points(*row) or None for row in rows]
    if len(levels) == 1:
        columns["sent"] = [_sent(release, *row, levels[0]) for row in rows]
    for alpha in levels:
        heading = f"at {alpha:g}" if len(levels) > 1 else "threshold"
        columns[heading] = [_shown(release, *row, alpha) for row in rows]
    if agents:
        level = alphas[0] if alphas else None
        proved = [release.proved(name, level, group=group) for name, group in rows]
        columns["risk proved" if release.score.losses else "proved"] = proved
        rest = [None] * (len(groups) - 1)
        columns["bytes up"] = [cell for one in agents for cell in (one.bytes_up, *rest)]
    return columns


def borrowing(release: Release, alpha: float) -> dict[str, list[float | None]]:
    """Return two more columns of `agent_table`, where label shares decided what is borrowed."""
    columns: dict[str, list[float | None]] = {"borrowed": [], "effective points": []}
    for name in release.round.agents if release.census is None else ():
        for group in range(len(release.round.groups) or 1):
            task = release.tasks_of(alpha, group)[0]
            position, outcome = release.position(name, task), release.outcomes[task]
            for heading, field in (("borrowed", "borrowed"), ("effective points", "effective")):
                figures: tuple[float, ...] = getattr(outcome, field, ())
                figure = None if position is None or not figures else figures[position]
                columns[heading].append(figure)
    return columns


def statuses(release: ReleaseRecord) -> dict[str, str]:
    """Return by agent whether it was used, left out of every threshold, refused or silent."""
    tasks = range(len(release.outcomes))
    out = set(release.used).intersection(*(excluded(release, task) for task in tasks))
    names = release.round.agents
    return {name: "left out" if name in out else release.status(name) for name in names}


def _sent(release: Release, name: str, group: str | None, alpha: float) -> tuple[float, ...]:
    """Return the thresholds of its own that an agent sent."""
    names = release.round.group_names
    parts = range(len(names) or 1) if group is None else (place_of(group, names),)
    tasks = [task for part in parts for task in release.tasks_of(alpha, part)]
    sent = [local_thresholds(release, task).get(name) for task in tasks]
    return tuple(quantile.threshold for quantile in sent if quantile is not None)


def _shown(release: Release, name: str, group: str | None, alpha: float) -> tuple[float, ...] | str:
    """Return the thresholds that an agent predicts with, or where they are."""
    try:
        return tuple(np.ravel(release.threshold(name, alpha, group)).tolist())
    except InputError:
        return "none" if isinstance(release.outcomes[0], PerAgentThresholds) else "at the site"


def promise(
    made: Release | Predictor, agent: str | None = None, level: Level | None = None
) -> list[str]:
    """Return what is proved, at one level or all, and on a second line under which assumption."""
    if level is not None:
        levels = [(level.alpha, level.proved)]
    elif isinstance(made, Release):
        levels = [(alpha, _at_all(made, alpha)) for alpha in made.round.alphas]
    else:
        levels = [(entry.alpha, entry.proved) for entry in made.levels]
    text = guaranteed(made, agent, levels, () if isinstance(made, Release) else made.calibrated_on)
    if isinstance(made, Predictor) and made.expired:
        text = rounds.expired(text, made.provenance["valid_until"])
    if not made.guarantee:
        return [f"guarantee: {text} ({made.assumption})"]
    return [f"guarantee: {text}", f"assumed: {made.assumption}"]


def _at_all(release: Release, alpha: float) -> float | None:
    """Return 1 - alpha where the points of all agents are known to prove it, else None."""
    proved = [release.proved(name, alpha) or 0.0 for name in release.used if not release.round.by]
    return 1 - alpha if proved and min(proved) >= 1 - alpha - 1e-12 else None


def keep_findings(release: Release, findings: tuple[Finding, ...]) -> None:
    """Keep what was found in the data of this process, for `Release.findings`."""
    vars(release)[_FINDINGS] = findings
