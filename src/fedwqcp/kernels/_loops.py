"""Every compiled loop; importing it imports numba."""

from fedwqcp.kernels._counted import PILED, count_fitting
from fedwqcp.kernels._counts import below, between
from fedwqcp.kernels._cuts import PART
from fedwqcp.kernels._ends import ends_of_one, ends_of_pairs
from fedwqcp.kernels._few import ROOM, counts_of_few, places_of_few
from fedwqcp.kernels._fit import fit_of_few
from fedwqcp.kernels._rows import counts_from, places, sound_rows
from fedwqcp.kernels._single import places_single
from fedwqcp.kernels._sorted import crossings_of_few
from fedwqcp.kernels._spans import ends, scores, scores_of_one, scores_of_pairs
from fedwqcp.kernels._waiting import CUT_ROOM
from fedwqcp.kernels._wide import crossings

__all__ = [
    "CUT_ROOM",
    "PART",
    "PILED",
    "ROOM",
    "below",
    "between",
    "count_fitting",
    "counts_from",
    "counts_of_few",
    "crossings",
    "crossings_of_few",
    "ends",
    "ends_of_one",
    "ends_of_pairs",
    "fit_of_few",
    "places",
    "places_of_few",
    "places_single",
    "scores",
    "scores_of_one",
    "scores_of_pairs",
    "sound_rows",
]
