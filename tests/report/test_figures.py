import sys
from math import inf

import pytest

from fedwqcp.errors import InputError, MissingExtraError
from fedwqcp.metrics import Rate
from fedwqcp.report.figures import _chance, coverage_against_size
from records import record

SOME = [
    record(method=method, agent=agent, model=model, dataset=dataset, size=size)
    for dataset in ("digits", "synthetic")
    for method in ("fedwq-cp", "split-cp")
    for agent, model, size in (("S0", "strong", 1.5), ("W1", "weak", 2.5))
]


def test_both_files_are_written(tmp_path):
    png, svg = coverage_against_size(SOME, tmp_path / "demo")
    assert (png.name, svg.name) == ("demo.png", "demo.svg")
    assert png.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert b"</svg>" in svg.read_bytes()


def test_same_records_give_the_same_bytes(tmp_path):
    one = coverage_against_size(SOME, tmp_path / "one")
    other = coverage_against_size(SOME, tmp_path / "other")
    for a, b in zip(one, other, strict=True):
        assert a.read_bytes() == b.read_bytes()


def test_every_method_and_dataset_is_named(tmp_path):
    svg = coverage_against_size(SOME, tmp_path / "demo")[1].read_text()
    names = ("fedwq-cp", "split-cp", "digits: classification", "synthetic", "weak model")
    assert all(f"<!-- {name}" in svg for name in names)


def test_what_is_infinite_is_said_rather_than_drawn(tmp_path):
    some = [*SOME, record(method="fcp", size=inf)]
    svg = coverage_against_size(some, tmp_path / "demo")[1].read_text()
    assert "not shown, infinite: fcp" in svg
    assert "not shown" not in coverage_against_size(SOME, tmp_path / "demo")[1].read_text()


@pytest.mark.parametrize("nominal", [0.5, 0.9, 0.99])
def test_the_band_ends_where_the_exact_interval_leaves_the_nominal_coverage(nominal):
    n = 150
    low, high = (round(end * n) for end in _chance(n, nominal))
    held = [h for h in range(n + 1) if _holds(Rate(n=n, hits=h, level=0.99), nominal)]
    assert (low, high) == (held[0], held[-1])


def _holds(rate, nominal):
    return rate.low <= nominal <= rate.high


def test_a_missing_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"fedwqcp\[demo\]"):
        coverage_against_size(SOME, tmp_path / "demo")


def test_a_folder_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(InputError, match="cannot write"):
        coverage_against_size(SOME, tmp_path / "none" / "demo")
