"""The reference passes, against Python's integers and worked examples."""

import numpy as np
from hypothesis import given

from fedwqcp._validation import as_probabilities
from fedwqcp.kernels import Ranked
from fedwqcp.kernels import numpy as reference
from strategies import Labelled, labelled, probabilities


def places_by_hand(row: np.ndarray) -> list[tuple[float, float, int, float]]:
    """Rank one row with Python's integers."""
    p = [round(float(x) * 2**52) for x in row]  # exact product; Python rounds half to even
    order = sorted(range(len(p)), key=lambda label: (-p[label], label))
    found: dict[int, tuple[float, float, int, float]] = {}
    for rank, label in enumerate(order, start=1):
        before = sum(p[other] for other in order[: rank - 1])
        upto = 2**52 if rank == len(p) else before + p[label]
        masses = (min(mass, 2**52) / 2**52 for mass in (before, upto, max(p)))
        b, a, top = masses
        found[label] = (b, a, rank, top)
    return [found[label] for label in range(len(p))]


def at(place: Ranked, row: int, label: int) -> tuple[float, float, int, float]:
    """One place of a whole matrix of them."""
    fields = (place.before, place.upto, place.rank)
    return (*(field[row, label] for field in fields), place.top[row, 0])


def test_the_worked_example() -> None:
    place = reference.rank_every_label(np.array([[0.6, 0.3, 0.1], [0.25, 0.25, 0.5]]))
    np.testing.assert_allclose(place.before, [[0, 0.6, 0.9], [0.5, 0.75, 0]], rtol=1e-15)
    np.testing.assert_allclose(place.upto, [[0.6, 0.9, 1], [0.75, 1, 0.5]], rtol=1e-15)
    assert place.rank.tolist() == [[1, 2, 3], [2, 3, 1]]
    np.testing.assert_allclose(place.top, [[0.6], [0.5]], rtol=1e-15)


@given(probabilities())
def test_places_are_those_of_whole_numbers(probs) -> None:
    place = reference.rank_every_label(probs)
    for row, expected in enumerate(map(places_by_hand, probs)):
        assert [at(place, row, label) for label in range(probs.shape[1])] == expected


@given(labelled())
def test_one_label_stands_where_it_stands_among_all(case: Labelled) -> None:
    place, every = (
        reference.rank_labels(case.probs, case.labels),
        reference.rank_every_label(case.probs),
    )
    for row, label in enumerate(case.labels):
        one = (place.before[row], place.upto[row], place.rank[row], place.top[row])
        assert one == at(every, row, label)


def test_trap_a_mass_passes_1_by_rounding_and_is_capped() -> None:
    probs = np.array([[8, 1, 1, 1]], np.float32) / np.float32(11)
    assert reference.rank_in_float32(probs).upto.max() > 1
    place = reference.rank_every_label(probs)
    assert place.upto.max() == place.upto[0, 3] == 1
    over = reference.rank_every_label(
        np.array([[0.75, 0.2505, 0.0]])
    )  # within the tolerance of a sum
    assert over.upto.tolist() == [[0.75, 1.0, 1.0]]
    assert over.before[0, 2] == 1.0


def test_trap_a_saturated_row_reaches_1_early_and_the_last_label_exactly() -> None:
    probs = np.array([[1.0, 1e-20, 0.0], [1 - 2.0**-10, 0.0, 0.0]])
    place = reference.rank_every_label(probs)
    assert place.upto[0].tolist() == [1, 1, 1]
    assert place.upto[1].tolist() == [1 - 2.0**-10, 1 - 2.0**-10, 1]


def test_float32_sums_are_those_of_plain_code() -> None:
    probs = np.random.default_rng(0).dirichlet(np.ones(12), 50).astype(np.float32)
    place = reference.rank_in_float32(probs)
    for row, p in enumerate(probs):
        order = np.argsort(-p, kind="stable")
        total = np.float32(0)
        for rank, label in enumerate(order, start=1):
            assert place.before[row, label] == total
            total = np.float32(total + p[label])
            assert place.upto[row, label] == total
            assert place.rank[row, label] == rank
        assert place.top[row, 0] == p.max()


def test_a_sum_of_very_many_is_not_guessed() -> None:
    wide = np.full((2, 2**17), 2.0**-17, np.float32)
    assert not reference.surely_probabilities(wide)
    as_probabilities(wide)
