from __future__ import annotations

import json
from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedwqcp.demo.records import load_records, save_records
from fedwqcp.errors import InputError, RecordError
from records import record

thresholds = st.floats(min_value=-1e300, allow_nan=False)
settings_of_a_method = st.dictionaries(
    st.text(max_size=5),
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(0, inf)
    | st.text(max_size=5).filter(lambda text: text != "inf")
    | st.lists(st.floats(0, 1), max_size=3).map(tuple),
)


@given(
    thresholds | st.lists(thresholds, min_size=1, max_size=4).map(tuple),
    st.floats(0, inf),
    settings_of_a_method,
    st.text(),
)
def test_records_survive_a_file(tmp_path_factory, threshold, size, config, assumption):
    path = tmp_path_factory.mktemp("records") / "records.jsonl"
    some = (
        record(threshold=threshold, size=size, config=config, assumption=assumption),
        record(agent="W1"),
    )
    save_records(path, some)
    assert load_records(path) == some


def test_a_record_is_one_line_that_says_its_version(tmp_path):
    save_records(tmp_path / "r.jsonl", [record(threshold=inf), record()])
    lines = (tmp_path / "r.jsonl").read_text().splitlines()
    assert len(lines) == 2
    assert json.loads(lines[0])["version"] == 1
    assert json.loads(lines[0])["threshold"] == "inf"


def test_times_do_not_count_when_records_are_compared():
    assert record(seconds=1.0) == record(seconds=2.0)
    assert record(covered=1) != record(covered=2)


def test_coverage_is_the_share_of_test_points():
    assert record(tested=200, covered=150).coverage == 0.75


def test_another_version_is_refused(tmp_path):
    path = tmp_path / "r.jsonl"
    save_records(path, [record(), record(version=1)])
    path.write_text(path.read_text().replace('"version": 1', '"version": 2'))
    with pytest.raises(RecordError, match=r"line 1: this software reads version 1.*has version 2"):
        load_records(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"covered": 500}, "covered: must be from 0 to tested"),
        ({"covered": True}, r"Expected `int`, got `bool` - at `\$.covered`"),
        ({"seed": "0"}, r"Expected `int`, got `str` - at `\$.seed`"),
        ({"size": nan}, "must be one JSON object of finite numbers"),
        ({"model": "huge"}, r"Invalid enum value .huge. - at `\$.model`"),
        ({"threshold": [0.1, "x"]}, r"Expected `float`, got `str` - at `\$.threshold\[1\]`"),
        ({"config": {"a": {"b": 1}}}, r"got `object` - at `\$.config"),
        ({"surprise": 1}, "missing or unknown: surprise"),
    ],
)
def test_a_damaged_line_is_refused_by_its_number(tmp_path, change, message):
    path = tmp_path / "r.jsonl"
    save_records(path, [record()])
    good = json.loads(path.read_text())
    path.write_text(path.read_text() + json.dumps({**good, **change}) + "\n")
    with pytest.raises(RecordError, match=f"line 2: .*{message}"):
        load_records(path)


def test_a_missing_field_is_named(tmp_path):
    path = tmp_path / "r.jsonl"
    save_records(path, [record()])
    values = json.loads(path.read_text())
    del values["bytes_up"]
    path.write_text(json.dumps(values))
    with pytest.raises(RecordError, match="missing or unknown: bytes_up"):
        load_records(path)


@pytest.mark.parametrize("content", [b"{", b"[1]", b"\xff\xfe", b"[" * 100_000, b"\n"])
def test_what_is_no_record_is_refused(tmp_path, content):
    path = tmp_path / "r.jsonl"
    path.write_bytes(content)
    with pytest.raises(RecordError):
        load_records(path)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(RecordError, match="cannot be read"):
        load_records(tmp_path / "none.jsonl")


def test_a_save_that_breaks_off_leaves_the_old_file(tmp_path):
    path = tmp_path / "r.jsonl"
    save_records(path, [record()])

    def broken():
        yield record(agent="W1")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        save_records(path, broken())
    assert load_records(path) == (record(),)
    assert [file.name for file in tmp_path.iterdir()] == ["r.jsonl"]


def test_no_record_holds_what_a_file_cannot(tmp_path):
    with pytest.raises(InputError, match="NaN must not stand in a record"):
        save_records(tmp_path / "r.jsonl", [record(threshold=nan)])
    assert not (tmp_path / "r.jsonl").exists()
    with pytest.raises(InputError, match="tested at least 1"):
        record(tested=0, covered=0)
