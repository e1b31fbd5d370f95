"""A plain model of the server, written from the wire format's page and the papers.

It shares no code with the package: Python's own JSON, exact fractions, sorted lists. It knows the
methods that send one threshold and one sample size, and how far counts can move a pooled quantile.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import ceil, inf, isfinite, nextafter
from typing import Any

ENVELOPE = {"round", "terms", "step", "agent", "method", "score", "alphas", "answers", "version"}


LONGEST = 32 * 2**20
"""Most bytes of a message."""


class NotJsonError(Exception):
    """The bytes are no strict JSON."""


def quantiles_of(
    data: bytes, honest: bytes, sender: str, bounds: tuple[float, float], max_n: int
) -> list[tuple[float, int]] | None:
    """Return (q, n) of each task that a server may use, or None where it must refuse the answer.

    ``honest`` is what the sender's own program would have sent: an answer must have its envelope.
    """
    if len(data) > LONGEST:
        return None
    try:
        found, right = _strict(data), _strict(honest)
    except (NotJsonError, ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or set(found) != ENVELOPE or found["agent"] != sender:
        return None
    for key in ENVELOPE - {"answers"}:
        if not _same(found[key], right[key]):
            return None
    answers = found["answers"]
    if not isinstance(answers, list) or len(answers) != len(right["answers"]):
        return None
    pairs = [_quantile(answer, bounds, max_n) for answer in answers]
    return None if None in pairs else [pair for pair in pairs if pair is not None]


def _quantile(answer: Any, bounds: tuple[float, float], max_n: int) -> tuple[float, int] | None:
    """Return the numbers of one summary, or None."""
    if not isinstance(answer, dict) or set(answer) != {"kind", "threshold", "n"}:
        return None
    q, n = answer["threshold"], answer["n"]
    if answer["kind"] != "local-quantile" or type(n) is not int or not 0 <= n <= max_n:
        return None
    if q == "inf":
        return inf, n
    if type(q) not in (int, float) or n == 0 or not bounds[0] <= q <= bounds[1]:
        return None
    return float(q), n


def _same(one: Any, other: Any) -> bool:
    """Tell whether two values of an envelope are equal and of one type; 1.0 is no integer."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    numbers = type(other) is float and type(one) in (int, float)
    return (type(one) is type(other) or numbers) and one == other


def _strict(data: bytes) -> Any:
    """Read strict JSON: UTF-8, no key twice, no number beyond float64, whole or not, no NaN."""

    def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) != len(pairs):
            raise NotJsonError
        return dict(pairs)

    def _number(text: str) -> float:
        if not isfinite(float(text)):
            raise NotJsonError
        return float(text)

    def _whole(text: str) -> int:
        _number(text)
        return int(text)

    def _constant(text: str) -> Any:
        raise NotJsonError(text)

    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise NotJsonError from None
    return json.loads(
        text,
        object_pairs_hook=_object,
        parse_float=_number,
        parse_int=_whole,
        parse_constant=_constant,
    )


def released(
    method: str, settings: Mapping[str, Any], sent: Sequence[tuple[float, int]]
) -> Fraction | float:
    """Return the threshold that a method makes of (q, n) of its agents, exactly."""
    some = [(q, n) for q, n in sent if n > 0]
    if settings.get("overflow") == "exclude":
        some = [(q, n) for q, n in some if q < inf]
    if method == "fedavgq-cp":
        some = [(q, 1) for q, n in some]
    if method in ("fedwq-cp", "fedavgq-cp"):
        if not some or any(q == inf for q, n in some):
            return inf
        return sum(n * Fraction(q) for q, n in some) / sum(n for q, n in some)
    raise KeyError(method)


def floor_range(own: Sequence[float], alpha: float) -> tuple[float, float]:
    """Return between which two numbers `auto` keeps an agent with these scores, whatever it reads.

    With r = ceil((n + 1)(1 - alpha)) at most n: its r-th smallest score and its largest; else at
    least its largest.
    """
    scores, n = sorted(own), len(own)
    r = ceil((n + 1) * (1 - Fraction(str(alpha))))
    if not n:
        return -inf, inf
    return (scores[r - 1], scores[-1]) if r <= n else (scores[-1], inf)


def agrees(found: float, exact: Fraction | float) -> bool:
    """Tell whether a float is an exact number but for a rounding of each of four terms."""
    if exact == inf or found == inf:
        return found == exact
    near = float(exact)
    low, high = near, near
    for _ in range(4):
        low, high = nextafter(low, -inf), nextafter(high, inf)
    return low <= found <= high


def pooled_range(
    honest: Sequence[float], byzantine: int, agents: int, alpha: float
) -> tuple[float, float]:
    """Return how far ``byzantine`` claimed points can move the pooled conformal quantile.

    All of them below every score, or all of them above: the R-th smallest of N points, with
    R = ceil((1 - alpha)(N + M)), then lies between these two.
    """
    scores, total = sorted(honest), len(honest) + byzantine
    rank = ceil((1 - Fraction(str(alpha))) * (total + agents))
    if rank > total:
        return inf, inf
    low = scores[rank - byzantine - 1] if rank > byzantine else -inf
    high = scores[rank - 1] if rank <= len(scores) else inf
    return low, high
