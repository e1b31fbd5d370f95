"""All tables and the figure of what liars did."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fedwqcp.federation.files import write_atomic
from fedwqcp_lab.liars_figure import draw
from fedwqcp_lab.liars_record import Lied
from fedwqcp_lab.liars_tables import cost, effect, kept, sizes

LEGEND = """\
Six agents, of whom one, two or three lie. A change is the coverage of the worst honest agent less
what the worst of the same agents has when nobody lies; over every choice of the liars and all
seeds. CPhet: over three choices."""


def tables(records: Sequence[Lied]) -> dict[str, str]:
    """Return every table by its heading.

    Parameters
    ----------
    records : sequence of Lied
        All records.

    Returns
    -------
    dict of str to str
        Markdown.
    """
    found = {}
    for preset in sorted({record.preset for record in records}, reverse=True):
        found[f"Nobody lies, preset `{preset}`"] = cost(records, preset)
        for liars in sorted({record.liars for record in records if record.liars}):
            where = f"{liars} of six, preset `{preset}`"
            found[f"Coverage, {where}"] = effect(records, preset, liars)
            found[f"Size, {where}"] = sizes(records, preset, liars)
            found[f"Robust methods by dataset, {where}"] = kept(records, preset, liars)
    return found


def write(records: Sequence[Lied], out: Path) -> tuple[Path, ...]:
    """Write the tables and the figure.

    Parameters
    ----------
    records : sequence of Lied
        All records.
    out : Path
        Where to.

    Returns
    -------
    tuple of Path
        ``tables.md`` and ``two-liars.svg``.
    """
    parts = ["# What liars did", LEGEND]
    for heading, table in tables(records).items():
        parts += [f"## {heading}", table]
    page = out / "tables.md"
    write_atomic(page, ("\n\n".join(parts) + "\n").encode())
    return page, draw(records, "sound", 2, out / "two-liars.svg")
