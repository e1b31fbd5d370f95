"""Model outputs come from four kinds of file, and say clearly what is wrong with them."""

from __future__ import annotations

import io

import numpy as np
import pytest

from fedwqcp.errors import InputError
from fedwqcp.federation.outputs import Outputs, load_outputs

PROBS = np.array([[0.7, 0.3], [0.2, 0.8]])


def test_npz_with_everything(tmp_path):
    path = tmp_path / "cal.npz"
    np.savez(path, probs=PROBS, labels=[0, 1], ids=["p1", "p2"], features=np.eye(2))
    found = load_outputs(path)
    np.testing.assert_array_equal(found.values, PROBS)
    np.testing.assert_array_equal(found.labels, [0, 1])
    np.testing.assert_array_equal(found.ids, ["p1", "p2"])
    np.testing.assert_array_equal(found.features, np.eye(2))
    assert repr(found) == "Outputs(shape=(2, 2))"


def test_npz_for_regression(tmp_path):
    path = tmp_path / "cal.npz"
    np.savez(path, outputs=[1.5, 2.5], y=[1.0, 2.0])
    found = load_outputs(path)
    assert (found.values.shape, found.labels.tolist(), found.ids) == ((2,), [1.0, 2.0], None)


@pytest.mark.parametrize("name", ["labels", "label", "y"])
def test_npz_names_its_labels_in_any_of_three_ways(tmp_path, name):
    np.savez(tmp_path / "cal.npz", probs=PROBS, **{name: [1, 0]})
    assert load_outputs(tmp_path / "cal.npz").labels.tolist() == [1, 0]


def test_classes_by_name_are_refused_with_what_to_write(tmp_path):
    (tmp_path / "cal.csv").write_text("p0,p1,label\n0.7,0.3,flu\n")
    with pytest.raises(InputError, match=r"'label' must hold numbers .* number the classes from 0"):
        load_outputs(tmp_path / "cal.csv")


def test_npy_with_labels_beside_it(tmp_path):
    np.save(tmp_path / "p.npy", PROBS)
    np.save(tmp_path / "y.npy", np.array([0, 1]))
    assert load_outputs(tmp_path / "p.npy").labels is None
    found = load_outputs(tmp_path / "p.npy", tmp_path / "y.npy")
    np.testing.assert_array_equal(found.labels, [0, 1])


def test_csv_of_probabilities(tmp_path):
    path = tmp_path / "cal.csv"
    path.write_text("id,p1,p0,label,x0\nn7,0.3,0.7,0,5\nn8,0.8,0.2,1,6\n")
    found = load_outputs(path)
    np.testing.assert_array_equal(found.values, PROBS)
    assert found.labels.dtype == np.int64
    assert found.ids.tolist() == ["n7", "n8"]
    np.testing.assert_array_equal(found.features, [[5], [6]])


@pytest.mark.parametrize(
    ("header", "shape"),
    [("prediction", (1,)), ("prediction,sigma", (1, 2)), ("lower,upper", (1, 2))],
)
def test_csv_of_regressors(tmp_path, header, shape):
    path = tmp_path / "cal.csv"
    path.write_text(f"{header},y\n" + "1.5," * (header.count(",") + 1) + "2.25\n")
    found = load_outputs(path)
    assert found.values.shape == shape
    assert found.labels.tolist() == [2.25]


def test_logits_are_told_from_probabilities(tmp_path):
    np.savez(tmp_path / "cal.npz", logits=[[-1.0, 2.0]], labels=[1])
    (tmp_path / "cal.csv").write_text("z0,z1,label\n-1,2,1\n")
    for name in ("cal.npz", "cal.csv"):
        found = load_outputs(tmp_path / name)
        assert found.logits
        assert found.values.tolist() == [[-1.0, 2.0]]
        assert found.labels.tolist() == [1]
    (tmp_path / "cal.csv").write_text("z0,z1,p0,p1\n-1,2,0.5,0.5\n")
    np.savez(tmp_path / "cal.npz", logits=[[-1.0, 2.0]], probs=[[0.5, 0.5]])
    for name in ("cal.npz", "cal.csv"):  # who gives both means the probabilities
        found = load_outputs(tmp_path / name)
        assert not found.logits
        assert found.values.tolist() == [[0.5, 0.5]]


def test_parquet_equals_csv(tmp_path):
    pa = pytest.importorskip("pyarrow", reason="the extra [parquet] is not installed")
    pq = pytest.importorskip("pyarrow.parquet", reason="the extra [parquet] is not installed")
    path = tmp_path / "cal.parquet"
    pq.write_table(pa.table({"p0": [0.7, 0.2], "p1": [0.3, 0.8], "label": [0, 1]}), path)
    found = load_outputs(path)
    np.testing.assert_array_equal(found.values, PROBS)
    assert found.labels.dtype == np.int64


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.txt", b"", "must be one of .npz, .npy, .csv, .parquet, got a.txt"),
        ("a.npz", b"garbage", "cannot be read"),
        ("a.npy", b"\x93NUMPY", "cannot be read"),
        ("a.parquet", b"garbage", "Parquet"),
        ("a.csv", b"", "it is empty"),
        ("a.csv", b"\xff\xfe\x00", "UTF-8"),
        ("a.csv", b"q,r\n1,2\n", "must have columns p0, p1"),
        ("a.csv", b"p0,p2\n1,2\n", "without a gap"),
        ("a.csv", b"p0,p1\n0.5\n", "line 2: 1 fields, the header 2"),
        ("a.csv", b"p0,p1\n0.5,secret\n", "column 'p1' must hold numbers"),
    ],
)
def test_bad_files_are_refused(tmp_path, name, content, says):
    if name.endswith(".parquet"):
        pytest.importorskip("pyarrow", reason="the extra [parquet] is not installed")
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError, match=says) as error:
        load_outputs(path)
    assert "secret" not in str(error.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"cannot read .*cal\.npz: No such file"):
        load_outputs(tmp_path / "cal.npz")


