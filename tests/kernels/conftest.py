"""A test of a kernel runs twice: numpy, and the compiled loops where they were built."""

import os

import pytest

from fedwqcp.kernels import dispatch


@pytest.fixture(params=["numpy", "compiled"])
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Who serves."""
    if request.param == "compiled":
        require_compiled()
    monkeypatch.setenv("FEDWQCP_BACKEND", request.param)
    return str(request.param)


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the compiled loops serve; skip where they were not built."""
    require_compiled()
    monkeypatch.setenv("FEDWQCP_BACKEND", "compiled")


def require_compiled() -> None:
    """Skip without compiled loops, unless the environment demands them."""
    if dispatch.backend().loops is None and os.environ.get("FEDWQCP_BACKEND") != "compiled":
        pytest.skip(dispatch.backend().name)
