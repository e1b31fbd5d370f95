"""Records in files: appended, torn, damaged, packed, of other versions."""

from __future__ import annotations

import pytest

from fedwqcp.errors import RecordError
from fedwqcp_lab.evaluation import evaluate
from fedwqcp_lab.results import Journal, Result
from units import experiment, labels_unit


@pytest.fixture(scope="module")
def results():
    return evaluate(labels_unit(), experiment())


def test_records_survive_a_file_and_are_appended(tmp_path, results):
    journal = Journal(tmp_path / "r.jsonl", Result)
    assert journal.read() == ()
    assert not journal.repair()
    journal.append(results[:2])
    journal.append(results[2:])
    assert journal.read() == results
    assert not journal.repair()
    times = [r.calibration_s for r in journal.read()]
    assert times == [r.calibration_s for r in results]


def test_a_torn_last_line_is_left_out_and_cut_off(tmp_path, results):
    path = tmp_path / "r.jsonl"
    journal = Journal(path, Result)
    journal.append(results[:3])
    whole = path.read_bytes()
    last = whole.rstrip(b"\n").rfind(b"\n") + 1
    for cut in (last + 1, (last + len(whole)) // 2, len(whole) - 1):
        path.write_bytes(whole[:cut])
        assert journal.read() == results[:2]
        assert journal.repair()
        assert path.read_bytes() == whole[:last]
        journal.append(results[2:3])
        assert journal.read() == results[:3]


def test_damage_elsewhere_is_refused(tmp_path, results):
    path = tmp_path / "r.jsonl"
    journal = Journal(path, Result)
    journal.append(results[:2])
    good = path.read_text()
    path.write_text(good.replace('"hits"', '"hit"', 1))
    with pytest.raises(RecordError):
        journal.read()
    path.write_text(good.replace('"version": 1', '"version": 2'))
    with pytest.raises(RecordError):
        journal.read()
    path.write_text(good + good)
    with pytest.raises(RecordError, match="occurs twice"):
        journal.read()
    path.write_bytes(b"\xff\xfe\n")
    with pytest.raises(RecordError):
        journal.read()
