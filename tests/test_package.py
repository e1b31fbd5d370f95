"""What the package promises of itself: its names and its weight."""

from __future__ import annotations

import inspect
import os
import re
import shlex
import subprocess
import sys
import tarfile
import tomllib
import venv
from math import inf, nan
from pathlib import Path

import numpy as np
import pytest

import fedwqcp
import fedwqcp as fw
from fedwqcp import plot
from fedwqcp.errors import FedwqcpError
from fedwqcp.kernels import dispatch

ROOT = Path(__file__).resolve().parents[1]
RECIPE = ROOT / "deploy/conda/recipe.yaml"


def test_public_names_are_importable_and_on_the_api_page():
    page = (ROOT / "docs/reference/api.md").read_text()
    on_page = set(re.findall(r"fw\.(\w+)", page)) - {"available", "get"}
    assert on_page == set(fedwqcp.__all__)
    for name in fedwqcp.__all__:
        assert getattr(fedwqcp, name) is not None


HEAVY = {"scipy", "sklearn", "matplotlib", "jinja2", "pyarrow", "torch"}
LATER = {
    "doctest",
    "importlib.metadata",
    "tomllib",
    "concurrent.futures.thread",
    "fedwqcp.methods.cphet",
}


@pytest.mark.parametrize(
    ("module", "unused"),
    [
        ("fedwqcp", {"typer", "rich", "difflib", "html"}),
        ("fedwqcp.cli.main", {"rich.progress", "fedwqcp.report.html"}),
    ],
)
def test_importing_stays_light(module, unused):
    code = f"import sys, {module}; print(*[m for m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert not set(done.stdout.split()) & (HEAVY | LATER | unused)


@pytest.mark.parametrize(
    ("file", "pattern"),
    [
        ("CITATION.cff", r"^version: (.+)$"),
        ("codemeta.json", r'"version": "(.+)"'),
        ("deploy/conda/recipe.yaml", r'^  version: "(.+)"$'),
        ("lab/src/fedwqcp_lab/__init__.py", r'^__version__ = "(.+)"$'),
        ("lab/pyproject.toml", r'"fedwqcp\[demo\]==(.+?)"'),
        ("docs/evidence.md", r"\*fedwqcp (\S+): federated conformal prediction\*"),
    ],
)
def test_the_version_is_the_same_everywhere(file, pattern):
    found = re.findall(pattern, (ROOT / file).read_text(), re.MULTILINE)
    assert found == [fedwqcp.__version__]


def test_what_builds_a_release_is_pinned():
    for path in (ROOT / ".github/workflows").glob("*.yml"):
        for used in re.findall(r"uses: *(.+)", path.read_text()):
            assert re.fullmatch(r"\S+@[0-9a-f]{40}  # v\d+\.\d+\.\d+", used), used
    tools = (ROOT / ".github/release-tools.txt").read_text().split("\n", 1)[1].split()
    assert {"build", "hatchling", "cyclonedx-bom"} <= {tool.partition("==")[0] for tool in tools}
    assert all("==" in tool for tool in tools)


class Unreadable:
    """An object that NumPy cannot read."""

    def __array__(self, *options, **more):
        raise RuntimeError("no")


ODD = [
    *(
        None,
        True,
        5,
        -1,
        0,
        10**5000,
        np.int64(3),
        1.5,
        nan,
        inf,
        1e-17,
        1e308,
        1j,
        np.float32(0.1),
    ),
    *("", "a", "\ud800", "a\0b", b"\xff", np.str_("a"), object(), Unreadable(), {"a"}, slice(2)),
    *([], ["a"], ["\ud800"], [None], [[1], [1, 2]], [10**5000], [1e308, 1e308], range(3)),
    *({}, {"a": 1}, {1: 2}, {"a": None}, np.array(3), np.array([]), np.zeros((2, 2, 2))),
    *(np.array(["x"]), np.array([None, 1], object), np.ma.masked_array([1.0], [True])),
]
"""What somebody may pass by mistake where something else belongs."""

