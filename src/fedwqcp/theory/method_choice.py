"""Which method is advised, and by which rule, from the assessment of a first round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from math import ceil, inf, nan, sqrt
from typing import Literal

import numpy as np

from fedwqcp._validation import named
from fedwqcp.errors import InputError
from fedwqcp.methods.new_agent_cp import NewAgentCP
from fedwqcp.quantile import conformal_rank
from fedwqcp.registry import Setting, typed
from fedwqcp.theory.diagnosis import (
    Diagnosis,
    Evidence,
    Verdict,
    at_most,
    diagnose,
    dominant,
    listed,
    noise,
    shown_safe,
)
from fedwqcp.wire.messages import TARGETS, LocalQuantile

FINE = 1 / 4
"""Agents use thresholds of their own where their coverage varies by at most this share of alpha."""
SURE = 4.0
"""Standard deviations of a chi-squared statistic that count as chance."""
MANY = 20
"""From this many agents on, the worst agent of fedls-cp was covered less than that of FCP."""
GUARDED: dict[str, Setting] = {"sketch": "order", "floor": True, "own": True}
"""Settings of FCP: one round, within an agent's usual disclosure limit; no threshold below
FedWQ-CP's nor below the agent's own."""


RULES = {
    "no-data": "too few points",
    "single": "one agent has points",
    "safe": "averaging is safe",
    "suspect": "one agent outweighs the others",
    "label-shift": "labels differ",
    "few": "some agents have too few points",
    "unsafe": "averaging is unsafe",
    "cannot-tell": "not known whether averaging is safe",
    "new-site": "enough agents",
    "few-sites": "too few agents",
}
"""What each rule stands for, in words."""


DEMAND = (
    "guarded-median-cp", "fedls-cp", "fcp", "split-cp", "fedwq-cp", "max-cp", "new-agent-cp",
)  # fmt: skip
"""What `advise` chooses from; of several levels the one whose method stands first decides."""


@dataclass(frozen=True)
class Advice:
    """What to use, and why; it prints as what to use, the reason and the price.

    Parameters
    ----------
    method : str
        Name of the method.
    score : str
        Name of the score, which stays as it is.
    code : str
        Name of the rule that decided.
    why : str
        What was seen, and what the advice rests on.
    verdict : {"safe", "unsafe", "cannot tell"}
        The verdict of `diagnose` on averaging these thresholds.
    settings : dict
        Settings of the method, where they are not the default.
    agents : tuple of str
        The agents that it concerns.
    price : str
        What it does to the size of sets, as far as summaries tell; empty where thresholds are
        FedWQ-CP's.
    alpha : float
        The level that decided.
    levels : dict
        Which rule decided at each level of a round; empty where one level was judged by itself.
    notes : tuple of str
        What else to know, in sentences.
    keep : bool
        Whether the method is already in use, so that nothing needs to change.
    target : {"own", "mixture"}
        Whom each agent will predict, which the advice is for.
    new_site : bool
        Whether it is for an agent that took no part.
    first : str
        What no method mends, in sentences that come first; empty where there is nothing.
    """

    method: str
    score: str
    code: str
    why: str
    verdict: Verdict
    settings: dict[str, Setting] = field(default_factory=dict)
    agents: tuple[str, ...] = ()
    price: str = ""
    alpha: float = nan
    levels: dict[float, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    keep: bool = False
    target: str = "own"
    new_site: bool = False
    first: str = ""

    def __str__(self) -> str:
        named = ", ".join(f"{name}={typed(value)}" for name, value in self.settings.items())
        settings = f" with {named}" if named else ""
        others = [f"{q}: {RULES[code]}" for q, code in self.levels.items() if q != self.alpha]
        at = f" at alpha={self.alpha}" if others else ""
        decided = f"; decided{at} ({', '.join(others)})" if others else ""
        price = [f"Price{at}: {self.price}."] if self.price and not self.keep else []
        said = " ".join([self.why, *price, *self.notes])
        verb = "keep" if self.keep else "use"
        whom = "" if self.target == "own" else f", for target {self.target}"
        whom = ", for a site that joins later" if self.new_site else whom
        use = f"{verb} {self.method}{settings} for score {self.score}{whom}{decided}. {said}"
        return f"{self.first} {use[0].upper()}{use[1:]}" if self.first else use


def advise(
    thresholds: Mapping[str, LocalQuantile],
    alpha: float,
    *,
    counts: Mapping[str, Sequence[int]] | None = None,
    score: str = "custom",
    bounds: tuple[float, float] | None = None,
    diagnosis: Diagnosis | None = None,
    target: Literal["own", "mixture"] = "own",
    new_site: bool = False,
    exact: bool = True,
    by: str | None = None,
) -> Advice:
    """Choose a method from what each agent sent to FedWQ-CP.

    Parameters
    ----------
    thresholds : mapping of str to LocalQuantile
        What each agent sent to FedWQ-CP: its threshold, +inf where it has too few points, its size,
        and with ``tail`` more order statistics.
    alpha : float
        Miscoverage level.
    counts : mapping of str to sequence of int, optional
        Points of each class, where agents sent them.
    score : str, optional
        Name of the score.
    bounds : tuple of float, optional
        Range of the score, as ``score.bounds(C)`` gives it.
    diagnosis : Diagnosis, optional
        The assessment of the round, where it is at hand; by default `diagnose` makes it.
    target : {"own", "mixture"}, optional
        Whom each agent will predict: people like those it calibrated on, or those of all agents.
    new_site : bool, optional
        Advise for an agent that took no part and has no labels. Every agent of the roster counts:
        one that sent nothing is ``LocalQuantile(inf, 0)``.
    exact : bool, optional
        Whether thresholds are as agents sent them. Those read from class sketches are not: +inf
        then says that the sketch is too coarse, and nothing of the agent.
    by : {"label", "group"}, optional
        What the thresholds are of, where they are of one label or group alone.

    Returns
    -------
    Advice
        What to use, why, and what it does to the size of sets.

    Raises
    ------
    InputError
        If nobody sent anything, alpha is not between 0 and 1, counts are of other agents, or the
        target is unknown.

    Notes
    -----
    It starts from the verdict of `diagnose`, which is about people like those an agent calibrated
    on. The rules, in their order:

    - **no-data**: no agent has enough points, nor have all together for FCP. ``fedwq-cp``, +inf.
    - **single**: one agent has points. ``split-cp``.
    - **safe**: no agent's coverage falls short by more than alpha/2. ``fedwq-cp``; with the target
      ``"mixture"`` only where class counts do not show that labels differ.
    - **suspect**: of three agents or more with points, one holds more than half of all points, or
      it alone sent +inf though it has enough of them. Whether it is right cannot be known.
      ``guarded-median-cp``, where each agent keeps at least the coverage of its own threshold
      whatever the others send.
    - **label-shift**: class counts of fewer than 20 agents differ by more than chance. ``fedls-cp``
      with ``floor=True``, for the target; with the target ``"own"`` only where some agent has too
      few points for ``split-cp`` (below).
    - **few**: some agents have a finite threshold, but all points together are too few for FCP.
      ``fedwq-cp`` with ``overflow="exclude"``.
    - **unsafe**, and every agent has 16 (1 - alpha)/alpha points, 304 at alpha = 0.05.
      ``split-cp``: each its own threshold, whose coverage has a standard deviation of alpha/4 or
      less.
    - **unsafe** otherwise, and **cannot-tell**: ``fcp`` with ``sketch="order"`` (one round),
      ``floor=True`` and ``own=True``. The threshold of an agent is the largest of its own, the
      pooled one and FedWQ-CP's, so no agent is covered less than by any of the three; sets are
      larger.

    With ``new_site`` the rules are others, and only how many agents there are decides:

    - **new-site**: at least 1/alpha - 1 agents (9 at 0.1), or a few more where some have no points.
      ``new-agent-cp``, whose marginal form covers a new agent's point if agents are exchangeable.
    - **few-sites**: fewer agents. ``max-cp``: its coverage is promised to those that took part
      alone. Among M exchangeable agents and a new one, the new one's own threshold is no larger
      with probability M/(M + 1), 0.8 for four. Where i agents have no finite threshold,
      ``new-agent-cp`` with ``form="confident"``, and (M - i)/(M + 1) in its place.
    - **no-data**: half of the agents or more have no finite threshold. ``new-agent-cp``, +inf.

    Examples
    --------
    >>> two = {"a": LocalQuantile(0.94, 800), "b": LocalQuantile(0.95, 900)}
    >>> found = advise(two, 0.05, score="aps", bounds=(0.0, 1.0))
    >>> found.code, found.method, found.settings
    ('cannot-tell', 'fcp', {'sketch': 'order', 'floor': True, 'own': True})
    """
    if not thresholds:
        raise InputError("thresholds must hold at least one agent's summary, got none")
    if target not in TARGETS:
        raise InputError(f"target must be 'own' or 'mixture', got {target!r}")
    if counts is not None and set(counts) != set(thresholds):
        raise InputError("counts must be of the same agents as thresholds")
    found = diagnose(thresholds, alpha, bounds, by=by) if diagnosis is None else diagnosis
    evidence = Evidence(dict(thresholds), found.alpha, bounds, found.threshold, by=by, exact=exact)
    use = partial(Advice, score=score, verdict=found.verdict, alpha=found.alpha, target=target)
    if new_site:
        return _for_a_new_site(evidence, partial(use, new_site=True))
    shift = None if counts is None else label_shift(list(counts.values()))
    chosen = _choose(evidence, found, shift, use, target)
    return replace(chosen, notes=_notes(evidence, found, chosen, counted=counts is not None))


def _choose(
    evidence: Evidence, found: Diagnosis, shift: float | None, use: partial[Advice], target: str
) -> Advice:
    """Return what the first rule that applies advises, without notes."""
    some, M, N, alpha = evidence.some, len(evidence.some), evidence.N, found.alpha
    enough = [s for s in evidence.finite.values() if s.n >= evidence.needed]
    pooled = conformal_rank(N, alpha, extra=M) <= N
    if not enough and not pooled:
        have = f"All {len(evidence.sent)} agents together have"
        if len(evidence.sent) == 1:
            have = f"{next(iter(evidence.sent))} {'alone ' if N else ''}has"
        why = (
            f"{have} {N} {'point' if N == 1 else 'points'}, too few for a finite "
            f"threshold at alpha={alpha}. {_ENDLESS[evidence.by]}: collect more points first."
        )
        return use("fedwq-cp", code="no-data", why=why)
    if M == 1:
        (name,) = some
        why = (
            f"{name} alone has calibration points, so a round gains nothing. Its own "
            "threshold covers test data like its calibration data; others have none."
        )
        return use("split-cp", code="single", why=why, agents=(name,))
    corrected = shift is not None and M < MANY
    if found.verdict == "safe" and not (corrected and target == "mixture"):
        missed = 1 - min(least for least, _ in found.coverage.values())
        why = (
            f"Averaging is safe: at the mean of the thresholds {shown_safe(alpha)} "
            f"(each misses at most {missed:.1%}: 95 % upper confidence bound, not an estimate)."
        )
        if evidence.everything:
            why = "The mean of the thresholds is the largest score there is: nothing is missed."
        return use("fedwq-cp", code="safe", why=why)
    if (suspect := _suspect(evidence)) is not None:
        seen = "That is no sign of an error, but the server could not see one"
        if some[suspect].threshold == inf:
            seen = "It has enough points for a finite one, and sent +inf"
        why = (
            f"{suspect} alone would decide an averaged or pooled threshold. {seen}: ask {suspect} "
            "to check its model outputs and labels. guarded-median-cp limits how much one agent's "
            "size counts, and each agent keeps at least the coverage of its own threshold, "
            "whatever the others send."
        )
        if short := [name for name, s in some.items() if s.n < evidence.needed]:
            what = _STILL_ENDLESS[evidence.by].format(named(short))
            why += (
                f" {what}, with fewer than the {evidence.needed} points that a finite threshold "
                f"takes at alpha={alpha}."
            )
        return use(
            "guarded-median-cp",
            code="suspect",
            why=why,
            settings={"slack": 0.5},
            agents=(suspect,),
            price="no agent's threshold is below its own at alpha; a higher median raises it, at "
            "most to its own at alpha/2",
        )
    own_enough = len(enough) == len(evidence.sent) and all(own_suffices(s.n, alpha) for s in enough)
    if corrected and not (own_enough and target == "own"):
        why = (
            f"{_seen(evidence, found)}, and label distributions differ (total "
            f"variation {shift:.2f}). {_FOR_LABELS[target]} No agent is covered less than by "
            "FedWQ-CP."
        )
        price = _above(evidence)
        return use("fedls-cp", code="label-shift", why=why, settings={"floor": True}, price=price)
    if not pooled:
        few = {name: s for name, s in some.items() if s.n < evidence.needed}
        why = (
            f"Too few points for a finite threshold at {listed(few)}, and all together are too few "
            "to pool: those with enough decide for all. Coverage at the others depends on "
            "how similar they are to these."
        )
        exclude: dict[str, Setting] = {"overflow": "exclude"}
        return use("fedwq-cp", code="few", why=why, settings=exclude, agents=tuple(few))
    code = "unsafe" if found.verdict == "unsafe" else "cannot-tell"
    use = partial(use, code=code, agents=found.findings[0].agents)
    seen = _seen(evidence, found)
    if code == "unsafe" and own_enough:
        why = f"{seen}. Each agent's own threshold covers test data like its calibration data."
        return use("split-cp", why=why, price=_above(evidence))
    settings = GUARDED if len(evidence.sent) == M else {**GUARDED, "count_empty": False}
    why = (
        f"{seen}. The pooled threshold covers the mixture of all agents; an agent whose own "
        "threshold is higher uses that, and none is covered less than by FedWQ-CP."
    )
    return use("fcp", why=why, settings=settings, price=_raised(evidence))


def _for_a_new_site(evidence: Evidence, use: partial[Advice]) -> Advice:
    """Advise for an agent that took no part: the agents are the sample, whatever their sizes."""
    M, finite = len(evidence.sent), len(evidence.finite)
    alpha, needed = evidence.alpha, evidence.needed
    notes = (
        "A new site that is unlike the others, or that borrows a model, is promised nothing. With "
        f"{needed} labelled points or more it has a threshold of its own: split-cp.",
    )
    use = partial(use, notes=notes)
    if len(evidence.some) >= NewAgentCP().least_agents(alpha, M):
        why = (
            f"{M} agents are enough for a promise to a new site (at least {needed} at "
            f"alpha={alpha}): a point of it is covered with probability at least {1 - alpha:g}, "
            "over the draw of sites and points, if sites with their models and sizes are "
            "exchangeable, the new one among them, and none was left out."
        )
        price = "every agent weighs the same; these numbers do not show how large sets become"
        return use("new-agent-cp", code="new-site", why=why, price=price)
    if 2 * finite <= M:
        why = (
            f"Nothing can be promised to a new site: of {M} agents only {finite} have a finite "
            f"threshold at alpha={alpha}, and more than half are needed. "
            f"{_without_threshold(evidence)}. {_ENDLESS[evidence.by]}: collect more points first."
        )
        return use("new-agent-cp", code="no-data", why=why)
    own, largest = Fraction(finite, M + 1), max(s.threshold for s in evidence.finite.values())
    before = f"FedWQ-CP's {evidence.mean:.4g}"
    before += " of the agents that sent a finite one" if finite < M else ""
    price = f"larger sets: the threshold is {largest:.4g} in place of {before}"
    use = partial(use, code="few-sites", price=price)
    least = _rounded_up(1 - Fraction(len(evidence.some), M + 1))
    lead = (
        f"{M} agents are too few for coverage at a new site at alpha={alpha}: new-agent-cp needs "
        f"{needed} (these are enough from alpha={least} on)"
    )
    shared = (
        "of the coverage of a new site nothing is promised; if sites are exchangeable, its own "
        f"threshold would have been no larger with probability at least {own}"
    )
    if finite == M:
        return use("max-cp", why=f"{lead}. max-cp covers every agent that took part; {shared}.")
    settings: dict[str, Setting] = {"form": "confident", "delta": _rounded_up(1 - own)}
    why = f"{lead}. {_without_threshold(evidence)}; {shared}."
    return use("new-agent-cp", why=why, settings=settings)


def _rounded_up(share: Fraction) -> float:
    return ceil(10_000 * share) / 10_000


def _without_threshold(evidence: Evidence) -> str:
    """Say who has no finite threshold: some sent +inf, some sent nothing or have no points."""
    said = []
    if infinite := [name for name, s in evidence.some.items() if s.threshold == inf]:
        said.append(f"{named(infinite)}{' sent +inf' if evidence.exact else ': sketch too coarse'}")
    if silent := [name for name, s in evidence.sent.items() if not s.n]:
        said.append(f"{named(silent)} sent no threshold")
    return f"{' and '.join(said)}, which counts as the largest"


_ENDLESS = {
    None: "Every set will hold every label",
    "label": "That label will be in every set",
    "group": "Every set of that group will hold every label",
}
_STILL_ENDLESS = {
    None: "Sets of {} will still hold every label",
    "label": "That label will still be in every set of {}",
    "group": "Sets of that group at {} will still hold every label",
}
"""What a threshold of +inf will mean, for all agents and for some, by what it is of."""

_FOR_LABELS = {
    "own": "The target is own: each agent predicts people like those it calibrated on. fedls-cp "
    "weighs classes as the agent's own data do, and borrows scores of a class from other agents "
    "where it has few. Where agents predict people of all agents, set target=mixture: otherwise "
    "coverage can be too low.",
    "mixture": "The target is mixture: each agent predicts people of all agents. fedls-cp gives "
    "each agent its threshold for their labels, right if scores within a class stay as they are. "
    "Where agents predict people like those they calibrated on, set target=own: otherwise coverage "
    "can be too low.",
}


def own_suffices(n: int, alpha: float) -> bool:
    """Tell whether the coverage of a threshold of n points varies little: Beta(r, n + 1 - r)."""
    return noise(n, alpha) <= FINE * alpha


def label_shift(counts: Sequence[Sequence[int]]) -> float | None:
    """Return how far label distributions lie from their mixture if that is no chance, else None.

    Pearson's chi-squared of the table, against its mean plus four standard deviations; then the
    size-weighted mean total variation.
    """
    table = np.array([row for row in counts if sum(row)], dtype=np.float64)
    table = table[:, table.sum(axis=0) > 0]
    freedom = (table.shape[0] - 1) * (table.shape[1] - 1)
    if freedom < 1:
        return None
    n = table.sum(axis=1, keepdims=True)
    expected = n * table.sum(axis=0) / table.sum()
    statistic = ((table - expected) ** 2 / expected).sum()
    if statistic <= freedom + SURE * sqrt(2 * freedom):
        return None
    return float(np.abs(table - expected).sum() / 2 / table.sum())


def _suspect(evidence: Evidence) -> str | None:
    """Return the agent that alone would decide a mean or a pooled quantile."""
    if len(evidence.some) < 3:
        return None
    needed = evidence.needed
    infinite = [n for n, s in evidence.some.items() if s.threshold == inf and s.n >= needed]
    if evidence.exact and len(evidence.finite) >= 2 and len(infinite) == 1:
        return infinite[0]
    return dominant(evidence.some)


def _seen(evidence: Evidence, found: Diagnosis) -> str:
    """Say in a clause why not to average."""
    if not evidence.finite:
        return "No agent sent a finite threshold"
    if found.verdict == "safe":
        return "Averaging is safe for people like those an agent calibrated on"
    if found.threshold == inf:
        few = [name for name, s in evidence.some.items() if s.threshold == inf]
        if not evidence.exact:
            return f"The class sketches of {named(few)} are too coarse to tell its own threshold"
        return f"No mean is finite: {named(few)} sent +inf"
    first = found.findings[0]
    if found.verdict == "unsafe":
        rule = "" if first.code == "coverage" else f" ({first.code})"
        return f"Averaging is unsafe{rule}: {first.says}"
    open_ = next(each.agents for each in found.findings if each.code == "coverage")
    missed = {name: 1 - found.coverage[name][0] for name in open_}
    return (
        "These numbers do not show whether averaging is safe: at the mean of the thresholds, "
        f"{at_most(missed, found.alpha)}"
    )


def _notes(
    evidence: Evidence, found: Diagnosis, chosen: Advice, *, counted: bool
) -> tuple[str, ...]:
    """Say what could be found out, and what else would help."""
    notes = []
    if chosen.target == "mixture" and chosen.code not in ("label-shift", "no-data"):
        notes.append(
            "The target is mixture, and this method does not use it: statements about coverage "
            "are for people like those an agent calibrated on."
            + ("" if counted else " A round of fedls-cp shows whether label distributions differ.")
        )
    if chosen.code == "cannot-tell" and not evidence.tails:
        notes.append(
            "To find out, open a round of fedwq-cp with tail=16: each agent then sends up to "
            "sixteen more order statistics of its scores, as far as its limits allow."
        )
    if tied := next((each.agents for each in found.findings if each.code == "saturated"), ()):
        notes.append(
            f"Scores of {named(tied)} are tied at the largest there is: a score without ties, such "
            "as randomised APS, tells them apart."
        )
    if chosen.score == "lac" and chosen.code in ("unsafe", "cannot-tell"):
        notes.append(
            "LAC's scale is the model's confidence; randomised APS is uniform under every "
            "calibrated model, so its thresholds can be averaged where models are calibrated."
        )
    return tuple(notes)


def _raised(evidence: Evidence) -> str:
    """Say how far thresholds can rise.

    At the largest threshold each agent has at least ceil((n_k + 1)(1 - alpha)) scores up to it, all
    together no fewer than ceil((N + M)(1 - alpha)): a pooled threshold of exact counts lies no
    higher. Points that stand for several scores may lie beyond.
    """
    if not evidence.finite:
        return "how large sets become is unknown, since no agent sent a finite threshold"
    before = f"{evidence.mean:.4g}"
    if len(evidence.finite) < len(evidence.some):
        return (
            f"larger sets: thresholds rise from {before}, the mean of those that are finite, and "
            "it is unknown how far, because some agents have none"
        )
    largest = max(s.threshold for s in evidence.finite.values())
    return (
        f"larger sets: no threshold is below FedWQ-CP's {before}; pooled and own ones lie up to "
        f"{largest:.4g}, the largest that was sent, or a little beyond where agents have few points"
    )


def _above(evidence: Evidence) -> str:
    """Say how many agents lie above the mean, and by how much."""
    if not evidence.finite:
        return "how large sets become is unknown, since no agent sent a finite threshold"
    before = evidence.mean
    own = [s.threshold for s in evidence.finite.values()]
    higher = [q - before for q in own if q > before]
    return (
        f"larger sets at some agents: beside FedWQ-CP's {before:.4g}, {len(higher)} of {len(own)} "
        f"agents sent a higher threshold, by up to {max(higher, default=0.0):.4g}"
    )
