"""What liars did, as tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import product
from math import inf
from statistics import median

from fedwqcp_lab.comparison import shown
from fedwqcp_lab.liars_record import NOBODY, Lied
from fedwqcp_lab.tables import markdown_table

KEPT = 0.02
"""How far the worst honest agent's coverage may move for a method to have kept it."""

BOUNDED = ", max_n set"
"""What is added to a lie's name where sizes were bounded."""


def lies_of(records: Iterable[Lied]) -> list[str]:
    """Return the lies in the order of the tables; those under a bound follow the same without.

    Parameters
    ----------
    records : iterable of Lied
        Records.

    Returns
    -------
    list of str
        Their names, as columns bear them.
    """
    order = ("too high", "too low", "huge n", f"huge n{BOUNDED}", "colluding", "copying")
    there = {_lie(record) for record in records}
    return [name for name in order if name in there]


def cost(records: Sequence[Lied], preset: str) -> str:
    """Return what every method gives when nobody lies.

    Parameters
    ----------
    records : sequence of Lied
        All records.
    preset : str
        Under which preset.

    Returns
    -------
    str
        A table: coverage of the worst agent and mean size, medians over seeds.
    """
    own = [r for r in records if r.lie == NOBODY and r.preset == preset]
    datasets = _titles(own)
    rows = [["method", *(f"{title}: {what}" for title in datasets for what in ("worst", "size"))]]
    for method in _methods(own):
        row = [method]
        for title in datasets:
            here = [r for r in own if (r.method, shown(r.title, r.status)) == (method, title)]
            row.append(_number([r.coverage[0] for r in here], "{:.3f}"))
            row.append(_number([r.size[0] for r in here], "{:.2f}"))
        rows.append(row)
    return markdown_table(rows)


def effect(records: Sequence[Lied], preset: str, liars: int) -> str:
    """Return how far lies moved the worst honest agent's coverage.

    Parameters
    ----------
    records : sequence of Lied
        All records.
    preset : str
        Under which preset.
    liars : int
        How many lied.

    Returns
    -------
    str
        A table: the median over datasets, seeds and choices of the liars, and in brackets the
        largest loss.
    """

    def _cell(here: Sequence[Lied]) -> str:
        """Show the median change and the largest loss."""
        changes = _pooled(here)
        return f"{_signed(median(changes))} ({_signed(min(0.0, *changes))})"

    return _by_lie([r for r in records if (r.preset, r.liars) == (preset, liars)], _cell)


def sizes(records: Sequence[Lied], preset: str, liars: int) -> str:
    """Return how much larger or smaller lies made the honest agents' sets.

    Parameters
    ----------
    records : sequence of Lied
        All records.
    preset : str
        Under which preset.
    liars : int
        How many lied.

    Returns
    -------
    str
        A table: the median of size over size without lies, and in brackets the largest.
    """

    def _cell(here: Sequence[Lied]) -> str:
        """Show the median ratio and the largest."""
        pairs = [pair for r in here for pair in zip(r.size, r.truthful_size, strict=True)]
        ratios = [_ratio(*pair) for pair in pairs]
        return f"{median(ratios):.2f} ({max(ratios):.2f})"

    return _by_lie([r for r in records if (r.preset, r.liars) == (preset, liars)], _cell)


def _by_lie(own: Sequence[Lied], cell: Callable[[Sequence[Lied]], str]) -> str:
    """Return a table with a row for each method and a column for each lie."""
    lies = lies_of(own)
    rows = [["method", *lies]]
    for method in _methods(own):
        here = [r for r in own if r.method == method]
        rows.append([method, *(cell([r for r in here if _lie(r) == lie]) for lie in lies)])
    return markdown_table(rows)


def kept(records: Sequence[Lied], preset: str, liars: int) -> str:
    """Return how well each robust method keeps the worst honest agent's coverage on each dataset.

    Parameters
    ----------
    records : sequence of Lied
        All records.
    preset : str
        Under which preset.
    liars : int
        How many lied.

    Returns
    -------
    str
        A table: the median change over seeds and choices of the liars, from the lowest to the
        highest; in bold where a single one is more than `KEPT`.
    """
    own = [r for r in records if (r.preset, r.liars) == (preset, liars) and r.robust]
    lies = lies_of(own)
    rows = [["method", "dataset", *lies]]
    for method, title in product(_methods(own), _titles(own)):
        row = [method, title]
        for lie in lies:
            changes = _pooled(r for r in own if _place(r) == (method, title, lie))
            mark = "" if max(map(abs, changes)) <= KEPT else "**"
            ends = f"{_signed(min(changes))} to {_signed(max(changes))}"
            row.append(f"{mark}{_signed(median(changes))}{mark} ({ends})")
        rows.append(row)
    return markdown_table(rows)


def keepers(records: Sequence[Lied], preset: str, liars: int, lies: Sequence[str]) -> list[str]:
    """Return the robust methods that keep the worst honest agent's coverage on every dataset.

    Parameters
    ----------
    records : sequence of Lied
        All records.
    preset : str
        Under which preset.
    liars : int
        How many lied.
    lies : sequence of str
        Against which lies, as columns name them.

    Returns
    -------
    list of str
        Those under which no seed and no choice of the liars changes it by more than `KEPT`.
    """
    own = [r for r in records if (r.preset, r.liars) == (preset, liars) and r.robust]
    lost = {
        method
        for method, title, lie in product(_methods(own), _titles(own), lies)
        if max(map(abs, _pooled(r for r in own if _place(r) == (method, title, lie)))) > KEPT
    }
    return [method for method in _methods(own) if method not in lost]


def pooled_coverage(records: Iterable[Lied], method: str, lie: str) -> list[float]:
    """Return the worst honest agent's coverage for every seed and choice of the liars.

    Parameters
    ----------
    records : iterable of Lied
        Records of one dataset, preset and number of liars.
    method, lie : str
        Which method, and which lie as columns name it.

    Returns
    -------
    list of float
        One for each.
    """
    own = (r for r in records if r.method == method and _lie(r) == lie)
    return [value for record in own for value in record.coverage]


def _methods(records: Iterable[Lied]) -> list[str]:
    """Return the methods, those that are not meant to withstand liars first."""
    return [method for _, method in sorted({(r.robust, r.method) for r in records})]


def _titles(records: Iterable[Lied]) -> list[str]:
    """Return the datasets as tables show them."""
    return sorted({shown(r.title, r.status) for r in records})


def _place(record: Lied) -> tuple[str, str, str]:
    """Return a record's method, dataset and lie."""
    return record.method, shown(record.title, record.status), _lie(record)


def _lie(record: Lied) -> str:
    """Return the name of a lie, with its bound."""
    return record.lie + (BOUNDED if record.bounded else "")


def _pooled(records: Iterable[Lied]) -> list[float]:
    """Return the changes of all choices of the liars."""
    return [change for record in records for change in record.changes]


def _ratio(size: float, truthful: float) -> float:
    """Return how many times as large sets are."""
    if size == truthful:
        return 1.0
    return inf if truthful == 0 else size / truthful


def _number(values: Sequence[float], form: str) -> str:
    """Write the median of some values."""
    return form.format(median(values)) if values else ""


def _signed(value: float) -> str:
    """Write a change; what rounds to nothing has no sign."""
    text = f"{value:+.3f}"
    return "0.000" if float(text) == 0 else text
