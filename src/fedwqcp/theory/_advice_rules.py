"""The single rules of an advice; `advise` states them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, nan

from fedwqcp.quantile import conformal_rank
from fedwqcp.theory._advice_prices import of_labels, of_median, of_other_score, of_own, of_pooling
from fedwqcp.theory._evidence import Evidence, listed
from fedwqcp.theory._outlook import excess, label_shift, outlier
from fedwqcp.wire.payload import LocalQuantile
from fedwqcp.wire.round import Setting

BAR = 1.1
"""Averaging is kept while its misses are expected to be at most this many times alpha."""
FEW = 0.1
"""Agents with too few points are left out of an average while they hold at most this share."""
FINE = 1 / 8
"""Agents use thresholds of their own where these cover 1 - alpha within this share of alpha."""


@dataclass(frozen=True)
class Advice:
    """What to use, and why; it prints as what to use, two sentences, and the price.

    Parameters
    ----------
    method : str
        Name of the method.
    settings : dict
        Its settings, where they are not the default.
    score : str
        Name of the score to use.
    code : str
        Name of the rule that decided.
    why : str
        Two sentences: what was seen, and what the advice rests on.
    agents : tuple of str
        The agents that it concerns.
    price : str
        What it does to the size of sets, as far as summaries tell; empty where thresholds are
        FedWQ-CP's.
    alpha : float
        The level that decided.
    levels : dict
        Which rule spoke at each level of a round; empty where one level was judged by itself.
    notes : tuple of str
        What else to know, in sentences.
    """

    method: str
    score: str
    code: str
    why: str
    settings: dict[str, Setting] = field(default_factory=dict)
    agents: tuple[str, ...] = ()
    price: str = ""
    alpha: float = nan
    levels: dict[float, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        settings = "".join(f", {name}={value}" for name, value in self.settings.items())
        others = [f"{level}: {code}" for level, code in self.levels.items() if level != self.alpha]
        at = f" at alpha={self.alpha}" if others else ""
        decided = f"; decided{at} ({', '.join(others)})" if others else ""
        price = [f"Price{at}: {self.price}."] if self.price else []
        told = " ".join([self.why, *price, *self.notes])
        return f"use {self.method}{settings} on {self.score}{decided}. {told}"


def unclipped(evidence: Evidence) -> Evidence:
    """Take back thresholds that too few points cannot have: they were clipped."""
    few = {name: s.n for name, s in evidence.sent.items() if s.n < evidence.needed}
    sent = {**evidence.sent, **{name: LocalQuantile(inf, n) for name, n in few.items()}}
    return Evidence(sent, evidence.alpha, evidence.bounds)


def single(evidence: Evidence, score: str) -> Advice | None:
    """Find that there is nothing to share."""
    if len(evidence.some) != 1:
        return None
    (name,) = evidence.some
    why = (
        f"{name} alone has calibration points, and nothing is gained by a round. "
        "Its own threshold covers test data like its calibration data; others have none."
    )
    return Advice("split-cp", score, "single", why, agents=(name,))


def no_data(evidence: Evidence, score: str) -> Advice | None:
    """Find that no method of this package gives a finite threshold."""
    if evidence.finite or _poolable(evidence):
        return None
    why = (
        f"All {len(evidence.sent)} agents together have {evidence.N} points, too few for a finite "
        f"threshold at alpha={evidence.alpha}. Every set will hold every label: collect more "
        "points first."
    )
    return Advice("fedwq-cp", score, "no-data", why, {"overflow": "propagate"})


def far_off(evidence: Evidence, score: str) -> Advice | None:
    """Find one agent that is far from others that agree."""
    claims = [n for n, s in evidence.some.items() if s.threshold == inf and s.n >= evidence.needed]
    name = claims[0] if len(claims) == 1 and len(evidence.finite) >= 4 else None
    name = name or outlier(evidence, evidence.finite, BAR)
    if name is None:
        return None
    why = (
        f"The others agree and {name} is far off, which its data or a wrong message may explain: "
        "ask, before its sets are trusted. A weighted median keeps it from moving all thresholds; "
        f"if {name} is right, its own coverage may suffer."
    )
    price = of_median(evidence, name)
    return Advice("weighted-median-cp", score, "outlier", why, agents=(name,), price=price)


def tiny(evidence: Evidence, score: str) -> Advice | None:
    """Find agents with too few points beside large ones that agree, or too few to pool."""
    few = {name: s for name, s in evidence.some.items() if s.threshold == inf}
    small = any(evidence.is_tiny(s.n) for s in evidence.finite.values())
    much = sum(s.n for s in few.values()) > FEW * evidence.N
    pooled = _poolable(evidence)
    if not few or (pooled and (small or much or not _agree(evidence))):
        return None
    others = "the others agree" if pooled else "all together are too few to pool"
    why = (
        f"Too few points for a finite threshold at {listed(few)}, and {others}: those with enough "
        "decide for all. Coverage at the small agents then rests on their being like the others; "
        'FedWQ-CP with overflow="propagate" would put every label into every set.'
    )
    return Advice("fedwq-cp", score, "tiny", why, {"overflow": "exclude"}, tuple(few))


def alike(evidence: Evidence, score: str) -> Advice | None:
    """Find that averaging is harmless."""
    if len(evidence.finite) < len(evidence.some) or not _agree(evidence):
        return None
    why = (
        f"The mean of these thresholds is expected to miss at most {BAR:g} alpha, all agents taken "
        "together. Two numbers from each agent are enough; nothing is promised to a single agent."
    )
    return Advice("fedwq-cp", score, "alike", why)


def _poolable(evidence: Evidence) -> bool:
    """Tell whether FCP's threshold is finite; agents without points are not counted."""
    N, M = evidence.N, len(evidence.some)
    return conformal_rank(N, evidence.alpha, extra=M) <= N


