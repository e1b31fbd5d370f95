"""A skeleton becomes a method or a score by being copied: found by name, sound like every other."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("skeleton", "copy", "contract", "code", "printed"),
    [
        (
            "skeleton_method.py",
            "methods/trimmed_cp.py",
            "test_methods.py -k trimmed",
            "print(fw.methods.get('trimmed-cp', trim=2))",
            "TrimmedCP(trim=2)",
        ),
        (
            "skeleton_score.py",
            "scores/margin.py",
            "test_scores.py -k Margin",
            "print(fw.scores.get('margin').of([[0.75, 0.25]], [1]))",
            "[0.5]",
        ),
    ],
)
def test_a_copied_file_is_known_and_sound(skeleton, copy, contract, code, printed, tmp_path):
    package = tmp_path / "src" / "fedwqcp"
    shutil.copytree(ROOT / "src" / "fedwqcp", package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "docs/how-to" / skeleton, package / copy)
    file, *chosen = contract.split()
    done = subprocess.run(
        [
            sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *chosen,
            "--import-mode=importlib", str(ROOT / "tests/conformance" / file),
        ],
        cwd=tmp_path,
        env={"PYTHONPATH": f"{tmp_path / 'src'}:{ROOT / 'tests'}", "PATH": ""},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout
    listed = subprocess.run(
        [sys.executable, "-c", f"import fedwqcp as fw; {code}"],
        env={"PYTHONPATH": str(tmp_path / "src"), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert listed.stdout.strip() == printed
