"""The datasets: where each comes from, its checksums, licence, and known copies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from fedwqcp.errors import InputError
from fedwqcp.files import known_hint

TaskKind: TypeAlias = Literal["classification", "regression"]
"""What is predicted."""

Status: TypeAlias = Literal["published", "reconstruction", "reencoded", "subset", "synthetic"]
"""How a copy stands to the data that its authors published."""

AS_PUBLISHED = "The published data, bit for bit."
"""Note of a copy that is no stand-in."""


@dataclass(frozen=True)
class Remote:
    """One file as its authors publish it.

    Parameters
    ----------
    path : str
        Where it is kept, relative to a data folder.
    urls : tuple of str
        Where it can be downloaded, tried in this order.
    md5 : str
        Its published checksum.
    size : int or None
        Its length in bytes, where it is known.
    """

    path: str
    urls: tuple[str, ...]
    md5: str
    size: int | None = None


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

    sha256: str
    status: Status
    note: str


@dataclass(frozen=True)
class Dataset:
    """An entry of the catalogue.

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
    n_classes: int | None
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


def _file(name: str, md5: str, size: int | None = None) -> tuple[Remote, ...]:
    """Return the published file, 28 x 28; the checksums are those of the package medmnist 3.0.2."""
    url = f"https://zenodo.org/records/10519652/files/{name}.npz?download=1"
    return (Remote(f"{name}.npz", (url,), md5, size),)


_CITATION = "Yang et al., MedMNIST v2, Scientific Data 10:41 (2023)"
_HOMEPAGE = "https://medmnist.com"

DERMAMNIST = Dataset(
    name="dermamnist",
    title="DermaMNIST",
    task="classification",
    n_classes=7,
    shape=(28, 28, 3),
    n_train=7_007,
    n_test=2_005,
    licence="CC BY-NC 4.0 (no commercial use)",
    citation=f"{_CITATION}; Tschandl, Rosendahl, Kittler, The HAM10000 dataset, Scientific Data 5 "
    "(2018)",
    homepage=_HOMEPAGE,
    remote=_file("dermamnist", "0744692d530f8e62ec473284d019b0c7"),
    local=(("dermamnist.npz.xz",), ("dermamnist_reencoded.npz.xz",)),
    contents=(
        Content("", "published", AS_PUBLISHED),
        Content(
            "55953ca963e6cf1a97ff478d00b3a0f066c9b4229f28bb5936745ba158ff1574",
            "reencoded",
            "Official rows, order and labels, but every image went through one JPEG compression "
            "more than the published one (by inference 0.13 of 255 grey levels in the mean).",
        ),
    ),
)

BLOODMNIST = Dataset(
    name="bloodmnist",
    title="BloodMNIST",
    task="classification",
    n_classes=8,
    shape=(28, 28, 3),
    n_train=11_959,
    n_test=3_421,
    licence="CC BY 4.0",
    citation=f"{_CITATION}; Acevedo et al., A dataset of microscopic peripheral blood cell images, "
    "Data in Brief 30:105474 (2020)",
    homepage=_HOMEPAGE,
    remote=_file("bloodmnist", "7053d0359d879ad8a5505303e11de1dc"),
    local=(("bloodmnist.npz.xz",),),
    contents=(
        Content("", "published", AS_PUBLISHED),
        Content(
            "dfb466612c02953771dc8c7754329e9c961fdc0488e47c8a915f4e0245273f7b",
            "reconstruction",
            "Rebuilt from the source photographs in the official order; 115 of its 15,380 rows "
            "may hold another image of the same class, possibly of another split.",
        ),
    ),
)

