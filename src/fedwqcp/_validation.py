"""What may come in: arguments, numbers, labels and classes, each checked once.

Past these checks nothing is checked again. An error names a row by its number and never shows a
label, a score or a feature.
"""

from __future__ import annotations

import dataclasses
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache, wraps
from math import inf, isnan
from os import PathLike
from sys import float_info
from types import NoneType, UnionType
from typing import (
    Any,
    Literal,
    ParamSpec,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec
import numpy as np
import numpy.typing as npt

from fedwqcp.errors import ClassesError, InputError

Floats: TypeAlias = npt.NDArray[np.float64]
"""Real numbers in double precision."""

Probabilities: TypeAlias = npt.NDArray[np.floating[Any]]
"""Class probabilities, float32 or float64, shape (n, C)."""

Labels: TypeAlias = npt.NDArray[np.int64]
"""Class labels from 0 to C - 1, shape (n,)."""

Bools: TypeAlias = npt.NDArray[np.bool_]
"""Truth values."""

P = ParamSpec("P")
T = TypeVar("T")

Texts: TypeAlias = npt.NDArray[np.str_]
"""Text, such as the names of groups."""


def checked(function: Callable[P, T]) -> Callable[P, T]:
    """Refuse arguments of a public function that are not of the types that it declares.

    Arrays, and arguments with a check of their own, are left to the checks below.
    """
    names = function.__code__.co_varnames[: function.__code__.co_argcount]

    @wraps(function)
    def _checked(*args: P.args, **options: P.kwargs) -> T:
        _check_types(function, (*zip(names, args, strict=False), *options.items()))
        return function(*args, **options)

    return _checked


def _check_types(declared: Any, given: Iterable[tuple[str, Any]]) -> None:
    """Refuse values that are not of the types that a function or class declares."""
    hints = _hints(declared)
    for name, value in given:
        if name not in hints:
            continue
        (hint, kinds), kind = hints[name], type(value)
        odd = (kind is str and not value.isascii()) or (kind is int and value.bit_length() > 53)
        if odd or kind not in kinds:
            check_type(value, hint, name)


def check_type(value: object, hint: Any, field: str) -> None:
    """Refuse a value that is not of a type."""
    if not fits(value, hint):
        raise InputError(f"{field} must be {in_words(hint)}, got {shown(value)}", field=field)


class CheckedSettings:
    """A dataclass whose fields are Python's own values of the types that it declares.

    Values are converted and checked before the dataclass's own ``__post_init__``, which is left
    with ranges.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        check = cls.__dict__.get("__post_init__")
        if check is not None:

            @wraps(check)
            def _types_first(self: CheckedSettings) -> None:
                CheckedSettings.__post_init__(self)
                check(self)

            cls.__post_init__ = _types_first  # type: ignore[method-assign]  # what it does, and this

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):  # type: ignore[arg-type]  # subclasses are dataclasses
            value = getattr(self, field.name)
            if type(value) not in _PLAIN:
                object.__setattr__(self, field.name, plain(value))
        _check_types(type(self), vars(self).items())


def unchecked(record: T, **fields: object) -> T:
    """Return a copy of a checked record with other fields, which are right as they are."""
    copy = object.__new__(type(record))
    copy.__dict__.update(record.__dict__, **fields)
    return copy


def check_least(value: int | None, least: int, what: str) -> None:
    """Refuse an integer setting that is too small; None, where it is left out, passes."""
    if value is not None and value < least:
        raise InputError(f"{what} must be an integer of at least {least}, got {value!r}")


def is_range(ends: Sequence[float]) -> bool:
    """Tell whether these are two finite numbers, the lower one first."""
    return len(ends) == 2 and -inf < ends[0] < ends[1] < inf


def plain(value: Any) -> Any:
    """Return a number, flag or text of NumPy, or a fraction, as Python's own; all else as it is.

    Lists and columns become tuples. A float32 is the number that it prints as: 0.1 stays 0.1.
    """
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, tuple | list) or _is_column(value):
        return tuple(map(_plain, value))
    return _plain(value)


def _plain(value: Any) -> Any:
    """Return one value as Python's own."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if isinstance(value, np.floating):
        return float(str(value))
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):
        return value.item()
    if isinstance(value, Fraction) and abs(value) <= float_info.max:
        return float(value)
    return value


