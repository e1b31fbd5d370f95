"""A release as people use it: it predicts with its own score, key, rule and groups, and prints."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from functools import partial
from importlib import import_module
from math import floor
from pathlib import Path
from textwrap import wrap
from typing import Any, Generic, TypedDict, TypeVar, Unpack, overload

import numpy as np
import numpy.typing as npt

from fedwqcp import metrics
from fedwqcp._validation import Bools, Floats, as_alpha, checked, plain
from fedwqcp.errors import InputError
from fedwqcp.federation.inspection import of_release
from fedwqcp.federation.plan import Plan
from fedwqcp.federation.predict import (
    Fingerprints,
    calibration_of,
    calibration_rows,
    check_agent,
    check_ids,
    fingerprints,
    predict,
    thresholds,
)
from fedwqcp.federation.serving import predictor_of
from fedwqcp.findings import Finding
from fedwqcp.groups import columns_of
from fedwqcp.methods import Calibration
from fedwqcp.metrics import AgentMetrics, AgentRisk, MaskRisk
from fedwqcp.outputs import MaskOutputs, Outputs
from fedwqcp.scores import IntervalScore, LabelScore, Score
from fedwqcp.scores.custom import Custom
from fedwqcp.scores.mask import Mask
from fedwqcp.scores.multi_label import MultiLabel
from fedwqcp.serve import Predictor
from fedwqcp.sets import Intervals, LabelSets
from fedwqcp.wire.messages import O, PerAgentThresholds, S
from fedwqcp.wire.release import ReleaseRecord
from fedwqcp.words.findings import lines
from fedwqcp.words.findings import warn as warn_of
from fedwqcp.words.rounds import guarantee

_NEW_SITE = "new site"
"""How measures call a site that took no part."""
_MOST_SHOWN = 10
"""Agents in a printed release."""

_FINGERPRINTS = "_fingerprints"
"""Attribute of a release with the fingerprints of its calibration rows; in no file and no copy."""
_FINDINGS = "_findings"
"""Attribute of a release with what `calibrate` found; in no file and no copy."""

T = TypeVar("T")


class _IntervalOptions(TypedDict, total=False):
    """What `predict_interval` takes beside the level."""

    groups: npt.ArrayLike | None
    features: npt.ArrayLike | None
    calibration: Calibration | Outputs | None


class _SetOptions(_IntervalOptions, total=False):
    """What `predict_set` takes beside the level."""

    ids: npt.ArrayLike | None
    classes: Sequence[str] | None
    allow_empty: bool


class _MeasureOptions(_SetOptions, total=False):
    """What `measure` takes beside the level."""

    level: float


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
    guarantee: at each agent, at least 60 % (n/(n + 1) where n is too small for
      that) of future cases like those it calibrated on will have their label in the
      set, if: its test points are exchangeable with its n calibration points, which
      nobody knew when choosing score and key
    agent  status  threshold  proved  bytes up
    a      used          0.6     0.6       213
    b      used          0.6     0.6       213
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
        return tuple(of_release(self)) if kept is None else kept

    @overload
    def predict_set(
        self,
        agent: str | None,
        probs: npt.ArrayLike | Outputs,
        *,
        alpha: float | None = None,
        **options: Unpack[_SetOptions],
    ) -> LabelSets: ...

    @overload
    def predict_set(
        self,
        agent: str | None,
        probs: npt.ArrayLike | Outputs,
        *,
        alpha: Sequence[float],
        **options: Unpack[_SetOptions],
    ) -> dict[float, LabelSets]: ...

    @checked
    def predict_set(
        self,
        agent: str | None,
        probs: npt.ArrayLike | Outputs,
        *,
        ids: npt.ArrayLike | None = None,
        alpha: float | Sequence[float] | None = None,
        groups: npt.ArrayLike | None = None,
        classes: Sequence[str] | None = None,
        allow_empty: bool = True,
        features: npt.ArrayLike | None = None,
        calibration: Calibration | Outputs | None = None,
    ) -> LabelSets | dict[float, LabelSets]:
        """Return a set of labels for each row.

        Parameters
        ----------
        agent : str or None
            Whose model gave the outputs; None for a site that took no part, where all agents share
            one threshold. Only a guarantee for new agents then applies to it.
        probs : array_like, shape (n, C), or Outputs
            Class probabilities; `Outputs` bring their ids, groups, classes and features.
        ids : array_like, shape (n,), optional
            Id of each row, integers or text; a randomised score needs them.
        alpha : float or sequence of float, optional
            Which level, where the round has several; several give a dict of sets by level.
        groups : array_like, shape (n,), optional
            Group of each row, for a round by group.
        classes : sequence of str, optional
            Names of the classes, in the order of the columns: other classes than the round's, or
            another order, are refused.
        allow_empty : bool, optional
            False puts the most probable label into every set, so that none is empty; True does as
            the round says.
        features : array_like, shape (n, d), optional
            Features of the rows, for thresholds that depend on the input.
        calibration : Calibration or Outputs, optional
            The agent's own calibration data, for methods that need them once more.

        Returns
        -------
        LabelSets or dict
            One set for each row; by level, where several levels are asked for.

        Raises
        ------
        InputError
            If the agent or level is not of the round, the outputs do not fit it, ids are missing,
            the release is of intervals, or ``calibration`` is what another agent brought to the
            `calibrate` that returned this release.
        """
        new = self._outputs(probs, ids=ids, features=features, groups=groups, classes=classes)

        def _at(level: float | None) -> LabelSets:
            sets = self._predicted(agent, new, level, calibration, allow_empty)
            assert isinstance(sets, LabelSets)
            return sets

        return self._each(alpha, _at)

    @overload
    def predict_interval(
        self,
        agent: str | None,
        outputs: npt.ArrayLike | Outputs,
        *,
        alpha: float | None = None,
        **options: Unpack[_IntervalOptions],
    ) -> Intervals: ...

    @overload
    def predict_interval(
        self,
        agent: str | None,
        outputs: npt.ArrayLike | Outputs,
        *,
        alpha: Sequence[float],
        **options: Unpack[_IntervalOptions],
    ) -> dict[float, Intervals]: ...

    @checked
    def predict_interval(
        self,
        agent: str | None,
        outputs: npt.ArrayLike | Outputs,
        *,
        alpha: float | Sequence[float] | None = None,
        groups: npt.ArrayLike | None = None,
        features: npt.ArrayLike | None = None,
        calibration: Calibration | Outputs | None = None,
    ) -> Intervals | dict[float, Intervals]:
        """Return an interval for each row.

        Parameters
        ----------
        agent : str or None
            Whose model gave the outputs; None for a site that took no part, where all agents share
            one threshold. Only a guarantee for new agents then applies to it.
        outputs : array_like, shape (n,) or (n, 2)
            What the score reads: predictions, predictions and sigmas, or lower and upper quantiles;
            or `Outputs` of these.
        alpha : float or sequence of float, optional
            Which level, where the round has several; several give a dict of intervals by level.
        groups : array_like, shape (n,), optional
            Group of each row, for a round by group.
        features : array_like, shape (n, d), optional
            Features of the rows, for thresholds that depend on the input.
        calibration : Calibration or Outputs, optional
            The agent's own calibration data, for methods that need them once more.

        Returns
        -------
        Intervals or dict
            One interval for each row; by level, where several levels are asked for.

        Raises
        ------
        InputError
            If the agent or level is not of the round, the outputs do not fit it, the release is of
            sets of labels, or ``calibration`` is another agent's, as in `predict_set`.
        """
        new = self._outputs(outputs, features=features, groups=groups)

        def _at(level: float | None) -> Intervals:
            intervals = self._predicted(agent, new, level, calibration, labels=False)
            assert isinstance(intervals, Intervals)
            return intervals

        return self._each(alpha, _at)

    @checked
    def predict_mask(
        self,
        agent: str | None,
        probability_map: npt.ArrayLike,
        *,
        alpha: float | None = None,
        group: Any = None,
        calibration: Calibration | Outputs | None = None,
    ) -> Bools:
        """Return the mask of one image.

        Parameters
        ----------
        agent : str or None
            Whose model gave the map; None for a site that took no part, where all agents share one
            threshold.
        probability_map : array_like, shape (height, width) or more dimensions
            Probability of each pixel or voxel.
        alpha : float, optional
            Which level, where the round has several.
        group : str, int or set, optional
            Group of the image, or its groups, for a round by group.
        calibration : Calibration or Outputs, optional
            The agent's own calibration data, for methods that need them once more.

        Returns
        -------
        Bools
            True in the mask, in the shape of the map; everywhere where the threshold is +inf.

        Raises
        ------
        InputError
            If the release is not of masks, or the map, agent, level or group does not fit it.
        """
        if not isinstance(self.score, Mask):
            raise InputError("is not of masks: call predict_set or predict_interval", field="score")
        where = None if group is None else columns_of([group])
        threshold = self._mask_thresholds(agent, alpha, calibration, where)
        return self.score.invert(probability_map, float(np.ravel(threshold)[0]))

    @overload
    def measure(  # type: ignore[overload-overlap]  # masks are measured in their own way
        self,
        agent: str | None,
        outputs: MaskOutputs,
        labels: None = None,
        *,
        alpha: float | None = None,
        **options: Unpack[_MeasureOptions],
    ) -> MaskRisk: ...

    @overload
    def measure(
        self,
        agent: str | None,
        outputs: npt.ArrayLike | Outputs,
        labels: npt.ArrayLike | None = None,
        *,
        alpha: float | None = None,
        **options: Unpack[_MeasureOptions],
    ) -> AgentMetrics: ...

    @overload
    def measure(
        self,
        agent: str | None,
        outputs: npt.ArrayLike | Outputs,
        labels: npt.ArrayLike | None = None,
        *,
        alpha: Sequence[float],
        **options: Unpack[_MeasureOptions],
    ) -> dict[float, AgentMetrics]: ...

    @checked
    def measure(
        self,
        agent: str | None,
        outputs: npt.ArrayLike | Outputs,
        labels: npt.ArrayLike | None = None,
        *,
        ids: npt.ArrayLike | None = None,
        alpha: float | Sequence[float] | None = None,
        groups: npt.ArrayLike | None = None,
        classes: Sequence[str] | None = None,
        allow_empty: bool = True,
        features: npt.ArrayLike | None = None,
        calibration: Calibration | Outputs | None = None,
        level: float = 0.95,
    ) -> AgentMetrics | MaskRisk | dict[float, Any]:
        """Return coverage and size of an agent's sets or intervals on labelled test points.

        Of masks it returns the share of true pixels that they miss, and their area.

        Parameters
        ----------
        agent : str or None
            Whose model gave the outputs; None for a site that took no part, where all agents share
            one threshold. Only a guarantee for new agents then applies to it.
        outputs : array_like
            As `predict_set` or `predict_interval` takes them; or `MaskOutputs`.
        labels : array_like, shape (n,), optional
            The true labels or values; left out where `Outputs` bring them.
        ids : array_like, shape (n,), optional
            Id of each row, integers or text; a randomised score needs them.
        alpha : float or sequence of float, optional
            Which level, where the round has several; several give a dict by level.
        groups : array_like, shape (n,), optional
            Group of each row, for a round by group.
        classes : sequence of str, optional
            As `predict_set` takes them.
        allow_empty : bool, optional
            As `predict_set` takes it.
        features : array_like, shape (n, d), optional
            Features of the rows, for thresholds that depend on the input.
        calibration : Calibration or Outputs, optional
            The agent's own calibration data, for methods that need them once more; test rows that
            are among them are counted in a warning.
        level : float, optional
            Confidence of the exact (Clopper-Pearson) interval of the coverage.

        Returns
        -------
        AgentMetrics, MaskRisk or dict
            Coverage with its interval, mean size, shares of empty and full sets; of masks the
            missed share with its interval over images, and the area.

        Raises
        ------
        InputError
            As `predict_set`; or if there is no row, or the method controls a risk instead.

        Warns
        -----
        CalibrationRowsWarning
            If rows have the id and outputs of calibration rows, or without ids look the same. These
            are ``calibration``; or what `calibrate` was given, if it returned this release.
        """
        if isinstance(self.score, MultiLabel):
            raise InputError(
                f"{self.round.method.name!r} controls the false-negative rate, not coverage: call "
                "measure_risk"
            )
        new = self._outputs(
            outputs, labels=labels, ids=ids, features=features, groups=groups, classes=classes
        )
        if isinstance(self.score, Mask):
            return self._each(alpha, partial(self._measure_masks, agent, new, calibration, level))
        truth = self._truth(new)

        def _at(one: float | None) -> AgentMetrics:
            sets = self._predicted(agent, new, one, calibration, allow_empty, labels=None)
            return metrics.measure(_NEW_SITE if agent is None else agent, sets, truth, level)

        measured = self._each(alpha, _at)
        self._warn_of_calibrated(agent, new, calibration)
        return measured

    @checked
    def measure_risk(
        self,
        agent: str | None,
        probs: npt.ArrayLike | Outputs,
        labels: npt.ArrayLike | None = None,
        *,
        alpha: float | None = None,
        groups: npt.ArrayLike | None = None,
        calibration: Calibration | Outputs | None = None,
        level: float = 0.95,
    ) -> AgentRisk:
        """Return the false-negative rate and size of an agent's sets of labels that occur together.

        Parameters
        ----------
        agent : str or None
            Whose model gave the outputs; None for a site that took no part, where all agents share
            one threshold. Only a guarantee for new agents then applies to it.
        probs : array_like, shape (n, L), or Outputs
            Probability of each label.
        labels : array_like, shape (n, L), optional
            1 where a label is there, 0 where it is not; left out where `Outputs` bring them.
        alpha : float, optional
            Which level, where the round has several.
        groups : array_like, shape (n,), optional
            Group of each row, for a round by group.
        calibration : Calibration or Outputs, optional
            The agent's own calibration data, for methods that need them once more; test rows that
            are among them are counted in a warning.
        level : float, optional
            Confidence of the interval.

        Returns
        -------
        AgentRisk
            The false-negative rate with its interval, and the mean size.

        Raises
        ------
        InputError
            If the release is not of labels that occur together, or the rows do not fit it.
        """
        if not isinstance(self.score, MultiLabel):
            raise InputError(f"score {self.round.score.name!r} has one true label: call measure")
        new = self._outputs(probs, labels=labels, groups=groups)
        truth = self._truth(new)
        sets = self._predicted(agent, new, alpha, calibration)
        assert isinstance(sets, LabelSets)  # the score is of labels
        self._warn_of_calibrated(agent, new, calibration)
        return metrics.measure_risk(_NEW_SITE if agent is None else agent, sets, truth, level)

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
            check_ids(self.score, cal)
            cal = calibration_of(self.round, cal)
        if calibration is not None and agent is not None:
            _check_own(self, agent, calibration)
        known = {} if agent is None else {a: self.proved(agent, a) for a in self.round.alphas}
        bound = {"model": model, "data_period": data_period, "valid_until": valid_until}
        return predictor_of(self, agent, cal, proved=known, **bound)  # type: ignore[arg-type]  # one for each

    def proved(self, agent: str, alpha: float | None = None) -> float | None:
        """Return the coverage that an agent's own calibration points prove there.

        Parameters
        ----------
        agent : str
            Name of the agent.
        alpha : float, optional
            Which level; by default the one where least is proved.

        Returns
        -------
        float or None
            In a round with groups, the least over those of which it has points. None where its own
            points prove nothing, or their number is not known here.
        """
        answers, plan = self.received.get(agent), Plan.of(self.round)
        if answers is None:
            return None
        levels = []
        for level in self.round.alphas if alpha is None else (alpha,):
            for part in range(len(self.round.group_names) or 1):
                sent = answers[self.tasks_of(level, part)[0]]
                if sent is not None:
                    levels.append(plan.proved(sum(sent.sizes()), level))
        return min((share for share in levels if share is not None), default=None)

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
        written: Path = pages.write_release(self, Path(path), tests or {}, title)
        for agent, test in (tests or {}).items():
            self._warn_of_calibrated(agent, test)
        return written

    def _outputs(
        self, given: npt.ArrayLike | Outputs, classes: Sequence[str] | None = None, **parts: Any
    ) -> Outputs:
        """Return the arguments of a call as one `Outputs`; if `Outputs` were given, as they are."""
        if classes is not None and not self.round.classes:
            raise InputError(
                "the round names no classes, so these cannot be checked: leave classes out",
                field="classes",
            )
        if parts.get("groups") is not None and self.round.by != "group":
            raise InputError("the round has one threshold for all groups: leave groups out")
        if not isinstance(given, Outputs):
            return Outputs(given, classes=classes, **parts)
        names = [name for name, part in parts.items() if part is not None]
        names += [] if classes is None else ["classes"]
        if names:
            raise InputError(
                f"Outputs bring their own {', '.join(names)}: leave them out of the call, or pass "
                "outputs.values"
            )
        return given

    def _mask_thresholds(
        self,
        agent: str | None,
        alpha: float | None,
        calibration: Calibration | Outputs | None,
        groups: npt.NDArray[Any] | None,
    ) -> float | Floats:
        """Return the threshold of one image, or of each."""
        check_agent(self, agent)
        again = calibration
        if isinstance(again, Outputs):
            again = calibration_of(self.round, again)
        if self.round.by != "group":
            groups = None
        found = thresholds(self, agent, alpha, again, group=groups)
        if calibration is not None and agent is not None:
            _check_own(self, agent, calibration)
        return found

    def _measure_masks(
        self,
        agent: str | None,
        new: Outputs,
        calibration: Calibration | Outputs | None,
        level: float,
        alpha: float | None,
    ) -> MaskRisk:
        """Measure masks at one level."""
        if not (isinstance(new, MaskOutputs) and isinstance(self.score, Mask)):
            raise InputError("of masks are measured on MaskOutputs", field="outputs")
        marked = self.score.grid <= self._mask_thresholds(agent, alpha, calibration, new.groups)
        self._warn_of_calibrated(agent, new, calibration)
        whose = _NEW_SITE if agent is None else agent
        return metrics.measure_masks(
            whose, new.values, new.inside, marked, level, empty=self.score.empty
        )

    def _warn_of_calibrated(
        self, agent: str | None, new: Outputs, calibration: Calibration | Outputs | None = None
    ) -> None:
        """Warn of test rows that also calibrated, where the calibration data are at hand."""
        if rows := known_rows(self, agent, new, calibration):
            whose = _NEW_SITE if agent is None else agent
            warn_of([replace(rows, agents=(whose,))])

    def _truth(self, new: Outputs) -> npt.NDArray[Any]:
        """Return the labels of test points, as numbers where they are names of classes."""
        if new.labels is None:
            raise InputError("measures need the true labels: pass labels, one for each row")
        labels = new.in_classes(self.round.classes).labels
        assert labels is not None  # they came
        return labels

    def _predicted(
        self,
        agent: str | None,
        new: Outputs,
        alpha: float | None,
        calibration: Calibration | Outputs | None,
        allow_empty: bool = True,
        *,
        labels: bool | None = True,
    ) -> LabelSets | Intervals:
        """Predict sets of labels, intervals, or (None) whichever the release is of."""
        score = self.score
        of_labels = isinstance(score, LabelScore | MultiLabel)
        if isinstance(score, Mask):
            raise InputError("is of masks: call predict_mask", field="score")
        if labels is not None and of_labels != labels and not isinstance(score, Custom):
            kind, call = ("sets of labels", "set") if of_labels else ("intervals", "interval")
            raise InputError(
                f"this release is of {kind} (score {self.round.score.name!r}): call predict_{call}"
            )
        again = calibration if isinstance(calibration, Calibration) else None
        if isinstance(calibration, Outputs):
            again = calibration_of(self.round, calibration)
        sets = predict(self, agent, new, alpha=alpha, calibration=again, allow_empty=allow_empty)
        for part in (new, calibration):  # last, so that no other mistake hides behind it
            if isinstance(part, Outputs):
                check_ids(score, part)
        if calibration is not None and agent is not None:
            _check_own(self, agent, calibration)
        return sets

    def _each(
        self, alpha: float | Sequence[float] | None, work: Callable[[float | None], T]
    ) -> T | dict[float, T]:
        """Return what `work` gives at one level; for several levels, a dict by level."""
        given = None if alpha is None else plain(alpha)
        if not isinstance(given, tuple):
            self.tasks_of(given)  # refuses what is no level of the round
            return work(given)
        if not given:
            levels = ", ".join(f"{level:g}" for level in self.round.alphas)
            raise InputError(
                f"alpha must name at least one level of the round ({levels}), got none"
            )
        for level in given:
            self.tasks_of(as_alpha(level))
        return {float(level): work(float(level)) for level in given}

    def __repr__(self) -> str:
        head, *rows = self._rows()
        widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
        lines = [
            "  ".join(
                cell.ljust(width) if column < 2 else cell.rjust(width)
                for column, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in (head, *rows)
        ]
        notes = [line for note in self._notes() for line in _wrapped(note)]
        return "\n".join(
            [self._title(), *_wrapped(f"guarantee: {self._promise()}"), *lines, *notes]
        )

    def _repr_html_(self) -> str:
        from html import escape

        head, *rows = self._rows()

        def _cells(row: Sequence[str], tag: str) -> str:
            return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in row) + "</tr>"

        table = "".join([_cells(head, "th"), *(_cells(row, "td") for row in rows)])
        notes = "".join(f"<p>{escape(note)}</p>" for note in self._notes())
        return (
            f"<p><b>{escape(self._title())}</b><br>guarantee: {escape(self._promise())}</p>"
            f"<table>{table}</table>{notes}"
        )

    def _title(self) -> str:
        """Return method, score, levels and round trips in one line."""
        terms = self.round
        by = f" by {terms.by}" if terms.by else ""
        trips = f"{self.rounds} round trip" + ("" if self.rounds == 1 else "s")
        rule = "" if terms.rule == "leq" else f", rule {terms.rule}"
        levels = ", ".join(f"{alpha:g}" for alpha in terms.alphas)
        return (
            f"{terms.method.name} with score {terms.score.name}, alpha {levels}{by}{rule}; {trips}"
        )

    def _promise(self) -> str:
        """Say what is proved."""
        return promise(self) if self.guarantee else "none"

    def _rows(self) -> Iterator[tuple[str, ...]]:
        """Return the table: who, threshold at each level, bytes."""
        levels = self.round.alphas
        several = [f"at {alpha:g}" for alpha in levels]
        head = several if len(levels) > 1 else ["threshold"]
        floors = self.census is None and any(self.proved(name) for name in self.used)
        risk = self.score.losses
        more = ("risk proved" if risk else "proved",) if floors else ()
        yield ("agent", "status", *head, *more, "bytes up")
        if self.census is not None:
            counted = f"{self.census.used} agents"
            yield (
                counted,
                "used" if self.rounds else "not asked",
                *(self._shown("", alpha) for alpha in levels),
                "",
            )
            return
        for record in self.agents[:_MOST_SHOWN]:
            shown = [self._shown(record.name, alpha) for alpha in levels]
            if more:
                level = self.proved(record.name)
                least = "" if level is None else f"{floor(level * 1000 + 1e-9) / 1000:g}"
                shown.append(f"{1 - float(least):.3g}" if risk and least else least)
            yield (record.name, self.status(record.name), *shown, str(record.bytes_up))

    def _notes(self) -> Iterator[str]:
        """Return who is not shown, who took no part and why, and whose thresholds are +inf."""
        if len(self.agents) > _MOST_SHOWN:
            yield f"and {len(self.agents) - _MOST_SHOWN} more agents"
        yield from (f"warning: {line}" for line in lines(self.findings))

    def _shown(self, agent: str, alpha: float) -> str:
        """Return an agent's threshold as text: a range, where it has several."""
        try:
            thresholds = (
                self.threshold(agent, alpha)
                if self.round.by != "group"
                else np.concatenate([np.ravel(q) for q in self.by_group(agent, alpha).values()])
            )
        except InputError:
            return "none" if isinstance(self.outcomes[0], PerAgentThresholds) else "own data"
        low, high = float(np.min(thresholds)), float(np.max(thresholds))
        return f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}"


