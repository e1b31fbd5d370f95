import re

import pytest

from fedwqcp_lab.datasets import catalog


@pytest.mark.parametrize("dataset", catalog.CATALOG, ids=lambda d: d.name)
def test_every_entry_is_complete(dataset):
    assert catalog.find(dataset.name) is dataset
    assert dataset.title
    assert dataset.licence
    assert re.search(r"\((19|20)\d\d\)", dataset.citation)
    assert dataset.homepage.startswith("http")
    assert (dataset.n_classes is None) == (dataset.task == "regression")
    assert dataset.published.status in ("published", "synthetic")
    assert all(content.note.endswith(".") for content in dataset.contents)


def test_no_two_datasets_share_a_file_or_a_checksum():
    paths = [path for d in catalog.CATALOG for names in d.file_sets for path in names]
    sums = [file.md5 for d in catalog.CATALOG for file in d.remote]
    sums += [c.sha256 for d in catalog.CATALOG for c in d.contents if c.sha256]
    assert len(paths) == len(set(paths))
    assert len(sums) == len(set(sums))
