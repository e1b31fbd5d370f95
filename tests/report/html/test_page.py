import pytest

from fedwqcp.metrics import Rate
from fedwqcp.report.verdicts import enough_cases, judged, least_shown
from fedwqcp.words.coverage import rule


@pytest.mark.parametrize(
    ("hits", "n", "nominal", "word"),
    [
        (360, 400, 0.9, "on target"),
        (386, 400, 0.9, "above nominal"),
        (160, 200, 0.9, "too low"),
        (850, 1000, 0.9, "watch"),
        (183, 200, 0.9, "on target"),
        (56, 60, 0.9, "not yet shown"),
        (190, 200, 0.95, "not yet shown"),
        (950, 1000, 0.95, "on target"),
    ],
)
def test_coverages_are_judged(hits, n, nominal, word):
    assert judged(Rate(n=n, hits=hits), nominal, 0.82) == word
    assert word in rule(word, nominal, least_shown(nominal)).lower()


def test_coverage_between_what_is_promised_and_what_was_asked_for_is_on_target():
    rate = Rate(n=400, hits=360)  # 0.866 to 0.928
    assert judged(rate, 0.857, 0.8, asked=0.9) == "on target"
    assert judged(rate, 0.857, 0.8) == "above nominal"


@pytest.mark.parametrize(("n", "hits"), [(60, 56), (500, 437), (100, 84)])
def test_so_many_cases_of_the_same_coverage_decide(n, hits):
    more = enough_cases(Rate(n=n, hits=hits), 0.9)
    if hits / n <= 0.85:
        assert more is None
    else:
        assert Rate(n=more, hits=round(more * hits / n)).low == pytest.approx(0.85, abs=0.01)
