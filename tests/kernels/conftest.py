"""A test of a fast path runs three times: numpy alone, numba's loops, the loops as Python."""

import importlib
import sys
from collections.abc import Iterator
from contextlib import nullcontext

import numpy as np
import pytest

import vectors
from fedwqcp import kernels
from fedwqcp.kernels import compilation
from fedwqcp.kernels.compilation import Loops


def as_python(monkeypatch: pytest.MonkeyPatch) -> Loops:
    """The loops as numba would see them, uncompiled."""
    numba = pytest.importorskip("numba")
    assert compilation.loops() is not None
    monkeypatch.setattr(numba, "njit", lambda **flags: lambda function: function)
    for name in Loops._fields:
        monkeypatch.setattr(kernels, name, getattr(kernels, name))  # to have it back afterwards
        monkeypatch.delitem(sys.modules, f"fedwqcp.kernels.{name}")
    monkeypatch.setitem(sys.modules, "fedwqcp.kernels.vectors", vectors)
    loops = Loops(*(importlib.import_module(f"fedwqcp.kernels.{name}") for name in Loops._fields))
    monkeypatch.setattr(loops.numba, "ROWS", 3)
    monkeypatch.setattr(loops.own_thresholds, "EXACT", 2**40)
    return loops


@pytest.fixture
def uncompiled() -> Iterator[Loops]:
    """All loops as Python."""
    with pytest.MonkeyPatch.context() as patch, np.errstate(all="ignore"):
        yield as_python(patch)


@pytest.fixture(params=["numpy", "numba", "python"])
def backend(request: pytest.FixtureRequest) -> Iterator[str]:
    """Who serves inputs of any size; lanes that no row uses may hold anything."""
    quiet = np.errstate(all="ignore") if request.param == "python" else nullcontext()
    with pytest.MonkeyPatch.context() as patch, quiet:
        patch.setenv("FEDWQCP_BACKEND", "numpy" if request.param == "numpy" else "numba")
        patch.setattr(compilation, "_save_loop_times", lambda: None)
        patch.setattr(compilation, "SMALL", 0)  # what a quick loop leaves counts as well
        if request.param == "python":
            loops = as_python(patch)
            patch.setattr(compilation, "loops", lambda: loops)
        elif request.param == "numba":
            pytest.importorskip("numba")
            patch.setattr("fedwqcp.kernels.own_thresholds.EXACT", 2**40)  # numpy takes nothing over
        yield request.param


@pytest.fixture
def always_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let numba serve inputs of any size."""
    pytest.importorskip("numba")
    monkeypatch.setenv("FEDWQCP_BACKEND", "numba")
    monkeypatch.setattr("fedwqcp.kernels.own_thresholds.EXACT", 2**40)  # numpy takes nothing over
    monkeypatch.setattr(compilation, "SMALL", 0)  # what a quick loop leaves counts as well
