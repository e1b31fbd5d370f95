"""The tables of Byzantine agents, which ``tools/fill_pages.py`` writes into pages.

They stand in docs/explanation/byzantine.md and in SECURITY.md. The Byzantine agents in them run
none of this package: they read the server's JSON, and write JSON of the kind that others send. All
scores are uniform on [0, 1], so the coverage of a threshold q is q itself and nothing is sampled to
measure it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

import fedwqcp as fw
from fedwqcp.errors import MalformedMessageError
from fedwqcp.federation.agent import Agent
from fedwqcp.federation.plan import choose_method
from fedwqcp.federation.predict import thresholds
from fedwqcp.federation.server import Server
from fedwqcp.methods import Calibration
from fedwqcp.methods.auto import sent_ranks
from fedwqcp.methods.fedls_cp import ranks_of
from fedwqcp.wire.codec import encode
from fedwqcp.wire.messages import Choice, Round
from fedwqcp.wire.terms import terms

ALPHA, N, LARGE, SEED = 0.1, 200, 10_000, 0
NAMES = ("a", "b", "c", "d", "e", "f")
METHODS: dict[str, dict[str, Any]] = {
    "auto": {},
    "fedwq-cp": {},
    "fedavgq-cp": {},
    "fedcp-qq": {},
    "fcp": {},
    "cphet": {},
    "dp-fedcp": {"rounds": 50},
    "fedls-cp": {},
    "fed-crc": {},
    "private-fedwq-cp": {"epsilon": 5.0},
    "guarded-median-cp": {},
    "max-cp": {},
    "new-agent-cp": {"form": "confident", "delta": 0.2},
    "split-cp": {},
}
PRIVATE = {
    "epsilon": METHODS["private-fedwq-cp"]["epsilon"],
    "size_epsilon": 0.0,
}
CLASS_POINTS = (48, 5)
"""Settings `points` and `min_gap` of fedls-cp: how many scores of a class it has to send."""
Raw = Callable[[str, int, dict[str, Any]], dict[str, Any]]
"""From the kind of answer that other agents send, the step and the question to an answer."""


def lowest(n: int) -> Raw:
    """The lowest scores that are admitted: n points, every one of them 0."""
    classes = [n // 2, n - n // 2]

    def raw(kind: str, step: int, question: dict[str, Any]) -> dict[str, Any]:
        del step  # the same at every one
        match kind:
            case "local-quantile":
                fields: dict[str, Any] = {"threshold": 0.0, "n": n}
            case "private-quantile":
                fields = {"threshold": 0.0, "n": n, **PRIVATE}
            case "counts":
                fields = {
                    "n": n,
                    "counts": [n if x >= 0 else 0 for x in question.get("values", ())],
                }
            case "loss-curve":
                fields = {"losses": [0.0] * 1001, "n": n}
            case "label-counts":
                fields = {"counts": classes}
            case "class-sketches" | "part-sketches":
                own = kind == "part-sketches"
                ranks = (
                    sent_ranks(size) if own else ranks_of(size, ALPHA, *CLASS_POINTS)
                    for size in classes
                )
                fields = {"counts": classes, "values": [[0.0] * len(found) for found in ranks]}
                fields |= {"rest": [], "others": 0} if own else {}
            case "step":
                most, q = 20 * 1e-3 * ALPHA, question["q"]  # local_steps x step_size x gradient
                fields = {"shift": [-most] * len(q), "mean": [x - most for x in q]}
            case "fitted-density":
                fields = {"n": n, "density": []}
            case "weighed":
                most_each, _ = _towards_one(n, question)
                squares = [total * total / n for total in most_each]
                fields = {"totals": most_each, "squares": squares}
            case "sums":
                most_each, none = _towards_one(n, question)
                rows = (most_each if probe >= 0 else none for probe in question["probes"])
                fields = {"values": [value for row in rows for value in row]}
            case _:
                raise SystemExit(f"write here what the lowest answer of kind {kind!r} is")
        return {"kind": kind, **fields}

    return raw


def _towards_one(n: int, question: dict[str, Any]) -> tuple[list[float], list[float]]:
    """All the weight that densities allow, n N / N_t, towards the first agent alone; and none."""
    sizes, densities = question["densities"]["sizes"], question["densities"]["mixtures"]
    N = sum(size for size, density in zip(sizes, densities, strict=True) if density)
    return [n * N / sizes[0]] + [0.0] * (len(sizes) - 1), [0.0] * len(sizes)


def breaking(steps: int) -> Raw:
    """What no sample gives: in a round of several steps it claims little first, else too much."""
    small, large = lowest(2), lowest(10**9)

    def raw(kind: str, step: int, question: dict[str, Any]) -> dict[str, Any]:
        if kind == "step":
            answer = small(kind, step, question)
            return {**answer, "shift": [-1e9] * len(answer["shift"])}
        return (small if steps > 1 and step == 0 else large)(kind, step, question)

    return raw


def coverage(method: str, settings: dict[str, Any], byzantine: dict[str, Raw]) -> tuple[float, int]:
    """Hold a round and return the coverage of the worst honest agent, and the number of steps."""
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
    kind = ""
    while not server.ended:
        for name, ask in server.asks().items():  # the honest ones come first
            if name not in byzantine:
                data = agents[name].answer(ask if server.step else None)
                kind = json.loads(data)["answers"][0]["kind"]
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
                        "answers": [byzantine[name](kind, server.step, question)],
                        "version": envelope["version"],
                    }
                ).encode()
            refusal = server.receive(data, name)
            if isinstance(refusal, MalformedMessageError):
                raise refusal  # an attack in a form that is gone would attack nobody
        server.close_step()
    release = server.release()
    found = []
    for name in NAMES:
        if name not in byzantine:
            q = thresholds(release, name, calibration=cals[name])
            found.append(float(np.mean(np.clip(q, 0, 1))))  # the distribution function of a score
    return min(found), release.rounds


@cache
def cells(method: str) -> tuple[float, ...]:
    """Return the coverage of the worst honest agent: alone, and under each attack."""
    alone, steps = coverage(method, METHODS[method], {})
    same, large, wrong = lowest(N), lowest(LARGE), breaking(steps)
    cases: tuple[dict[str, Raw], ...] = (
        {"f": same},
        {"e": same, "f": same},
        {"f": large},
        {"f": wrong},
    )
    return alone, *(coverage(method, METHODS[method], case)[0] for case in cases)


def table() -> str:
    """Return the table of the page."""
    head = f"one, n = {N} | two, n = {N} | one, n = {LARGE} | one, beyond its claim"
    lines = [f"| method | nobody | {head} |", "|---|---|---|---|---|---|"]
    for method in METHODS:
        row = " | ".join(f"{cell:.3f}" for cell in cells(method))
        lines.append(f"| `{method}` | {row} |")
    return "\n".join(lines)


SHARED = "the threshold"
PARTIES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "auto": (
        "an honest threshold is never below its own agent's, nor above its largest score where its "
        "points suffice for one",
        "every agent's borrowed threshold, and roughly how much of it is borrowed and how many "
        "points it is worth",
        (
            "statistical/test_floor.py::test_no_release_lowers_the_floor_or_blows_up_a_finite_threshold",
        ),
    ),
    "split-cp": (
        "nothing",
        "nothing",
        ("conformance/test_byzantine.py::test_this_reaches_the_server_and_this_the_other_agents",),
    ),
    "guarded-median-cp": (
        "an honest threshold stays between two of its own agent's",
        "the median before it is guarded",
        (
            "methods/test_guarded_median_cp.py::"
            "test_whatever_others_send_an_honest_threshold_lies_between_two_of_its_own",
        ),
    ),
    "max-cp": (
        "never lowers the threshold below an honest one; raises it as it likes, to +inf",
        SHARED,
        ("methods/test_max_cp.py::test_a_byzantine_agent_lowers_nobody",),
    ),
    "new-agent-cp": (
        "`marginal`: weighs one of M + 1, whatever its n; `confident`: the threshold stays between "
        "its honest neighbours",
        SHARED,
        ("methods/test_new_agent_cp.py::test_a_byzantine_agent_weighs_one_of_the_agents",),
    ),
    "fedcp-qq": (
        "the threshold stays between its honest neighbours",
        "the threshold, its rank among the agents' and its coverage",
        (
            "conformance/test_byzantine.py::"
            "test_a_quantile_of_quantiles_stays_between_its_honest_neighbours",
        ),
    ),
    "fcp": (
        "the threshold moves by at most n ranks",
        "the threshold, which is one person's score, and the values asked for",
        (
            "conformance/test_byzantine.py::test_fcp_moves_by_at_most_n_ranks_of_the_honest_scores",
            "conformance/test_byzantine.py::test_admitted_counts_are_those_of_one_sample",
        ),
    ),
    "fed-crc": (
        "the threshold moves by at most n ranks",
        SHARED,
        (
            "conformance/test_byzantine.py::"
            "test_fed_crc_moves_by_at_most_n_ranks_of_the_honest_scores",
        ),
    ),
    "fedls-cp": (
        "another agent's distribution of a class moves by the share it borrows; a `mixture` "
        "target by n / (N + n)",
        "every agent's threshold, what share of its target is of classes that nobody has, and in "
        "tenths and to one digit how much is borrowed and how many points that is worth (no class "
        "count beyond one digit)",
        (
            "methods/test_fedls_cp.py::"
            "test_other_agents_move_a_distribution_by_the_share_that_is_borrowed",
            "methods/test_fedls_cp.py::"
            "test_another_agent_moves_the_mixture_by_its_share_of_the_points",
        ),
    ),
    "dp-fedcp": (
        "each step moves by its share of the weighted labels times `local_steps` x `step_size`",
        "every agent's thresholds and ratios of label shares, where targets are `own`",
        (
            "conformance/test_byzantine.py::"
            "test_dp_fedcp_moves_by_at_most_the_agents_share_of_every_step",
        ),
    ),
    "cphet": (
        "n N / N_t of weight towards one agent, or n towards each; **towards a named "
        "density anything**",
        "class shares, means and covariances of **every** agent's features, every agent's "
        "threshold and effective sample size",
        (
            "conformance/test_byzantine.py::"
            "test_cphet_moves_by_at_most_n_weights_of_which_other_targets_lack_what_one_has",
            "conformance/test_byzantine.py::"
            "test_cphet_refuses_the_largest_weight_towards_every_target",
        ),
    ),
    **dict.fromkeys(
        ("fedwq-cp", "fedavgq-cp", "private-fedwq-cp"),
        (
            "the mean moves by its share of the weight, n / (N + n), under `fedavgq-cp` 1 / M; "
            "+inf under `propagate`",
            SHARED,
            (
                "conformance/test_byzantine.py::"
                "test_a_mean_moves_by_at_most_the_agents_share_of_the_range",
            ),
        ),
    ),
}
"""What an agent can do, what other agents learn of one, and the tests."""


def parties() -> str:
    """Return the table of SECURITY.md."""
    rows = ["| method | one Byzantine agent of n points | other agents learn of one | tests |"]
    rows.append("|---|---|---|---|")
    for does, agents, tests in dict.fromkeys(PARTIES.values()):
        same = [f"`{name}`" for name in PARTIES if PARTIES[name] == (does, agents, tests)]
        named = ", ".join(f"`{test}`" for test in tests)
        rows.append(f"| {', '.join(same)} | {does} | {agents} | {named} |")
    return "\n".join(rows)


def tables() -> dict[str, str]:
    """Return both tables."""
    return {"coverage": table(), "parties": parties()}
