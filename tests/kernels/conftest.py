"""A test of a fast path runs three times: numpy alone, numba's loops, the loops as Python."""

import importlib
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from types import ModuleType

import numpy as np
import pytest

import lanes
from fedwqcp import kernels
from fedwqcp.kernels import compiled

ROOM = (
    "_jit",
    "_rows",
    "_few",
    "_single",
    "_cross",
    "_search",
    "_wide",
    "_cuts",
    "_waiting",
    "_told",
    "_counted",
    "_sorted",
    "_fit",
    "_spans",
    "_ends",
    "_counts",
    "_loops",
)


def as_python(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The loops as numba would see them, uncompiled."""
    numba = pytest.importorskip("numba")
    importlib.import_module("fedwqcp.kernels._loops")
    monkeypatch.setattr(numba, "njit", lambda **flags: lambda function: function)
    for name in ROOM:
        monkeypatch.setattr(kernels, name, getattr(kernels, name))  # to have it back afterwards
        monkeypatch.delitem(sys.modules, f"fedwqcp.kernels.{name}")
    monkeypatch.setitem(sys.modules, "fedwqcp.kernels.lanes", lanes)
    loops = importlib.import_module("fedwqcp.kernels._loops")
    monkeypatch.setattr("fedwqcp.kernels._sorted.ROWS", 3)
    return loops


@pytest.fixture
def uncompiled() -> Iterator[ModuleType]:
    """All loops as Python."""
    with pytest.MonkeyPatch.context() as patch, np.errstate(all="ignore"):
        yield as_python(patch)


@pytest.fixture(params=["numpy", "numba", "python"])
def backend(request: pytest.FixtureRequest) -> Iterator[str]:
    """Who serves inputs of any size; lanes that no row uses may hold anything."""
    quiet = np.errstate(all="ignore") if request.param == "python" else nullcontext()
    with pytest.MonkeyPatch.context() as patch, quiet:
        patch.setattr(compiled, "SMALL", 0)
        patch.setattr(compiled, "LARGE", 0)
        if request.param == "numpy":
            patch.setattr(compiled, "_loops", lambda: None)
        elif request.param == "python":
            loops = as_python(patch)
            patch.setattr(compiled, "_loops", lambda: loops)
        else:
            pytest.importorskip("numba")
        yield request.param