def _is_column(value: object) -> bool:
    """Tell whether a value is a column of NumPy, pandas or torch."""
    return getattr(value, "ndim", 0) == 1 and hasattr(value, "tolist")


@lru_cache(maxsize=256)
def _hints(declared: Any) -> dict[str, tuple[Any, tuple[Any, ...]]]:
    """Return the type of each argument or field, and the classes whose objects fit.

    But for integers of many digits and text beyond ASCII, of which the value matters too.
    """
    checked_hints = {}
    for name, hint in get_type_hints(declared).items():
        if name not in _CHECKED_APART and not _is_array(hint):
            several = _origin(hint) in (Union, UnionType)
            checked_hints[name] = hint, get_args(hint) if several else (hint,)
    return checked_hints


_CHECKED_APART = ("return", "alpha", "classes", "rng")


_ARRAY_LIKE = get_args(npt.ArrayLike)


def _origin(hint: Any) -> Any:
    """Return what a type is made of; arrays may be an alias, as `npt.ArrayLike` is there."""
    origin = get_origin(hint)
    return get_origin(origin.__value__) if hasattr(origin, "__value__") else origin


@lru_cache(maxsize=256)
def _is_array(hint: Any) -> bool:
    """Tell whether a type takes arrays."""
    parts = () if _origin(hint) is Mapping else get_args(hint)
    if npt.ArrayLike in (hint, *parts):  # with Python 3.12 and numpy 2.5, an alias and no union
        return True
    return bool(_ARRAY_LIKE) and all(part in parts for part in _ARRAY_LIKE)


def fits(value: object, hint: Any) -> bool:
    """Tell whether a value is of a type; msgspec knows the plain ones.

    An integer is a number as well, a flag is neither; arrays, and what a mapping holds, are left
    to others.
    """
    origin, parts = _origin(hint), get_args(hint)
    if hint is Any or _is_array(hint):
        return True
    if origin in (Union, UnionType):
        return any(fits(value, part) for part in parts)
    if origin is Mapping:
        return isinstance(value, Mapping)
    if origin in (Sequence, tuple):
        is_list = isinstance(value, tuple | list) or _is_column(value)
        return is_list and all(fits(entry, parts[0]) for entry in value)  # type: ignore[attr-defined]  # it is one
    if origin is Callable:
        return callable(value)
    if origin is None and hint not in _PLAIN:
        return isinstance(value, hint)
    try:
        msgspec.convert(_plain(value), hint)
        if isinstance(value, str):
            value.encode()  # or it holds a lone surrogate
        if isinstance(value, int):
            float(value)  # or it has hundreds of digits
    except (msgspec.ValidationError, OverflowError, UnicodeEncodeError):
        return False
    return True


_PLAIN: dict[Any, str] = {
    bool: "true or false",
    int: "an integer",
    float: "a number",
    str: "text",
    NoneType: "none",
}


def in_words(hint: Any) -> str:
    """Say what a value of a type is; a description of it does."""
    for meta in getattr(hint, "__metadata__", ()):
        if getattr(meta, "description", None):
            return str(meta.description)
    origin, parts = _origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(map(in_words, parts)))
    if origin is Literal:
        return f"one of {', '.join(map(str, parts))}"
    if origin in (Sequence, tuple):
        kind = {int: "integers", float: "numbers"}.get(parts[0]) or in_words(parts[0])
        return f"a list of {kind}"
    if origin in (Mapping, Callable):
        return "a dict by name, such as {'a': ...}" if origin is Mapping else "a function"
    return _PLAIN.get(hint) or str(getattr(hint, "__name__", hint))


