import lzma
import resource

import pytest

from fedwqcp.errors import InputError, RecordError
from fedwqcp_lab.evaluate import evaluate, shares
from fedwqcp_lab.journal import Journal
from fedwqcp_lab.result import Result, Share
from units import experiment, labels_unit, lines_unit


@pytest.fixture(scope="module")
def results():
    return evaluate(labels_unit(), experiment())


def test_records_survive_a_file_and_are_appended(tmp_path, results):
    journal = Journal(tmp_path / "r.jsonl", Result)
    assert journal.read() == ()
    assert not journal.mend()
    journal.append(results[:2])
    journal.append(results[2:])
    assert journal.read() == results
    assert not journal.mend()
    times = [r.calibration_s for r in journal.read()]
    assert times == [r.calibration_s for r in results]


def test_regressions_and_partitions_survive_too(tmp_path):
    unit = lines_unit()
    found = evaluate(unit, experiment())
    assert any(r.labels is not None for r in found)
    Journal(tmp_path / "r.jsonl", Result).append(found)
    Journal(tmp_path / "s.jsonl", Share).append(shares(unit))
    assert Journal(tmp_path / "r.jsonl", Result).read() == found
    assert Journal(tmp_path / "s.jsonl", Share).read() == shares(unit)


def test_a_torn_last_line_is_left_out_and_cut_off(tmp_path, results):
    path = tmp_path / "r.jsonl"
    journal = Journal(path, Result)
    journal.append(results[:3])
    whole = path.read_bytes()
    last = whole.rstrip(b"\n").rfind(b"\n") + 1
    for cut in (last + 1, (last + len(whole)) // 2, len(whole) - 1):
        path.write_bytes(whole[:cut])
        assert journal.read() == results[:2]
        assert journal.mend()
        assert path.read_bytes() == whole[:last]
        journal.append(results[2:3])
        assert journal.read() == results[:3]


def test_damage_elsewhere_is_refused(tmp_path, results):
    path = tmp_path / "r.jsonl"
    journal = Journal(path, Result)
    journal.append(results[:2])
    good = path.read_text()
    path.write_text(good.replace('"hits"', '"hit"', 1))
    with pytest.raises(RecordError, match=r"line 1: missing or unknown: hit, hits"):
        journal.read()
    path.write_text(good + good)
    with pytest.raises(RecordError, match="occurs twice"):
        journal.read()
    path.write_bytes(b"\xff\xfe\n")
    with pytest.raises(RecordError, match="cannot be read"):
        journal.read()


def test_another_version_is_refused(tmp_path, results):
    path = tmp_path / "r.jsonl"
    Journal(path, Result).append(results[:1])
    path.write_text(path.read_text().replace('"version": 1', '"version": 2'))
    with pytest.raises(RecordError, match="run the experiment again"):
        Journal(path, Result).read()


def test_a_file_that_cannot_be_written_is_named(tmp_path, results):
    with pytest.raises(InputError, match=r"cannot write .*--resume"):
        Journal(tmp_path / "none" / "r.jsonl", Result).append(results[:1])


def test_a_disk_that_takes_a_part_is_full(tmp_path, results):
    journal = Journal(tmp_path / "r.jsonl", Result)
    journal.append(results[:1])
    one = journal.path.stat().st_size
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2 * one + one // 2, before[1]))
    try:
        with pytest.raises(InputError, match=r"cannot write .*--resume"):
            journal.append(results[1:4])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert journal.mend()
    assert journal.read() == results[:2]


def test_a_packed_file_is_read_and_appended_to(tmp_path, results):
    journal = Journal(tmp_path / "r.jsonl", Result)
    journal.append(results[:2])
    packed = tmp_path / "r.jsonl.xz"
    packed.write_bytes(lzma.compress(journal.path.read_bytes()))
    journal.path.unlink()
    assert journal.exists
    assert journal.read() == results[:2]
    assert not journal.mend()
    journal.append(results[2:])
    assert journal.read() == results
    journal.path.unlink()
    packed.write_bytes(packed.read_bytes()[:-9])
    with pytest.raises(RecordError, match="cannot be read"):
        journal.mend()


def test_hits_must_fit(results):
    with pytest.raises(InputError, match="hits: must be from 0 to n_test"):
        Result(**{**results[0].__dict__, "hits": 10**6})
