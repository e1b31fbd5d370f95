"""An agent's model outputs, and the random number of each of their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from itertools import zip_longest
from pathlib import Path
from typing import Any, ClassVar, ParamSpec, TypeVar

import numpy as np
import numpy.typing as npt

from fedwqcp._validation import (
    Bools,
    Floats,
    as_array,
    as_class_labels,
    as_ids,
    as_optional_classes,
    check_same_classes,
    checked,
    listed,
    unchecked,
)
from fedwqcp.errors import ClassesError, InputError
from fedwqcp.groups import columns_of
from fedwqcp.scores import Score, key_digest, row_ids, text_ids, uniforms
from fedwqcp.scores._uniforms import uniforms_of_rows
from fedwqcp.scores.mask import BINS, Mask

ROWS = 2**10
"""So many rows are put together at a time: they stay in the cache."""

P = ParamSpec("P")


T = TypeVar("T")


@dataclass(frozen=True, eq=False, init=False)
class Outputs:
    """A model's outputs with labels, ids and groups; they stay with their agent.

    Parameters
    ----------
    values : array_like, shape (n, C), (n, 2) or (n,)
        Probabilities, two numbers per row, or predictions.
    labels : array_like, shape (n,) or (n, L), optional
        Labels or true values; or which of L labels are there.
    ids : array_like, shape (n,), optional
        Ids of the rows, integers or text, for randomised scores; 7 and "7" are the same id.
    features : array_like, shape (n, d), optional
        Features of the inputs.
    groups : array_like, shape (n,), sequence of sets or mapping of columns, optional
        Group of each row: integers or text; or all its groups, as a set of names, or as columns
        such as ``{"sex": [...], "age": [...]}``, whose groups are named ``sex=female``.
    first_line : int or None, optional
        Line of the first row where they come from a text file, for errors.
    classes : sequence of str, optional
        Names of the classes, in the order of the values' columns; labels may then be names.
    by_name : bool, optional
        Whether a table's columns were found by these names: then their order means nothing.

    Raises
    ------
    InputError
        If a part has another number of rows, an id is missing, or NumPy cannot read a part.

    Examples
    --------
    >>> Outputs([[0.2, 0.8], [0.5, 0.5]], labels=[1, 0], ids=["p1", "p2"])
    Outputs(2 rows x 2 columns; with labels, ids; without groups, classes, features)
    """

    values: npt.NDArray[Any]
    labels: npt.NDArray[Any] | None
    ids: npt.NDArray[Any] | None
    features: npt.NDArray[Any] | None
    groups: npt.NDArray[Any] | None
    first_line: int | None
    classes: tuple[str, ...]
    by_name: bool
    _columns: ClassVar[tuple[str, ...]] = ()  # names of a table's columns, as pandas has them

    @checked
    def __init__(
        self,
        values: npt.ArrayLike,
        labels: npt.ArrayLike | None = None,
        ids: npt.ArrayLike | None = None,
        *,
        features: npt.ArrayLike | None = None,
        groups: npt.ArrayLike | None = None,
        first_line: int | None = None,
        classes: Sequence[str] | None = None,
        by_name: bool = False,
    ) -> None:
        array = as_array(values, "outputs")
        if array.ndim not in (1, 2):
            raise InputError(
                "outputs must be an array with one row for each input, (n, C) or (n,), got shape "
                f"{array.shape}"
            )
        names = as_optional_classes(classes)
        if by_name and not names:
            raise InputError("must name the columns that are found by name", field="classes")
        columns = array.shape[1] if array.ndim == 2 else 1
        if names and len(names) != columns:
            raise InputError(
                f"must be {columns}, one for each column of the outputs, got {len(names)}",
                field="classes",
            )
        table = tuple(str(name) for name in getattr(values, "columns", ()))  # of pandas, say
        if names and names != table and set(names) == set(table):
            raise ClassesError(
                f"must be in the order of the table's columns, {listed(table)}, got "
                f"{listed(names)}: pass table[classes]",
                field="classes",
            )
        fields: dict[str, Any] = {"values": array, "first_line": first_line}
        fields |= {"classes": names, "by_name": by_name, "_columns": table}
        parts = {"labels": labels, "ids": ids, "features": features, "groups": groups}
        for what, given in parts.items():
            fields[what] = None
            if given is None:
                continue
            part = columns_of(given) if what == "groups" else given
            part = fields[what] = as_ids(part) if what == "ids" else as_array(part, what)
            if part.shape[:1] != array.shape[:1]:
                one = array.ndim == 1 and part.shape[:1] == (1,)
                raise InputError(
                    f"{what} must have one entry for each of the {len(array)} rows, got shape "
                    f"{part.shape}"
                    + f"; outputs of a single input have shape (1, {len(array)})"
                    * one
                )
            if not _share_index(values, given):
                raise InputError(
                    "must have the index of the outputs' table, got another: sort both alike, or "
                    "pass to_numpy() of both where rows correspond by position",
                    field=what,
                )
            if what == "ids" and part.ndim != 1:
                raise InputError(f"ids must have shape ({len(part)},), got shape {part.shape}")
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def take(self, rows: Bools) -> Outputs:
        """Return some of the rows; their lines in a file are kept only where all are taken."""
        if rows.all():
            return self
        parts = ("values", "labels", "ids", "features", "groups")
        there = {what: getattr(self, what) for what in parts if getattr(self, what) is not None}
        return unchecked(self, first_line=None, **{k: part[rows] for k, part in there.items()})

    def in_classes(self, agreed: tuple[str, ...]) -> Outputs:
        """Return the same outputs in a round's classes: its order, and labels as numbers.

        A table's columns are found by name. Outputs in another order, or of other classes, are
        refused; those that name no classes are taken to be in the round's order.
        """
        if self.by_name and not agreed:
            raise InputError(
                f"the outputs' columns are named {listed(self.classes)}, and the round names no "
                "classes: name them p0, p1, ..., or open a round with these classes"
            )
        outputs, names = self, self.classes
        if self.by_name and set(names) >= set(agreed):
            columns = [names.index(name) for name in agreed]
            values = self.values[:, columns]
            outputs = unchecked(self, values=values, classes=agreed, by_name=False, _columns=())
        elif names and agreed:
            check_same_classes(names, agreed)
        elif agreed and set(self._columns) == set(agreed):
            check_same_classes(self._columns, agreed)
        if outputs.labels is None:
            return outputs
        labels = as_class_labels(outputs.labels, agreed or names)
        return (
            outputs if labels is outputs.labels else unchecked(outputs, labels=np.asarray(labels))
        )

    def __repr__(self) -> str:
        columns = self.values.shape[1] if self.values.ndim == 2 else 1
        size = f"{len(self.values)} rows x {columns} columns"
        parts = {name: getattr(self, name) is not None for name in ("labels", "ids", "groups")}
        parts |= {"classes": bool(self.classes), "features": self.features is not None}
        there = ", ".join(name for name, given in parts.items() if given)
        lacks = ", ".join(name for name, given in parts.items() if not given)
        texts = [size, f"with {there}" if there else "", f"without {lacks}" if lacks else ""]
        return f"Outputs({'; '.join(filter(None, texts))})"


class MaskOutputs(Outputs):
    """Probability maps of images with their true masks, each reduced to a histogram at once.

    An image takes 2002 numbers, whatever its size: how many pixels have each score, and how many of
    them the true mask holds. The images themselves are not kept, so an iterator may bring more of
    them than memory holds.

    Parameters
    ----------
    probability_maps : array_like or iterable of array_like
        Probability of each pixel or voxel; images may differ in size and dimensions.
    masks : array_like or iterable of array_like, optional
        The true masks, 1 or True inside. Without them the first argument yields pairs of a map and
        its mask.
    ids, groups : array_like, shape (n,), optional
        As `Outputs` takes them.

    Raises
    ------
    InputError
        If a map holds no probabilities, a mask has another shape or other numbers than 0 and 1, or
        there are more maps than masks.

    Examples
    --------
    >>> MaskOutputs([[[0.9, 0.4]], [[0.1], [0.8]]], [[[1, 1]], [[0], [0]]], ids=["a", "b"])
    MaskOutputs(2 images, 1 of them with an empty mask; with ids)
    """

    def __init__(
        self,
        probability_maps: Iterable[npt.ArrayLike] | Iterable[tuple[npt.ArrayLike, npt.ArrayLike]],
        masks: Iterable[npt.ArrayLike] | None = None,
        ids: npt.ArrayLike | None = None,
        *,
        groups: npt.ArrayLike | None = None,
    ) -> None:
        score, images = Mask(), []
        pairs = probability_maps if masks is None else zip_longest(probability_maps, masks)
        for pair in pairs:
            try:
                if not isinstance(pair, tuple | list) or len(pair) != 2:
                    raise InputError("must be a pair of a map and its mask, or pass masks")
                images.append(score.counts(*pair))
            except InputError as error:
                raise error.within(f"image {len(images)}") from None
        counts = np.array(images, dtype=np.int64).reshape(-1, 2, BINS + 1)
        super().__init__(counts[:, 0], counts[:, 1], ids, groups=groups)

    @property
    def inside(self) -> npt.NDArray[np.int64]:
        """Pixels of the true mask at each score, shape (n, 1001)."""
        assert self.labels is not None  # there are masks
        return self.labels

    @property
    def empty(self) -> Bools:
        """Which true masks are empty, shape (n,)."""
        return np.asarray(~self.inside.any(axis=1))

    def __repr__(self) -> str:
        there = [name for name in ("ids", "groups") if getattr(self, name) is not None]
        empty = f", {np.count_nonzero(self.empty)} of them with an empty mask"
        more = f"; with {', '.join(there)}" if there else ""
        return f"MaskOutputs({len(self.values)} images{empty}{more})"


def _share_index(table: object, part: object) -> bool:
    """Tell whether two tables of pandas have the same index; other arrays have none."""
    ours, theirs = getattr(table, "index", None), getattr(part, "index", None)
    both = hasattr(ours, "equals") and hasattr(theirs, "equals")
    return not both or bool(ours.equals(theirs))  # type: ignore[union-attr]


@contextmanager
def in_file(path: Path, labels: Path | None = None) -> Iterator[None]:
    """Let errors name the file of outputs that they are about, and that of its labels."""
    try:
        yield
    except InputError as error:
        raise error.within(str(path) if labels is None else f"{path}, {labels}") from None


def named_by_line(work: Callable[P, T]) -> Callable[P, T]:
    """Let the errors of a function that takes `Outputs` name the lines of their text file."""

    @wraps(work)
    def _named(*args: P.args, **options: P.kwargs) -> T:
        try:
            return work(*args, **options)
        except InputError as error:
            parts = (*args, *options.values())
            first = next((part.first_line for part in parts if isinstance(part, Outputs)), None)
            if first is None:
                raise
            raise error.at_line(first) from None

    return _named


def check_ids(score: Score, ids: npt.ArrayLike | None) -> None:
    """Ask a caller for ids where a score is randomised.

    Files and sites may leave them out; who forgets them once would mix ids with hashes of content.
    """
    if score.randomized and ids is None:
        raise InputError(
            "must be one for each row: the random part of the score is a hash of them; rows that "
            "have none get ids of their content with fw.scores.row_ids(probs)",
            field="ids",
        )


def row_uniforms(key: str, outputs: Outputs) -> Floats:
    """Return one number in [0, 1) for each row: a keyed hash of its id, or else of its content."""
    if outputs.ids is None:
        return uniforms(key, text_ids(row_ids(outputs.values)))
    return uniforms_of_rows(key_digest(key), outputs.values, outputs.ids)
