import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from fedwqcp.errors import InputError
from fedwqcp.kernels import compiled


def test_numba_serves_once_it_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    loops = SimpleNamespace()
    monkeypatch.setattr(compiled, "_loops", lambda: loops)
    monkeypatch.setattr(compiled, "_seen", [0])
    monkeypatch.setattr(compiled, "SMALL", 10)
    monkeypatch.setattr(compiled, "LARGE", 100)
    assert compiled.kernels(9) is None
    assert compiled.kernels(60) is None  # not worth a compiler yet
    assert compiled.kernels(60) is loops  # 120 in all
    assert compiled.kernels(10) is loops
    assert compiled.kernels(9) is None


def test_without_numba_nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fedwqcp.kernels._loops", None)
    monkeypatch.delattr("fedwqcp.kernels._loops", raising=False)
    assert compiled._loops.__wrapped__() is None


def test_without_a_folder_to_write_to_it_is_compiled_in_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("numba")
    from fedwqcp.kernels import _jit

    def njit(
        nogil: bool, error_model: str, fastmath: object, forceinline: bool, cache: bool = False
    ):
        assert nogil
        if cache:
            raise RuntimeError("no locator available")
        return lambda function: (function, fastmath, forceinline)

    monkeypatch.setattr(_jit, "njit", njit)
    assert _jit.jit(len) == (len, False, False)
    assert _jit.jit_sums(len) == (len, {"reassoc", "nsz"}, False)
    assert _jit.jit_inline(len) == (len, False, True)


def test_threads_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    monkeypatch.delenv("FEDWQCP_THREADS", raising=False)
    assert compiled.threads() == 1
    for wanted, given in (("3", 3), ("999", 8), ("", 1)):
        monkeypatch.setenv("FEDWQCP_THREADS", wanted)
        assert compiled.threads() == given
    for wrong in ("0", "-1", "two", "1.5"):
        monkeypatch.setenv("FEDWQCP_THREADS", wrong)
        with pytest.raises(InputError, match="FEDWQCP_THREADS must be an integer of at least 1"):
            compiled.threads()


def test_a_wrong_number_of_threads_is_refused_by_the_first_input(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FEDWQCP_THREADS", "many")
    compiled._check_threads.cache_clear()
    with pytest.raises(InputError, match="or not set, got 'many'"):
        compiled.kernels(100)


@pytest.mark.parametrize(("size", "parts"), [(99, 1), (100, 6)])
def test_only_large_inputs_are_shared(
    monkeypatch: pytest.MonkeyPatch, size: int, parts: int
) -> None:
    monkeypatch.setenv("FEDWQCP_THREADS", "3")
    monkeypatch.setattr("os.cpu_count", lambda: 3)
    monkeypatch.setattr(compiled, "SHARED", 100)
    monkeypatch.setattr(compiled, "PARTS", 2)
    seen: list[slice] = []
    done = np.zeros(200, int)

    def work(rows: slice) -> bool:
        seen.append(rows)
        done[rows] += 1
        return rows.start != 32  # parts begin at multiples of 16

    assert compiled.over_rows(200, size, work) is (parts == 1)
    assert len(seen) == parts
    assert done.tolist() == [1] * 200


def test_neither_import_nor_a_small_input_loads_numba() -> None:
    code = (
        "import sys, numpy as np, fedwqcp as fw; s = fw.APS(randomized=False); "
        "p, y = np.full((100, 4), 0.25), np.zeros(100, int); "
        "s.of(p, y); s.invert(p, 0.5); s.measure(p, y, 0.5); fw.CQR().of(p[:, :2], y); "
        "sys.exit('numba' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
