"""Findings as text: what was found, and what to do about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from fedwqcp import errors
from fedwqcp._validation import listed, named
from fedwqcp.findings import Finding, warning_of
from fedwqcp.words import sentence
from fedwqcp.words.coverage import level
from fedwqcp.words.rounds import AVERAGE, percent

Wording: TypeAlias = Callable[[Finding], str]

_MOST = 5
"""Findings of one code that are told one by one."""


def text(*findings: Finding) -> str:
    """Say what was found and what to do, findings of one code together."""
    whats = list(dict.fromkeys(_text(_TEXTS[finding.code][0], finding) for finding in findings))
    cures = dict.fromkeys(_text(_TEXTS[finding.code][1], finding) for finding in findings)
    if len(whats) > _MOST:
        whats[_MOST:] = [f"and {len(whats) - _MOST} more like these"]
    return " ".join(["; ".join(whats) + ".", *(cure for cure in cures if cure)])


def _text(text: str | Wording, finding: Finding) -> str:
    if not isinstance(text, str):
        return text(finding)
    return text.format(whose=_whose(finding), names=named(finding.agents), **finding.facts)


def lines(findings: Iterable[Finding]) -> list[str]:
    """Return one text for each code, in the order in which the codes come."""
    return [text(*alike) for alike in _by(findings, lambda finding: finding.code)]


def warn(findings: Iterable[Finding]) -> None:
    """Issue one Python warning for each class of warnings; it carries its findings."""
    for alike in _by(findings, warning_of):
        errors.warn(warning_of(alike[0])(" ".join(lines(alike)), tuple(alike)))


def _by(findings: Iterable[Finding], key: Callable[[Finding], object]) -> list[list[Finding]]:
    groups: dict[object, list[Finding]] = {}
    for finding in findings:
        groups.setdefault(key(finding), []).append(finding)
    return list(groups.values())


def parts(by: str | None, names: Sequence[str]) -> str:
    """Name labels or groups: ``label 1``, ``groups f, m``; nothing where there are none."""
    return f"{by}{'s' * (len(names) > 1)} {named(names)}" if by and names else ""


def excludes_nothing(by: str | None, several: bool = False) -> str:
    """Say what a threshold of +inf means: of everything, or of labels or groups."""
    if by == "label":
        return "these labels are in every set" if several else "this label is in every set"
    if by == "group":
        whose = "these groups" if several else "this group"
        return f"the sets of {whose} exclude nothing"
    return "sets with it exclude nothing"


def _whose(finding: Finding) -> str:
    return f"{named(finding.agents)}: " if finding.agents else ""


def _infinite(finding: Finding) -> str:
    facts, by, names = finding.facts, finding["by"], finding["parts"]
    whose = f" of {named(finding.agents)}" if finding.agents else ""
    of = f" for {parts(by, names)}" if names else ""
    levels = ", ".join(f"{alpha:g}" for alpha in facts["alphas"])
    rows = " for some rows" if facts.get("some") and not names else ""
    level = f" at alpha={levels}" if levels else ""
    held = excludes_nothing(by if names else None, len(names) > 1)
    return f"the threshold{whose} is +inf{level}{of}{rows}: {held}"


def _infinite_cure(finding: Finding) -> str:
    facts, by = finding.facts, finding["by"]
    if facts.get("agents_needed"):
        return (
            f"A finite one takes {facts['agents_needed']} agents, here are {facts['roster']}: add "
            "agents or choose a larger alpha. More points at these agents do not help."
        )
    ways = {"exclude": "leaves such agents out", "clip": "loses coverage"}
    choices = [f"overflow={rule!r} ({ways[rule]})" for rule in facts.get("overflow", ())]
    add = "add some" if "needed" in facts else "add calibration points"
    *first, last = [add, "choose a larger alpha", *choices]
    cure = f"{', '.join(first)} or {last}."
    of = f" of each {by}" if by else ""
    if "needed" not in facts:
        return cure.capitalize()
    return f"A finite one takes {facts['needed']} calibration points{of}: {cure}"


def _full(finding: Finding) -> str:
    facts, by, names = finding.facts, finding["by"], finding["parts"]
    whose, of = _whose(finding), f" for {parts(by, names)}" if names else ""
    levels = ", ".join(f"{alpha:g}" for alpha in facts["alphas"])
    level = f" at alpha={levels}" if levels else ""
    held = excludes_nothing(by, len(names) > 1) if names else "every set holds every label"
    zeros = ""
    if facts.get("zeros"):
        share = f"{facts['zeros']:,} of {facts['n']:,} calibration rows"
        zeros = f": the model gives the true class a probability of 0 in {share}"
    return f"{whose}{held}{level}{of}{zeros}"


def _full_cure(finding: Finding) -> str:
    if finding.facts.get("zeros"):
        return "Smooth or calibrate the model's probabilities."
    if "zeros" in finding.facts:
        return "Choose a larger alpha, a better model or more calibration cases."
    return (
        "Count the calibration rows where the model gives the true class a probability of 0: if "
        "there are many, smooth or calibrate its probabilities."
    )


def _points(finding: Finding) -> str:
    of = f" of {finding['by']} {finding['part']}" if finding["by"] else ""
    return f"{_whose(finding)}{finding['n']} calibration point{'s' * (finding['n'] != 1)}{of}"


def _proves_less(finding: Finding) -> str:
    facts, alpha = finding.facts, finding["alpha"]
    takes = f" takes {facts['needed']}"
    if not facts["n"]:
        return f"{_points(finding)}: nothing is proved; {percent(1 - alpha)}{takes}"
    prove = f"{_points(finding)} prove{'s' * (facts['n'] == 1)}"
    if facts.get("risk"):
        most = percent(1 - facts["proved"], up=True)
        return f"{prove} a risk of at most {most}; {percent(alpha)}{takes}"
    return f"{prove} coverage of {percent(facts['proved'])}; {percent(1 - alpha)}{takes}"


_OVERFLOW = {
    "propagate": "is +inf, and so is what is made of it; overflow=exclude leaves such agents out",
    "exclude": "is +inf, and a shared one is made without it (overflow=exclude)",
    "clip": "is its largest score, which covers too little (overflow=clip)",
}


def _no_points(finding: Finding) -> str:
    of = f" of {finding['by']} {finding['part']}" if finding["by"] else ""
    by = finding["by"]
    gets = {
        "borrows": "it borrows one, and nothing is proved there",
        "own": f"its own is +inf: {excludes_nothing(by)}",
        "per-agent": f"where each agent has its own, it is +inf: {excludes_nothing(by)}",
        "shared": "it predicts with that of the others"
        + (", +inf if nobody has any" if by else ""),
    }[finding["gets"]]
    return f"{_whose(finding)}no calibration point{of}, so no part in the threshold; {gets}"


_OTHER = {"test": "calibration", "calibration": "test"}
_ROWS = {
    "ids": "have the id and outputs of a calibration row",
    "outputs": "look the same as calibration rows (equal outputs; no ids tell them apart)",
    "scores": "look the same as calibration rows (equal scores; no ids tell them apart)",
}


def _new_site(finding: Finding) -> str:
    kind = finding["kind"]
    if kind == "new-agent-marginal":
        level = 1 - finding["alpha"]
        return f"A point of a new site is covered with probability at least {level:g}"
    if kind == "new-agent-confident":
        return (
            f"With probability at least {finding['confidence']:g} over sites, a new site's own "
            "threshold would have been no larger; of its coverage nothing is promised"
        )
    if not finding["shared"]:
        return "A site that took no part has no threshold: each agent has its own"
    return "Nothing is promised to a site that took no part: the threshold is for those that did"


def _new_site_more(finding: Finding) -> str:
    if finding["kind"].startswith("new-agent"):
        more = " Here the threshold is +inf: more agents are needed." if finding["infinite"] else ""
        return f"Assumed: {finding['assumption']}.{more}"
    return (
        "new-agent-cp promises coverage at a new site that is exchangeable with the others. At "
        f"alpha={finding['alpha']:g} it needs at least {finding['needed']} agents; this round has "
        f"{finding['roster']}."
    )


def _at(finding: Finding) -> str:
    of = f", {finding['by']} {finding['part']}" if finding["part"] else ""
    return f"at alpha={finding['alpha']:g}{of}"


_TEXTS: dict[str, tuple[str | Wording, str | Wording]] = {
    "infinite-threshold": (_infinite, _infinite_cure),
    "full-sets": (_full, _full_cure),
    "unseen-labels": (
        "{whose}more than alpha of the labels (up to {share:.0%}) are of classes of which no agent "
        "has enough points, so the threshold is +inf",
        "Collect points of these classes at any agent, or merge classes.",
    ),
    "proves-less": (
        _proves_less,
        f"Where the others' data give a higher threshold, that is used. {sentence(AVERAGE)}",
    ),
    "too-few-points": (
        lambda f: (
            f"{_points(f)}: too few for a finite threshold at alpha={f['alpha']:g} (it takes "
            f"{f['needed']})"
        ),
        lambda f: f"This agent's threshold {_OVERFLOW[f['overflow']]}." if f["overflow"] else "",
    ),
    "no-points": (_no_points, ""),
    "spent-for-nothing": (
        "with this epsilon the points are too few for a finite threshold",
        "The answer spends the budget all the same: ask for a larger epsilon, or bring more "
        "points.",
    ),
    "labels-mismatch": (
        "{whose}the most probable class is right in only {right:.1%} of {n} rows",
        lambda f: (
            "Check that labels belong to these rows and columns are in the order of the labels"
            + (", and that labels count from 0 (no row has label 0)." if f["no_zero"] else ".")
        ),
    ),
    "unnamed-classes": (
        "the round names no classes: their order is not checked between sites, and sets hold "
        "numbers",
        "`classes = [...]` in the roster names them.",
    ),
    "unchecked-classes": (
        lambda f: (
            f"the outputs name no classes: columns are taken to be {listed(f['classes'])} in this "
            "order"
            + ("" if f["right"] is None else f", with the most probable right in {f['right']:.1%}")
        ),
        "",
    ),
    "no-ids": (
        lambda f: (
            f"the {f['rows']} rows have no ids (a column id, or an array ids)"
            + f", but the {_OTHER[f['rows']]} rows have some" * f["others"]
            + f": under score {f['score']!r} equal outputs get equal sets"
        ),
        "Calibration and test files must both have ids, or both none.",
    ),
    "calibration-rows": (
        lambda f: f"{_whose(f)}{f['rows']} of {f['n']} test rows {_ROWS[f['how']]}",
        "Coverage there says nothing about new cases: test on other rows.",
    ),
    "unanswered": (
        lambda f: (
            f"the threshold does not rest on data of {named(f.agents)}: "
            + ("it did not answer" if f["status"] == "missing" else "its answer was refused")
        ),
        "",
    ),
    "useless": ("closed, but no threshold is finite: no set of {file} excludes anything", ""),
    "empty-sets": (
        "some sets are empty, and miss the true label",
        "With --no-allow-empty the most probable label is in every set.",
    ),
    "coverage-low": (
        lambda f: (
            f"coverage{_of_part(f)} is {'maybe by chance ' * f['chance']}too low: its whole "
            f"interval lies below {_level(f)}"
        ),
        lambda f: (
            "Measure again on more rows."
            if f["chance"]
            else "Do not rely on these sets: check columns, labels and patients, calibrate again."
        ),
    ),
    "risk-high": (
        lambda f: f"the risk{_of_part(f)} is too high: its whole interval lies above {_level(f)}",
        "Do not rely on this prediction: check outputs and labels, and calibrate again.",
    ),
    "new-site": (_new_site, _new_site_more),
    "refused": (
        "{names} was refused: {reason}",
        "A closed round takes no more answers: if it must count, open a new round.",
    ),
    "missing": (lambda f: f"no answer from {named(f.agents, 10)}", ""),
    "left-out": (
        lambda f: (
            f"{_at(f)} the threshold is made without {named(f.agents)}, which sent +inf "
            "(overflow=exclude)"
        ),
        "",
    ),
    "absent": ("no calibration point of {by} {part} at {names}", ""),
    "servers-record": (
        "{file} is the server's record, with the answers of all agents",
        "It stays at the server; agents get the release (release-ID.json).",
    ),
    "replaced": ("{file} was there before and was replaced", ""),
}
"""By code: what was found, and what to do, as a text with facts or a function of the finding."""


def _level(finding: Finding) -> str:
    """Write what is promised, and what was asked for where that is another number."""
    facts = finding.facts
    if "asked" not in facts:
        return level(facts["level"])
    return f"the {level(facts['level'])} that is promised ({facts['asked']:g} was asked for)"


def _of_part(finding: Finding) -> str:
    return f" of {finding['part']}" if finding["part"] else ""
