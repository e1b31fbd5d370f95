"""The tables of the four hospitals, which ``tools/fill_pages.py`` writes into pages."""

from fedwqcp.demo.demo import METHODS, SWISS, Spread, committed
from fedwqcp.demo.hospitals import SITES


def tables() -> dict[str, str]:
    """Return what 200 splits say: at every hospital, and with every model at one of them."""
    names = [name for name, _ in SITES.values()]
    kinds = list(dict.fromkeys(kind for _, kind in SITES.values()))
    splits = [(f"`{method}`", [("all", method, n) for n in names]) for method in METHODS]
    models = [(f"`{method}`", [(kind, method, SWISS) for kind in kinds]) for method in METHODS]
    return {"splits": _table(names, splits), "models": _table(kinds, models)}


def _table(columns: list[str], rows: list[tuple[str, list[tuple[str, str, str]]]]) -> str:
    own = {(s.act, s.method, s.hospital): s for s in committed()}
    lines = [f"| | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    lines += [f"| {name} | {' | '.join(_cell(own[key]) for key in keys)} |" for name, keys in rows]
    return "\n".join(lines)


def _cell(s: Spread) -> str:
    return f"{100 * s.coverage:.0f} ({100 * s.low:.0f} to {100 * s.high:.0f}); {100 * s.one:.0f}"
