"""What the package promises of itself: its names and its weight."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tarfile
import tomllib
import venv
from pathlib import Path

import pytest

import fedwqcp

ROOT = Path(__file__).resolve().parents[1]
RECIPE = ROOT / "deploy/conda/recipe.yaml"


def test_public_names_are_importable_and_on_the_api_page():
    page = (ROOT / "docs/reference/api.md").read_text()
    on_page = set(re.findall(r"fw\.(\w+)", page)) - {"available", "get"}
    assert on_page == set(fedwqcp.__all__)
    for name in fedwqcp.__all__:
        assert getattr(fedwqcp, name) is not None


def test_importing_stays_light():
    code = "import sys, fedwqcp; print(*[m for m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    loaded = set(done.stdout.split())
    heavy = {"numba", "scipy", "typer", "rich", "sklearn", "matplotlib", "pyarrow", "torch"}
    assert not loaded & heavy
    assert "fedwqcp.methods.cphet" not in loaded


def test_the_version_is_the_same_everywhere():
    assert f"version: {fedwqcp.__version__}" in (ROOT / "CITATION.cff").read_text()


def test_warnings_of_the_package_are_errors():
    import warnings

    with pytest.raises(UserWarning, match="from within"):
        exec(
            compile("import warnings; warnings.warn('from within', UserWarning)", "x", "exec"),
            {"__name__": "fedwqcp.somewhere"},
        )
    del warnings


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
    assert f'version: "{fedwqcp.__version__}"' in text
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
    (wheel,) = tmp_path.glob("fedwqcp-*-py3-none-any.whl")
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
