"""Batches hold the rows of their source in order, from any row on, and give the same thresholds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fedwqcp as fw
from fedwqcp.errors import InputError
from fedwqcp.federation.batches import calibration_in_batches
from fedwqcp.federation.plan import new_round
from fedwqcp.federation.predict import calibration_of
from fedwqcp.methods import _stored
from fedwqcp.readers import batches as module
from fedwqcp.readers import load_outputs

RNG = np.random.default_rng(0)
N = 900
PROBS = RNG.dirichlet(np.ones(4), N)
LABELS = (PROBS.cumsum(axis=1) < RNG.random((N, 1))).sum(axis=1).clip(0, 3)
GROUPS = RNG.choice(["a", "b"], N)
ROUND = new_round(("here",), "auto", "aps", (0.1,), n_classes=4)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(module, "_ROWS", 128)
    monkeypatch.setattr(_stored, "ROWS", 300)


def columns() -> dict[str, np.ndarray]:
    rows = {f"p{k}": PROBS[:, k] for k in range(4)}
    return {**rows, "label": LABELS, "id": np.arange(N), "group": GROUPS}


def parquet(path: Path, rows: slice = slice(None), **options) -> Path:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table({k: v[rows] for k, v in columns().items()}), path, **options)
    return path


def csv(path: Path) -> Path:
    table = columns()
    lines = [
        ",".join(table),
        *(",".join(map(str, row)) for row in zip(*table.values(), strict=True)),
    ]
    path.write_text("\n".join(lines))
    return path


def in_folder(folder: Path) -> Path:
    folder.mkdir()
    parquet(folder / "part-0.parquet", slice(0, 500), row_group_size=200)
    parquet(folder / "part-1.parquet", slice(500, None))
    return folder


SOURCES = {
    "parquet": lambda folder: parquet(folder / "cal.parquet", row_group_size=300),
    "folder": lambda folder: in_folder(folder / "cal"),
    "uri": lambda folder: parquet(folder / "cal.parquet").as_uri(),
    "csv": lambda folder: csv(folder / "cal.csv"),
}


def joined(parts) -> list[np.ndarray]:
    fields = zip(*((p.values, p.labels, p.ids, p.groups) for p in parts), strict=True)
    return [np.concatenate(field) for field in fields]


@pytest.mark.parametrize("kind", SOURCES)
def test_rows_come_in_order_from_any_row_on(tmp_path, kind):
    source = fw.OutputBatches(SOURCES[kind](tmp_path))
    whole = list(source)
    assert max(len(part.values) for part in whole) <= 128
    for start in (0, 128, 500, 777):
        found = [part for _, part in source.batches(start)]
        values, labels, ids, groups = joined(found)
        np.testing.assert_array_equal(values, PROBS[start:])
        np.testing.assert_array_equal(labels, LABELS[start:])
        np.testing.assert_array_equal(ids.astype(int), np.arange(N)[start:])
        np.testing.assert_array_equal(groups, GROUPS[start:])
        assert next(source.batches(start))[0] == start
    assert source.rows == (None if kind == "csv" else N)


@pytest.mark.parametrize("by", [None, "label", "group"])
@pytest.mark.parametrize("score", ["aps", "lac"])
@pytest.mark.parametrize("kind", SOURCES)
def test_thresholds_are_those_of_the_same_rows_in_memory(tmp_path, kind, score, by):
    source = fw.OutputBatches(SOURCES[kind](tmp_path))
    whole = fw.Outputs(PROBS, LABELS, np.arange(N), groups=GROUPS)
    options = {"alpha": [0.05, 0.2], "score": score, "key": "k", "by": by}
    expected = fw.calibrate({"here": whole, "there": whole}, **options)
    found = fw.calibrate({"here": source, "there": whole}, **options)
    assert found.local == expected.local


def test_npy_files_and_a_loader(tmp_path):
    np.save(tmp_path / "p.npy", PROBS)
    np.save(tmp_path / "y.npy", LABELS)
    files = fw.OutputBatches(tmp_path / "p.npy", tmp_path / "y.npy")
    loader = fw.OutputBatches([(PROBS[:500], LABELS[:500]), (PROBS[500:], LABELS[500:])])
    score = fw.APS(randomized=False)
    thresholds = [
        fw.calibrate({"here": source}, alpha=0.1, score=score).threshold("here")
        for source in (files, loader, fw.Outputs(PROBS, LABELS))
    ]
    assert len(set(thresholds)) == 1
    np.save(tmp_path / "y.npy", LABELS[1:])
    with pytest.raises(InputError, match="900"):
        list(files)
    with pytest.raises(InputError):
        fw.OutputBatches(iter([]))
    with pytest.raises(InputError):
        fw.OutputBatches(tmp_path / "absent.csv")


def test_classes_that_calibrate_names(tmp_path):
    source, names = fw.OutputBatches(parquet(tmp_path / "cal.parquet")), ["a", "b", "c", "d"]
    release = fw.calibrate({"here": source}, alpha=0.1, classes=names, by="label", key="k")
    whole = fw.Outputs(PROBS, LABELS, np.arange(N))
    expected = fw.calibrate({"here": whole}, alpha=0.1, classes=names, by="label", key="k")
    assert release.local == expected.local


def test_groups_that_overlap():
    groups = {"ward": GROUPS, "night": RNG.choice(["", "yes"], N)}
    parts = [(0, 300), (300, N)]
    source = fw.OutputBatches([
        fw.Outputs(PROBS[a:b], LABELS[a:b], np.arange(N)[a:b],
                   groups={kind: names[a:b] for kind, names in groups.items()})
        for a, b in parts
    ])  # fmt: skip
    whole = fw.Outputs(PROBS, LABELS, np.arange(N), groups=groups)
    found, expected = (
        fw.calibrate({"here": data}, alpha=0.1, by="group", key="k") for data in (source, whole)
    )
    assert found.local == expected.local
    assert found.round.groups == ("night=yes", "ward=a", "ward=b")


def test_scores_made_elsewhere(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    outputs = load_outputs(parquet(tmp_path / "cal.parquet"), None, None)
    cal = calibration_of(ROUND, outputs)
    pq.write_table(pa.table({"score": cal.scores, "label": cal.labels}), tmp_path / "s.parquet")
    source = fw.OutputBatches(tmp_path / "s.parquet", scores=True)
    with calibration_in_batches(ROUND, source, tmp_path / "kept") as found:
        assert found.scores.order_statistic(700) == np.sort(cal.scores)[699]
        assert [len(part) for part in found.by_class("x")] == np.bincount(cal.labels).tolist()
    other = new_round(("here",), "auto", "aps", (0.1,))
    with (
        pytest.raises(InputError) as refused,
        calibration_in_batches(other, source, tmp_path / "k"),
    ):
        pass
    assert refused.value.field == "n_classes"


def test_an_interrupted_reader_goes_on_where_it_was(tmp_path):
    path = parquet(tmp_path / "cal.parquet")
    source, seen = fw.OutputBatches(path), []

    def stop(rows: int, of: int | None) -> None:
        seen.append((rows, of))
        if len(seen) == 1:
            raise KeyboardInterrupt

    for _ in range(2):
        try:
            with calibration_in_batches(ROUND, source, tmp_path / "kept", stop) as found:
                cal = calibration_of(ROUND, load_outputs(path, None, None))
                assert found.n == N
                assert found.scores.max() == cal.scores.max()
        except KeyboardInterrupt:
            assert (tmp_path / "kept" / "state.json").exists()
    assert seen == [(384, N), (384, N), (768, N)]
    assert not (tmp_path / "kept").exists()


def test_progress_is_logged(tmp_path, caplog):
    source = fw.OutputBatches(parquet(tmp_path / "cal.parquet"))
    with caplog.at_level("INFO", "fedwqcp"):
        fw.calibrate({"here": source}, alpha=0.1)
    assert [line.count("900") for line in caplog.messages] == [1, 1]


def test_a_reader_killed_while_it_writes_repeats_no_row(tmp_path, monkeypatch):
    source, write, calls = fw.OutputBatches(parquet(tmp_path / "cal.parquet")), _stored.to_json, []

    def dies(state):
        calls.append(state.rows)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return write(state)

    monkeypatch.setattr(_stored, "to_json", dies)
    with pytest.raises(KeyboardInterrupt), calibration_in_batches(ROUND, source, tmp_path / "kept"):
        pass
    with calibration_in_batches(ROUND, source, tmp_path / "kept") as found:
        assert (found.n, calls) == (N, [384, 768, 768, N])


@pytest.mark.parametrize(("at", "row"), [(5, 5), (700, 700)])
def test_an_id_that_repeats_is_refused_by_its_row(tmp_path, at, row):
    ids = np.arange(N)
    ids[at] = ids[2]
    source = fw.OutputBatches([fw.Outputs(PROBS[i : i + 90], LABELS[i : i + 90], ids[i : i + 90])
                               for i in range(0, N, 90)])  # fmt: skip
    with pytest.raises(InputError) as refused:
        fw.calibrate({"here": source}, alpha=0.1)
    assert refused.value.row == row


def test_what_is_wrong_names_its_row(tmp_path):
    labels = LABELS.copy()
    labels[600] = 9
    source = fw.OutputBatches([(PROBS[:500], labels[:500]), (PROBS[500:], labels[500:])])
    with pytest.raises(InputError) as refused:
        fw.calibrate({"here": source}, alpha=0.1, score="lac")
    assert refused.value.row == 600


def test_labels_that_do_not_fit_are_found_without_the_rows():
    source = fw.OutputBatches([(PROBS, (LABELS + 1) % 4)])
    with pytest.warns(fw.LabelMismatchWarning):
        fw.calibrate({"here": source}, alpha=0.1, score="lac")
