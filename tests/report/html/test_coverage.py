import numpy as np
import pytest

import fedwqcp as fw
from fedwqcp.metrics import explained
from fedwqcp.report.html.rounds import Coverage, coverage_verdict
from fedwqcp.report.verdicts import judged
from fedwqcp.words import coverage as words


def measured(agent, hits, n):
    return Coverage(agent, fw.metrics.Rate(n=n, hits=hits), 0.9, {}, explained=0.82)


@pytest.mark.parametrize(
    ("found", "tone", "word"),
    [
        ([("a", 240, 300), ("b", 360, 400)], "bad", "Too low at 1 of 2 agents"),
        (
            [("a", 396, 400), ("b", 360, 400)],
            "plain",
            "Above nominal at 1 of 2 agents",
        ),
        ([("a", 895, 1000), ("b", 360, 400)], "good", "On target"),
        (
            [("a", 176, 200), ("b", 360, 400)],
            "plain",
            "Not yet shown at 1 of 2 agents",
        ),
        ([("a", 765, 900), ("b", 360, 400)], "caution", "Watch at 1 of 2 agents"),
        ([("a", 44, 50)], "plain", "Not yet shown"),
        ([("a", 240, 300)], "bad", "Too low"),
        ([("a", 830, 1000)], "caution", "Watch"),
    ],
)
def test_a_verdict_is_as_grave_as_its_gravest_agent(found, tone, word):
    said = coverage_verdict("fcp", [measured(*one) for one in found])
    assert (said.tone, said.word) == (tone, word)
    assert "0.9" in said.text
    assert "95 %" in said.text
    assert ("by chance" in said.text) == word.startswith("Above")


def test_a_site_is_judged_by_what_is_promised_there():
    rate = fw.metrics.Rate(n=400, hits=350)
    few = Coverage("a", rate, 6 / 7, {}, explained=0.4, asked=0.9, points=6)
    assert few.judged[1] == "on target"
    assert {"0.857", "0.9"} <= set(coverage_verdict("auto", [few]).text.rstrip(".").split())


def test_sizes_of_sets_that_are_merged_read_as_numbers_of_labels():
    assert words.sizes(["10", "0", "3"]) == "0, 3 or 10 labels"


def test_sets_of_all_labels_are_not_called_safe():
    assert words.next_steps("Above nominal", full=True) != words.next_steps("Above nominal")


@pytest.mark.parametrize(("n", "m"), [(60, 60), (60, 1000), (9, 300)])
def test_a_valid_method_is_called_too_low_once_in_forty(n, m):
    rng = np.random.default_rng(0)
    runs, low, watch = 4000, 0, 0
    rank = fw.conformal_rank(n, 0.1)
    covered = rng.beta(rank, n + 1 - rank, size=runs)  # of split-cp, over its calibrations
    for hits in rng.binomial(m, covered):
        rate = fw.metrics.Rate(n=m, hits=int(hits))
        least = explained(m, n, 0.1)
        word = judged(rate, 0.9, least)
        low, watch = low + (word == "too low"), watch + (word == "watch")
    assert low <= 0.025 * runs + 3 * (0.025 * 0.975 * runs) ** 0.5
    assert m < 100 or watch > 0.05 * runs  # which the old rule called too low
