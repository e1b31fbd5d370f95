import pytest

from fedwqcp.metrics import Rate
from fedwqcp.words.coverage import enough, judged, rule


@pytest.mark.parametrize(
    ("low", "high", "nominal", "word"),
    [
        (0.85, 0.95, 0.9, "on target"),
        (0.91, 0.95, 0.9, "above nominal"),
        (0.7, 0.89, 0.9, "too low"),
        (0.85, 0.89, 0.9, "watch"),
        (0.84, 0.97, 0.9, "not yet shown"),
        (0.92, 0.97, 0.95, "not yet shown"),
        (0.93, 0.97, 0.95, "on target"),
    ],
)
def test_coverages_are_judged(low, high, nominal, word):
    assert judged(low, (low + high) / 2, high, nominal, 0.82) == word
    assert word in rule(word, nominal).lower()


@pytest.mark.parametrize(("n", "hits"), [(60, 56), (500, 437), (100, 84)])
def test_so_many_cases_of_the_same_coverage_decide(n, hits):
    more = enough(Rate(n=n, hits=hits), 0.9)
    if hits / n <= 0.85:
        assert more is None
    else:
        assert Rate(n=more, hits=round(more * hits / n)).low == pytest.approx(0.85, abs=0.01)
