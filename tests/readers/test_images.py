"""Images of a folder or an archive: read one at a time, with the groups that they are in."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest

import fedwqcp as fw
from fedwqcp.errors import InputError
from fedwqcp.groups import as_groups
from fedwqcp.readers import load_outputs
from fedwqcp.readers.images import images
from refusals import raises

P, Y = np.array([[0.9, 0.4], [0.2, 0.6]]), np.array([[1, 0], [0, 1]])


def write(at, files):
    """Write images into a folder, or into an archive where its name ends so."""
    for name, arrays in files.items():
        if at.suffix == ".zip":
            buffer = io.BytesIO()
            np.savez(buffer, **arrays)
            with zipfile.ZipFile(at, "a") as archive:
                archive.writestr(f"{name}.npz", buffer.getvalue())
        else:
            at.mkdir(exist_ok=True)
            np.savez(at / f"{name}.npz", **arrays)
    return at


@pytest.mark.parametrize("at", ["site", "site.zip"])
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([{}, {}], None),
        ([{"group": "f"}, {"group": "m"}], [{"f"}, {"m"}]),
        ([{"group": ["f", "old"]}, {"group": ["old", "m"]}], [{"f", "old"}, {"m", "old"}]),
        ([{"groups": [["f", "old"]]}, {"group": 3}], [{"f", "old"}, {"3"}]),
        ([{"group": ["f", ""]}, {"group": ""}], [{"f"}, {"others"}]),
        ([{"group:sex": "f", "group:a": [6]}, {"group:sex": ""}], [{"sex=f", "a=6"}, {"others"}]),
    ],
)  # fmt: skip
def test_the_groups_of_each_image_are_read(tmp_path, at, given, expected):
    files = {f"i{i}": {"probs": P, "mask": Y, **more} for i, more in enumerate(given)}
    outputs = load_outputs(write(tmp_path / at, files))
    assert outputs.ids.tolist() == ["i0", "i1"]
    found = outputs.groups
    if found is not None:
        found = [set(row) - {""} for row in as_groups(found).tolist()]
    assert found == expected
    assert (outputs.values == fw.MaskOutputs([P, P], [Y, Y]).values).all()


@pytest.mark.parametrize(
    "files",
    [
        {"a": {"probs": P, "mask": Y, "group": "f"}, "b": {"probs": P, "mask": Y}},
        {"a": {"probs": P, "mask": Y}, "b": {"probs": P, "mask": Y, "group": "f"}},
        {"a": {"probs": P, "mask": Y}, "b": {"probs": P}},
        {"a": {"probs": P, "mask": Y}, "b": {"mask": Y}},
        {"a": {"probs": P, "mask": Y}, "b": {"probs": P, "mask": Y[0]}},
        {"1/b": {"probs": P, "mask": Y}, "2/b": {"probs": P, "mask": Y}},
    ],
)
def test_an_image_that_is_not_like_the_others_is_named(tmp_path, files):
    with raises(InputError) as refused:
        load_outputs(write(tmp_path / "site.zip", files))
    assert str(refused.value).count("site.zip") == 1
    assert "site.zip, b" in str(refused.value)


def test_an_image_without_a_mask_is_read_to_predict(tmp_path):
    (image,) = images(write(tmp_path / "site", {"a": {"probs": P}}))
    assert (image.name, image.mask, image.groups) == ("a", None, None)
