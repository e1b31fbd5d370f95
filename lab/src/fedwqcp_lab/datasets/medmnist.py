"""The four datasets of MedMNIST that the paper uses."""

from __future__ import annotations

from fedwqcp_lab.datasets.dataset import AS_PUBLISHED, Content, Dataset, Remote


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
