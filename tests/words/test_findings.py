"""Every code of a finding has one wording; findings of one code are told together."""

from __future__ import annotations

import pytest

from fedwqcp import errors
from fedwqcp.findings import Finding
from fedwqcp.words import findings as words

PART = {"by": "label", "part": "2"}
INFINITE = {"alphas": (0.1,), "by": None, "parts": ()}

ZEROS = {"zeros": 21, "n": 60}
NEW = {"kind": "none", "alpha": 0.1, "confidence": 0.9, "shared": True, "infinite": True,
       "assumption": "sites are alike", "needed": 9, "roster": 3}  # fmt: skip
KINDS = ("none", "new-agent-marginal", "new-agent-confident")

EXAMPLES = [
    Finding.of("unseen-labels", "a", share=0.25),
    Finding.of("proves-less", "a", by=None, part=None, n=8, alpha=0.1, needed=9, proved=8 / 9),
    Finding.of("too-few-points", n=3, alpha=0.1, needed=9, overflow="clip", **PART),
    *(Finding.of("no-points", gets=gets, **PART) for gets in ("borrows", "own", "per-agent")),
    Finding.of("no-points", gets="shared", by=None, part=None),
    Finding.of("spent-for-nothing"),
    Finding.of("labels-mismatch", "a", right=0.1, n=60, no_zero=True),
    Finding.of("unnamed-classes"),
    *(Finding.of("unchecked-classes", classes=("flu", "cold"), right=r) for r in (None, 0.5)),
    *(Finding.of("no-ids", score="aps", rows="test", others=others) for others in (False, True)),
    *(Finding.of("calibration-rows", "a", rows=5, n=9, how=how) for how in ("ids", "outputs")),
    *(Finding.of("full-sets", "a", **INFINITE, **z) for z in ({}, {"zeros": 0}, ZEROS)),
    Finding.of("unanswered", "a", status="missing"),
    Finding.of("refused", "a", reason="n: must be an integer"),
    Finding.of("missing", "a", "b"),
    Finding.of("servers-record", file="record.json"),
    Finding.of("replaced", file="sets.csv"),
    Finding.of("useless", file="release.json"),
    Finding.of("left-out", "a", alpha=0.1, **PART),
    Finding.of("absent", "a", **PART),
    Finding.of("empty-sets"),
    *(Finding.of("coverage-low", part="label 1", level=0.9, chance=chance) for chance in (0, 1)),
    Finding.of("risk-high", part=None, level=0.1),
    Finding.of("coverage-low", part=None, level=6 / 7, asked=0.9, chance=False),
    *(Finding.of("new-site", **{**NEW, "kind": kind}) for kind in KINDS),
    Finding.of("new-site", **{**NEW, "shared": False}),
    Finding.of("infinite-threshold", "a", **INFINITE, agents_needed=19, roster=3),
    Finding.of("infinite-threshold", "a", **{**INFINITE, "by": "label", "parts": "2"}),
]


@pytest.mark.parametrize("finding", EXAMPLES, ids=lambda finding: finding.code)
def test_a_finding_is_told_in_sentences(finding: Finding) -> None:
    text = words.text(finding)
    assert text.endswith(".")
    assert "None" not in text
    assert all(name in text for name in finding.agents)


def test_every_code_has_an_example() -> None:
    assert {finding.code for finding in EXAMPLES} == set(words._TEXTS)


def test_findings_of_one_code_are_told_together_with_one_cure() -> None:
    facts = {"alphas": (0.1,), "by": "label", "needed": 9, "overflow": ("exclude", "clip")}
    first = Finding.of("infinite-threshold", "a", "c", **facts, parts=("1",))
    second = Finding.of("infinite-threshold", "b", **facts, parts=("1", "2"))
    assert words.lines([first, Finding.of("missing", "d"), second]) == [
        "the threshold of a, c is +inf at alpha=0.1 for label 1: this label is in every set; the "
        "threshold of b is +inf at alpha=0.1 for labels 1, 2: these labels are in every set. A "
        "finite one takes 9 calibration points of each label: add some, "
        "choose a larger alpha, overflow='exclude' (leaves such agents out) or "
        "overflow='clip' (loses coverage).",
        "no answer from d.",
    ]


def test_many_findings_of_one_code_are_cut() -> None:
    text = words.text(*(Finding.of("refused", f"s{i}", reason="late") for i in range(9)))
    assert "; and 4 more like these. " in text


def test_one_warning_for_each_class_carries_its_findings() -> None:
    with pytest.warns(errors.FindingWarning) as caught:
        words.warn(EXAMPLES)
    assert sum(len(each.message.findings) for each in caught) == len(EXAMPLES)  # type: ignore[union-attr]
    assert len({each.category for each in caught}) == len(caught) == 6
    assert all(each.filename == __file__ for each in caught)
