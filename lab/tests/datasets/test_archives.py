import gzip

import numpy as np
import pytest

from fedwqcp.errors import InputError
from fedwqcp_lab.datasets.archives import read_cifar10, read_idx
from made_data import arrays, idx, write_cifar10


def test_an_idx_file_by_hand(tmp_path):
    path = tmp_path / "labels-idx1-ubyte.gz"
    path.write_bytes(gzip.compress(b"\0\0\x08\x01\0\0\0\x03\x07\x00\xff", mtime=0))
    assert read_idx(path).tolist() == [7, 0, 255]


def test_idx_images_keep_their_shape(tmp_path):
    images = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    (tmp_path / "i.gz").write_bytes(idx(images))
    assert np.array_equal(read_idx(tmp_path / "i.gz"), images)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"no gzip", "must be a sound gzip file"),
        (
            gzip.compress(b"\0\0\x08\x01\0\0\0\x03abc" * 9, mtime=0)[:-9],
            "must be a sound gzip file",
        ),
        (gzip.compress(b"", mtime=0), "must be an IDX file"),
        (gzip.compress(b"\0\0\x0d\x01\0\0\0\x03abc", mtime=0), "must be an IDX file"),
        (gzip.compress(b"\0\0\x08\x02\0\0\0\x03", mtime=0), "must be an IDX file"),
        (gzip.compress(b"\0\0\x08\x01\0\0\0\x03ab", mtime=0), r"must hold \(3,\) bytes .* got 2"),
        (gzip.compress(b"\0\0\x08\x02" + b"\xff" * 8, mtime=0), "must hold"),
    ],
)
def test_other_files_are_refused(tmp_path, body, told):
    (tmp_path / "f.gz").write_bytes(body)
    with pytest.raises(InputError, match=told):
        read_idx(tmp_path / "f.gz")


def test_the_batches_of_cifar10_come_in_order_and_colour_last(tmp_path):
    made = arrays((32, 32, 3), n_train=10, n_test=4)
    write_cifar10(tmp_path / "c.tar.gz", made)
    back = read_cifar10(tmp_path / "c.tar.gz")
    assert set(back) == set(made)
    for key, array in back.items():
        assert np.array_equal(array, made[key].ravel() if "labels" in key else made[key])


def test_a_missing_batch_is_named(tmp_path):
    made = arrays((32, 32, 3), n_train=10)
    write_cifar10(tmp_path / "c.tar.gz", made, lacking=("data_batch_3.bin", "test_batch.bin"))
    with pytest.raises(InputError, match=r"must hold data_batch_3\.bin, test_batch\.bin"):
        read_cifar10(tmp_path / "c.tar.gz")


@pytest.mark.parametrize("keep", [0, 100, -2000])
def test_a_torn_archive_is_refused(tmp_path, keep):
    write_cifar10(tmp_path / "c.tar.gz", arrays((32, 32, 3), n_train=10))
    whole = (tmp_path / "c.tar.gz").read_bytes()
    (tmp_path / "c.tar.gz").write_bytes(whole[:keep])
    with pytest.raises(InputError, match=r"c\.tar\.gz must"):
        read_cifar10(tmp_path / "c.tar.gz")
