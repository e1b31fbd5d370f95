"""What a coordinator learns of a default site in 100 rounds: a search for the best reconstruction.

``python benchmarks/reconstruction.py`` plays many coordinators against sites of 75 and of 1,000
people and writes ``results/reconstruction.md``. Each sends 100 rounds of drawn methods, settings,
keys, levels, labels, groups and tails, and asks what its methods may ask. It holds every
number that left against the scores: an exact score of a person whose turn it was is found.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import numpy as np
from numpy.random import Generator

from fedwqcp import scores
from fedwqcp.errors import FedwqcpError
from fedwqcp.federation.agent import Agent
from fedwqcp.federation.disclosure_ledger import DisclosureLedger
from fedwqcp.federation.plan import Plan, part_of
from fedwqcp.methods import Calibration
from fedwqcp.methods._search import CountAt
from fedwqcp.wire.codec import decode, encode
from fedwqcp.wire.messages import Answer, Ask, Choice, Round

OUT = Path(__file__).parent / "results" / "reconstruction.md"
METHODS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("auto", {}),
    ("fedwq-cp", {}),
    ("fedwq-cp", {"tail": 16}),
    ("fedwq-cp", {"overflow": "clip"}),
    ("guarded-median-cp", {}),
    ("fedcp-qq", {}),
    ("new-agent-cp", {}),
    ("fcp", {"probes": 1}),
    ("fcp", {"sketch": "order"}),
    ("fcp", {"sketch": "order", "points": 7}),
    ("fcp", {"count_gap": 9}),
    ("fedls-cp", {}),
    ("fedls-cp", {"points": 2}),
    ("fed-crc", {"min_gap": 5}),
    ("private-fedwq-cp", {"epsilon": 10.0, "bins": 10_000}),
)


SCORES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("lac", {}),
    ("aps", {}),
    ("raps", {"penalty": 0.1}),
    ("raps", {"penalty": 20.0, "k_reg": 2}),
    ("saps", {"penalty": 0.3}),
)


GROUPS: dict[str, Any] = {
    "by": "group",
    "groups": ("f", "m", "old", "young"),
    "max_groups": 2,
}


def people(rng: Generator, n: int) -> tuple[Any, ...]:
    """Three classes, overlapping groups and an age of n people, with what a model says of them."""
    probs, age = rng.dirichlet(np.ones(3), size=n), rng.uniform(20, 90, (n, 1))
    return (
        probs,
        rng.integers(0, 3, n),
        np.column_stack([rng.choice(["f", "m"], n), np.where(age[:, 0] < 55, "young", "old")]),
        age,
        [f"p{i}" for i in range(n)],
    )


def drawn_round(rng: Generator, i: int, coordinator: str) -> Round:
    """A round of a coordinator: of all that there is, or of one kind."""
    methods = {"any": METHODS, "thresholds": METHODS[1:2], "sketches": METHODS[8:13]}[coordinator]
    method, settings = methods[rng.integers(len(methods))]
    levels = np.sort(rng.uniform(0.02, 0.5, rng.integers(1, 4)))
    return Round(
        f"r{i}",
        Choice(method, settings),
        Choice(*SCORES[rng.integers(len(SCORES))]),
        tuple(float(x) for x in np.unique(levels)),
        ("a", "b"),
        1,
        key=str(rng.choice(["", "one", str(i)])),
        n_classes=3,
        **[{}, {"by": "label"}, GROUPS][rng.integers(3)],
    )


def asked(plan: Plan, rng: Generator) -> Iterator[bytes | None]:
    """The first question, and counts where the method takes them."""
    yield None
    if CountAt in plan.method.questions:
        for step in range(1, 17):
            values = (float(rng.uniform()),)
            yield encode(Ask(plan.round.id, step, (CountAt(values),) * len(plan.tasks)))


def numbers(value: Any) -> Iterator[float]:
    """Every number in what left."""
    found = msgspec.to_builtins(value)
    if isinstance(found, float):
        yield found
    elif isinstance(found, dict | list | tuple):
        inner = found.values() if isinstance(found, dict) else found
        yield from itertools.chain.from_iterable(map(numbers, inner))


def reconstructed(seed: int, n: int, coordinator: str, rounds: int, remember: bool) -> int:
    """Of how many people a coordinator holds an exact score after so many rounds."""
    rng, found = np.random.default_rng(seed), set[int]()
    probs, labels, groups, age, ids = people(rng, n)
    with TemporaryDirectory() as folder:
        ledger = DisclosureLedger(Path(folder) / "ledger") if remember else None
        for i in range(rounds):
            try:
                plan = Plan.of(drawn_round(rng, i, coordinator))
                score: Any = plan.score
                u = scores.uniforms(plan.round.key, ids)
                own = score.of(probs, labels, u) if score.randomized else score.of(probs, labels)
                cal = Calibration(own, labels, age, 3, groups=groups)
                side = Agent("a", plan, cal, ledger=ledger)
                for ask in asked(plan, rng):
                    said = decode(side.answer(ask), Answer, plan.kinds)
                    for task, answer in zip(plan.tasks, said.answers, strict=True):
                        rows = np.flatnonzero(
                            np.isin(own, part_of(plan.round, cal, task.group).scores)
                        )
                        sent = np.array(list(numbers(answer)) or [np.nan])
                        # sketches round up to five digits; a private edge is nobody's score
                        digits = 1e-9 if plan.method.traits.private else 1e-5
                        near = np.abs(own[rows, None] - sent).min(axis=1, initial=1) < digits
                        exact = np.argmin(np.abs(own[rows, None] - sent), axis=0)
                        told = {int(rows[e]) for e in exact if near[e]}
                        found |= told
            except FedwqcpError:
                continue
    return len(found)


def main() -> None:
    """Search and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0, help="the first of them")
    parser.add_argument("--rounds", type=int, default=100)
    given = parser.parse_args()
    lines = [
        "| people | coordinator asks | exact scores, one round's limit alone | with the ledger |",
        "|---|---|---|---|",
    ]
    for n, coordinator in itertools.product((75, 1000), ("any", "thresholds", "sketches")):
        worst = [
            max(
                reconstructed(given.seed + s, n, coordinator, given.rounds, keep)
                for s in range(given.seeds)
            )
            for keep in (False, True)
        ]
        lines.append(f"| {n} | {coordinator} | {worst[0]} | {worst[1]} |")
        print(lines[-1], flush=True)
        if not worst[1] >= n // 10:
            raise SystemExit("the coordinators learned next to nothing: the search is broken")
    OUT.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
