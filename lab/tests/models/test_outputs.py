import numpy as np
import pytest

from fedwqcp.errors import InputError, RecordError
from fedwqcp_lab.models.outputs import ModelOutputs, load, path_of, save


def probs(n, seed=0):
    return np.random.default_rng(seed).dirichlet(np.ones(3), n).astype(np.float32)


def test_what_was_saved_is_read_again(tmp_path):
    path = path_of(tmp_path, "mnist", 3, "S0")
    assert path == tmp_path / "mnist" / "3" / "S0.npz"
    cal, test = probs(5), probs(7, 1)
    save(path, ModelOutputs(cal, test))
    found = load(path, cal=(5, 3), test=(7, 3))
    assert found.kind == "logits"
    assert np.array_equal(found.cal, cal)
    assert np.array_equal(found.test, test)
    with np.load(path) as archive:
        assert sorted(archive.files) == ["cal_logits", "test_logits"]
        assert archive["cal_logits"].dtype == np.float32


def test_predictions_have_one_axis(tmp_path):
    path = tmp_path / "W3.npz"
    save(path, ModelOutputs(probs(4)[:, 0], probs(6)[:, 0], "predictions"))
    assert load(path).kind == "predictions"
    assert load(path).cal.shape == (4,)
    assert repr(load(path)) == "ModelOutputs(predictions, cal=(4,), test=(6,))"


def test_saving_again_replaces_and_leaves_nothing_behind(tmp_path):
    path = tmp_path / "S0.npz"
    save(path, ModelOutputs(probs(4), probs(6)))
    save(path, ModelOutputs(probs(4, 9), probs(6)))
    assert np.array_equal(load(path).cal, probs(4, 9))
    assert [p.name for p in tmp_path.iterdir()] == ["S0.npz"]


def test_other_shapes_are_refused(tmp_path):
    path = tmp_path / "S0.npz"
    save(path, ModelOutputs(probs(4), probs(6)))
    with pytest.raises(RecordError, match=r"cal must have shape \(5, 3\), got \(4, 3\)"):
        load(path, cal=(5, 3))
    with pytest.raises(RecordError, match="test must have shape"):
        load(path, cal=(4, 3), test=(6, 4))


def test_a_missing_file_says_what_to_do(tmp_path):
    with pytest.raises(RecordError, match="train the models first"):
        load(tmp_path / "S0.npz")


def test_a_damaged_file_is_refused(tmp_path):
    path = tmp_path / "S0.npz"
    save(path, ModelOutputs(probs(4), probs(6)))
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(RecordError, match="damaged"):
        load(path)
    np.savez(path, something=np.zeros(3))
    with pytest.raises(RecordError, match="holds no model outputs"):
        load(path)


@pytest.mark.parametrize(
    ("cal", "test", "kind"),
    [
        (np.zeros((4, 3)), np.zeros((4, 3), np.float32), "logits"),
        (np.zeros(4, np.float32), np.zeros(4, np.float32), "logits"),
        (np.zeros((4, 3), np.float32), np.zeros((4, 2), np.float32), "quantiles"),
        (np.zeros((4, 3), np.float32), np.zeros((4, 3), np.float32), "probs"),
    ],
)
def test_what_is_no_output_cannot_be_saved(cal, test, kind):
    with pytest.raises(InputError, match="must"):
        ModelOutputs(cal, test, kind)


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot write"):
        save(tmp_path / "file" / "S0.npz", ModelOutputs(probs(4), probs(6)))
