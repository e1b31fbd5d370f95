"""Model outputs: four kinds of file, errors that name lines and no data."""

from __future__ import annotations

import io
import time

import numpy as np
import pytest

import fedwqcp as fw
from changed import replace
from fedwqcp import calibrate
from fedwqcp.errors import ClassesError, InputError
from fedwqcp.federation.predict import calibration_of, predictor_of
from fedwqcp.outputs import Outputs
from fedwqcp.readers import load_outputs
from fedwqcp.wire.messages import Choice, Round
from refusals import raises

PROBS = np.array([[0.7, 0.3], [0.2, 0.8]])


def npy(array):
    """The bytes of an .npy file."""
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def npz(**arrays):
    """The bytes of an .npz file."""
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def claim(rows):
    """The bytes of an .npy file that claims more rows than any machine holds."""
    return npy(np.zeros((2, 2))).replace(b"(2, 2)", b"(%d, 2)" % rows)


def test_npz_with_everything(tmp_path):
    path = tmp_path / "cal.npz"
    np.savez(path, probs=PROBS, labels=[0, 1], ids=["p1", "p2"], features=np.eye(2))
    found = load_outputs(path)
    np.testing.assert_array_equal(found.values, PROBS)
    np.testing.assert_array_equal(found.labels, [0, 1])
    np.testing.assert_array_equal(found.ids, ["p1", "p2"])
    np.testing.assert_array_equal(found.features, np.eye(2))
    there = "with labels, ids, features; without groups, classes"
    assert f"{there}" in repr(found)


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


def test_logits_become_probabilities(tmp_path):
    np.savez(tmp_path / "cal.npz", logits=[[-1.0, 2.0]], labels=[1])
    (tmp_path / "cal.csv").write_text("z0,z1,label\n-1,2,1\n")
    for name in ("cal.npz", "cal.csv"):
        found = load_outputs(tmp_path / name)
        assert found.values.tolist() == fw.softmax([[-1.0, 2.0]]).tolist()
        assert found.labels.tolist() == [1]
    (tmp_path / "cal.csv").write_text("z0,z1,p0,p1\n-1,2,0.5,0.5\n")
    np.savez(tmp_path / "cal.npz", logits=[[-1.0, 2.0]], probs=[[0.5, 0.5]])
    for name in ("cal.npz", "cal.csv"):  # who gives both means the probabilities
        assert load_outputs(tmp_path / name).values.tolist() == [[0.5, 0.5]]
    (tmp_path / "cal.csv").write_text("z0,z1\n0,0\n-1,inf\n")
    with raises(InputError, row=1):
        load_outputs(tmp_path / "cal.csv")


def test_parquet_numbers_keep_their_meaning(tmp_path):
    """Columns of numbers are read as arrays; ids, gaps and class names as CSV reads them."""
    pa = pytest.importorskip("pyarrow", reason="the extra [parquet] is not installed")
    pq = pytest.importorskip("pyarrow.parquet", reason="the extra [parquet] is not installed")
    path = tmp_path / "cal.parquet"
    single = pa.array([0.75, 0.25], pa.float32())
    table = {"p0": single, "p1": [0.25, 0.75], "y": [0, 1], "id": [7, 8], "group": ["a", "b"]}
    pq.write_table(pa.table(table), path)
    found = load_outputs(path)
    np.testing.assert_array_equal(found.values, [[0.75, 0.25], [0.25, 0.75]])
    assert found.labels.tolist() == [0, 1]
    assert found.ids.tolist() == ["7", "8"]
    assert found.groups.tolist() == ["a", "b"]
    pq.write_table(pa.table(table | {"p0": [0.75, None]}), path)
    with raises(InputError, row=1):
        load_outputs(path)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.txt", b""),
        ("a.npz", b"garbage"),
        ("a.npz", npy(PROBS)),
        ("a.npz", npz(odds=PROBS)),
        ("a.npz", npz(probs=np.float64(1.0))),
        ("a.npz", npz(probs=PROBS, labels=np.int64(1))),
        ("a.npz", npz(probs=PROBS, groups=["f"])),
        ("a.npz", npz(probs=PROBS, classes=[["a", "b"]])),
        ("a.npz", npz(probs=PROBS, patient_id=["p1", "p2"])),  # ids must not be lost silently
        ("a.npz", npz(probs=PROBS, Groups=["p1", "p2"])),
        *(("a.npz", npz(**{name: PROBS})) for name in ("y_prob", "Logit", "y_pred")),
        ("a.npz", npz(probs=np.array([{"a": 1}], dtype=object))),  # never unpickled
        ("a.npz", npz(probs=PROBS, labels=np.array(["flu", "cold"], dtype=object))),
        ("a.npy", b"\x93NUMPY"),
        ("a.npy", b"\x93NUMPY\x01\x00\x10\x00{'descr': ((((((("),
        ("a.npy", npz(probs=PROBS)),
        ("a.npy", claim(10**13)),
        ("a.parquet", b"garbage"),
        ("a.csv", b""),
        ("a.csv", b"\xff\xfe\x00"),
        ("a.csv", b"q,r\n1,2\n"),
        ("a.csv", b"p0,p2\n1,2\n"),
        ("a.csv", b"p0,p01\n1,2\n"),
        ("a.csv", b"p00,p01\n1,2\n"),
        ("a.csv", b"z0,y\n1,2\n"),
        ("a.csv", b"id,p1,label\n1,0.5,1\n"),
        ("a.csv", b"prob_0,prob_1\n1,2\n"),
        ("a.csv", b"patient_id,p0,p1\n1,0.5,0.5\n"),
        ("a.csv", b"p0,p1,Label\n0.5,0.5,1\n"),
        ("a.csv", b"p0,p1,Group\n0.5,0.5,1\n"),
        ("a.csv", b"p0,p1,p1\n1,2,3\n"),
        ("a.csv", b"p0;p1\n0,1;0,9\n"),
        ("a.csv", b"p0\tp1\n0.1\t0.9\n"),
        ("a.csv", b"melanoma,nevus,label\n0.7,0.3,0\n"),  # the round names no classes
    ],
)
def test_files_that_are_or_mean_something_else_are_refused(tmp_path, name, content):
    if name.endswith(".parquet"):
        pytest.importorskip("pyarrow", reason="the extra [parquet] is not installed")
    path = tmp_path / name
    with pytest.raises(InputError):
        load_outputs(path)  # it is missing
    path.write_bytes(content)
    with pytest.raises(InputError):
        load_outputs(path)


