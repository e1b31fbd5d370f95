"""Short tables of the pages on own distributions and scale, from results/."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from fedwqcp_lab.comparison import markdown_table
from fedwqcp_lab.studies import own, scale, stress

RESULTS = Path(__file__).resolve().parents[1] / "results"
METHODS = ("split-cp", "fedls-cp (own)", "fcp", "fedcp-qq", "fedwq-cp", "fedavgq-cp", "max-cp")
VARIED = (
    *(f"agents = {n}" for n in (6, 100, 1000)),
    *(f"points = {n}" for n in (20, 1000)),
    "rotation = 45",
    "temperature = 1",
)


def tables() -> Iterator[tuple[str, str]]:
    """Yield each part of the pages with its name."""
    studied = dict(own.tables(own.journal_of(RESULTS / "own").read()))
    split = ("split-cp, exact distribution", *METHODS)
    columns = ("own: worst", "own: lowest", "own: size", "shared: worst", "balanced: worst")
    yield "own", chosen(studied["methods"], split, columns)
    yield "own, datasets", chosen(studied["datasets"], None, ("split-cp", "max-cp", "fedwq-cp"))
    scores = tuple(f"{m}: worst, size" for m in ("split-cp", "fedwq-cp"))
    yield "own, scores", chosen(studied["scores"], ("paper", "randomised APS", "LAC"), scores)

    scaled = dict(scale.tables(stress.journal_of(RESULTS / "scale").read()))
    heads = tuple(
        f"{m}: own, shared, size" for m in ("split-cp", "fedls-cp (own)", "fedwq-cp", "fcp")
    )
    yield "scale", chosen(scaled["coverage"], VARIED, ("datasets", "exact", *heads))

    yield "checksum", f"`{hashlib.sha256((RESULTS / 'SHA256SUMS').read_bytes()).hexdigest()}`"


def parsed(table: str) -> list[dict[str, str]]:
    """Return a Markdown table as one dict a row."""
    head, _, *rows = [[c.strip() for c in line.split("|")[1:-1]] for line in table.splitlines()]
    return [dict(zip(head, row, strict=True)) for row in rows]


def chosen(table: str, names: Sequence[str] | None, columns: Sequence[str]) -> str:
    """Return some columns of some rows, by the name in the first column."""
    rows = {next(iter(row.values())): row for row in parsed(table)}
    first = next(iter(parsed(table)[0]))
    return shown([rows[name] for name in names or rows], (first, *columns))


def shown(rows: Sequence[dict[str, str]], columns: Sequence[str]) -> str:
    """Return rows as a Markdown table with these columns."""
    heads = [re.sub(r" \(own\)", "", column) for column in columns]
    return markdown_table([heads, *([row[column] for column in columns] for row in rows)])
