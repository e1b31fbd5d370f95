"""A predictor: all that one site needs to predict, resolved once, without calibration rows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from functools import cached_property
from hashlib import sha256
from math import inf
from pathlib import Path
from re import fullmatch
from time import time as now
from typing import Any, Literal, TypeAlias, TypedDict

import msgspec
import numpy as np
import numpy.typing as npt

from fedwqcp import metrics, scores
from fedwqcp._io import from_json, opened, to_json, write_atomic
from fedwqcp._validation import (
    Bools,
    Floats,
    as_alpha,
    as_array,
    as_classes,
    check_printable,
    check_type,
    checked,
    plain,
    shown,
    unchecked,
)
from fedwqcp.errors import ExpiredPredictorWarning, InputError, RecordError, warn
from fedwqcp.groups import columns_of, group_places, largest
from fedwqcp.outputs import MaskOutputs, Outputs, check_ids, named_by_line
from fedwqcp.scores import IntervalScore, LabelScore, Rule, Score, row_ids
from fedwqcp.scores._uniforms import uniforms_of_rows
from fedwqcp.scores.mask import Mask
from fedwqcp.scores.multi_label import MultiLabel
from fedwqcp.sets import Intervals, LabelSets
from fedwqcp.wire.messages import Choice, check_provenance
from fedwqcp.wire.release import Guarantee

Threshold: TypeAlias = float | Literal["inf"]
"""A threshold as JSON holds it."""

Rows: TypeAlias = npt.ArrayLike | Outputs
"""What a model put out, alone or with ids, groups and classes."""


class IntervalOptions(TypedDict, total=False):
    """What predicts intervals, beside the outputs."""

    alpha: float | None
    groups: npt.ArrayLike | None


class SetOptions(IntervalOptions, total=False):
    """What predicts sets of labels, beside the probabilities."""

    ids: npt.ArrayLike | None
    classes: Sequence[str] | None
    allow_empty: bool


class Level(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The thresholds of one level.

    Parameters
    ----------
    alpha : float
        The miscoverage.
    thresholds : tuple
        A row for each group, or one row. A row holds one number, one for each label, or one for
        each column of the score.
    proved : float or None
        The coverage that the site's own calibration points prove, where that is known.
    """

    alpha: float
    thresholds: tuple[tuple[Threshold, ...], ...]
    proved: float | None = None


