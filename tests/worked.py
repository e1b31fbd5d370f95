"""The worked example that several methods share, and samples of several agents at once."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

import fedwqcp as fw
from fedwqcp.errors import FedwqcpError, InputError, WrongRoundError
from fedwqcp.federation.agent import Agent
from fedwqcp.federation.plan import choose_method
from fedwqcp.methods import Calibration, Method
from fedwqcp.wire.codec import encode
from fedwqcp.wire.messages import Ask, Choice, Question, Round
from strategies import scores

A = np.arange(1, 11) / 10
B = np.array([0.05, 0.15, 0.25, 0.35, 0.45])
C = np.arange(1, 21) / 50
ABC = {"a": A, "b": B, "c": C}
EMPTY = np.array([])


def threshold(
    agents: dict[str, npt.NDArray[np.float64]], method: str, alpha: float, **settings: object
) -> float:
    """The threshold that every agent of a shared release gets."""
    release = fw.calibrate(
        agents,
        method=fw.methods.get(method, **settings),
        alpha=alpha,
        allow_large_alpha=True,
        rng=1,
    )
    values = {release.threshold(name) for name in agents}
    assert len(values) == 1
    return values.pop()


def calibrations(data: Iterable[tuple[Any, ...]], n_classes: int = 3) -> dict[str, fw.Calibration]:
    """Agents a0, a1, ... of (scores, labels) or (scores, features, labels); labels may be None."""
    return {
        f"a{i}": fw.Calibration(
            scores,
            None if labels is None else np.asarray(labels, dtype=np.int64),
            *features,
            n_classes=None if labels is None else n_classes,
        )
        for i, (scores, *features, labels) in enumerate(data)
    }


def unlike(**sizes: int) -> dict[str, fw.Calibration]:
    """Agents of these sizes with unlike scores in [0, 1], labels, features and two groups."""
    rng = np.random.default_rng(3)
    return {
        name: fw.Calibration(
            np.round(rng.beta(2 + i, 3, size=n), 3),
            rng.permutation(np.arange(n) % 3),
            rng.normal(size=(n, 2)),
            3,
            groups=rng.choice(["f", "m"], size=n),
        )
        for i, (name, n) in enumerate(sizes.items())
    }


def drawn(rng: np.random.Generator, n: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Probabilities of three classes, and labels drawn from them."""
    probs = rng.dirichlet([1, 2, 3], size=n)
    return probs, np.array([rng.choice(3, p=row) for row in probs])


def ask_agent(
    method: Method[Any], cal: Calibration, question: Question, alpha: float = 0.1
) -> bytes:
    """Ask an agent what a server could, in the first step in which the method asks it, if any."""
    terms: dict[str, Any] = {"target": getattr(method, "target", "own"), "n_classes": cal.n_classes}
    chosen = choose_method(method)
    round = Round("r", chosen, Choice("custom"), (alpha,), ("a", "b"), 2, **terms)
    kinds = [kind for kind, _ in method.schedule(2, cal.n_classes)]
    begins = question.kind == "begin"
    step = kinds.index(type(question)) if type(question) in kinds else int(not begins)
    agent = Agent("a", round, cal, allow_samples=True)
    return agent.answer(encode(Ask("r", step, (question,))))


def refusal_of(
    method: Method[Any], question: Question, n_classes: int | None = None
) -> type[FedwqcpError]:
    """The error of an agent where the method never asks such a question, or asks for less."""
    kinds = [kind for kind, _ in method.schedule(2, n_classes)]
    asked = type(question) in kinds or question.kind == "begin"
    return InputError if asked else WrongRoundError


def samples(
    min_agents: int = 1, max_agents: int = 5, min_size: int = 0, infinite: bool = False
) -> st.SearchStrategy[dict[str, npt.NDArray[np.float64]]]:
    """Score samples of several agents: unequal, tied, negative, empty."""
    one = scores(min_size=min_size, max_size=25, infinite=infinite)
    return st.lists(one, min_size=min_agents, max_size=max_agents).map(
        lambda many: {f"agent-{i}": sample for i, sample in enumerate(many)}
    )


def kth_smallest(values: npt.ArrayLike, rank: int) -> float:
    """By sorting; +inf beyond the sample."""
    ordered = sorted(np.asarray(values).tolist())
    return ordered[rank - 1] if rank <= len(ordered) else inf


def pooled(agents: dict[str, npt.NDArray[np.float64]]) -> npt.NDArray[np.float64]:
    """All scores together."""
    return np.concatenate(list(agents.values()))