def shown(value: object) -> str:
    """Return a value as an error repeats it: a number or short text whole, all else by its type."""
    if isinstance(value, np.generic):
        value = _plain(value)
    if value is None or isinstance(value, bool | float | complex):
        return repr(value)
    if isinstance(value, int):
        return repr(value) if value.bit_length() < 100 else "an integer of many digits"
    if isinstance(value, str):
        return repr(value if len(value) <= 60 else value[:60] + "...")
    if isinstance(value, tuple) and len(value) <= 5:
        return f"({', '.join(map(shown, value))}{',' if len(value) == 1 else ''})"
    return type(value).__name__


def as_array(values: npt.ArrayLike, what: str) -> npt.NDArray[Any]:
    """Return an array of whatever NumPy can read; what it holds is checked where it is used."""
    if type(values) is np.ndarray:
        return values
    if np.ma.isMaskedArray(values):
        raise InputError(f"{what} must not be masked: take the masked rows out first")
    try:
        return np.asarray(values)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        _refuse_tensor(values, what)
        raise InputError(f"{what} must be a rectangular array: one entry for each row") from None


def as_ids(ids: npt.ArrayLike) -> npt.NDArray[Any]:
    """Return an array of ids, none of which is missing: such rows would share a uniform."""
    array = as_array(ids, "ids")
    kept = array
    if isinstance(ids, list | tuple) and array.ndim == 1 and array.dtype.kind == "U":
        kept = np.array(ids, dtype=object)  # NumPy wrote NaN as the text "nan"
    if kept.dtype == object:
        bad = [id == "" if isinstance(id, str) else is_missing(id) for id in kept.flat]
        missing = np.array(bad, dtype=bool)
    elif kept.dtype.kind == "f":
        missing = np.isnan(kept)
    elif kept.dtype.kind in "UTS":
        missing = kept == (b"" if kept.dtype.kind == "S" else "")
    else:
        return array
    if missing.any():
        raise InputError(
            "ids must be integers or text in every row, this one is missing: fill it, or take the "
            "row out",
            row=int(missing.argmax()),
        )
    return array


