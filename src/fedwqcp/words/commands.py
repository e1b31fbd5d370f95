"""What a command did, in text: each function takes the facts that ``--json`` prints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import inf
from pathlib import Path
from textwrap import fill
from typing import Any

from fedwqcp._validation import named

WIDTH = 80


def wrapped(*lines: str, first: str = "", then: str = "  ") -> str:
    """Break lines for a terminal of 80 columns."""
    options: dict[str, Any] = {"break_on_hyphens": False, "break_long_words": False}
    return "\n".join(
        fill(line, WIDTH, initial_indent=first, subsequent_indent=then, **options) for line in lines
    )


def files(files: Iterable[Path], **_: object) -> str:
    """Name the files that were written."""
    return "\n".join(f"written: {file}" for file in files)


def opened(round: str, file: Path, agents: Sequence[str], **_: object) -> str:
    """Say where the terms of a new round are, and who gets them."""
    return f"round {round} is open: send {file} to {named(agents, 12)}"


def closed(
    already: bool, release: Path, record: Path, findings: Any, advice: object, **_: object
) -> str:
    """Say where the release of a round is, and what to do."""
    lines = [f"what to do: {advice}"] if advice else []
    if already:
        lines.append("this round was closed before: these answers give the same record")
    elif all(finding.code != "useless" for finding in findings):
        lines.append(f"closed: send {release} to the agents; {record} stays here")
    return "\n".join(lines)


def answered(answer: Path, bytes: int, new: bool, budget_left: float | None, **_: object) -> str:
    """Say in which file an answer is, before its text."""
    budget = "" if budget_left is None else f"privacy budget left: {budget_left:g}\n"
    there = "" if new else ", which was written before"
    return f"{budget}this is all that is sent ({answer}, {bytes:,} bytes{there}):"


def shortened(answer: str, path: Path) -> str:
    """Return an answer as it is, or the beginning of a long one."""
    return answer if len(answer) <= 2000 else f"{answer[:2000]} ... (the rest is in {path})"


def ledger(accounts: Iterable[Mapping[str, Any]], **_: object) -> str:
    """Say of how many people scores were sent, and how many more may be."""
    lines = [
        f"{a['of']}: scores of {a['told']} of {a['people']} people sent, {a['left']} more allowed"
        for a in accounts
    ]
    return "\n".join(lines) or "no score was sent of these rows"


def waiting(folder: Path, approved: str | None, rounds: Mapping[str, Any]) -> str:
    """Say which rounds wait for an approval, and on which terms."""
    lines = [] if approved is None else [f"approved {approved}: the server can open it again"]
    for name, terms in rounds.items():
        levels = ", ".join(f"{alpha:g}" for alpha in terms.alphas)
        asked, score = (f"{c.name} {c.settings or ''}".strip() for c in (terms.method, terms.score))
        lines.append(
            f"{name} waits: {asked}, score {score}, alpha {levels}, by {terms.by or 'nothing'}, "
            f"{len(terms.agents)} agents; all its terms: {folder / 'waiting' / name}.json"
        )
    return "\n".join(lines if rounds else [*lines, "no round waits"])


def site_folder(folder: Path, new: bool) -> str:
    """Say that the folder of a site is there."""
    return f"{folder} is ready: what leaves the site is kept there" if new else f"{folder} exists"


def resolved(predictor: Path, **_: object) -> str:
    """Say where a predictor is, and how private it is."""
    return wrapped(
        f"{predictor}: keep it as private as the calibration data, since a threshold may be one "
        "person's score"
    )


def predicted(sets: Path, n: int, size: float | None, threshold: Sequence[float], **_: Any) -> str:
    """Say where the sets are, how large they are, and from which thresholds."""
    if not n:
        return f"{sets}: no sets"
    low, high = ("+inf" if end == inf else f"{end:.4g}" for end in threshold)
    span = low if low == high else f"{low} to {high}"
    return f"{sets}: {n} sets, mean size {size:.4g}, threshold {span}"


def masked(masks: Path, n: int, **_: object) -> str:
    """Say where the masks are."""
    return f"{masks}: {n} masks"


def audited(
    record: Path, result: Any, status: Mapping[str, str], opened: Any, released: Any
) -> str:
    """Say whether a record gives its release, and what became of each agent."""
    if result.failed:
        return f"{record}: {result.difference}"
    if not result.matches:
        return f"{record} does not match: {result.difference}"
    release, every = result.release, f"{len(status)} agents"
    agents = every if len(release.used) == len(status) else f"{len(release.used)} of the {every}"
    source = "its terms alone give the release, no agent sends anything"
    if result.sums:
        source = f"the sums over {agents} give the release"
    elif result.answers:
        source = f"{result.answers} accepted answers of {agents} give the release"
    if result.answers:
        source += ", all of them signed" if release.round.signed else "; none is signed"
    lines = [f"matches: round {release.round.id}, {release.round.method.name}, {source}"]
    if names := [name for name in release.used if status[name] == "used"]:
        lines.append(f"  used: {named(names, 12)}")
    others = [agent for agent in release.agents if status[agent.name] != "used"]
    for one in others:
        lost = result.missing.get(one.name, "") if one.status == "missing" else ""
        lines.append(
            "  " + ": ".join(filter(None, (one.name, status[one.name], one.reason or lost)))
        )
    for what, made in (("opened", opened), ("released", released)):
        when, by = made.get("created", "at no stated time"), made.get("software", "unknown")
        lines.append(f"  {what} {when} with {by}, as the server states")
    if len(release.used) < len(status):
        lines.append("  who is missing or refused, why, and bytes received are the server's word")
    return "\n".join(lines)


def known(things: Iterable[tuple[Mapping[str, Any], str]]) -> str:
    """List methods or scores, each with its settings as text."""
    blocks = []
    for thing, settings in things:
        lines = [thing["summary"]]
        if "guarantee" in thing:
            lines.append(f"guarantee: {thing['guarantee'].in_words}")
        lines += [f"settings: {settings}"] if settings else []
        blocks.append(f"{thing['name']}\n{wrapped(*lines, first='  ', then='    ')}")
    return "\n".join(blocks)


def new_key(key: Path, **_: object) -> str:
    """Say what to do with the halves of a key; its line in the roster follows."""
    return f"{key} is the private key: it stays here. For the roster, under [keys]:"


def certificates(files: Iterable[Path], days: int) -> str:
    """Name trial certificates, and say what they are good for."""
    paths = "\n".join(map(str, files))
    return f"{paths}\n" + wrapped(
        f"for trying out: valid for {days} days. In earnest, every site makes its own key and "
        "hands over keys/NAME.pub alone"
    )


def pictured(files: Sequence[Path], report: Path, **_: object) -> str:
    """Say where the demo's figure and report are."""
    return f"\nFigure: {files[0]}  Report: {report}"


def new_app(files: Sequence[Path], sites: int) -> str:
    """Name the files of a Flower app, and say what to do with them."""
    return "\n".join(
        [
            *map(str, files),
            f"a roster of {sites} sites; put your model in outputs(); README.md says how to run it",
        ]
    )


def new_job(files: Sequence[Path]) -> str:
    """Name the files of a FLARE job, and say what to do with them."""
    todo = f"state the roster and the terms in {files[2]}; {files[1]} says how to run it"
    return "\n".join([*map(str, files), todo])
