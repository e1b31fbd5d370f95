"""The tables of what leaves an agent, which ``tools/fill_pages.py`` writes into SECURITY.md.

The words are said here, the numbers come from what each method declares (`Method.reveals`) and from
the limit that an agent holds it against.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fedwqcp import methods
from fedwqcp.errors import InputError
from fedwqcp.federation.agent import Agent
from fedwqcp.federation.plan import with_target
from fedwqcp.methods import Calibration
from fedwqcp.wire.messages import Choice, Round

THRESHOLD = "the local threshold q_k, one of its scores, and n_k"
COUNTS = "n_k, and how many scores lie below values that the server names"
ROWS: tuple[tuple[str, dict[str, object], str], ...] = (
    ("split-cp", {}, "nothing"),
    ("auto", {}, "class counts; one score in seven of 10 or more of a class, or of small classes"),
    ("fedwq-cp", {}, THRESHOLD),
    ("fedwq-cp", {"tail": 16}, "also up to 16 order statistics, at most one for ten scores"),
    ("fedavgq-cp", {}, THRESHOLD),
    ("guarded-median-cp", {}, THRESHOLD),
    ("max-cp", {}, THRESHOLD),
    ("new-agent-cp", {}, "at most 64 order statistics, one in 5 scores"),
    ("new-agent-cp", {"form": "confident"}, THRESHOLD),
    ("fedcp-qq", {}, "one order statistic and n_k"),
    ("private-fedwq-cp", {}, "a drawn edge of a public grid, and n_k (with noise where set)"),
    ("fcp", {}, COUNTS),
    ("fcp", {"count_gap": 5}, "n_k, and such counts in steps of 5 scores"),
    ("fcp", {"sketch": "order"}, "at most 64 order statistics, one in 5 scores"),
    (
        "fedls-cp",
        {},
        "class counts, and of classes of at least 10 one in 5 scores, at most 48",
    ),
    ("fed-crc", {}, "the sum of its losses at each of 1001 thresholds, and n_k"),
    ("fed-crc", {"min_gap": 5}, "the same in steps of 5 losses"),
    ("cphet", {}, "class shares, means and covariances of features; weighted counts"),
    ("dp-fedcp", {}, "class counts; 200 increments of every agent's and class's threshold"),
)
SIZES = (75, 1000)


def table() -> str:
    """Return the table; settings that send the same have one row."""
    head = " | ".join(f"n = {n}" for n in SIZES)
    lines = [f"| method | leaves the agent | {head} | answers from |", "|---|---|---|---|---|"]
    rows: dict[str, list[str]] = {}
    for name, settings, words in ROWS:
        given = ", ".join(f"`{key}={value}`" for key, value in settings.items())
        disclosed = " | ".join(str(_disclosed(name, settings, n)) for n in SIZES)
        method = f"`{name}`" + (f" {given}" if given else "")
        rows.setdefault(f"{words} | {disclosed} | {_first(name, settings)}", []).append(method)
    return "\n".join([*lines, *(f"| {', '.join(each)} | {row} |" for row, each in rows.items())])


def _data(n: int) -> Calibration:
    """Data of an agent with two classes of equal size, which its feature tells apart."""
    return Calibration(np.linspace(0, 1, n), np.arange(n) % 2, np.arange(n)[:, None] % 2, 2)


def _disclosed(name: str, settings: dict[str, object], n: int) -> int:
    """How many scores of an agent a round with two agents can learn at most."""
    terms = dict(settings)
    target = terms.pop("target", "own")
    method = with_target(methods.get(name, **terms), target)
    found = method.reveals(_data(n), 0.1, steps=1)
    return min(n, sum(part.scores for part in found))


def _first(name: str, settings: dict[str, object]) -> str:
    """The size from which on an agent answers without permission of its site."""
    if name == "split-cp":
        return "any n"
    terms = dict(settings)
    more = {"target": terms.pop("target", "own"), "max_n": 10**6, "n_classes": 2}
    choice = Choice(name, terms)
    round = Round("r", choice, Choice("custom"), (0.1,), ("a", "b"), 2, **more)

    def answers(n: int) -> bool:
        try:
            Agent("a", round, _data(n)).answer()
        except InputError:
            return False
        return True

    if all(answers(n) for n in (*range(1, 60), 10**5)):
        return "any n"
    if not answers(10**5):
        return "never"
    low, high = 1, 10**5
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if answers(middle) else (middle, high)
    return f"n = {high}"


def tables() -> dict[str, str]:
    """Return the table, and what the search for reconstructions found."""
    results = Path(__file__).parents[1] / "benchmarks" / "results" / "reconstruction.md"
    return {"disclosure": table(), "reconstruction": results.read_text().strip()}