@pytest.mark.parametrize(
    ("text", "row"),
    [
        ("p0,p1\n0.5\n", 0),
        ("p0,p1\n0.5,secret\n", 0),
        ("p0,p1\n1,0\n1,\n", 1),
        ("p0,p1,id\n1,2,\n", 0),
        ("p0,p1,label\n1,0,secret\n", 0),
        ("p0,p1,label\n1,0,\n", 0),
        ("p0,p1,label,group\n0.7,0.3,1,\n", 0),
        ("p0,p1,id\n0.5,0.5,secret\n0.5,0.5,Smith\n0.5,0.5,secret\n0.5,0.5,secret\n", 2),
    ],
)
def test_a_bad_line_is_named_and_its_content_never_shown(tmp_path, text, row):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(InputError) as error:
        load_outputs(tmp_path / "a.csv")
    assert error.value.row in (row, None)
    assert f"{row + 2}" in str(error.value)
    assert "secret" not in str(error.value)


@pytest.mark.parametrize(
    ("first", "classes"),
    [
        ("Miller,0.253,0.747,1", None),
        ("Miller,0.253,0.747,1", ()),
        ("0.253,0.747", ("flu", "cold")),
        ("Miller,1,0,2", ()),
        ("Miller,71%,29%,flu", ("flu", "cold")),
        ("Miller,71%,29%,Flu", ("flu", "cold")),
        ("Miller,flu,y", ()),
        ("class 7,Miller,flu", ()),
    ],
)
def test_a_first_row_in_place_of_names_is_never_shown(tmp_path, first, classes):
    path = tmp_path / "a.csv"
    path.write_text(f"{first}\n{first}\n")
    with pytest.raises(InputError) as error:
        load_outputs(path, classes=classes)
    assert not any(secret in str(error.value) for secret in ("Miller", "253", "747"))


@pytest.mark.parametrize("name", ["a.npy", "a.npz", "a.csv", "a.parquet"])
def test_any_change_of_a_file_gives_outputs_or_an_input_error(tmp_path, name):
    path, rng = tmp_path / name, np.random.default_rng(0)
    if name.endswith(".parquet"):
        pa = pytest.importorskip("pyarrow", reason="the extra [parquet] is not installed")
        pq = pytest.importorskip("pyarrow.parquet")
        pq.write_table(pa.table({"p0": [0.7, 0.2], "p1": [0.3, 0.8], "label": [0, 1]}), path)
    else:
        files = {".npy": npy(PROBS), ".npz": npz(probs=PROBS), ".csv": b"p0,p1,label\n0.7,0.3,0\n"}
        path.write_bytes(files[path.suffix])
    good, refused = path.read_bytes(), 0
    for _ in range(500):
        bad = bytearray(good)
        for at in rng.integers(len(bad), size=rng.integers(1, 4)):
            bad[at] = rng.choice([0, 1, 39, 40, 58, 91, 123, 127, 255, rng.integers(256)])
        path.write_bytes(bad[: rng.choice([len(bad), rng.integers(len(bad))])])
        try:
            load_outputs(path)
        except InputError:  # any other exception fails the test
            refused += 1
    assert refused > 100


