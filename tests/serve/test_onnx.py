from __future__ import annotations

import numpy as np
import pytest

import fedwqcp as fw
from fedwqcp.groups import group_places
from serve.cases import KINDS, arrays, predicted, released

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")


def run(path, predictor, new):
    """Return what onnxruntime computes, as `arrays` gives it."""
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    feed = {"outputs": new.values}
    if any(each.name == "u" for each in session.get_inputs()):
        feed["u"] = fw.uniforms(predictor.key, new.ids)
    if predictor.groups:
        feed["group"] = group_places(new.groups, predictor.groups).reshape(len(new.values), -1)
    first, second = session.run(None, feed)
    if second.dtype == np.int64:
        assert np.array_equal(first.sum(axis=1), second)
        return (first,)
    return first, second


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_graph_gives_the_same_sets_to_the_last_bit(kind, dtype, tmp_path):
    release, _, given = released(kind)
    new = fw.Outputs(given.values.astype(dtype), ids=given.ids, groups=given.groups)
    own, path = release.predictor("köln", model="m 1"), tmp_path / "sets.onnx"
    for alpha in release.round.alphas:
        own.to_onnx(path, alpha=alpha, dtype=dtype)
        onnx.checker.check_model(path, full_check=True)
        for ours, theirs in zip(
            run(path, own, new), arrays(predicted(own, new, alpha=alpha)), strict=True
        ):
            assert np.array_equal(ours, theirs)
    facts = {each.key: each.value for each in onnx.load(path).metadata_props}
    assert facts["fedwqcp.agent"] == "köln"
    assert facts["fedwqcp.model"] == "m 1"


def test_a_set_without_a_label_can_be_ruled_out(tmp_path):
    release, _, new = released("fedwq-cp")
    own, path = release.predictor("köln"), tmp_path / "sets.onnx"
    own.to_onnx(path, allow_empty=False, dtype="float64")
    (mask,) = run(path, own, new)
    assert np.array_equal(mask, own.predict_set(new.values, allow_empty=False).mask)
    assert mask.any(axis=1).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_masks_alone_and_behind_a_model(dtype, tmp_path):
    rng, path = np.random.default_rng(0), tmp_path / "mask.onnx"
    maps = (np.round(rng.random((30, 8, 8)) * 50) / 50).astype(dtype)
    outputs = fw.MaskOutputs((p, rng.random(p.shape) < p) for p in maps)
    own = fw.calibrate({"a": outputs}, alpha=(0.1, 0.4), method="fed-crc").predictor("a")
    volume = np.resize(maps, (2, 1, 3, 4, 5))
    kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    ends = [
        [onnx.helper.make_tensor_value_info(name, kind, ["n", 1, "z", "y", "x"])] for name in "xp"
    ]
    nodes = [onnx.helper.make_node("Identity", ["x"], ["p"])]
    opsets = [onnx.helper.make_opsetid("", 18)]
    graph = onnx.helper.make_graph(nodes, "model", *ends)
    onnx.save(
        onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "net.onnx"
    )
    for alpha in (0.1, 0.4):
        wanted = own.predict_mask(volume, alpha=alpha)
        assert 0 < wanted.sum() < wanted.size
        for model in (None, tmp_path / "net.onnx"):
            own.to_onnx(path, alpha=alpha, dtype=dtype, model=model)
            onnx.checker.check_model(path, full_check=True)
            session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
            feed = {"x": volume} if model else {"outputs": volume.ravel()}
            (mask,) = session.run(["mask"], feed)
            assert np.array_equal(mask.ravel(), wanted.ravel())


def network(path, opset, columns=3):
    """Write a network of four features whose probabilities are an output."""
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    weights = np.random.default_rng(0).normal(size=(4, columns)).astype("float32")
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["z"]),
        helper.make_node("Softmax", ["z"], ["probs"]),
    ]
    ends = [
        [helper.make_tensor_value_info(name, kind, ["n", width])]
        for name, width in (("x", 4), ("probs", columns))
    ]
    start = [onnx.numpy_helper.from_array(weights, "w")]
    graph = helper.make_graph(nodes, "model", *ends, start)
    opsets = [helper.make_opsetid("", opset)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    helper.set_model_props(model, {"model": "its own name"})
    onnx.save(model, path)


def test_the_number_of_calibration_points_stays_at_the_site(tmp_path):
    own, path = released("auto")[0].predictor("köln"), tmp_path / "sets.onnx"
    assert "calibration_points" in own.provenance
    own.to_onnx(path, alpha=own.levels[0].alpha)
    facts = {each.key: each.value for each in onnx.load(path).metadata_props}
    assert facts
    assert "fedwqcp.calibration_points" not in facts


@pytest.mark.parametrize("opset", [13, 18, 21])
@pytest.mark.parametrize("kind", ["fedwq-cp", "three-levels", "by-group", "fcp"])
def test_a_model_and_its_sets_are_one_file(kind, opset, tmp_path):
    release, _, _ = released(kind)
    own, path = release.predictor("köln", model="net 3.1"), tmp_path / "both.onnx"
    x = np.eye(4, dtype="float32")
    network(tmp_path / "net.onnx", opset)
    own.to_onnx(path, alpha=release.round.alphas[0], model=tmp_path / "net.onnx")
    facts = {each.key: each.value for each in onnx.load(path).metadata_props}
    assert (facts["model"], facts["fedwqcp.model"]) == ("its own name", "net 3.1")
    onnx.checker.check_model(path, full_check=True)
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    ids, groups = ["a", "b", "c", "d"], ["f", "m", "m", "f"]
    feed = {"x": x, "u": fw.uniforms(own.key, ids), "group": np.array([[0], [1], [1], [0]])}
    read = {each.name for each in session.get_inputs()}
    probs, mask = session.run(
        ["probs", "set"], {name: part for name, part in feed.items() if name in read}
    )
    options = {"ids": ids, "groups": groups if own.groups else None}
    wanted = own.predict_set(probs, alpha=release.round.alphas[0], **options)
    assert np.array_equal(mask, wanted.mask)


def test_changed_weights_and_a_passed_date_are_noticed(tmp_path):
    path, both = tmp_path / "net.onnx", tmp_path / "both.onnx"
    network(path, 18)
    own = released("fedwq-cp")[0].predictor("köln", model=path, valid_until="2026-01-31")
    with pytest.warns(fw.ExpiredPredictorWarning):
        own.to_onnx(both, model=path)
    network(path, 13)
    with (
        pytest.warns(fw.ExpiredPredictorWarning),
        pytest.raises(fw.errors.InputError) as error,
    ):
        own.to_onnx(both, model=path)
    assert error.value.field == "model"


@pytest.mark.parametrize(
    ("opset", "columns", "output", "field"),
    [(12, 3, None, "model"), (18, 2, None, "output"), (18, 3, "z", "output")],
)
def test_a_model_that_does_not_fit_is_refused(opset, columns, output, field, tmp_path):
    own, path = released("fedwq-cp")[0].predictor("köln"), tmp_path / "net.onnx"
    network(path, opset, columns)
    with pytest.raises(fw.errors.InputError) as error:
        own.to_onnx(tmp_path / "both.onnx", model=path, output=output)
    assert error.value.field == field
    path.write_bytes(b"no model")
    with pytest.raises(fw.errors.InputError):
        own.to_onnx(tmp_path / "both.onnx", model=path)
