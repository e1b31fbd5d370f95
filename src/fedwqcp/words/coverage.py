"""Coverage as text: on test points, and after release."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from fedwqcp.words import counted
from fedwqcp.words.rounds import rounded_down

_RULES = {
    "too low": "Too low: the whole interval lies below {0}, and chance takes at most one valid "
    "calibration in 40 that far.",
    "watch": "Watch: the whole interval lies below {0}, but this may still be chance.",
    "above nominal": "Above nominal: the whole interval lies above {0}.",
    "on target": "On target: no part of the interval lies below {1}.",
    "not yet shown": "Not yet shown: the interval reaches below {1}; more test cases decide.",
}
_NEXT = {
    "on target": "These cases agree with the promise. Use the sets until the monitor alarms.",
    "too low": "Do not rely on these sets yet. Check that test points come from the same patients, "
    "devices and labels as the calibration cases, then calibrate again with more of them.",
    "watch": "Measure again on more test cases, or calibrate on more, before you rely on it.",
    "test rows": "Measure again on rows that did not calibrate.",
    "full": "Do not use these sets: they hold every label, and the notes say what to do.",
    "above": "Sets are safe but may be larger than needed: more calibration cases shrink them.",
    "not yet shown": "Measure again on more labelled test cases before you rely on it.",
}
_PARTS = {
    None: "One threshold for all classes promises coverage over all of them together, so a hard "
    "class may be covered less. Calibrate by label to give each class its own.",
    "label": "Each class has a threshold of its own.",
    "group": "What is proved holds within each group, also for people who are in several.",
}
_SET = (
    "A set holds every label that cannot be ruled out for a case at this level. Over many cases "
    "like those of the calibration, {share} of the sets should hold the true label.",
    "A set of one label is no proof: the table of sizes says how often such sets were right. With "
    "a set of several, decide between its labels as you would without it; a set of all labels says "
    "nothing, so do what you would do without it. An empty one is a miss and, with a randomised "
    "score, says nothing about the case.",
)
AT_THE_SERVER = (
    "The server has no test data. Each agent measures its own coverage, where its data are: "
    "fedwqcp report with --agent and --outputs."
)
BORROWED = (
    "Borrowed: which share of the threshold that is borrowed rests on other agents' points (1 is "
    "all of it). Effective points: how many calibration points of its own it is worth there."
)
SECTIONS = {
    "next": ("What to do next", ""),
    "notes": ("Notes", ""),
    "agents": ("Coverage", ""),
    "sizes": (
        "Labels in a set",
        "How many sets have so many labels, and how many of these hold the true one. Every line "
        "stands for at least ten people: rarer sizes are merged.",
    ),
    "classes": ("Classes", ""),
    "groups": ("Groups", ""),
    "meaning": ("What a set means", ""),
    "made": ("How the sets were made", ""),
    "exchanged": ("What was sent", "Bytes count neither the release nor refused answers."),
    "diagnosis": (
        "Was averaging safe?",
        "Computed from what the agents sent, which tells nothing about test data.",
    ),
    "new-site": ("What is promised to a new site", ""),
    "findings": ("Notes", ""),
    "standings": ("Agents", ""),
    "history": ("Coverage by batch", ""),
}
"""Headings of a report's sections, and how one is read where that is always the same."""
_INTERVAL = (
    "An interval holds every value that cannot be ruled out for a case at this level. Over many "
    "cases like those of the calibration, {share} should hold the true value.",
    "A wide interval says that the model knows little about the case.",
)


def measured(method: str, worst: Any, mean: float | None) -> str:
    """Say what the sets covered where least, and on average over several agents."""
    least = worst.rate.coverage
    text = f"Sets hold the truth for {least:.3f} of {worst.agent}'s test cases"
    if mean is not None:
        text = f"Sets of {method} hold the truth for {mean:.3f} on average, {least:.3f} at "
        text += worst.agent
    return f"{text} ({interval(worst.rate)}); {_promised(worst)}."


def _promised(coverage: Any) -> str:
    """Say which coverage is promised, and which was asked for if that is more."""
    asked = coverage.nominal if coverage.asked is None else coverage.asked
    if asked - coverage.nominal < 1e-9:
        return f"{asked:g} was asked for"
    cases = (
        "" if coverage.points is None else f" for {counted(coverage.points, 'calibration case')}"
    )
    return f"{level(coverage.nominal)} is promised{cases}, {asked:g} was asked for"


def level(share: float) -> str:
    """Write a coverage as it was asked for, or a proved one rounded down."""
    return f"{share:g}" if abs(share - round(share, 6)) < 1e-9 else rounded_down(share)


def sizes(sizes: Sequence[str]) -> str:
    """Name sizes of sets that are counted together: ``0, 3 or 4 labels``."""
    *first, last = sorted(sizes, key=int)
    return f"{', '.join(first)}{' or ' if first else ''}{last} labels"


def interval(rate: Any) -> str:
    """Write an exact interval, such as ``"exact 95 % interval 0.748 to 0.815"``."""
    return f"exact {100 * rate.level:.3g} % interval {rate.low:.3f} to {rate.high:.3f}"


def cards(cases: int, levels: Iterable[float]) -> str:
    """Say how the cards of agents are read, of which these coverages are promised."""
    marks = " or ".join(dict.fromkeys(map(level, levels)))
    lead = f"Sets on {cases:,} labelled test cases. The band is the interval, the mark the "
    return f"{lead}{marks} that is promised."


def rule(word: str, nominal: float, least: float) -> str:
    """Say what a verdict on coverage means; an interval on target reaches down to ``least``."""
    return _RULES[word].format(level(nominal), level(least))


def next_steps(verdict: str, *, full: bool = False) -> list[str]:
    """Say what to do after a verdict, which begins with one of the words.

    ``full`` is whether every set holds every label.
    """
    word = "full" if full and verdict.startswith("Above") else verdict.lower()
    step = next(step for start, step in _NEXT.items() if word.startswith(start))
    later = (
        "This page knows nothing of later cases: as their labels arrive, watch their coverage with "
        "fedwqcp monitor, whose own report says whether it has fallen since."
    )
    return [step, later]


def above(infinite: Sequence[str], full: Sequence[str] = ()) -> str:
    """Say what a coverage above the nominal one comes from, at agents with infinite thresholds."""
    if infinite:
        return (
            f"The threshold of {', '.join(infinite)} is infinite: its sets exclude nothing, and a "
            "finite one needs more calibration cases."
        )
    if full:
        return f"Every set of {', '.join(full)} holds every label: the notes say why."
    return "Sets are larger than needed, or the calibration cases gave a high threshold by chance."


def meaning(share: str, *, labels: bool) -> list[str]:
    """Say what a set is, for who uses one."""
    lines = [line.format(share=share) for line in (_SET if labels else _INTERVAL)]
    return [*lines, "This says nothing about a single case, or about cases of another kind."]


def parts(by: str | None, kinds: str) -> str:
    """Say what holds for each class or group, and how a table of them is read."""
    return (
        f"{_PARTS[by]} Coloured: the whole interval lies below what is promised. Every line "
        f"stands for at least ten people: smaller {kinds} are merged."
    )


def parts_judged(by: str, verdict: str, parts: str) -> str:
    """Name the classes or groups whose coverage is not on target."""
    return f"Each {by} has its own threshold; {verdict}: {parts}."


def unmeasured(used: int, agents: int, *, asked: bool) -> str:
    """Say how many agents a release rests on, where nobody has test data."""
    who = f"{used} of {counted(agents, 'agent')} were used" if asked else "Nobody was asked"
    return f"{who}. What the sets cover is not known here."
