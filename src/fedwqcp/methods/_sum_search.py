"""CPhet's search on sums of weights: how the server asks, and how much an agent answers."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from fedwqcp.arrays import Bools, Floats
from fedwqcp.errors import InputError
from fedwqcp.methods._asked import check_probes
from fedwqcp.methods._base import Each
from fedwqcp.methods._laws import Laws
from fedwqcp.methods._reweighting import DescendToward, SumsAt
from fedwqcp.methods._weighted_search import AIM, LIMIT, most_probes, search
from fedwqcp.quantile import LEVEL_TOLERANCE, exact_level
from fedwqcp.wire.payload import Question, Summary


def search_sums(
    totals: Floats, laws: Laws, alpha: float
) -> Generator[Question | Each, Sequence[Summary], Floats]:
    """Search for the weighted quantiles on sums of weights.

    Parameters
    ----------
    totals : Floats, shape (T,)
        Sum of all weights at each target.
    laws : Laws
        Laws of all agents.
    alpha : float
        Miscoverage level.

    Yields
    ------
    Question or Each
        What to ask next.

    Returns
    -------
    Floats, shape (T,)
        The thresholds.
    """
    level = (float(exact_level(alpha)) - LEVEL_TOLERANCE) * totals
    T = len(totals)

    def ask(probes: tuple[float, ...]) -> Question:
        return SumsAt(probes, laws)

    def reached(sums: Floats) -> Bools:
        return sums >= level

    return (yield from search(ask, reached, T, T, aim=_aim_beside(laws)))


def check_extent(question: Question, targets: int) -> None:
    """Refuse a question with more probes or problems than there can be for these targets.

    Parameters
    ----------
    question : Question
        What the server asks.
    targets : int
        T.

    Raises
    ------
    InputError
        If no honest server asks it.
    """
    if isinstance(question, SumsAt):
        most = most_probes(targets, max(1, targets), _aim_beside(question.laws))
        check_probes(len(question.probes), most)
    if isinstance(question, DescendToward) and len(question.q) != targets:
        raise InputError(f"the server must ask from {targets} numbers, one for each target")


def _aim_beside(laws: Laws) -> int:
    """About how many sums to ask for: more, in fewer questions, where each repeats long laws."""
    return min(LIMIT, max(AIM, sum(len(density) for density in laws.densities) // 4))
