"""A page as one HTML file that needs nothing beside it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import quote

import fedwqcp
from fedwqcp._io import to_csv
from fedwqcp.errors import InputError
from fedwqcp.report.html.charts import COLOURS, SHAPES, shape
from fedwqcp.report.html.page import Chart, Page, Table

LARGEST = 3_000_000
"""Bytes that a report may have: it travels by mail."""


_AS_IS = ", ;:()'/=*!~@$[]"
"""Characters that an address may hold as they are."""


def to_html(page: Page) -> str:
    """Return a page as HTML.

    Every text is escaped, whoever wrote it. The file's own policy forbids it to load anything.
    """
    from jinja2 import Environment, StrictUndefined

    own = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    own.filters |= {"download": _download, "spec": _json}
    own.globals |= {"colours": COLOURS, "outline": lambda place: SHAPES[shape(place)]}
    html: str = (
        own.from_string(_asset("page.html"))
        .render(
            page=page,
            style=_asset("style.css"),
            script=_asset("report.js"),
            library=_library(),
            version=fedwqcp.__version__,
        )
        .lstrip()
    )
    size = len(html.encode())
    if size > LARGEST:
        raise InputError(
            f"the report would have {size:,} bytes, at most {LARGEST:,} may be: "
            "report on a part, such as one --dataset or --preset of a benchmark"
        )
    return html


def _asset(name: str) -> str:
    """Return a file of this package."""
    return (files("fedwqcp.report.html") / "templates" / name).read_text(encoding="utf-8")


@cache
def _library() -> str:
    """Return Vega, Vega-Lite and what draws them, as one script."""
    import vl_convert

    bundle: Any = vl_convert.javascript_bundle
    return str(bundle()).replace("</script", "<\\/script")


def _download(block: Chart | Table) -> str:
    """Return the data of a block as an address that holds all of them."""
    text = to_csv([block.columns, *block.rows])
    return f"data:text/csv;charset=utf-8,{quote(text, safe=_AS_IS)}"


def _json(value: Mapping[str, Any]) -> Any:
    """Return JSON that can stand inside a script element, whatever its texts say."""
    from markupsafe import Markup

    data = {name: _columns(rows) for name, rows in value["datasets"].items()}
    short = {**value, "datasets": data}
    text = json.dumps(short, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _columns(rows: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Return rows without repeated names: the names, then the values. The script undoes it."""
    names = list(rows[0]) if rows else []
    return [names, *([row[name] for name in names] for row in rows)]
