"""The datasets by name: the paper's seven, and two that need no download."""

from __future__ import annotations

import difflib

from fedwqcp.errors import InputError
from fedwqcp_lab.datasets.dataset import AS_PUBLISHED, Content, Dataset, Remote
from fedwqcp_lab.datasets.medmnist import BLOODMNIST, DERMAMNIST, RETINAMNIST, TISSUEMNIST

__all__ = ["CATALOG", "Dataset", "available", "find"]

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
    _FRIEDMAN,
)
"""Every dataset: the seven in the order of the paper, then the embedded ones."""


def available() -> tuple[str, ...]:
    """Return the names of all datasets.

    Returns
    -------
    tuple of str
        In the order of `CATALOG`.
    """
    return tuple(dataset.name for dataset in CATALOG)


def find(name: str) -> Dataset:
    """Return the dataset with this name.

    Parameters
    ----------
    name : str
        As `available` lists it.

    Returns
    -------
    Dataset
        Its entry.

    Raises
    ------
    InputError
        If there is none; the error names the nearest and lists all.

    Examples
    --------
    >>> find("cifar10").shape
    (32, 32, 3)
    """
    for dataset in CATALOG:
        if dataset.name == name:
            return dataset
    near = difflib.get_close_matches(name.lower().replace("-", ""), available(), n=1)
    raise InputError(
        f"unknown dataset {name!r}"
        + (f"; did you mean {near[0]!r}?" if near else "")
        + f"; known: {', '.join(available())}"
    )
