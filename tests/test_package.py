"""What the package promises of itself: its names and its weight."""

from __future__ import annotations

import re
import subprocess
import sys
import venv
from pathlib import Path

import pytest

import fedwqcp

ROOT = Path(__file__).resolve().parents[1]


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
    heavy = {"numba", "scipy.stats", "typer", "rich", "sklearn", "matplotlib", "pyarrow", "torch"}
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
    smoke = (
        "import fedwqcp as fw; r = fw.calibrate({'a': [.1, .2, .3, .4]}, alpha=.2); "
        "assert r.threshold('a') == .4; assert len(fw.methods.available()) >= 8"
    )
    subprocess.run([python, "-c", smoke], check=True, cwd=tmp_path, timeout=60)
    done = subprocess.run(
        [home / "bin" / "fedwqcp", "methods"],
        check=True,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "fedwq-cp" in done.stdout