PROBS = np.random.default_rng(0).dirichlet([1, 2, 3], size=12)
LABELS, IDS = PROBS.argmax(axis=1), [f"p{i}" for i in range(12)]
SITE = fw.Outputs(PROBS, LABELS, IDS)
SETS = fw.calibrate({"a": SITE, "b": SITE}, method="fedwq-cp", alpha=0.2, key="k")
GROUPED = fw.calibrate(
    {"a": fw.Calibration(PROBS[:, 0], groups=["f", "m"] * (len(PROBS) // 2))},
    method="fedwq-cp",
    alpha=0.2,
    by="group",
)
LINES = fw.calibrate(
    {"a": fw.Outputs(PROBS[:, 0], PROBS[:, 1])},
    method="fedwq-cp",
    alpha=0.2,
    score="absolute-residual",
)
RISK = fw.calibrate(
    {"a": fw.Outputs(PROBS, PROBS > 0.3)}, alpha=0.3, method="fed-crc", score="multi-label"
)
FOUND = SETS.measure("a", SITE)
ENDS = np.sort(PROBS[:, :2], axis=1)

OPTIONS = {"ids": IDS, "alpha": 0.2, "groups": None, "classes": None, "allow_empty": True}

CALLS = {
    "calibrate": (fw.calibrate, {"agents": {"a": SITE}, "alpha": 0.2}),
    "an agent": (
        lambda data: fw.calibrate({"a": data}, method="fedwq-cp", alpha=0.2),
        {"data": SITE},
    ),
    "federated_quantile": (fw.federated_quantile, {"values": {"a": [1.0]}, "q": 0.5}),
    "values": (lambda data: fw.federated_quantile({"a": data}, 0.5), {"data": [1.0]}),
    "Outputs": (fw.Outputs, {"values": PROBS, "labels": LABELS, "ids": IDS}),
    "Outputs in use": (
        lambda **parts: fw.calibrate({"a": fw.Outputs(**parts)}, method="fedwq-cp", alpha=0.2),
        {
            "values": PROBS,
            "labels": LABELS,
            "ids": IDS,
            "classes": ["x", "y", "z"],
        },
    ),
    "Calibration": (fw.Calibration, {"scores": PROBS[:, 0], "labels": LABELS}),
    "predict_set": (SETS.predict_set, {"agent": "a", "probs": PROBS, **OPTIONS}),
    "predict_interval": (
        LINES.predict_interval,
        {"agent": "a", "outputs": PROBS[:, 0], "alpha": 0.2, "groups": None},
    ),
    "measure": (SETS.measure, {"agent": "a", "outputs": PROBS, "labels": LABELS, **OPTIONS}),
    "of a risk": (RISK.measure, {"agent": "a", "outputs": PROBS, "labels": PROBS > 0.3}),
    "a predictor": (SETS.predictor("a").predict_set, {"probs": PROBS, **OPTIONS}),
    "threshold": (SETS.threshold, {"agent": "a"}),
    "by_group": (GROUPED.by_group, {"agent": "a"}),
    "record": (SETS.record, {"agent": "a"}),
    "report": (lambda path: SETS.report(path, {"a": 5}), {"path": "x.html"}),
    "tests": (lambda tests: SETS.report("no/x.html", tests), {"tests": {"a": 5}}),
    "load": (fw.load, {"path": "none.json"}),
    "save": (fw.save, {"release": SETS, "path": "release.json"}),
    "preset": (fw.preset, {"name": "paper"}),
    "conformal_quantile": (fw.conformal_quantile, {"scores": [1.0, 2.0], "alpha": 0.1}),
    "conformal_rank": (fw.conformal_rank, {"n": 3, "alpha": 0.1}),
    "weighted_quantile": (
        fw.weighted_quantile,
        {"scores": [1.0, 2.0], "weights": [1, 1], "alpha": 0.1},
    ),
    "softmax": (fw.softmax, {"logits": PROBS}),
    "fit_temperature": (fw.fit_temperature, {"logits": PROBS, "labels": LABELS[::-1]}),
    "uniforms": (fw.uniforms, {"key": "k", "ids": IDS}),
    "row_ids": (fw.scores.row_ids, {"outputs": PROBS}),
    "Guarantee": (fw.Guarantee, {"kind": "none", "strength": "none"}),
    **{
        f"{of.__name__}.get": (
            lambda name, of=of, **settings: of.get(name, **settings),
            {"name": one},
        )
        for of, one in ((fw.scores, "aps"), (fw.methods, "fedwq-cp"))
    },
    "a setting": (lambda value: fw.methods.get("fedwq-cp", overflow=value), {"value": "clip"}),
    "plot.coverage": (plot.coverage, {"found": [FOUND], "alpha": 0.1}),
    "cover": (SETS.predict_set("a", SITE).cover, {"labels": LABELS}),
    "clip": (LINES.predict_interval("a", PROBS[:, 0]).clip, {"lowest": 0.0, "highest": 1.0}),
    "labels": (LINES.predict_interval("a", PROBS[:, 0]).labels, {"n_classes": 3}),
    **{
        f"{kind.__name__}.{name}": (getattr(kind(), name), good)
        for kind in (fw.LAC, fw.OrdinalAPS)
        for name, good in (
            ("of", {"probs": PROBS, "labels": LABELS}),
            ("of_every_label", {"probs": PROBS}),
            ("invert", {"probs": PROBS, "threshold": 0.5}),
            ("measure", {"probs": PROBS, "labels": LABELS, "threshold": 0.5}),
        )
    },
    **{
        f"{kind.__name__}.{name}": (getattr(kind(), name), good)
        for kind in (fw.CQR, fw.NormalizedResidual)
        for name, good in (
            ("of", {"outputs": ENDS, "y": PROBS[:, 0]}),
            ("invert", {"outputs": ENDS, "threshold": 0.5}),
        )
    },
    "MultiLabel.invert": (fw.MultiLabel().invert, {"probs": PROBS, "threshold": 0.5}),
    **{
        kind.__name__: (kind, {})
        for kind in (fw.APS, fw.RAPS, fw.SAPS, fw.OrdinalAPS, fw.CQR, fw.NormalizedResidual)
    },
}
UNTRIED = {"ax", "of", "options", "parts", "rows", "settings"}  # handed on; not arguments


@pytest.mark.filterwarnings("ignore::fedwqcp.errors.InfiniteThresholdWarning")
@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_argument_is_an_error_of_this_package(name, tmp_path, monkeypatch):
    call, good = CALLS[name]
    monkeypatch.chdir(tmp_path)
    refused = 0
    for argument in set(inspect.signature(call).parameters) - UNTRIED | set(good):
        for odd in ODD:
            try:
                call(**{**good, argument: odd})
            except FedwqcpError:
                refused += 1
    assert refused >= len(ODD) // 2, "hardly anything was refused: the table of odd values is stale"


def recipe_section(name):
    """Return the items of a list of the conda recipe, without a YAML reader."""
    text = RECIPE.read_text()
    block = re.search(rf"^( *)(?:- )?{name}:\n((?:\1 .*\n)+)", text, re.MULTILINE)
    return re.findall(r"^ *- (.+)$", block[2], re.MULTILINE)


def test_the_conda_recipe_needs_what_the_package_needs():
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())
    needs = [re.sub(r"(?=>=)", " ", each) for each in declared["project"]["dependencies"]]
    assert recipe_section("run") == ["python >=${{ python_min }}", *needs]
    assert declared["project"]["requires-python"] == ">=3.11"
    text = RECIPE.read_text()
    assert 'python_min: "3.11"' in text
    assert set(declared["build-system"]["requires"]) == {"hatchling>=1.25"}
    assert "hatchling >=1.25" in recipe_section("host")


@pytest.mark.slow
def test_wheel_and_sdist_build_and_a_fresh_environment_runs_them(tmp_path):
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)],
        check=True,
        capture_output=True,
        timeout=300,
    )
    (wheel,) = tmp_path.glob("fedwqcp-*.whl")  # abi3 with a compiler, otherwise for any platform
    assert ("abi3" in wheel.name) == (dispatch.backend().loops is not None)
    (sdist,) = tmp_path.glob("fedwqcp-*.tar.gz")
    assert sdist.stat().st_size < 5 * 2**20
    home = tmp_path / "fresh"
    venv.create(home, with_pip=True)
    python = home / "bin" / "python"
    subprocess.run(
        [python, "-m", "pip", "install", "-q", "--only-binary", ":all:", str(wheel)],
        check=True,
        capture_output=True,
        timeout=600,
    )
    check_what_the_conda_recipe_checks(home, tmp_path)

    with tarfile.open(sdist) as packed:  # as conda-forge builds it
        packed.extractall(tmp_path / "sdist", filter="data")
    (source,) = (tmp_path / "sdist").iterdir()
    subprocess.run([python, "-m", "pip", "uninstall", "-qy", "fedwqcp"], check=True, timeout=120)
    subprocess.run([python, "-m", "pip", "install", "-q", "hatchling"], check=True, timeout=600)
    (script,) = re.findall(r"script: \$\{\{ PYTHON \}\} (.+)", RECIPE.read_text())
    subprocess.run([python, *shlex.split(script)], check=True, cwd=source, timeout=300)
    assert (source / "LICENSE").exists()
    check_what_the_conda_recipe_checks(home, tmp_path)


def check_what_the_conda_recipe_checks(home, folder):
    """Import what the recipe imports and run its commands, with `home` as the environment."""
    modules = recipe_section("imports")
    commands = recipe_section("script")
    assert "fedwqcp" in modules
    assert len(commands) >= 3
    smoke = [f'python -c "import {each}"' for each in modules] + ["python -m pip check"]
    alone = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    for command in smoke + commands:
        words = [home / "bin" / shlex.split(command)[0], *shlex.split(command)[1:]]
        subprocess.run(words, check=True, cwd=folder, env=alone, timeout=60)
