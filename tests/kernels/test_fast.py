"""The compiled loops give the reference's numbers to the last bit."""

import numpy as np
import pytest

import equality
import fedwqcp as fw
from fedwqcp.kernels import dispatch

pytestmark = pytest.mark.usefixtures("compiled")


@pytest.mark.parametrize("seed", range(6))
def test_equal_to_the_last_bit(seed: int) -> None:
    rng, cases = np.random.default_rng(seed), 0
    while cases < 700:
        for part in (equality.compare(rng, SMALL), equality.compare_others(rng)):
            for name, right in part:
                assert right, name
                cases += 1


SMALL = (2, 3, 10, 17, 47, 48, 49, 64, 130)


@pytest.mark.parametrize("n_classes", [257, 1024, 1025, 3000])
def test_long_rows(n_classes: int) -> None:
    for name, right in equality.compare(np.random.default_rng(n_classes), (n_classes,)):
        assert right, name


@pytest.mark.parametrize("n_classes", [10, 100])
def test_threads_change_nothing(n_classes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "SHARED", 0)
    monkeypatch.setenv("FEDWQCP_THREADS", "4")
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    rng = np.random.default_rng(0)
    p = equality.rows("mixed", 5000, n_classes, rng).astype(np.float32)
    y, u = rng.integers(0, n_classes, len(p)), rng.random(len(p))
    for q in (0.9, rng.random((len(p), 1)), rng.random(n_classes)):
        assert equality.same(lambda q=q: fw.APS().measure(p, y, q, u=u))


@pytest.mark.parametrize("wrong", ["rows", "labels", "sizes", "rank"])
def test_buffers_that_do_not_fit_are_refused(wrong: str) -> None:
    loops = dispatch.backend().loops
    assert loops is not None
    p, y, n = np.full((3, 4), 0.25), np.zeros(3, np.int64), 3
    sizes, covered, pens = np.empty(n, np.int64), np.empty(n, bool), np.zeros(5)
    if wrong == "rows":
        p = p[:, :3].reshape(-1)[:8].copy()
    elif wrong == "labels":
        y[1] = 4
    elif wrong == "sizes":
        sizes = sizes[:2]
    elif wrong == "rank":
        with pytest.raises(ValueError, match="rank"):
            loops.order_statistic(np.ones(3), 4)
        return
    with pytest.raises(ValueError, match=r"buffer|label"):
        loops.sets(p, 4, 8, y, None, pens, False, 0, 0, np.array(0.5), sizes, covered, None)


def test_a_binary_of_another_source_is_not_used(monkeypatch, tmp_path, caplog) -> None:
    stale = tmp_path / "_fast.cpp"
    stale.write_text(dispatch.SOURCE.read_text() + "\n")
    monkeypatch.setattr(dispatch, "SOURCE", stale)
    monkeypatch.setenv("FEDWQCP_BACKEND", "")
    dispatch._load.cache_clear()
    try:
        assert dispatch.backend().loops is None
        assert len(caplog.records) == 1
    finally:
        dispatch._load.cache_clear()
