"""What the server knows of a round: thresholds, sizes, bytes, refusals; no coverage."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import inf
from pathlib import Path

import numpy as np

from fedwqcp.errors import FedwqcpError, InputError
from fedwqcp.federation.files import read
from fedwqcp.federation.plan import Plan
from fedwqcp.quantile import conformal_rank
from fedwqcp.report.html import sections
from fedwqcp.report.html.blocks import Card, Cards, Tone
from fedwqcp.report.html.charts import own_and_released
from fedwqcp.report.html.page import Section, Verdict, View
from fedwqcp.report.html.words import counted, number, thresholds
from fedwqcp.report.released import Released, always_left_out, released
from fedwqcp.theory import Diagnosis, diagnose_release
from fedwqcp.wire.codec import decode
from fedwqcp.wire.envelope import Answer
from fedwqcp.wire.payload import LocalQuantile
from fedwqcp.wire.release import AgentRecord, Release

_STATUS: dict[str, tuple[Tone, str]] = {
    "used": ("good", "used"),
    "left out": ("caution", "left out"),
    "refused": ("bad", "refused"),
    "missing": ("caution", "no answer"),
}


def view(release: Release, folder: Path, alpha: float) -> View:
    """Return what the server knows at one level.

    Parameters
    ----------
    release : Release
        The record.
    folder : Path
        Where it lies; answers beside it are counted one by one.
    alpha : float
        The level.

    Returns
    -------
    View
        Without any coverage: the server has no test data.
    """
    round = release.round
    plan = Plan.of(round)
    task = release.tasks_of(alpha)[0]
    own_alpha = plan.tasks[task].alpha
    local = {
        name: answer
        for name, answers in release.received.items()
        if isinstance(answer := answers[task], LocalQuantile)
    }
    found = diagnose_release(release, task, own_alpha, plan.bounds)
    here = [each for each in released(release) if each.alpha == alpha]
    method = round.method.name
    about = [_agents(release, alpha, local, own_alpha, always_left_out(here))]
    if local and here[0].whose != "own":
        about.append(_thresholds(release, alpha, local, method))
    totals = [
        (method, a.name, a.bytes_up, a.bytes_down) for a in release.agents if a.status != "refused"
    ]
    about.append(sections.messages(totals, _answers(release, plan, folder), method))
    if found is not None:
        about.append(sections.diagnosis(found))
    return View(
        title=f"alpha = {alpha:g}",
        methods=[method],
        agents=list(round.agents),
        method=method,
        verdicts={method: _verdict(release, alpha, found, here)},
        sections=about,
    )


def _verdict(
    release: Release, alpha: float, found: Diagnosis | None, here: Sequence[Released]
) -> Verdict:
    """Say who was used, what came out, and what is not known here."""
    used, all_ = len(release.used) - len(always_left_out(here)), len(release.agents)
    said = (
        f"{used} of {counted(all_, 'agent')} were used; {_released(release, alpha)}. What it "
        "covers is not known here: the server has no test data."
    )
    for told in here:
        group = f"{told.group}, " if told.group else ""
        said += "".join(f" {sections.sentence(group + note)}" for note in told.notes)
    if found is not None and found.verdict == "unsafe":
        worst = sections.sentence(found.findings[0].says)
        return Verdict("bad", "Averaging is unsafe", f"{said} {worst}")
    if used < all_:
        return Verdict("caution", f"{all_ - used} left out", said)
    if found is not None and found.verdict == "cannot tell":
        title = "Cannot tell whether averaging is safe"
        return Verdict("caution", title, f"{said} {sections.sentence(found.findings[0].says)}")
    if found is not None and any(f.severity == "caution" for f in found.findings):
        return Verdict("caution", "Read the cautions", said)
    return Verdict("plain", "Closed", said)


def _released(release: Release, alpha: float) -> str:
    """Say which thresholds came out."""
    values: list[float] = []
    for name in release.used:
        try:
            found = release.threshold(name, alpha)
        except InputError:
            return "every agent finds its own threshold"
        values += [found] if isinstance(found, float) else found.tolist()
    low, high = min(values), max(values)
    what = (
        f"the threshold is {number(low)}"
        if low == high
        else (f"thresholds lie from {number(low)} to {number(high)}")
    )
    return f"{what}, for a coverage of {1 - alpha:g}"


def _agents(
    release: Release,
    alpha: float,
    local: dict[str, LocalQuantile],
    own_alpha: float,
    out: Collection[str],
) -> Section:
    """Return a card for each agent of the roster."""
    cards = [
        _card(release, agent, alpha, local.get(agent.name), own_alpha, out=agent.name in out)
        for agent in release.agents
    ]
    return Section(
        "agents",
        "Agents",
        "What each agent sent and was given. Coverage is for the agent to say: "
        "fedwqcp report html with --agent and --outputs, where its data are.",
        [Cards({release.round.method.name: cards})],
    )


def _card(
    release: Release,
    agent: AgentRecord,
    alpha: float,
    sent: LocalQuantile | None,
    own_alpha: float,
    *,
    out: bool,
) -> Card:
    """Return what the server knows of one agent."""
    tone, word = _STATUS["left out" if out else agent.status]
    try:
        given = release.threshold(agent.name, alpha)
        threshold = thresholds(given if isinstance(given, float) else given.tolist())
    except InputError:
        threshold = "its own"
    facts = [("threshold in use", threshold)]
    if agent.status != "refused":  # what is refused is not counted
        facts.append(("bytes sent", f"{agent.bytes_up:,}"))
    if agent.reason:
        facts.append(("refused for", agent.reason))
    if sent is None:
        return Card(agent.name, "", tone, word, threshold, "threshold in use", "", facts[1:])
    facts.insert(0, ("calibration points", f"{sent.n:,}"))
    return Card(
        agent.name,
        "",
        tone,
        word,
        number(sent.threshold) if sent.threshold < inf else "infinite",
        "own threshold",
        _chance(sent.n, own_alpha),
        facts,
    )


def _chance(n: int, alpha: float) -> str:
    """Say how far the coverage of an agent's own threshold strays by chance, exactly."""
    from scipy.special import betaincinv

    rank = conformal_rank(n, alpha)
    if rank > n:
        return "too few points for a finite threshold"
    low, high = (float(betaincinv(rank, n + 1 - rank, p)) for p in (0.025, 0.975))
    return f"by chance alone it covers {low:.3f} to {high:.3f} (95 %)"