ROUND = Round("r", Choice("fedwq-cp"), Choice("lac"), (0.5,), ("a",), 1)
BAD = "p0,p1,label\n0.5,0.5,1\n0.25,0.75,0\n0.5,2.5,1\n"


def test_a_bad_row_of_a_table_is_named_by_its_line(tmp_path):
    path = tmp_path / "cal.csv"
    path.write_text(BAD)
    with raises(InputError, row=2):
        calibration_of(ROUND, load_outputs(path))
    release = calibrate({"a": [0.1, 0.2, 0.3]}, method="fedwq-cp", alpha=0.5, score="lac")
    with raises(InputError, row=2):
        predictor_of(release, "a").apply(load_outputs(path))


CLASSES = ("melanoma", "nevus")
NAMED = replace(ROUND, n_classes=2, classes=CLASSES)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(
    "text",
    [
        "id,nevus,melanoma,label\nn7,0.3,0.7,melanoma\nn8,0.8,0.2,nevus\n",
        "id,hospital,melanoma,age,nevus,label\nn7,A,0.7,50,0.3,0\nn8,B,0.2,60,0.8,1\n",
        "id,p0,p1,label\nn7,0.7,0.3,melanoma\nn8,0.2,0.8,nevus\n",
    ],
)
def test_columns_and_labels_are_found_by_the_names_of_classes(tmp_path, text, known):
    """Whether the round is known when the file is read, or, as over an engine, only later."""
    (tmp_path / "cal.csv").write_text(text)
    read = load_outputs(tmp_path / "cal.csv", classes=CLASSES if known else None)
    found = read.in_classes(CLASSES)
    np.testing.assert_array_equal(found.values, PROBS)
    assert found.labels.tolist() == [0, 1]
    assert found.classes == (() if "p0" in text else CLASSES)
    assert calibration_of(NAMED, read).classes == (found.classes if known else CLASSES)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(
    "rows",
    [
        "melanoma,wart,label\n0.7,0.3,0\n",
        "melanoma,nevus,label\n0.7,0.3,wart\n",
        "melanoma,nevus,label\n0.7,0.3,melanoma\n0.7,0.3,\n",
        "melanoma,nevus,label\n0.7,,melanoma\n",
    ],
)
def test_files_of_other_classes_are_refused(tmp_path, rows, known):
    (tmp_path / "cal.csv").write_text(rows)
    classes = CLASSES if known else None
    with pytest.raises(InputError):
        calibration_of(NAMED, load_outputs(tmp_path / "cal.csv", classes=classes))


def test_an_archive_names_its_classes(tmp_path):
    np.savez(tmp_path / "cal.npz", probs=PROBS, labels=list(CLASSES), classes=list(CLASSES))
    found = load_outputs(tmp_path / "cal.npz", classes=CLASSES)
    assert (found.classes, found.labels.tolist()) == (CLASSES, [0, 1])
    assert found.take(np.array([True, False])).classes == CLASSES
    with raises(ClassesError, field="classes"):
        load_outputs(tmp_path / "cal.npz", classes=CLASSES[::-1])

    np.savez(tmp_path / "cal.npz", probs=PROBS, classes=["a", "b", "c"])
    with raises(InputError, field="classes"):
        load_outputs(tmp_path / "cal.npz")


def test_a_table_of_pandas_must_have_its_columns_in_the_order_of_the_classes():
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    table = pd.DataFrame(PROBS, columns=list(CLASSES))
    assert Outputs(table, classes=CLASSES).classes == CLASSES
    with raises(ClassesError, field="classes"):
        Outputs(table, classes=CLASSES[::-1])


def test_a_table_of_many_columns_is_read_in_linear_time(tmp_path):
    columns = 2**14  # took 5 s when each name was looked up in a list
    names, row = ",".join(f"p{i}" for i in range(columns)), ",".join(["0.5"] * columns)
    (tmp_path / "wide.csv").write_text(f"{names},label\n{row},0\n")
    began = time.process_time()
    assert load_outputs(tmp_path / "wide.csv", None, None).values.shape == (1, columns)
    assert time.process_time() - began < 2


def test_memory_that_runs_out_is_no_fault_of_the_file(tmp_path, monkeypatch):
    parquet = pytest.importorskip("pyarrow.parquet")
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    monkeypatch.setattr(parquet, "ParquetFile", lambda _: bytearray(2**62))
    with pytest.raises(InputError, match="memory"):
        load_outputs(tmp_path / "a.parquet", None, None)