TISSUEMNIST = Dataset(
    name="tissuemnist",
    title="TissueMNIST",
    task="classification",
    n_classes=8,
    shape=(28, 28),
    n_train=165_466,
    n_test=47_280,
    licence="CC BY 4.0",
    citation=f"{_CITATION}; Woloshuk et al., In situ classification of cell types in human kidney "
    "tissue, Cytometry A 99 (2021), image set BBBC051",
    homepage=_HOMEPAGE,
    remote=_file("tissuemnist", "ebe78ee8b05294063de985d821c1c34b"),
    local=(("tissuemnist.npz.xz",), ("tissuemnist_subset.npz.xz",)),
    contents=(
        Content("", "published", AS_PUBLISHED),
        Content(
            "4d6258ae220d8d7df31ef4e64a420f739cf72c5f98d46c01df819fddc147d166",
            "subset",
            "73,587 of the 165,466 official training images with a split of their own; no official "
            "test image is among them.",
        ),
    ),
)

RETINAMNIST = Dataset(
    name="retinamnist",
    title="RetinaMNIST",
    task="regression",
    n_classes=None,
    shape=(28, 28, 3),
    n_train=1_080,
    n_test=400,
    licence="CC BY 4.0",
    citation=f"{_CITATION}; Liu et al., DeepDRiD: diabetic retinopathy grading and image quality "
    "estimation challenge, Patterns 3 (2022)",
    homepage=_HOMEPAGE,
    remote=_file("retinamnist", "bd4c0672f1bba3e3a89f0e4e876791e4", 3_291_041),
    local=(("retinamnist.npz.xz",),),
    contents=(
        Content(
            "1632c4f7d5d9ee5a0e0a734f7cf1f6e3952766709ac5a9211e293e1bff2345ac",
            "published",
            AS_PUBLISHED,
        ),
    ),
)


_IDX = (
    "train-images-idx3-ubyte.gz",
    "train-labels-idx1-ubyte.gz",
    "t10k-images-idx3-ubyte.gz",
    "t10k-labels-idx1-ubyte.gz",
)


def _idx_files(
    name: str, bases: tuple[str, ...], md5: tuple[str, ...], sizes: tuple[int, ...]
) -> tuple[Remote, ...]:
    """Return the four files in the format of MNIST, in the order of `_IDX`."""
    return tuple(
        Remote(f"{name}/{file}", tuple(base + file for base in bases), sum_, size)
        for file, sum_, size in zip(_IDX, md5, sizes, strict=True)
    )


def _idx_in(folder: str) -> tuple[str, ...]:
    """Return the names of the four files under another folder."""
    return tuple(f"{folder}/{file}" for file in _IDX)


_MNIST = Dataset(
    name="mnist",
    title="MNIST",
    task="classification",
    n_classes=10,
    shape=(28, 28),
    n_train=60_000,
    n_test=10_000,
    licence="CC BY-SA 3.0",
    citation="LeCun, Bottou, Bengio, Haffner, Gradient-based learning applied to document "
    "recognition, Proceedings of the IEEE 86 (1998)",
    homepage="http://yann.lecun.com/exdb/mnist/",
    remote=_idx_files(
        "mnist",
        ("https://ossci-datasets.s3.amazonaws.com/mnist/", "http://yann.lecun.com/exdb/mnist/"),
        (
            "f68b3c2dcbeaaa9fbdd348bbdeb94873",
            "d53e105ee54ea40749a09fcbcd1e9432",
            "9fb629c4189551a2d022fa330f9573f3",
            "ec29112dd5afa0611ce80d1b7f02629c",
        ),
        (9_912_422, 28_881, 1_648_877, 4_542),
    ),
    local=(_idx_in("MNIST/raw"), ("mnist.npz",), ("mnist.npz.xz",)),
    contents=(
        Content(
            "06b0d1f124c4e5fa796686ade41a9b778edacc8622f2195a352ef479ad44fc16",
            "published",
            AS_PUBLISHED,
        ),
    ),
)

