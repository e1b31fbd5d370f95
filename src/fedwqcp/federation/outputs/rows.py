"""Rows of outputs: as people count them, and the random number that belongs to each."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import numpy as np

from fedwqcp.arrays import Floats
from fedwqcp.errors import InputError
from fedwqcp.federation.outputs.reading import Outputs
from fedwqcp.scores import row_ids, uniforms

P = ParamSpec("P")
T = TypeVar("T")


def named_by_line(work: Callable[P, T]) -> Callable[P, T]:
    """Let the errors of a function name lines of a text file, as an editor counts them.

    Parameters
    ----------
    work : callable
        Takes `Outputs`; its errors count their rows from 0.

    Returns
    -------
    callable
        The same; where outputs come from a text file, "row 0" becomes its first line of numbers.
    """

    @wraps(work)
    def _named(*args: P.args, **options: P.kwargs) -> T:
        """Do the work; change the words of what goes wrong."""
        try:
            return work(*args, **options)
        except InputError as error:
            parts = (*args, *options.values())
            first = next((part.first_line for part in parts if isinstance(part, Outputs)), None)
            if first is None:
                raise
            text = re.sub(r"\brow (\d+)\b", lambda row: f"line {int(row[1]) + first}", str(error))
            raise InputError(text) from None

    return _named


def row_uniforms(key: str, outputs: Outputs) -> Floats:
    """Return one number in [0, 1) for each row: a keyed hash of its id, or else of its content.

    Parameters
    ----------
    key : str
        Which family of numbers.
    outputs : Outputs
        The rows.

    Returns
    -------
    Floats, shape (n,)
        Always the same for the same key and row.

    Raises
    ------
    InputError
        If ids are neither integers nor text.
    """
    if outputs.ids is None:
        return uniforms(key, row_ids(outputs.values))
    try:
        texts = outputs.ids.astype(np.str_)  # 7 in one file, "7" in another
    except UnicodeDecodeError:
        raise InputError("ids must be integers or text, got bytes that are no text") from None
    return uniforms(key, texts)