def test_an_archive_without_outputs_says_what_it_holds(tmp_path):
    path = tmp_path / "cal.npz"
    np.savez(path, odds=PROBS)
    with pytest.raises(InputError, match="must hold 'probs', 'outputs' or 'logits', got odds"):
        load_outputs(path)


def test_objects_are_never_unpickled(tmp_path):
    path = tmp_path / "cal.npz"
    np.savez(path, probs=np.array([{"a": 1}], dtype=object))
    with pytest.raises(InputError, match="objects are not read"):
        load_outputs(path)


def test_lengths_must_agree():
    with pytest.raises(
        InputError, match="labels must have one entry for each of the 2 rows, got 3"
    ):
        Outputs(PROBS, labels=np.zeros(3))


@pytest.mark.parametrize(
    ("name", "write", "says"),
    [
        ("a.npz", lambda p: np.savez(p, probs=np.float64(1.0)), "one or two axes"),
        ("a.npz", lambda p: np.savez(p, probs=PROBS, labels=np.int64(1)), "a single value"),
        ("a.npz", lambda p: p.write_bytes(npy(PROBS)), "rename a single array to .npy"),
        ("a.npy", lambda p: p.write_bytes(npz(PROBS)), "rename an archive to .npz"),
        ("a.npy", lambda p: p.write_bytes(claim(10**13)), "cannot be read"),
        ("a.csv", lambda p: p.write_text("p0,p01\n1,2\n"), "must be at least two"),
        ("a.csv", lambda p: p.write_text("z0,y\n1,2\n"), "z0, z1, ... must be at least two"),
        ("a.csv", lambda p: p.write_text("p0,p1,p1\n1,2,3\n"), "each column name may occur once"),
        ("a.csv", lambda p: p.write_text("p0,p1,id\n1,2,\n"), "an id in every row, line 2 is em"),
        ("a.csv", lambda p: p.write_text("p0;p1\n0,1;0,9\n"), "separated by commas, got ';': save"),
        ("a.csv", lambda p: p.write_text("p0\tp1\n0.1\t0.9\n"), "by commas, got tabs"),
        (
            "a.csv",
            lambda p: p.write_text("p0,p1\n1,0\n1,\n"),
            "'p1' .* line 3 is empty: fill the c",
        ),
        ("a.csv", lambda p: p.write_text("p0,p1\n1,NA\n"), "'p1' .* line 2 holds something else$"),
        ("a.csv", lambda p: p.write_text("p0,p1,label\n1,0,a\n"), "line 2 .*; number the classes"),
        ("a.csv", lambda p: p.write_text("p0,p1,label\n1,0,\n"), "line 2 is empty: fill the cell"),
    ],
)
def test_files_that_mean_something_else_are_refused(tmp_path, name, write, says):
    path = tmp_path / name
    write(path)
    with pytest.raises(InputError, match=says):
        load_outputs(path)


def npy(array):
    """The bytes of an .npy file."""
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def npz(array):
    """The bytes of an .npz file."""
    file = io.BytesIO()
    np.savez(file, probs=array)
    return file.getvalue()


def claim(rows):
    """The bytes of an .npy file that claims more rows than any machine holds."""
    return npy(np.zeros((2, 2))).replace(b"(2, 2)", b"(%d, 2)" % rows)


def test_groups_and_labels_that_occur_together(tmp_path):
    (tmp_path / "cal.csv").write_text("p0,p1,y0,y1,group\n0.7,0.9,1,0,f\n0.2,0.8,1,1,m\n")
    found = load_outputs(tmp_path / "cal.csv")
    assert found.labels.tolist() == [[1, 0], [1, 1]]
    assert found.groups.tolist() == ["f", "m"]
    for key in ("groups", "group"):
        np.savez(tmp_path / "cal.npz", probs=PROBS, labels=[[1, 0], [1, 1]], **{key: [3, 4]})
        found = load_outputs(tmp_path / "cal.npz")
        assert found.labels.shape == (2, 2)
        assert found.groups.tolist() == [3, 4]
    (tmp_path / "cal.csv").write_text("p0,p1,label,group\n0.7,0.3,1,\n")
    with pytest.raises(InputError, match="column 'group' must hold a group in every row"):
        load_outputs(tmp_path / "cal.csv")
    np.savez(tmp_path / "cal.npz", probs=PROBS, groups=["f"])
    with pytest.raises(InputError, match="groups must have one entry for each of the 2 rows"):
        load_outputs(tmp_path / "cal.npz")