def _agree(evidence: Evidence) -> bool:
    """Tell whether the finite thresholds may be averaged."""
    found = excess(evidence, evidence.finite) if evidence.finite else None
    return found is not None and found[0] - found[1] <= BAR


def apart(evidence: Evidence, score: str, counts: Mapping[str, Sequence[int]] | None) -> Advice:
    """Choose what to use where averaging would miss too much."""
    shift = None if counts is None else label_shift(list(counts.values()))
    if shift is not None:
        return _shifted(evidence, score, shift)
    finite = evidence.finite
    known = len(finite) == len(evidence.sent) and all(
        evidence.noise(s.n) <= FINE * evidence.alpha for s in finite.values()
    )
    if counts is not None and known:
        why = (
            f"{_seen(evidence)}, while label laws do not differ: it is the models. Each agent's "
            "own threshold covers test data like its calibration data."
        )
        return Advice("split-cp", score, "models", why, price=of_own(evidence))
    return _pooled(evidence, score)


def _shifted(evidence: Evidence, score: str, shift: float) -> Advice:
    """Correct for label laws that differ."""
    why = (
        f"{_seen(evidence)}, and label laws differ (total variation {shift:.2f}). Each agent gets "
        "its own threshold for the common mixture of labels, right if scores within a class stay "
        f"as they are{_floor(evidence, 'and')}."
    )
    price = of_labels(evidence)
    return Advice("fedls-cp", score, "label-shift", why, {"floor": True}, price=price)


def _pooled(evidence: Evidence, score: str) -> Advice:
    """Cover the mixture of all agents, for LAC on a score that brings models to one scale."""
    empty = len(evidence.some) < len(evidence.sent)
    settings: dict[str, Setting] = {"floor": True, **({"count_empty": False} if empty else {})}
    why = f"{_seen(evidence)}. The pooled threshold covers the mixture of all agents"
    if score == "lac":
        why += (
            "; randomised APS brings models to one scale, but its sets need not contain LAC's, and "
            "nothing is promised to one agent."
        )
        return Advice("fcp", "aps", "spread", why, settings, price=of_other_score(evidence))
    why += f"{_floor(evidence, 'and is')}; nothing more is promised to a single agent."
    return Advice("fcp", score, "spread", why, settings, price=of_pooling(evidence))


def _floor(evidence: Evidence, joint: str) -> str:
    """Say what a floor makes sure of, as long as score and rule stay as they are."""
    if not evidence.finite:
        return ""
    if len(evidence.finite) == len(evidence.some):
        return f", {joint} never below FedWQ-CP's of the same scores: no agent is covered less"
    return (
        f', {joint} never below FedWQ-CP\'s with overflow="exclude": no agent is covered less '
        "than with that"
    )


def _seen(evidence: Evidence) -> str:
    """Say why averaging will not do, in a clause."""
    if not evidence.finite:
        return "No agent sent a finite threshold"
    if len(evidence.finite) < len(evidence.some):
        return "Some agents have no finite threshold that could be averaged"
    found = excess(evidence, evidence.finite)
    if found is None:
        return (
            "Thresholds are not all above 0, and without bounds carry no scale to compare them by"
        )
    return (
        "Thresholds lie so far apart that their mean would miss about "
        f"{found[0] * evidence.alpha:.3f} where alpha={evidence.alpha} is asked"
    )


RULES: tuple[Callable[[Evidence, str], Advice | None], ...] = (
    no_data,
    single,
    far_off,
    tiny,
    alike,
)
