"""Batches hold the rows of their files, in order, and nothing else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fedwqcp as fw
from fedwqcp.errors import InputError
from fedwqcp.scores.custom import Custom
from fedwqcp.streaming import (
    Arrays,
    Batch,
    NpyFiles,
    ParquetFile,
    conformal_quantiles,
    evaluate,
    predict,
    scores_of,
)
from fedwqcp.streaming.batches import as_batch
from refusals import raises

PROBS = np.random.default_rng(0).dirichlet(np.ones(3), 10)
LABELS = np.arange(10) % 3


def joined(source) -> list[np.ndarray]:
    return [np.concatenate(parts) for parts in zip(*source, strict=True) if parts[0] is not None]


def test_arrays_are_cut_and_can_be_read_again():
    source = Arrays(PROBS, LABELS, np.arange(10), rows=4)
    assert [len(batch.values) for batch in source] == [4, 4, 2]
    for _ in range(2):
        values, labels, ids = joined(source)
        np.testing.assert_array_equal(values, PROBS)
        np.testing.assert_array_equal(labels, LABELS)
        np.testing.assert_array_equal(ids, np.arange(10))
    assert len(source) == 10


def test_npy_files_are_mapped(tmp_path: Path):
    np.save(tmp_path / "probs.npy", PROBS)
    np.save(tmp_path / "labels.npy", LABELS)
    source = NpyFiles(tmp_path / "probs.npy", tmp_path / "labels.npy", rows=3)
    assert isinstance(source.values, np.memmap)
    values, labels = joined(source)
    np.testing.assert_array_equal(values, PROBS)
    np.testing.assert_array_equal(labels, LABELS)


def test_a_file_that_cannot_be_mapped_is_refused(tmp_path: Path):
    np.savez(tmp_path / "probs.npz", PROBS)
    (tmp_path / "text.npy").write_text("no numbers")
    with pytest.raises(InputError, match="archive"):
        NpyFiles(tmp_path / "probs.npz")
    with pytest.raises(InputError, match="cannot be read"):
        NpyFiles(tmp_path / "text.npy")
    with pytest.raises(InputError, match="does not exist"):
        NpyFiles(tmp_path / "missing.npy")


def test_lengths_must_agree():
    with pytest.raises(InputError):
        Arrays(PROBS, LABELS[:4])
    with pytest.raises(InputError, match="at least 1"):
        Arrays(PROBS, rows=0)


def table(path: Path, columns: dict[str, object]) -> Path:
    pyarrow = pytest.importorskip("pyarrow", reason="Parquet needs the extra 'parquet'")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.table(columns), path, row_group_size=4)
    return path


def test_parquet_is_read_by_row_groups(tmp_path: Path):
    columns = {f"p{j}": PROBS[:, j] for j in range(3)}
    ids = [f"row-{i}" for i in range(10)]
    path = table(tmp_path / "probs.parquet", {**columns, "label": LABELS, "id": ids})
    source = ParquetFile(path, rows=4)
    assert len(source) == 10
    values, labels, found = joined(source)
    np.testing.assert_array_equal(values, PROBS)
    np.testing.assert_array_equal(labels, LABELS)
    assert found.tolist() == ids
    assert max(len(batch.values) for batch in source) <= 4


def test_a_table_without_outputs_is_refused(tmp_path: Path):
    for columns in (
        {"x": [1.0]},
        {"p0": [1.0], "p2": [0.0]},
        {"p00": [1.0], "p01": [0.0]},
        {"p1": [1.0]},
        {"p0": ["a"], "p1": ["b"]},
    ):
        with pytest.raises(InputError):
            list(ParquetFile(table(tmp_path / "t.parquet", columns)))
    (tmp_path / "t.parquet").write_text("no table")
    with pytest.raises(InputError):
        list(ParquetFile(tmp_path / "t.parquet"))


def test_what_a_loader_gives_becomes_a_batch():
    batch = as_batch([[[0.5, 0.5]], [1]])
    assert isinstance(batch, Batch)
    assert batch.ids is None
    assert np.asarray(as_batch(PROBS).values).shape == (10, 3)
    with pytest.raises(InputError, match="4 parts"):
        as_batch((1, 2, 3, 4))


RNG = np.random.default_rng(0)
STREAMED_PROBS = RNG.dirichlet(np.ones(4), 100)
STREAMED_LABELS = RNG.integers(0, 4, 100)
IDS = np.arange(100)
SOURCE = Arrays(STREAMED_PROBS, STREAMED_LABELS, IDS, rows=17)
U = fw.uniforms("key", IDS.astype(str))


def test_thresholds_from_batches_of_outputs():
    aps = fw.APS()
    whole = aps.of(STREAMED_PROBS, STREAMED_LABELS, u=U)
    found = list(scores_of(SOURCE, aps, key="key"))
    np.testing.assert_array_equal(np.concatenate(found), whole)
    (q,) = conformal_quantiles(scores_of(SOURCE, aps, key="key"), [0.1])
    assert q == fw.conformal_quantile(whole, 0.1)


def test_rows_without_ids_draw_what_an_agent_of_a_round_draws():
    site = fw.Outputs(STREAMED_PROBS, STREAMED_LABELS, ids=fw.scores.row_ids(STREAMED_PROBS))
    release = fw.calibrate({"a": site}, method="split-cp", alpha=0.1, score="aps", key="k")
    bare = Arrays(STREAMED_PROBS, STREAMED_LABELS, rows=30)
    (q,) = conformal_quantiles(scores_of(bare, fw.APS(), key="k"), [0.1])
    assert q == release.threshold("a")
    (sets,) = predict([STREAMED_PROBS], fw.APS(), q, key="k")
    np.testing.assert_array_equal(sets.mask, release.predict_set("a", site).mask)


@pytest.mark.parametrize("ids", [[7.0, 8.0], [7, None], ["a", None]])
def test_ids_that_are_no_text_are_refused(ids):
    batch = (STREAMED_PROBS[:2], STREAMED_LABELS[:2], ids)
    for work in (
        lambda: list(scores_of([batch], fw.APS())),
        lambda: list(predict([batch], fw.APS(), 0.5)),
        lambda: evaluate([batch], fw.APS(), 0.5),
    ):
        with pytest.raises(InputError):
            work()


@pytest.mark.parametrize("rule", ["leq", "leq_top1", "until"])
def test_sets_and_coverage_of_batches(rule):
    aps = fw.APS()
    whole = aps.invert(STREAMED_PROBS, 0.6, rule, U)
    parts = list(predict(SOURCE, aps, 0.6, rule=rule, key="key"))
    np.testing.assert_array_equal(np.concatenate([part.mask for part in parts]), whole.mask)
    found = evaluate(SOURCE, aps, 0.6, rule=rule, key="key")
    assert (found.rate.n, found.rate.hits) == (100, whole.cover(STREAMED_LABELS).sum())
    assert found.mean_size == pytest.approx(whole.sizes().mean())
    assert found.empty == (whole.sizes() == 0).sum()


def test_regression():
    out, y = RNG.normal(size=100), RNG.normal(size=100)
    source, score = Arrays(out, y, rows=9), fw.AbsoluteResidual()
    np.testing.assert_array_equal(np.concatenate(list(scores_of(source, score))), score.of(out, y))
    whole = score.invert(out, 1.0)
    lower = np.concatenate([part.lower for part in predict(source, score, 1.0)])
    np.testing.assert_array_equal(lower, whole.lower)
    found = evaluate(source, score, 1.0)
    assert found.rate.hits == whole.cover(y).sum()
    assert found.mean_size == pytest.approx(2.0)


def test_an_interval_of_length_0_is_not_empty():
    source = [(np.array([[0.0, 1.0], [0.0, 2.0], [0.0, 4.0]]), np.zeros(3))]
    found = evaluate(source, fw.CQR(), -1.0)  # [1, 0], [1, 1] and [1, 3]
    assert found.empty == 1
    assert found.mean_size == pytest.approx(2 / 3)


def test_no_rows():
    found = evaluate([], fw.LAC(), 0.5)
    assert found.rate.n == 0
    assert np.isnan(found.mean_size)


def test_what_cannot_be_done_is_refused():
    for work in (scores_of, lambda s, score: [evaluate(s, score, 0.5)]):
        with pytest.raises(InputError, match="needs labels"):
            list(work([STREAMED_PROBS], fw.LAC()))
    with pytest.raises(InputError, match="caller's own"):
        list(scores_of(SOURCE, Custom()))
    for work in (scores_of, lambda s, score: predict(s, score, 0.5)):
        with pytest.raises(InputError):
            list(work(SOURCE, fw.MultiLabel()))


def test_a_pytorch_loader():
    torch = pytest.importorskip("torch", reason="a DataLoader is PyTorch's")
    data = torch.utils.data.TensorDataset(
        torch.from_numpy(STREAMED_PROBS), torch.from_numpy(STREAMED_LABELS)
    )
    loader = torch.utils.data.DataLoader(data, batch_size=32)
    found = np.concatenate(list(scores_of(loader, fw.LAC())))
    np.testing.assert_array_equal(found, fw.LAC().of(STREAMED_PROBS, STREAMED_LABELS))


def test_an_error_names_the_row_of_the_whole_source():
    probs = STREAMED_PROBS.copy()
    probs[40, 2] = np.nan
    source = Arrays(probs, STREAMED_LABELS, rows=17)
    lac = fw.LAC()
    for work in (
        lambda: list(scores_of(source, lac)),
        lambda: list(predict(source, lac, 0.5)),
        lambda: evaluate(source, lac, 0.5),
    ):
        with raises(InputError, row=40) as caught:
            work()
        assert caught.value.row == 40


def test_scores_can_be_read_again_if_their_source_can():
    aps = fw.APS(randomized=False)
    whole = aps.of(STREAMED_PROBS, STREAMED_LABELS)
    exact = fw.conformal_quantile(whole, 0.5)
    again = scores_of(SOURCE, aps)
    assert conformal_quantiles(again, [0.5], capacity=2) == (exact,)
    assert conformal_quantiles(again, [0.5]) == (exact,)
    with pytest.raises(InputError, match="pass capacity="):
        conformal_quantiles(scores_of(iter(list(SOURCE)), aps), [0.5], capacity=2)