def nearest(name: object, known: Sequence[str], cutoff: float = 0.6) -> str | None:
    """Return the known name that was meant: papers write "FedWQ-CP", classes `FedWQCP`."""
    import difflib

    bare = {bare_name(candidate): candidate for candidate in known}
    near = difflib.get_close_matches(bare_name(shown(name)), bare, n=1, cutoff=cutoff)
    return bare[near[0]] if near else None


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Return the end of an error about an unknown name; empty where no known one is near."""
    near = nearest(name, tuple(known))
    return f"; did you mean {near!r}?" if near else ""


def known_hint(name: object, known: Iterable[str]) -> str:
    """Return the end of an error about an unknown name: the nearest known one, and all of them."""
    names = tuple(known)
    return f"{did_you_mean(name, names)}; known: {', '.join(names) or 'none'}"


def bare_name(name: str) -> str:
    """Return the letters and digits of a name, in lower case."""
    return "".join(c for c in name.lower() if c.isalnum())


SUM_TOLERANCE = 5e-3
"""How far the sum of a row may be from 1: ten probabilities written with three decimals fit."""


def as_floats(
    values: npt.ArrayLike, what: str, shape: tuple[int | None, ...], *, checked: bool = True
) -> Floats:
    """Return finite numbers as float64 of the given shape.

    In `shape`, None stands for any length. ``checked=False`` leaves the values to whoever reads
    them anyway.
    """
    array = real_array(values, what).astype(np.float64, copy=False)
    fitting = array.ndim == len(shape)
    for needed, length in zip(shape, array.shape, strict=False):
        fitting &= needed in (None, length)
    if not fitting:
        wanted = "(" + ", ".join("n" if s is None else str(s) for s in shape)
        wanted += ",)" if len(shape) == 1 else ")"
        one = len(shape) == 1 and array.ndim == 2 and array.shape[1] == 1
        cure = "; call .squeeze() on it" if one else ""
        raise InputError(f"{what} must have shape {wanted}, got shape {array.shape}{cure}")
    if checked and array.size and not (np.isfinite(array.min()) and np.isfinite(array.max())):
        finite: Bools = np.asarray(np.isfinite(array).reshape(len(array), -1).all(axis=1))
        raise InputError(f"{what} must be finite numbers", row=first_of(~finite))
    return array


def as_scores(scores: npt.ArrayLike, *, columns: bool = False) -> Floats:
    """Return nonconformity scores as float64; +inf may occur, NaN and -inf may not.

    Their shape is (n,), or with ``columns`` also (n, columns).
    """
    array = real_array(scores, "scores").astype(np.float64, copy=False)
    if array.ndim != 1 and not (columns and array.ndim == 2 and array.shape[1]):
        raise InputError(several_columns(array))
    if array.size and not array.min() > -np.inf:  # the minimum of a NaN is NaN
        numbers: Bools = np.asarray((array.reshape(len(array), -1) > -np.inf).all(axis=1))
        raise InputError("scores must be numbers or +inf, got NaN or -inf", row=first_of(~numbers))
    return array


_BITS_OF_ONE = np.float64(1).view(np.uint64)


def as_uniforms(u: npt.ArrayLike, n: int) -> Floats:
    """Return the random part of a score as float64 of shape (n,) with values in [0, 1]."""
    array = as_floats(u, "u", (n,), checked=False)
    if array.size and array.view(np.uint64).max() <= _BITS_OF_ONE:
        return array  # in one pass: as bits, negative numbers and NaN are larger
    if array.size and not (array.min() >= 0 and array.max() <= 1):
        as_floats(array, "u", (n,))
        raise InputError("u must lie between 0 and 1; draw it with uniforms(key, ids)")
    return array


def as_alpha(alpha: object) -> float:
    """Return the miscoverage level as a float strictly between 0 and 1.

    The error recognises a percentage or a coverage.
    """
    number = plain(alpha)
    if type(number) not in (int, float):
        raise InputError(f"alpha must be a number, such as 0.1, got {shown(alpha)}")
    if 0 < number < 1:
        return float(number)
    hint = f" ({_miscoverage(max(number, 100 - number))})" if 1 < number < 100 else ""
    raise InputError(f"alpha must be strictly between 0 and 1, got {shown(alpha)}{hint}")


def as_usual_alpha(alpha: object, *, allow_large: bool = False) -> float:
    """Return a miscoverage level; one above 0.5 is most likely a coverage, and refused."""
    value = as_alpha(alpha)
    if value > 0.5 and not allow_large:
        raise InputError(
            f"alpha must be at most 0.5, got {value:g} ({_miscoverage(100 * value)})",
            cure=(f"for {100 - 100 * value:g} % coverage pass allow_large_alpha=True", ""),
        )
    return value


def _miscoverage(covers: float) -> str:
    """Say how a coverage in percent is written as alpha."""
    return f"alpha is the miscoverage: for {covers:g} % coverage write {1 - covers / 100:g}"


def real_array(values: npt.ArrayLike, what: str) -> npt.NDArray[Any]:
    """Return an array of real numbers of any shape."""
    array = as_array(values, what)
    if array.size == 0 and array.dtype == object:
        array = array.astype(np.float64)
    if array.dtype.kind not in "fiu":
        cure = "pass values.astype(float)" if array.dtype.kind in "OUS" else ""
        if isinstance(values, str | PathLike):
            cure = "a file is not read here: pass what it holds"
        raise InputError(
            f"{what} must be an array of numbers, got an array of {array.dtype}", cure=(cure, "")
        )
    return array


def _refuse_tensor(values: object, what: str) -> None:
    """Name the cure for a tensor that NumPy cannot read: one with grad, or of another device."""
    if hasattr(values, "detach") and hasattr(values, "cpu"):
        raise InputError(
            f"{what} must be readable by NumPy, got a tensor that requires grad, lies on another "
            f"device or has a type of its own: pass {what}.detach().cpu(), and .float() after it "
            "for bfloat16"
        )


def several_columns(scores: Floats) -> str:
    """Say what came where one score per row belongs, and what to pass instead."""
    came = f"scores must be one number per row, got shape {scores.shape}"
    if scores.ndim != 2 or not scores.shape[1]:
        return came
    if scores.shape[1] == 1:
        return f"{came}: pass scores.ravel()"
    # Probabilities are known by their sums; a matrix of logits or of every label's score is not.
    sums_to_one = np.abs(scores.sum(axis=1) - 1.0) <= SUM_TOLERANCE
    if scores.min(initial=0.0) >= 0 and sums_to_one.all():
        return f"{came}: these look like probabilities; pass score.of(probs, labels)"
    return (
        f"{came}: pass score.of(probs, labels), or name the score that gives several columns, such "
        "as score=CQR(symmetric=False)"
    )


def first_of(bad: Bools) -> int | None:
    """Index of the first true entry, or None."""
    return int(np.argmax(bad)) if bad.any() else None


_LOGITS = (
    "pass softmax outputs, not logits",
    "if these are logits, name the columns z0, z1, ... (in an .npz file the array logits)",
)
_TWO_COLUMNS = (
    "for two classes pass predict_proba(X), or np.column_stack([1 - p, p])",
    "for two classes both columns are needed, 1 - p and p",
)


def as_probabilities(probs: npt.ArrayLike, *, checked: bool = True) -> Probabilities:
    """Return class probabilities as a float array of shape (n, C), or say what is wrong.

    Rows are non-negative and sum to 1 within `SUM_TOLERANCE`. float32 and float64 stay as they are,
    other types become float64. ``checked=False`` leaves the values to whoever reads them anyway.
    """
    array = real_array(probs, "probabilities")
    if array.dtype not in (np.float32, np.float64):
        array = array.astype(np.float64)
    if array.ndim != 2 or array.shape[1] < 2:
        one = array.ndim == 1 or array.shape[1:] == (1,)
        raise InputError(
            "probabilities must have shape (n, C) with at least two classes, "
            f"got shape {array.shape}",
            cure=_TWO_COLUMNS if one else ("", ""),
        )
    if array.shape[0] == 0 or not checked:
        return array
    lowest = array.min(axis=1)
    if (bad := first_of(~(lowest >= 0))) is not None:
        if np.isnan(array[bad]).any():
            raise InputError("probabilities must be numbers, got NaN", row=bad)
        raise InputError("probabilities must not be negative", row=bad, cure=_LOGITS)
    sums = array.sum(axis=1, dtype=np.float64)
    if (bad := first_of(~(np.abs(sums - 1.0) <= SUM_TOLERANCE))) is not None:
        cure = _LOGITS
        if abs(sums[bad] - 1.0) < 0.1:
            cure = (f"a sum may be {SUM_TOLERANCE} from 1: divide each row by its sum",) * 2
        elif abs(sums[bad] - 100.0) < 10 and lowest.min() >= 0 and array.max() <= 100:
            cure = ("these look like percentages: divide each row by its sum",) * 2
        raise InputError(f"probabilities must sum to 1, got {sums[bad]:.6g}", row=bad, cure=cure)
    return array


def as_labels(labels: npt.ArrayLike, n: int, n_classes: int | None) -> Labels:
    """Return labels as int64 of shape (n,) with values from 0 to n_classes - 1, where known."""
    array = as_array(labels, "labels")
    if array.shape != (n,):
        use = {(n, 1): "use labels.ravel()", (n, n_classes): "use labels.argmax(axis=1)"}
        raise InputError(
            f"labels must have shape ({n},), one for each row of the outputs, "
            f"got shape {array.shape}",
            cure=(use.get(array.shape, ""), "give one label for each row"),
        )
    if n == 0:
        return array.astype(np.int64)
    most = 2**63 if n_classes is None else n_classes
    wanted = "integers of at least 0" if n_classes is None else f"integers from 0 to {most - 1}"
    if array.dtype.kind == "f":
        not_whole = first_of(~(np.isfinite(array) & (array == np.rint(array))))
        if not_whole is not None:
            if np.isnan(array[not_whole]):
                raise InputError(f"labels must be {wanted}, {_MISSING}", row=not_whole)
            raise InputError(
                f"labels must be {wanted}, got one that is not whole",
                row=not_whole,
                cure=("", "see that labels and outputs are not in each other's columns"),
            )
    if array.dtype.kind not in "iu":
        text = array.dtype.kind in "OUST" and any(isinstance(y, str | bytes) for y in array.flat)
        missing = first_of(np.array([is_missing(y) for y in array.flat]))
        if missing is not None and not text:
            raise InputError(f"labels must be {wanted}, {_MISSING}", row=missing)
        raise InputError(
            f"labels must be {wanted}, got an array of {array.dtype}",
            cure=_BY_NAME if text else ("pass labels.astype(int)", "store them as integers"),
        )
    whole = np.ascontiguousarray(array, np.int64)
    if whole.view(np.uint64).max() >= most:  # without a sign, negative ones are the largest
        outside = (array < 0) | (array >= most)
        if array.min() == 1 and array.max() == n_classes:  # said of all rows, and of none
            raise InputError(
                f"labels must be {wanted}, one for each column; none is 0 and the largest is "
                f"{n_classes}",
                cure=(
                    "where classes are counted from 1, pass labels - 1",
                    "where classes are counted from 1, subtract 1 from every label in the file",
                ),
            )
        raise InputError(
            f"labels must be {wanted} ({np.count_nonzero(outside)} of {n} rows are outside)",
            row=first_of(outside),
        )
    return whole


_MISSING = "this one is missing: take such rows out first"

_BY_NAME = (
    "name the classes in the order of the columns (classes=[...]; of scikit-learn, "
    "classes=model.classes_), or number them from 0 in this order",
    "name the classes in the order of the columns (classes = [...] in the roster), or number them "
    "from 0 in this order",
)


def is_missing(label: object) -> bool:
    """Tell whether an entry of a column stands for no value: None, NaN, pandas.NA or no text."""
    if isinstance(label, str):
        return not label.strip()
    nan = isinstance(label, float | np.floating) and isnan(label)
    return label is None or nan or type(label).__name__ in ("NAType", "NaTType")


def as_classes(classes: Sequence[str]) -> tuple[str, ...]:
    """Return the names of classes, in NFC and in the order of a model's columns.

    There are at least two, all different, and no number stands for another class.
    """
    given: Any = classes
    is_list = isinstance(given, Sequence) or getattr(given, "ndim", 0) == 1
    if isinstance(given, str | bytes) or not is_list:
        raise InputError(f"must be a list of names, got {shown(given)}", field="classes")
    if not all(isinstance(name, str) for name in given):
        raise InputError("must be names: pass list(map(str, classes))", field="classes")
    return _checked_classes(tuple(map(str, classes)))


def as_optional_classes(classes: Sequence[str] | None) -> tuple[str, ...]:
    """Return the names of classes; none where they are left out, as None or an empty list."""
    empty = classes is None or (isinstance(classes, Sequence) and not len(classes))
    empty |= getattr(classes, "shape", None) == (0,)
    return () if classes is None or empty else as_classes(classes)


@lru_cache(maxsize=16)
def _checked_classes(classes: tuple[str, ...]) -> tuple[str, ...]:
    """Check each list of names once: there may be many thousands in it."""
    if len(classes) < 2:
        raise InputError(f"must name at least two, got {len(classes)}", field="classes")
    names = []
    for position, given in enumerate(classes):
        name = unicodedata.normalize("NFC", given)
        check_printable(name, "classes")
        if name.isdecimal() and name != str(position):  # a label 3 would be read in two ways
            raise InputError(
                f"a name that is a number must be its place: {name!r} is class {position}, counted "
                f"from 0; write 'class {name}' or so",
                field="classes",
            )
        names.append(name)
    if len(set(names)) != len(names):
        raise InputError("each name may occur once", field="classes")
    return tuple(names)


def check_printable(name: str, field: str) -> None:
    """Refuse a name of a class or group that people could not read."""
    if not name.isprintable() or name != name.strip() or not 1 <= len(name) <= 64:
        raise InputError(
            "a name has 1 to 64 printable characters, none of them a space at an end, "
            f"got {name!r}",
            field=field,
        )


def check_same_classes(labels: Sequence[str], agreed: Sequence[str]) -> None:
    """Refuse classes that are not those of a round, in its order."""
    labels, agreed = tuple(labels), tuple(agreed)
    if labels == agreed:
        return
    missing = [name for name in agreed if name not in labels]
    unknown = [name for name in labels if name not in agreed]
    if not missing and not unknown:
        raise ClassesError(
            f"must be in the round's order, {listed(agreed)}; this agent has {listed(labels)}: "
            "reorder the columns, and the numbers of the labels",
            field="classes",
        )
    parts = [("this agent lacks", missing), ("the round does not know", unknown)]
    differs = "; ".join(f"{what} {listed(names)}" for what, names in parts if names)
    raise ClassesError(
        f"must be the round's, {listed(agreed)}; {differs}: every agent's model must have the same "
        "classes under the same names",
        field="classes",
    )


def listed(names: Iterable[str], most: int = 12) -> str:
    """List names in quotes, the first few of many."""
    return named(map(repr, names), most)


def named(names: Iterable[str], most: int = 5) -> str:
    """Name the first few of many, and count the others: ``"a, b and 3 more"``."""
    listed_names = list(names)
    more = f" and {len(listed_names) - most} more" if len(listed_names) > most else ""
    return ", ".join(listed_names[:most]) + more


def as_class_labels(labels: npt.ArrayLike, classes: Sequence[str]) -> npt.ArrayLike:
    """Return labels that are names of classes as their numbers; others as they are."""
    if not classes or np.ma.isMaskedArray(labels) or hasattr(labels, "detach"):
        return labels
    array = as_array(labels, "labels")
    named = np.ones(array.shape, np.bool_)
    if array.dtype.kind in "OT":
        named = np.array([isinstance(label, str) for label in array.flat], np.bool_)
    if array.ndim != 1 or array.dtype.kind not in "UOT" or not named.any():
        return labels
    if (bad := first_of(~named)) is not None:
        what = _MISSING
        if not is_missing(array[bad]):
            what = "this one is no text: pass all labels by name, or all as integers"
        raise InputError(f"labels must be one of the classes {listed(classes)}, {what}", row=bad)
    positions = {name: position for position, name in enumerate(classes)}
    names, inverse = np.unique(array.astype(np.str_), return_inverse=True)
    known = [positions.get(unicodedata.normalize("NFC", str(name)).strip(), -1) for name in names]
    places = np.array(known, dtype=np.int64)[inverse]
    if (bad := first_of(places < 0)) is not None:
        what = _no_class(str(array[bad]), classes)
        raise InputError(
            f"labels must be one of the classes {listed(classes)}, this one {what}", row=bad
        )
    return places


OTHER_SPELLING = "is spelled in another way: capital letters, spaces and signs must be the same"


def _no_class(label: str, classes: Sequence[str]) -> str:
    """Say how a label differs from every class, without the label."""
    if not label.strip():
        return "is empty: fill it in, or take the row out"
    if bare_name(label) in map(bare_name, classes):
        return OTHER_SPELLING
    if label.strip().lstrip("+-").isdecimal():
        return "is a number: give all labels by name, or all as numbers"
    return "is none of these"


def as_indicators(labels: npt.ArrayLike, shape: tuple[int | None, ...]) -> Bools:
    """Return which of several labels are there, as truth values of shape (n, L)."""
    given = as_array(labels, "labels")
    array = as_floats(given.astype(np.int8) if given.dtype == np.bool_ else given, "labels", shape)
    if not np.isin(array, (0.0, 1.0)).all():
        raise InputError("labels must be 1 where a label is there and 0 where it is not")
    return np.asarray(array == 1)
