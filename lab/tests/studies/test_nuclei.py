from __future__ import annotations

import csv
import io
import lzma
import runpy
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[3]


def test_training_writes_maps_that_numpy_reads(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    from fedwqcp_lab.studies import nuclei

    monkeypatch.setattr(nuclei, "EPOCHS", 1)
    sites = np.repeat(nuclei.SHOWN, 6)
    images = np.random.default_rng(0).integers(0, 256, (len(sites), 16, 16, 3), np.uint8)
    masks = np.packbits(images[..., 0] > 128, axis=2)
    buffer = io.BytesIO()
    np.savez(buffer, images=images, masks=masks, sites=sites, ids=np.arange(len(sites)).astype(str))
    (tmp_path / "data.npz.xz").write_bytes(lzma.compress(buffer.getvalue()))
    nuclei.main(tmp_path / "data.npz.xz", tmp_path / "maps.npz")
    with np.load(tmp_path / "maps.npz") as maps:
        rows = maps["ids"].astype(int)
        assert np.array_equal(maps["sites"], sites[rows])
        assert len(rows) == len(sites) * 2 // 3
        assert np.array_equal(maps["masks"], images[rows][..., 0] > 128)
        assert maps["probs"].shape == (len(rows), 16, 16)
        assert np.array_equal(maps["images"], images[rows[maps["shown"]]])


def test_the_record_of_the_splits_is_of_the_committed_maps():
    script = runpy.run_path(str(ROOT / "benchmarks" / "nuclei.py"))
    with np.load(script["FOLDER"] / "maps.npz") as file:
        found = script["records"](dict(file), 1)
    with (script["FOLDER"] / "images.csv").open(newline="") as file:
        for ours, kept in zip(found, csv.DictReader(file), strict=True):
            assert [str(ours[name]) for name in ("id", "site", "true")] == [
                kept[name] for name in ("id", "site", "true")
            ]