_FASHIONMNIST = Dataset(
    name="fashionmnist",
    title="Fashion-MNIST",
    task="classification",
    n_classes=10,
    shape=(28, 28),
    n_train=60_000,
    n_test=10_000,
    licence="MIT",
    citation="Xiao, Rasul, Vollgraf, Fashion-MNIST: a novel image dataset for benchmarking "
    "machine learning algorithms, arXiv:1708.07747 (2017)",
    homepage="https://github.com/zalandoresearch/fashion-mnist",
    remote=_idx_files(
        "fashionmnist",
        (
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
            "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
        ),
        (
            "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
            "25c81989df183df01b3e8a0aad5dffbe",
            "bef4ecab320f06d8554ea6380940ec79",
            "bb300cfdad3c16e7a12a480ee83cd310",
        ),
        (26_421_880, 29_515, 4_422_102, 5_148),
    ),
    local=(
        _idx_in("fashion-mnist"),
        _idx_in("FashionMNIST/raw"),
        ("fashionmnist.npz",),
        ("fashionmnist.npz.xz",),
    ),
    contents=(
        Content(
            "ca3ab2a37f845e1b8ae23cab1b51749a3011ba3bf1d9016176d75cbaabac376f",
            "published",
            AS_PUBLISHED,
        ),
    ),
)

_CIFAR10 = Dataset(
    name="cifar10",
    title="CIFAR-10",
    task="classification",
    n_classes=10,
    shape=(32, 32, 3),
    n_train=50_000,
    n_test=10_000,
    licence="none stated; cite the report",
    citation="Krizhevsky, Learning multiple layers of features from tiny images, technical report, "
    "University of Toronto (2009)",
    homepage="https://www.cs.toronto.edu/~kriz/cifar.html",
    remote=(
        Remote(  # the binary version: the other one is a pickle, which runs what it holds
            "cifar-10-binary.tar.gz",
            ("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",),
            "c32a1d4ab5d03f1284b67883e8d87530",
            170_052_171,
        ),
    ),
    local=(
        ("cifar10_train.npz.xz", "cifar10_test.npz.xz"),
        ("cifar10.npz",),
        ("cifar10.npz.xz",),
    ),
    contents=(
        Content(
            "80387ddb9a0edf3fc4a964ee3770296169bb26a651050df20035579673099660",
            "published",
            AS_PUBLISHED,
        ),
    ),
)

_DIGITS = Dataset(
    name="digits",
    title="digits",
    task="classification",
    n_classes=10,
    shape=(8, 8),
    n_train=1_438,
    n_test=359,
    licence="CC BY 4.0",
    citation="Alpaydin, Kaynak, Optical recognition of handwritten digits, UCI Machine Learning "
    "Repository (1998)",
    homepage="https://archive.ics.uci.edu/dataset/80",
    contents=(
        Content(
            "",
            "published",
            "The digits that come with scikit-learn; grey values 0 to 16 stretched to 0 to 255, "
            "a fixed random fifth of the rows is for testing.",
        ),
    ),
)

_BREAST_CANCER = Dataset(
    name="breast-cancer",
    title="breast cancer (Wisconsin)",
    task="classification",
    n_classes=2,
    shape=(30,),
    n_train=456,
    n_test=113,
    licence="CC BY 4.0",
    citation="Wolberg, Mangasarian, Street, Street, Breast cancer Wisconsin (diagnostic), UCI "
    "Machine Learning Repository (1993)",
    homepage="https://archive.ics.uci.edu/dataset/17",
    contents=(
        Content(
            "",
            "published",
            "The tumours that come with scikit-learn; measurements stretched to 0 to 1, every "
            "fifth row is for testing.",
        ),
    ),
)

_FRIEDMAN = Dataset(
    name="friedman",
    title="synthetic (Friedman)",
    task="regression",
    n_classes=None,
    shape=(10,),
    n_train=0,
    n_test=0,
    licence="none needed",
    citation="Friedman, Multivariate adaptive regression splines, Annals of Statistics 19 (1991)",
    homepage="https://doi.org/10.1214/aos/1176347963",
    contents=(Content("", "synthetic", "Drawn at random, as many rows as are asked for."),),
)

CATALOG: tuple[Dataset, ...] = (
    _MNIST,
    _FASHIONMNIST,
    _CIFAR10,
    DERMAMNIST,
    BLOODMNIST,
    TISSUEMNIST,
    RETINAMNIST,
    _DIGITS,
    _BREAST_CANCER,
    _FRIEDMAN,
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
