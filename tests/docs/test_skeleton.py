"""The skeleton becomes a method by being copied: found by name, and sound like every other."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_a_copied_file_is_a_method(tmp_path):
    package = tmp_path / "src" / "fedwqcp"
    shutil.copytree(ROOT / "src" / "fedwqcp", package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "docs/how-to/skeleton_method.py", package / "methods" / "trimmed_cp.py")
    done = subprocess.run(
        [
            sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "trimmed",
            "--import-mode=importlib", str(ROOT / "tests/conformance/test_methods.py"),
        ],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path / "src"), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout
    listed = subprocess.run(
        [sys.executable, "-c", "import fedwqcp as fw; print(fw.methods.get('trimmed-cp', trim=2))"],
        env={"PYTHONPATH": str(tmp_path / "src"), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert listed.stdout.strip() == "TrimmedCP(trim=2)"
