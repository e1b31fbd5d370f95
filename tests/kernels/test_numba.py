"""How loops are compiled, and what they assume; `test_dispatch` compares their results."""

import pytest

pytest.importorskip("numba")

from fedwqcp._validation import SUM_TOLERANCE
from fedwqcp.kernels import numba as loops


def test_without_a_folder_to_write_to_it_is_compiled_in_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def njit(fastmath: object, nogil: bool, cache: bool = False, **_: object):
        assert nogil
        if cache:
            raise RuntimeError("no locator available")
        return lambda function: (function, fastmath)

    monkeypatch.setattr(loops, "njit", njit)
    assert loops.jit(len) == (len, False)
    assert loops.jit_sums(len) == (len, {"reassoc", "nsz"})


def test_the_quick_check_is_stricter_than_the_full_one() -> None:
    assert loops.SURE < SUM_TOLERANCE * 0.9
    assert int(loops.SURE_FIXED) == int(loops.SURE * 2**52)
