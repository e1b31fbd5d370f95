import pytest

from fedwqcp.words.coverage import judged, rule


@pytest.mark.parametrize(
    ("low", "high", "nominal", "word"),
    [
        (0.85, 0.95, 0.9, "on target"),
        (0.91, 0.95, 0.9, "above nominal"),
        (0.7, 0.89, 0.9, "too low"),
        (0.85, 0.89, 0.9, "watch"),
        (0.84, 0.97, 0.9, "too few cases to tell"),
        (0.92, 0.97, 0.95, "too few cases to tell"),
        (0.93, 0.97, 0.95, "on target"),
    ],
)
def test_coverages_are_judged(low, high, nominal, word):
    assert judged(low, (low + high) / 2, high, nominal, 0.82) == word
    assert word in rule(word, nominal).lower()