def _thresholds(
    release: Release, alpha: float, local: dict[str, LocalQuantile], method: str
) -> Section:
    """Return the agents' own thresholds beside those in use."""
    rows = [
        (name, sent.n, sent.threshold, q)
        for name, sent in local.items()
        for q in np.atleast_1d(release.threshold(name, alpha)).tolist()
    ]
    return Section(
        "thresholds",
        "Thresholds",
        "Each agent's own threshold, the larger the more points it rests on, beside the one in "
        "use. An agent whose own lies to the right is covered less than it would be alone.",
        [own_and_released(rows, method=method)],
    )


def _answers(
    release: Release, plan: Plan, folder: Path
) -> dict[tuple[str, str], list[tuple[int, int]]]:
    """Return the bytes of every message whose files lie beside the record."""
    found: dict[tuple[str, str], list[tuple[int, int]]] = {}
    first = len(read(folder / "round.json")) if (folder / "round.json").is_file() else 0
    for agent in release.agents:
        steps = []
        for step in range(release.rounds):
            file = _answer_file(folder, agent.name, step)
            if file is None:
                break
            data = read(file)
            try:
                answer = decode(data, Answer, plan.kinds)
            except FedwqcpError:
                break
            if answer.round != release.round.id:
                break
            steps.append((first if step == 0 else _ask(folder, agent.name, step), len(data)))
        if sum(up for _, up in steps) == agent.bytes_up and steps:
            found[release.round.method.name, agent.name] = steps
    return found


def _answer_file(folder: Path, agent: str, step: int) -> Path | None:
    """Return where an answer lies: in a record that was written while it ran, or beside it."""
    own = f"{agent}.json" if step == 0 else f"{agent}.step-{step}.json"
    places = (folder / "answers" / f"step-{step}" / f"{agent}.json", folder / own)
    return next((place for place in places if place.is_file()), None)


def _ask(folder: Path, agent: str, step: int) -> int:
    """Return the bytes of a later question, where its file is there."""
    places = (folder / f"round.ask-{step}.{agent}.json", folder / f"round.ask-{step}.json")
    return next((len(read(place)) for place in places if place.is_file()), 0)
