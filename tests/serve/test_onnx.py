from __future__ import annotations

import numpy as np
import pytest

import fedwqcp as fw
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
        feed["group"] = np.array([predictor.groups.index(name) for name in new.groups])
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
    assert facts["agent"] == "köln"
    assert facts["model"] == "m 1"


def test_a_set_without_a_label_can_be_ruled_out(tmp_path):
    release, _, new = released("fedwq-cp")
    own, path = release.predictor("köln"), tmp_path / "sets.onnx"
    own.to_onnx(path, allow_empty=False, dtype="float64")
    (mask,) = run(path, own, new)
    assert np.array_equal(mask, own.predict_set(new.values, allow_empty=False).mask)
    assert mask.any(axis=1).all()


def test_a_model_and_its_sets_are_one_file(tmp_path):
    release, _, _ = released("fedwq-cp")
    own, rng = release.predictor("köln"), np.random.default_rng(0)
    own.to_onnx(tmp_path / "sets.onnx")
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    weights = onnx.numpy_helper.from_array(rng.normal(size=(4, 3)).astype("float32"), "w")
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["z"]),
        helper.make_node("Softmax", ["z"], ["probs"]),
    ]
    ends = (
        [helper.make_tensor_value_info("x", kind, ["n", 4])],
        [helper.make_tensor_value_info("probs", kind, ["n", 3])],
    )
    model = helper.make_model(
        helper.make_graph(nodes, "model", *ends, [weights]),
        opset_imports=[helper.make_opsetid("", 18)], ir_version=8,
    )  # fmt: skip
    both = onnx.compose.merge_models(
        model, onnx.load(tmp_path / "sets.onnx"), io_map=[("probs", "outputs")],
        outputs=["set", "size", "probs"],
    )  # fmt: skip
    onnx.save(both, tmp_path / "both.onnx")
    session = runtime.InferenceSession(tmp_path / "both.onnx", providers=["CPUExecutionProvider"])
    x = rng.normal(size=(20, 4)).astype("float32")
    mask, probs = session.run(["set", "probs"], {"x": x})
    assert np.array_equal(mask, own.predict_set(probs).mask)
