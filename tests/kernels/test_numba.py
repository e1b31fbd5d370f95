"""How loops are compiled, and what they assume; `test_dispatch` compares their results."""

import os
import subprocess
import sys
from pathlib import Path
from shutil import copytree

import pytest

pytest.importorskip("numba")

import fedwqcp
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


DIFFERING = """
import os
import numpy as np
import fedwqcp as fw

rng = np.random.default_rng(0)
probs, found = rng.dirichlet(np.ones(10), 1600).astype(np.float32), []
for backend in ("numpy", "numba"):
    os.environ["FEDWQCP_BACKEND"] = backend
    found.append(fw.APS(randomized=False).invert(probs, np.full(10, 0.7)).mask)
print((found[0] != found[1]).any(axis=1).sum())
"""


@pytest.mark.slow
def test_a_cached_loop_is_not_used_once_a_part_in_another_file_changed(tmp_path: Path) -> None:
    own = Path(fedwqcp.__file__).parent
    copied = copytree(own, tmp_path / "fedwqcp", ignore=lambda *_: {"__pycache__"})
    env = {**os.environ, "PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}

    def differing() -> int:
        """How many sets numba and numpy give differently, in a new process."""
        command = [sys.executable, "-c", DIFFERING]
        return int(subprocess.run(command, env=env, check=True, capture_output=True).stdout)

    assert differing() == 0
    vectors = copied / "kernels" / "vectors.py"
    vectors.write_text(vectors.read_text().replace("[2.0**26]", "[2.0**16]"))
    assert differing() > 0, "the part is used as it is now"


def test_the_quick_check_is_stricter_than_the_full_one() -> None:
    assert loops.SURE < SUM_TOLERANCE * 0.9
    assert int(loops.SURE_FIXED) == int(loops.SURE * 2**52)
