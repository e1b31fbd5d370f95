"""A page as one HTML file that needs nothing beside it."""

from __future__ import annotations

from importlib.resources import files
from urllib.parse import quote

import fedwqcp
from fedwqcp._io import to_csv
from fedwqcp.errors import MissingExtraError
from fedwqcp.report.html.page import Page, Table

_AS_IS = ", ;:()'/=*!~@$[]"
"""Characters that an address may hold as they are."""


def require_report() -> None:
    """Refuse early where no report can be written."""
    try:
        import jinja2  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("writing the report", "report") from error


def to_html(page: Page) -> str:
    """Return a page as HTML.

    Every text is escaped, whoever wrote it. The file's own policy forbids it to load anything.
    """
    require_report()
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["download"] = _download
    template = environment.from_string(_asset("page.html"))
    html: str = template.render(
        page=page,
        style=_asset("style.css"),
        script=_asset("report.js"),
        version=fedwqcp.__version__,
    )
    return html.lstrip()


def _asset(name: str) -> str:
    """Return a file of this package."""
    return (files("fedwqcp.report.html") / "templates" / name).read_text(encoding="utf-8")


def _download(table: Table) -> str:
    """Return the rows of a table as an address that holds all of them."""
    text = to_csv([table.columns, *table.rows])
    return f"data:text/csv;charset=utf-8,{quote(text, safe=_AS_IS)}"