def promise(
    release: Release,
    agent: str | None = None,
    alpha: float | None = None,
    proved: float | None = None,
) -> str:
    """Say what is proved of a release and under which assumption, or why nothing is."""
    kind, strength = release.guarantee.kind, release.guarantee.strength
    text = guarantee(
        kind,
        strength,
        release.round.alphas if alpha is None else (alpha,),
        agent=agent,
        proved=proved,
        of="mask"
        if isinstance(release.score, Mask)
        else "interval"
        if isinstance(release.score, IntervalScore)
        else "set",
    )
    why = release.assumption
    return f"{text}, if: {why}" if release.guarantee else f"{text} ({why})"


def keep_fingerprints(release: Release, data: Mapping[str, Outputs | Calibration]) -> None:
    """Keep fingerprints of the calibration rows for `known_rows`, and none of the rows."""
    vars(release)[_FINGERPRINTS] = {name: fingerprints(part) for name, part in data.items()}


def keep_findings(release: Release, findings: tuple[Finding, ...]) -> None:
    """Keep what was found in the data of this process, for `Release.findings`."""
    vars(release)[_FINDINGS] = findings


def points_of(release: Release, agent: str) -> int | None:
    """Return how many points an agent calibrated with, where that was in this process."""
    known: dict[str, Fingerprints] = vars(release).get(_FINGERPRINTS, {})
    return len(known[agent].values) if agent in known else None


def _check_own(release: Release, agent: str, calibration: Calibration | Outputs) -> None:
    """Refuse calibration data that are another agent's, where the round was held here."""
    known: dict[str, Fingerprints] = vars(release).get(_FINGERPRINTS, {})
    if agent not in known:
        return
    given = fingerprints(calibration)
    whose = [
        name
        for name, there in known.items()
        if there.of_scores == given.of_scores and np.array_equal(there.values, given.values)
    ]
    if whose and agent not in whose:
        raise InputError(
            f"calibration must be the data that agent {agent!r} calibrated with, got those of "
            f"agent {whose[0]!r}: pass {agent!r}'s own, or leave calibration out"
        )


def known_rows(
    release: Release,
    agent: str | None,
    new: Outputs,
    calibration: Calibration | Outputs | None = None,
) -> Finding | None:
    """Count test rows that are like calibration rows, given or of this process."""
    known: dict[str | None, Fingerprints] = vars(release).get(_FINGERPRINTS, {})
    there = known.get(agent) if calibration is None else calibration
    return calibration_rows(release.round, new, there)


def _wrapped(text: str) -> list[str]:
    """Break a line for a terminal of 80 columns."""
    return wrap(text, 80, break_on_hyphens=False, subsequent_indent="  ")
