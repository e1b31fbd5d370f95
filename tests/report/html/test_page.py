import pytest

from fedwqcp.report.html.page import against_nominal
from fedwqcp.words.coverage import rule


@pytest.mark.parametrize(
    ("low", "high", "nominal", "judged"),
    [
        (0.85, 0.95, 0.9, ("good", "on target")),
        (0.91, 0.95, 0.9, ("caution", "above nominal")),
        (0.7, 0.89, 0.9, ("bad", "too low")),
        (0.85, 0.89, 0.9, ("caution", "watch")),
        (0.84, 0.97, 0.9, ("plain", "too few cases to tell")),
        (0.92, 0.97, 0.95, ("plain", "too few cases to tell")),
        (0.93, 0.97, 0.95, ("good", "on target")),
    ],
)
def test_coverages_are_judged(low, high, nominal, judged):
    assert against_nominal(low, (low + high) / 2, high, nominal, 0.82) == judged
    assert judged[1] in rule(judged[1], nominal).lower()
