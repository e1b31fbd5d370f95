"""Sections that several sources share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite

from fedwqcp.report.html.blocks import Block, Charts, Row, Table, Text, Tone
from fedwqcp.report.html.charts import scores
from fedwqcp.report.html.page import Section
from fedwqcp.report.html.panels import traffic
from fedwqcp.report.html.words import counted
from fedwqcp.theory import Diagnosis

_TONES: dict[str, tuple[Tone, str]] = {
    "unsafe": ("bad", "unsafe"),
    "caution": ("caution", "caution"),
    "ok": ("good", "fine"),
}

_VERDICTS = {
    "safe": "Averaging is safe: no agent misses more than alpha/2 beyond alpha.",
    "unsafe": "Averaging is unsafe.",
    "cannot tell": "Whether averaging is safe cannot be told from this.",
}


def diagnosis(found: Diagnosis) -> Section:
    """Tell what the agents' summaries show, and what to do next.

    Parameters
    ----------
    found : Diagnosis
        From the summaries.

    Returns
    -------
    Section
        The findings, the gravest first, then the advice.
    """
    blocks: list[Block] = []
    for finding in found.findings:
        tone, word = _TONES[finding.severity]
        blocks.append(Text([sentence(finding.says)], tone, f"{word}: {finding.code}"))
    if found.advice:
        blocks.append(Text(found.advice, title="What to do next"))
    return Section(
        "diagnosis",
        "Diagnosis, and what to do next",
        f"{_VERDICTS[found.verdict]} Read from what the agents sent, so the server can tell it "
        "too. It cannot see test data that differ from calibration data.",
        blocks,
    )


def score_panels(
    panels: Mapping[str, tuple[Sequence[float], Sequence[int], float | None]],
    released: Mapping[str, Sequence[tuple[str, float]]],
    method: str,
) -> Section:
    """Draw the agents' scores with the thresholds.

    Parameters
    ----------
    panels : mapping of str to (edges, people, own threshold)
        By agent.
    released : mapping of str to sequence of (str, float)
        By agent: methods and thresholds.
    method : str
        The method that is chosen first.

    Returns
    -------
    Section
        One small chart for each agent, all on the same axis.
    """
    ends = [edge for edges, _, _ in panels.values() for edge in edges]
    ends += [q for own in released.values() for _, q in own if isfinite(q)]
    domain = (min(ends, default=0.0), max(ends, default=1.0))
    if domain[0] == domain[1]:
        domain = (domain[0], domain[0] + 1)
    few = [agent for agent, (_, people, _) in panels.items() if not people]
    note = f" {', '.join(few)}: too few people for a bin." if few else ""
    return Section(
        "scores",
        "Scores and thresholds",
        "A score says how badly the truth fits the model's output; a set holds all that score "
        "at or below the threshold. Solid line: the threshold of the chosen method. Dashed: the "
        "agent's own. Every bin holds at least ten people: thinner neighbours are merged, so bins "
        f"differ in width, and a bar's area is its share of people.{note}",
        [
            Charts(
                {
                    agent: scores(
                        agent,
                        list(zip(edges[:-1], edges[1:], people, strict=True)),
                        own,
                        released[agent],
                        method=method,
                        domain=domain,
                    )
                    for agent, (edges, people, own) in panels.items()
                }
            )
        ],
    )


def messages(
    totals: Sequence[tuple[str, str, int, int]],
    single: Mapping[tuple[str, str], Sequence[tuple[int, int]]],
    method: str,
) -> Section:
    """Tell what was sent: all bytes of each agent, and every message.

    Parameters
    ----------
    totals : sequence of (str, str, int, int)
        Method, agent, bytes up and bytes down.
    single : mapping of (str, str) to sequence of (int, int)
        By method and agent: bytes of the question and the answer of each step, where known.
    method : str
        The method that is chosen first.

    Returns
    -------
    Section
        A chart and a table.
    """
    rows = [
        Row((agent, str(step), f"{down:,}", f"{up:,}"), agent, name)
        for (name, agent), steps in single.items()
        for step, (down, up) in enumerate(steps)
    ]
    blocks: list[Block] = []
    if len({name for name, *_ in totals}) > 1:
        blocks.append(traffic(totals, method=method))
    elif any(up or down for _, _, up, down in totals):
        lines = [Row((agent, f"{up:,}", f"{down:,}"), agent) for _, agent, up, down in totals]
        sent = ("agent", "sent by the agent, bytes", "sent to the agent, bytes")
        blocks.append(Table("bytes", "In all", sent, lines))
    columns = ("agent", "step", "question, bytes", "answer, bytes")
    if rows:
        blocks.append(Table("messages", "Message by message", columns, rows))
    if not blocks:
        blocks.append(Text(["Nothing was sent: every agent used its own threshold."]))
    steps = max((len(own) for own in single.values()), default=0)
    lead = (
        "The release itself is not counted, nor is an answer that was refused. A method that "
        "shares nothing has no messages."
    )
    return Section(
        "sent",
        "What was sent",
        f"{lead} The longest dialogue took {counted(steps, 'step')}." if steps > 1 else lead,
        blocks,
    )


def sentence(text: str) -> str:
    """Begin with a capital and end with a full stop.

    Parameters
    ----------
    text : str
        What is said.

    Returns
    -------
    str
        The sentence.
    """
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")