class Predictor(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    dict=True,
    tag_field="kind",
    tag="predictor",
    repr_omit_defaults=True,
):
    """What one site predicts with: thresholds, score, rule, key and classes; no calibration row.

    `Release.predictor` makes it and `load` reads its file. A threshold is the score of one person
    of the site or of another: keep the file where calibration data may be kept.

    Parameters
    ----------
    agent : str or None
        Whose thresholds; None for a site that took no part.
    score, method : Choice
        By name, with all settings.
    levels : tuple of Level
        Thresholds of each level.
    guarantee : Guarantee
        What is proved, by kind and strength.
    promise, assumption : str
        The same in words, and under which assumption.
    round : str
        Id of the round.
    rule : str
        How a threshold becomes a set of labels.
    key : str
        Key of the uniforms of a randomised score.
    n_classes : int or None
        Number of classes, where it is known.
    classes : tuple of str
        Their names, in the order of the model's columns; may be empty.
    by : {"label", "group"} or None
        What has thresholds of its own.
    groups : tuple of str
        Names of the groups, in the order of the thresholds.
    provenance : dict
        When and with which software it was made; of which model and data, how many calibration
        points, and until when.

    Examples
    --------
    >>> import fedwqcp as fw
    >>> cal = fw.Outputs([[0.2, 0.8], [0.7, 0.3], [0.6, 0.4]], labels=[1, 0, 1])
    >>> release = fw.calibrate({"a": cal, "b": cal}, score="lac", alpha=0.4)
    >>> predictor = release.predictor("a", model="tumour-net 3.1")
    >>> predictor.predict_set([[0.1, 0.9], [0.45, 0.55]], model="tumour-net 3.1")[1]
    (0, 1)
    """

    agent: str | None
    score: Choice
    levels: tuple[Level, ...]
    guarantee: Guarantee
    promise: str
    assumption: str
    method: Choice
    round: str
    rule: Rule = "leq"
    key: str = ""
    n_classes: int | None = None
    classes: tuple[str, ...] = ()
    by: Literal["label", "group"] | None = None
    groups: tuple[str, ...] = ()
    provenance: dict[str, str] = {}
    version: Literal[1] = 1

    def __post_init__(self) -> None:
        score = self.score_object
        if isinstance(score, LabelScore):
            score.check_rule(self.rule)
        elif self.rule != "leq" or self.by == "label":
            raise InputError("is for sets of labels", field="rule" if self.by is None else "by")
        names = self.classes
        if names and (len(names) != self.n_classes or as_classes(names) != names):
            raise InputError("must be as many names as classes", field="classes")
        if (self.by == "group") != bool(self.groups) or len(set(self.groups)) < len(self.groups):
            raise InputError("must be different names, and only by group", field="groups")
        if self.by == "label" and self.n_classes is None:
            raise InputError("must be given where thresholds are by label", field="n_classes")
        if len(self._tables) < len(self.levels) or not self.levels:
            raise InputError("must be one or more, each once", field="levels")
        check_provenance(self.provenance)
        _ = self._until

    # ---- predicting

    def predict_set(
        self,
        probs: Rows,
        *,
        ids: npt.ArrayLike | None = None,
        alpha: float | None = None,
        groups: npt.ArrayLike | None = None,
        classes: Sequence[str] | None = None,
        allow_empty: bool = True,
        model: str | Path | None = None,
    ) -> LabelSets:
        """Return a set of labels for each row.

        Parameters
        ----------
        probs : array_like, shape (n, C), or Outputs
            Class probabilities; `Outputs` bring their ids, groups and classes.
        ids : array_like, shape (n,), optional
            Id of each row, integers or text; a randomised score needs them.
        alpha : float, optional
            Which level, where there are several.
        groups : array_like, shape (n,), optional
            Group of each row, where thresholds are by group.
        classes : sequence of str, optional
            Names of the classes, in the order of the columns; others, or another order, are
            refused.
        allow_empty : bool, optional
            False puts the most probable label into every set.
        model : str or Path, optional
            Name or file of the model; another one than the predictor's is refused.

        Returns
        -------
        LabelSets
            One set for each row.

        Raises
        ------
        InputError
            If the rows, level, groups or model do not fit.

        Warns
        -----
        ExpiredPredictorWarning
            If the day has passed until which the predictor is valid.
        """
        if not isinstance(self.score_object, LabelScore | MultiLabel):
            raise InputError(f"is not of sets of labels: call {self._call}", field="score")
        rows = self._read(probs, model, ids=ids, groups=groups, classes=classes)
        check_ids(self.score_object, rows[1])
        sets: LabelSets = self._predict(*rows, alpha, allow_empty)
        return sets

    def predict_interval(
        self,
        outputs: Rows,
        *,
        alpha: float | None = None,
        groups: npt.ArrayLike | None = None,
        model: str | Path | None = None,
    ) -> Intervals:
        """Return an interval for each row.

        Parameters
        ----------
        outputs : array_like, shape (n,) or (n, 2)
            What the score reads: predictions, predictions and sigmas, or lower and upper quantiles;
            or `Outputs` of these.
        alpha : float, optional
            As `predict_set` takes it.
        groups : array_like, shape (n,), optional
            As `predict_set` takes them.
        model : str or Path, optional
            As `predict_set` takes it.

        Returns
        -------
        Intervals
            One interval for each row.

        Raises
        ------
        InputError
            If the rows, level, groups or model do not fit.
        """
        if not isinstance(self.score_object, IntervalScore):
            raise InputError(f"is not of intervals: call {self._call}", field="score")
        rows = self._read(outputs, model, groups=groups)
        intervals: Intervals = self._predict(*rows, alpha)
        return intervals

    def predict_mask(
        self,
        probability_map: npt.ArrayLike,
        *,
        alpha: float | None = None,
        group: Any = None,
        model: str | Path | None = None,
    ) -> Bools:
        """Return the mask of one image.

        Parameters
        ----------
        probability_map : array_like, shape (height, width) or more dimensions
            Probability of each pixel or voxel.
        alpha : float, optional
            Which level, where there are several.
        group : str, int or set, optional
            Group of the image, or its groups, where thresholds are by group.
        model : str or Path, optional
            As `predict_set` takes it.

        Returns
        -------
        Bools
            True in the mask, in the shape of the map.

        Raises
        ------
        InputError
            If the predictor is not of masks, or the map, level, group or model does not fit it.
        """
        score = self.score_object
        if not isinstance(score, Mask):
            raise InputError(f"is not of masks: call {self._call}", field="score")
        self.check_model(model)
        where = None if group is None else columns_of([group])
        return score.invert(probability_map, self.thresholds_of(where, alpha, 1).item())

    def measure(
        self,
        outputs: Rows,
        labels: npt.ArrayLike | None = None,
        *,
        alpha: float | None = None,
        allow_empty: bool = True,
        level: float = 0.95,
        model: str | Path | None = None,
        **rows: Any,
    ) -> Any:
        """Return coverage (or risk) and size of the sets or intervals of labelled rows.

        Parameters
        ----------
        outputs : array_like or Outputs
            As `predict_set` or `predict_interval` takes them; or `MaskOutputs`.
        labels : array_like, shape (n,) or (n, L), optional
            The true labels, by number or name; the true values; or which labels are there.
            `Outputs` bring their own.
        alpha : float, optional
            As `predict_set` takes it.
        allow_empty : bool, optional
            As `predict_set` takes it.
        level : float, optional
            Confidence of the interval.
        model : str or Path, optional
            As `predict_set` takes it.
        **rows
            ``ids``, ``groups`` and ``classes``, as `predict_set` takes them.

        Returns
        -------
        AgentMetrics, AgentRisk or MaskRisk
            Coverage with its exact interval, or the false-negative rate where a row has several
            labels, and the mean size; of masks the missed share and the area.

        Raises
        ------
        InputError
            If the rows, labels, level, groups or model do not fit, or there is no row.
        """
        score, name = self.score_object, self.agent or "new site"
        self.check_model(model)
        new = self.outputs(outputs, labels=labels, **rows)
        if isinstance(score, Mask) != isinstance(new, MaskOutputs):
            raise InputError("of masks are measured on MaskOutputs, and no others", field="outputs")
        if isinstance(new, MaskOutputs) and isinstance(score, Mask):
            marked = score.grid <= self.thresholds_of(new.groups, alpha, len(new.values))
            return metrics.measure_masks(
                name, new.values, new.inside, marked, level, empty=score.empty
            )
        if (truth := new.labels) is None:
            raise InputError("must be given: the true labels of the rows", field="labels")
        check_ids(score, new.ids)
        kind = metrics.measure_risk if isinstance(score, MultiLabel) else metrics.measure
        sets = self._predict(new.values, new.ids, new.groups, alpha, allow_empty)
        return kind(name, sets, truth, level)

    @property
    def calibrated_on(self) -> tuple[int, ...]:
        """Number of the site's calibration points: all, then by label or group; perhaps unknown."""
        points = self.provenance.get("calibration_points", "").split()
        return tuple(map(int, points)) if all(map(str.isdecimal, points)) else ()

    @property
    def expired(self) -> bool:
        """Whether the day has passed until which it is valid."""
        return now() >= self._until

    def level(self, alpha: float | None = None) -> Level:
        """Return one level; it may be left out where there is one."""
        if alpha is None and len(self.levels) == 1:
            return self.levels[0]
        wanted = plain(alpha)
        for level in self.levels:
            if type(wanted) is float and level.alpha == wanted:
                return level
        known = ", ".join(f"{level.alpha:g}" for level in self.levels)
        raise InputError(f"must be one of {known}, got {shown(alpha)}", field="alpha")

    def thresholds(self, alpha: float | None = None) -> Floats:
        """Return the thresholds of a level: a row for each group, or one row.

        Parameters
        ----------
        alpha : float, optional
            Which level, where there are several.

        Returns
        -------
        Floats, shape (groups, 1), (groups, C) or (groups, columns)
            One for all, for each label, or for each column of the score.

        Raises
        ------
        InputError
            If there is no such level.
        """
        return self._tables[self.level(alpha).alpha]

    @named_by_line
    def apply(
        self, outputs: Outputs, alpha: float | None = None, allow_empty: bool = True
    ) -> LabelSets | Intervals:
        """Return sets or intervals of a file's rows; rows without ids get those of their content.

        Parameters
        ----------
        outputs : Outputs
            What the model put out.
        alpha : float, optional
            Which level, where there are several.
        allow_empty : bool, optional
            As `predict_set` takes it.

        Returns
        -------
        LabelSets or Intervals
            One for each row.
        """
        new = self.outputs(outputs)
        ids = row_ids(new.values) if self.score_object.randomized and new.ids is None else new.ids
        predicted: LabelSets | Intervals
        predicted = self._predict(new.values, ids, new.groups, alpha, allow_empty)
        return predicted

    def _predict(
        self,
        values: npt.NDArray[Any],
        ids: npt.ArrayLike | None,
        groups: npt.ArrayLike | None,
        alpha: float | None,
        allow_empty: bool = True,
    ) -> Any:
        """Return sets or intervals: the only place where thresholds meet a model's outputs."""
        q, score = self.thresholds_of(groups, alpha, len(values)), self.score_object
        check_type(allow_empty, bool, "allow_empty")
        if isinstance(score, LabelScore):
            rule: Rule = "leq_top1" if self.rule == "leq" and not allow_empty else self.rule
            u = None
            if score.randomized:
                assert ids is not None  # checked, or made of the content
                u = uniforms_of_rows(self._salt, values, ids)
            return unchecked(score.invert(values, q, rule, u), classes=self.classes)
        if not allow_empty:
            raise InputError("is for sets of labels of which one is true", field="allow_empty")
        if isinstance(score, MultiLabel):
            return unchecked(score.invert(values, q), classes=self.classes)
        if isinstance(score, IntervalScore):
            return score.invert(values, q)
        raise InputError("is of masks: call predict_mask", field="score")

    def thresholds_of(self, groups: npt.ArrayLike | None, alpha: float | None, n: int) -> Floats:
        """Return the thresholds of n rows: by their groups, or the same for all.

        Parameters
        ----------
        groups : array_like or None
            Group of each row, where thresholds are by group.
        alpha : float or None
            Which level, where there are several.
        n : int
            How many rows.

        Returns
        -------
        Floats
            What broadcasts against the scores of n rows.
        """
        table = self.thresholds(alpha)
        if (self.by == "group") != (groups is not None):
            wanted = f"; its groups: {', '.join(self.groups)}" if self.groups else ""
            raise InputError(f"must be given by group, and only there{wanted}", field="groups")
        if groups is not None:
            return largest(table, group_places(groups, self.groups, n))
        return np.asarray(table[0, 0] if table.size == 1 else table[0])

    # ---- files

    @checked
    def save(self, path: str | Path) -> None:
        """Write the predictor to a file for its owner alone, whole or not at all.

        Parameters
        ----------
        path : str or Path
            Where; an existing file is replaced.

        Raises
        ------
        InputError
            If the file cannot be written.
        """
        write_atomic(Path(path), self.encoded())

    def encoded(self) -> bytes:
        """Return the bytes of the file."""
        return to_json(self, indent=1)

    @checked
    def to_onnx(
        self,
        path: str | Path,
        *,
        alpha: float | None = None,
        allow_empty: bool = True,
        dtype: Literal["float32", "float64"] = "float32",
        model: str | Path | None = None,
        output: str | None = None,
    ) -> None:
        """Write an ONNX graph that gives the same sets or intervals, to the last bit.

        Parameters
        ----------
        path : str or Path
            Where; an existing file is replaced.
        alpha : float, optional
            Which level, where there are several.
        allow_empty : bool, optional
            As `predict_set` takes it.
        dtype : {"float32", "float64"}, optional
            Type of the model's outputs; all arithmetic is in float64.
        model : str or Path, optional
            An ONNX model, opset 13 or later: the file then holds both, from features to sets.
            Where the predictor is of a model's file, it is this one; a predictor of a name does
            not tell.
        output : str, optional
            Which of its outputs the score reads, where several are of floats.

        Raises
        ------
        InputError
            If there is no such level, the score has no graph, or the model is another one or does
            not fit.
        MissingExtraError
            If the extra ``onnx`` is not installed.

        Warns
        -----
        ExpiredPredictorWarning
            As `predict_set`.

        Notes
        -----
        Inputs are ``outputs`` (probabilities, or what a regressor puts out), ``u`` where the score
        is randomised (``scores.uniforms(key, ids)``) and ``group`` (its place among the groups)
        where thresholds are by group. Outputs are ``set`` and ``size``, or ``lower`` and ``upper``.
        """
        from fedwqcp.serve import onnx

        of_file = fullmatch("[0-9a-f]{64}", self.provenance.get("model", ""))
        self.check_model(Path(model) if model is not None and of_file else None)
        sets = onnx.graph(self, alpha, allow_empty)
        whole = sets.alone(dtype) if model is None else sets.behind(Path(model), output)
        write_atomic(Path(path), whole.SerializeToString())

    def check_model(self, model: str | Path | None) -> None:
        """Refuse another model than the predictor's, and warn once it is no longer valid.

        Parameters
        ----------
        model : str, Path or None
            Name or file of a model; None is not compared.

        Raises
        ------
        InputError
            If the predictor is of another model, or names none.
        """
        if self.expired:
            until = self.provenance["valid_until"]
            warn(ExpiredPredictorWarning(f"the predictor was valid until {until}: calibrate again"))
        if model is None:
            return
        wanted = self.provenance.get("model")
        if wanted is None:
            raise InputError("the predictor names no model to compare with", field="model")
        given = model_digest(model) if isinstance(model, Path) else model
        if given != wanted:
            raise InputError(f"must be {wanted}, got {shown(given)}", field="model")

    # ---- resolved once

    @cached_property
    def score_object(self) -> Score:
        """The score that ``score`` names."""
        score = scores.get(self.score.name, **self.score.settings)
        if not isinstance(score, LabelScore | MultiLabel | IntervalScore | Mask):
            raise InputError("is the caller's own: its sets are not made here", field="score")
        return score

    @property
    def _call(self) -> str:
        """What predicts with this score."""
        kinds = {IntervalScore: "predict_interval", Mask: "predict_mask"}
        return next(
            (k for of, k in kinds.items() if isinstance(self.score_object, of)), "predict_set"
        )

    @cached_property
    def _tables(self) -> dict[float, Floats]:
        """The thresholds by level, checked against the range of the score."""
        low, high = self.score_object.bounds(self.n_classes)
        columns = self.score_object.columns
        widths = {columns} if self.n_classes is None or columns > 1 else {1, self.n_classes}
        tables = {}
        for level in self.levels:
            as_alpha(level.alpha)
            if {len(row) for row in level.thresholds} - widths or len(level.thresholds) != (
                len(self.groups) or 1
            ):
                raise InputError("must be a row for each group", field="thresholds")
            table = np.array(level.thresholds, dtype=np.float64)
            if not (((low <= table) & (table <= high)) | (table == inf)).all():
                raise InputError(
                    f"must lie between {low:g} and {high:g}, or be inf", field="thresholds"
                )
            tables[level.alpha] = table
        return tables

    @cached_property
    def _salt(self) -> bytes:
        return scores.key_digest(self.key)

    @cached_property
    def _until(self) -> float:
        """The second from which on the predictor is not valid."""
        text = self.provenance.get("valid_until")
        return inf if text is None else _end_of_day(text)

    def _read(
        self, given: Rows, model: str | Path | None, **parts: Any
    ) -> tuple[npt.NDArray[Any], npt.ArrayLike | None, npt.ArrayLike | None]:
        """Return values, ids and groups of rows whose columns and model are the predictor's."""
        self.check_model(model)
        if type(given) not in (np.ndarray, list) or parts.get("classes") is not None:
            new = self.outputs(given, **parts)
            return new.values, new.ids, new.groups
        values = as_array(given, "outputs")  # type: ignore[arg-type]  # a service sends single rows
        self._check_columns(values)
        return values, parts.get("ids"), parts.get("groups")

    def outputs(self, given: Rows, **parts: Any) -> Outputs:
        """Return rows as `Outputs` in the predictor's classes.

        Parameters
        ----------
        given : array_like or Outputs
            What the model put out.
        **parts
            ``labels``, ``ids``, ``groups`` and ``classes`` of an array, as `Outputs` takes them.

        Returns
        -------
        Outputs
            Without groups where thresholds are not by group.

        Raises
        ------
        InputError
            If `Outputs` are given with parts, or classes or columns are others.
        """
        if isinstance(given, Outputs):
            if named := [name for name, part in parts.items() if part is not None]:
                raise InputError(
                    f"Outputs bring their own {', '.join(named)}: leave them out of the call, or "
                    "pass outputs.values"
                )
            new = given if self.by == "group" else unchecked(given, groups=None)
        else:
            if parts.get("classes") is not None and not self.classes:
                raise InputError("the predictor names no classes to compare with", field="classes")
            new = Outputs(given, **parts)
        new = new.in_classes(self.classes)
        self._check_columns(new.values)
        return new

    def _check_columns(self, values: npt.NDArray[Any]) -> None:
        """Refuse another number of classes."""
        wanted = self.n_classes if isinstance(self.score_object, LabelScore | MultiLabel) else None
        if wanted is None and values.ndim not in (1, 2):
            raise InputError(f"must have one row for each input, got {values.shape}", "outputs")
        if wanted is not None and values.shape[1:] != (wanted,):
            row = values.shape == (wanted,)
            cure = "; one row must be a table of one row, such as probs[None]" if row else ""
            raise InputError(
                f"must have shape (n, {wanted}), got {values.shape}{cure}", field="outputs"
            )


