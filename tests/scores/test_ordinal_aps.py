import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedwqcp.scores.ordinal_aps import OrdinalAPS
from strategies import Labelled, labelled, probabilities


def scores_by_hand(row: np.ndarray, u: float) -> list[float]:
    """Grow the block of one row with Python's integers."""
    p = [round(float(x) * 2**52) for x in row]
    low = high = p.index(max(p))
    block, order = [low], [low]
    while len(block) < len(p):
        below = p[low - 1] if low > 0 else -1
        above = p[high + 1] if high + 1 < len(p) else -1
        if below >= above:
            low -= 1
        else:
            high += 1
        block = list(range(low, high + 1))
        order.append(low if below >= above else high)
    found = {}
    for step, label in enumerate(order):
        before = min(2**52, sum(p[other] for other in order[:step])) / 2**52
        upto = min(2**52, sum(p[other] for other in order[: step + 1])) / 2**52
        found[label] = before + u * ((1.0 if step == len(p) - 1 else upto) - before)
    return [found[label] for label in range(len(p))]


def test_by_hand() -> None:
    row = [[0.1, 0.2, 0.4, 0.05, 0.25]]
    # 2, then 1 (0.2 > 0.05), then 0 (0.1 > 0.05), then 3, then 4, though 4 is second of all
    expected = [[0.7, 0.6, 0.4, 0.75, 1.0]]
    np.testing.assert_allclose(OrdinalAPS().of_every_label(row), expected, rtol=1e-15)
    assert OrdinalAPS().invert(row, 0.7)[0] == (0, 1, 2)
    assert OrdinalAPS().invert(row, 0.3)[0] == ()
    assert OrdinalAPS().invert(row, 0.3, rule="leq_top1")[0] == (2,)
    assert OrdinalAPS().invert(row, 0.65, rule="until")[0] == (0, 1, 2)
    share = OrdinalAPS(randomized=True).of(row, [1], u=[0.5])
    np.testing.assert_allclose(share, [0.5], rtol=1e-15)


@given(labelled())
def test_blocks_grow_as_by_hand(case: Labelled) -> None:
    whole = OrdinalAPS().of_every_label(case.probs)
    shares = OrdinalAPS(randomized=True).of_every_label(case.probs, u=case.u)
    for row, p in enumerate(case.probs):
        assert whole[row].tolist() == scores_by_hand(p, 1.0)
        assert shares[row].tolist() == scores_by_hand(p, case.u[row])


@given(probabilities(), st.floats(0, 1), st.sampled_from(["leq", "leq_top1", "until"]))
def test_sets_have_no_gaps(probs, q: float, rule) -> None:
    for labels in OrdinalAPS().invert(probs, q, rule=rule):
        assert labels == tuple(range(labels[0], labels[-1] + 1)) if labels else rule == "leq"
