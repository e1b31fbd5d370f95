"""The datasets: where each comes from, its checksums, licence, and known copies."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from fedwqcp.errors import InputError
from fedwqcp.files import known_hint, read_toml

TaskKind: TypeAlias = Literal["classification", "regression"]
"""What is predicted."""

Status: TypeAlias = Literal["published", "reconstruction", "reencoded", "subset", "synthetic"]
"""How a copy stands to the data that its authors published."""

AS_PUBLISHED = "The published data, bit for bit."
"""Note of a copy that is no stand-in."""


@dataclass(frozen=True)
class Remote:
    """One file as its authors publish it."""

    path: str  # relative to a data folder
    urls: tuple[str, ...]  # tried in this order
    md5: str
    size: int | None = None  # in bytes


@dataclass(frozen=True)
class Content:
    """One known copy of a dataset, recognised by pixels and labels and not by how they are stored.

    Parameters
    ----------
    sha256 : str
        Checksum of the training images, training labels, test images and test labels, their raw
        bytes one after another; empty for a copy that is known by the checksums of its files alone.
    status : str
        How the copy stands to the published data.
    note : str
        One sentence that says what it is; it goes with every result.
    """

    sha256: str = ""
    status: Status = "published"
    note: str = AS_PUBLISHED


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """An entry of the catalogue, as `catalog.toml` writes it.

    Parameters
    ----------
    name : str
        As it is typed.
    title : str
        As tables show it.
    task : str
        Classification or regression.
    n_classes : int or None
        Number of classes; None for a regression.
    shape : tuple of int
        Shape of one input: height, width and, for colour, 3.
    n_train, n_test : int
        Rows of the official splits.
    licence : str
        Terms of use.
    citation : str
        What to cite.
    homepage : str
        Where its authors describe it.
    remote : tuple of Remote
        The published files; empty for data that need no download.
    local : tuple of tuple of str
        Other sets of file names under which a data folder may hold it.
    contents : tuple of Content
        The known copies, the published one first.
    """

    name: str
    title: str
    task: TaskKind
    n_classes: int | None = None
    shape: tuple[int, ...]
    n_train: int
    n_test: int
    licence: str
    citation: str
    homepage: str
    remote: tuple[Remote, ...] = ()
    local: tuple[tuple[str, ...], ...] = ()
    contents: tuple[Content, ...] = ()

    @property
    def embedded(self) -> bool:
        """Whether the data come with the software and need no file."""
        return not self.remote

    @property
    def published(self) -> Content:
        """The copy that the authors publish."""
        return self.contents[0]

    @property
    def file_sets(self) -> tuple[tuple[str, ...], ...]:
        """The sets of file names under which a folder may hold it, the published ones first."""
        return (tuple(file.path for file in self.remote), *self.local)


CATALOG = msgspec.convert(
    read_toml(Path(__file__).with_name("catalog.toml"))["datasets"], tuple[Dataset, ...]
)
"""Every dataset: the seven in the order of the paper, then the embedded ones."""


def available() -> tuple[str, ...]:
    """Return the names of all datasets."""
    return tuple(dataset.name for dataset in CATALOG)


def find(name: str) -> Dataset:
    """Return the dataset with this name.

    Examples
    --------
    >>> find("cifar10").shape
    (32, 32, 3)
    """
    for dataset in CATALOG:
        if dataset.name == name:
            return dataset
    raise InputError(f"unknown dataset {name!r}{known_hint(name, available())}")