def parse(data: bytes, source: str) -> Predictor:
    """Read a predictor that someone handed over.

    Parameters
    ----------
    data : bytes
        What `Predictor.save` wrote.
    source : str
        What errors call it.

    Returns
    -------
    Predictor
        The same.

    Raises
    ------
    RecordError
        If it is damaged or of another version.
    """
    try:
        return msgspec.json.decode(data, type=Predictor)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise RecordError(f"{source} is no predictor that this version reads: {error}") from None


class _Kind(msgspec.Struct):
    kind: str = ""


def is_predictor(data: bytes) -> bool:
    """Tell whether a file says that it is a predictor."""
    header = from_json(data, _Kind)
    return header is not None and header.kind == "predictor"


def model_digest(path: Path) -> str:
    """Return the name that a model's file has in a predictor: its SHA-256 in hexadecimal.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    str
        64 digits, as ``sha256sum`` prints them.
    """
    digest = sha256()
    with opened(path) as file:
        while part := file.read(2**20):
            digest.update(part)
    return digest.hexdigest()


def bound_to(
    model: str | Path | None,
    data_period: str | None,
    valid_until: str | date | None,
    points: Sequence[int],
) -> dict[str, str]:
    """Return what a site says of its predictor, as provenance."""
    given = {
        "model": model_digest(model) if isinstance(model, Path) else model,
        "data_period": data_period,
        "valid_until": valid_until.isoformat() if isinstance(valid_until, date) else valid_until,
        "calibration_points": " ".join(map(str, points)) or None,
    }
    facts = {name: text for name, text in given.items() if text is not None}
    if len(facts.get("calibration_points", "")) > 64:  # of many labels the numbers are left out
        del facts["calibration_points"]
    for name, text in facts.items():
        check_printable(text, name)
    return facts


def _end_of_day(text: str) -> float:
    """Return the second that ends a day in UTC."""
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise InputError("must be a day such as 2027-06-30", field="valid_until") from None
    return datetime.combine(day + timedelta(1), time(), UTC).timestamp()
