"""Write the first table of docs/explanation/byzantine.md: ``python tools/byzantine_table.py``.

Byzantine agents that run none of this package: they read the server's JSON and write JSON. All
scores are uniform on [0, 1], so the coverage of a threshold q is q itself and nothing is sampled
to measure it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import fedwqcp as fw
from fedwqcp.federation.agent import Agent
from fedwqcp.federation.plan import choose_method
from fedwqcp.federation.server import Server
from fedwqcp.federation.thresholds import thresholds
from fedwqcp.methods import Calibration
from fedwqcp.methods._class_sketch import ranks_of
from fedwqcp.wire.codec import encode, terms
from fedwqcp.wire.round import Choice, Round

PAGE = Path(__file__).parents[1] / "docs" / "explanation" / "byzantine.md"
BEGIN, END = "<!-- raw adversaries: python tools/byzantine_table.py -->\n", "<!-- end -->\n"

ALPHA, N, LARGE, SEED = 0.1, 200, 10_000, 0
NAMES = ("a", "b", "c", "d", "e", "f")
METHODS: dict[str, dict[str, Any]] = {
    "fedwq-cp": {},
    "fedavgq-cp": {},
    "fedcp-qq": {},
    "fcp": {},
    "cphet": {},
    "dp-fedcp": {"rounds": 50},
    "fedls-cp": {},
    "fed-crc": {},
    "private-fedwq-cp": {"epsilon": 5.0},
    "weighted-median-cp": {},
    "trimmed-mean-cp": {"byzantine": 2},
    "rob-fcp": {"byzantine": 2},
    "guarded-median-cp": {},
    "split-cp": {},
}
PRIVATE = {
    "kind": "private-quantile",
    "epsilon": 5.0,
    "size_epsilon": 0.0,
    "unit": "one calibration sample replaced; n is public",
}
CLASS_POINTS = (48, 5)
"""Settings `points` and `min_gap` of fedls-cp: how many scores of a class it has to send."""
Raw = Callable[[int, dict[str, Any]], dict[str, Any]]
"""From a step and a question to an answer, both as JSON reads them."""


def lowest(method: str, n: int) -> Raw:
    """The lowest scores that are admitted: n points, every one of them 0."""

    def raw(step: int, question: dict[str, Any]) -> dict[str, Any]:
        counts = [n if value >= 0 else 0 for value in question.get("values", ())]
        classes = [n // 2, n - n // 2]
        match method, step:
            case "rob-fcp", 0:
                return {"kind": "span", "low": 0.0, "high": 0.0, "n": n}
            case "fcp" | "rob-fcp", _:
                return {"kind": "counts", "n": n, "counts": counts}
            case "dp-fedcp", 0:
                return {"kind": "label-counts", "counts": classes}
            case "dp-fedcp", _:
                most, q = 20 * 1e-3 * ALPHA, question["q"]  # local_steps x step_size x gradient
                return {"kind": "step", "shift": [-most] * len(q), "mean": [x - most for x in q]}
            case "cphet", 0:
                return {"kind": "fitted", "n": n, "density": []}
            case "cphet", _:
                return _towards_one(n, step, question)
            case "fedls-cp", _:
                ranks = (ranks_of(size, ALPHA, *CLASS_POINTS) for size in classes)
                values = [[0.0] * len(found) for found in ranks]
                return {"kind": "class-sketches", "counts": classes, "values": values}
            case "fed-crc", _:
                return {"kind": "loss-curve", "losses": [0.0] * 1001, "n": n}
        quantile = {"kind": "local-quantile", "threshold": 0.0, "n": n}
        return {**quantile, **PRIVATE} if method == "private-fedwq-cp" else quantile

    return raw


def _towards_one(n: int, step: int, question: dict[str, Any]) -> dict[str, Any]:
    """All the weight that densities allow, n N / N_t, towards the first agent alone."""
    sizes, densities = question["laws"]["sizes"], question["laws"]["densities"]
    N = sum(size for size, density in zip(sizes, densities, strict=True) if density)
    most, none = [n * N / sizes[0]] + [0.0] * (len(sizes) - 1), [0.0] * len(sizes)
    if step == 1:
        squares = [total * total / n for total in most]
        return {"kind": "weighed", "totals": most, "squares": squares, "quantiles": []}
    rows = (most if probe >= 0 else none for probe in question["probes"])
    return {"kind": "sums", "values": [value for row in rows for value in row]}


def breaking(method: str) -> Raw:
    """What no sample gives: it claims little first, or more than it may."""
    small, large = lowest(method, 2), lowest(method, 10**9)

    def raw(step: int, question: dict[str, Any]) -> dict[str, Any]:
        several = method in ("fcp", "rob-fcp", "cphet", "dp-fedcp")
        if not several:
            return large(step, question)
        answer = (small if step == 0 or method == "dp-fedcp" else large)(step, question)
        if answer["kind"] == "step":
            answer["shift"] = [-1e9] * len(answer["shift"])
        return answer

    return raw


def coverage(method: str, settings: dict[str, Any], byzantine: dict[str, Raw]) -> float:
    """Hold a round and return the coverage of the worst honest agent."""
    rng = np.random.default_rng(SEED)
    cals = {
        name: Calibration(rng.uniform(size=N), np.arange(N) % 2, rng.normal(size=(N, 1)), 2)
        for name in NAMES
    }
    round = Round(
        id="r",
        method=choose_method(fw.methods.get(method, **settings)),
        score=Choice("lac"),
        alphas=(ALPHA,),
        agents=NAMES,
        quorum=4,
        max_n=LARGE,
        n_classes=2,
    )
    server, digest = Server(round), terms(round)
    agents = {
        name: Agent(name, round, cal, allow_samples=True, rng=rng) for name, cal in cals.items()
    }
    while not server.ended:
        for name, ask in server.asks().items():
            if name not in byzantine:
                data = agents[name].answer(ask if server.step else None)
            else:
                question = json.loads(ask)["questions"][0] if server.step else {}
                envelope = json.loads(encode(round))
                data = json.dumps(
                    {
                        "round": round.id,
                        "terms": digest,
                        "step": server.step,
                        "agent": name,
                        "method": method,
                        "score": "lac",
                        "alphas": [ALPHA],
                        "answers": [byzantine[name](server.step, question)],
                        "version": envelope["version"],
                    }
                ).encode()
            server.receive(data, name, name)
        server.close_step()
    release = server.release()
    found = []
    for name in NAMES:
        if name not in byzantine:
            q = thresholds(release, name, calibration=cals[name])
            found.append(float(np.mean(np.clip(q, 0, 1))))  # the distribution function of a score
    return min(found)


def table() -> str:
    """Return the table."""
    head = f"one, n = {N} | two, n = {N} | one, n = {LARGE} | one, beyond its claim"
    lines = [
        f"| method | nobody | {head} |",
        "|---|---|---|---|---|---|",
    ]
    for method, settings in METHODS.items():
        same, large, wrong = lowest(method, N), lowest(method, LARGE), breaking(method)
        cases: tuple[dict[str, Raw], ...] = (
            {},
            {"f": same},
            {"e": same, "f": same},
            {"f": large},
            {"f": wrong},
        )
        cells = [coverage(method, settings, case) for case in cases]
        lines.append(f"| `{method}` | " + " | ".join(f"{cell:.3f}" for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def page(text: str) -> str:
    """Return the page with the table of now."""
    before, rest = text.split(BEGIN)
    return before + BEGIN + table() + END + rest.split(END, 1)[1]


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
