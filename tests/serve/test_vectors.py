from __future__ import annotations

import json
import subprocess
from pathlib import Path

import msgspec
import numpy as np
import predictor_vectors as vectors
import pytest

import fedwqcp as fw
from serve.cases import arrays, predicted

SERVE = Path(fw.__file__).parent / "serve"
CASES = list(vectors.cases())


def test_vectors_hold_every_kind_of_row_that_is_hard():
    labels = [case for case in CASES if case.ids is not None]
    rows = [
        (case, p, held) for case in labels for p, held in zip(case.outputs, case.sets, strict=True)
    ]
    assert len(rows) > 2000
    assert {case.predictor.n_classes for case in labels} == {2, 3, 10, 100, 1000}
    assert {case.predictor.rule for case in labels} == {"leq", "leq_top1", "until"}
    assert {case.predictor.by for case in CASES} == {None, "label", "group"}
    assert {len(row) for case in CASES for row in case.groups or ()} == {0, 1, 2, 3}
    assert {len(held) for _, _, held in rows} > {0, 1, 2, 3, 1000}
    assert sum(0.0 in p for _, p, _ in rows) > 500
    assert sum(len(set(p)) < len(p) for _, p, _ in rows) > 500
    assert any(not case.ids[1].isascii() for case in labels)
    assert sum(level.thresholds[0][0] == "inf" for c in CASES for level in c.predictor.levels) > 5
    assert "inf" in {end for case in CASES for end in case.upper or ()}


def test_javascript_gives_every_set_interval_and_uniform(tmp_path, node):
    (tmp_path / "vectors.json").write_bytes(vectors.vectors())
    words = [node, Path(__file__).with_name("vectors.js"), SERVE / "predictor.js", "vectors.json"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == {"rows": sum(len(c.outputs) for c in CASES), "differ": []}


def test_the_graph_gives_every_set_and_interval(tmp_path):
    pytest.importorskip("onnxruntime")
    from serve.test_onnx import run

    path = tmp_path / "sets.onnx"
    for case in CASES:
        if case.predictor.score.name == "mask":
            continue  # in test_onnx
        rows = fw.Outputs(case.outputs, ids=case.ids, groups=case.groups)
        case.predictor.to_onnx(path, alpha=case.alpha, dtype="float64")
        found = run(path, case.predictor, rows)
        wanted = arrays(predicted(case.predictor, rows, alpha=case.alpha))
        for ours, theirs in zip(found, wanted, strict=True):
            assert np.array_equal(ours, theirs), case.predictor.score


def test_the_same_seed_gives_the_same_file():
    assert vectors.vectors(1) == vectors.vectors(1) != vectors.vectors(2)
    assert msgspec.json.decode(vectors.vectors())["version"] == 1
