"""Every Python and shell block of the documentation runs, in order, in an empty folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
RUN = ("python", "bash")
SHOWN = ("console", "toml", "json", "text")


def blocks(page):
    """Return (language, code) of every fenced block."""
    return BLOCK.findall(page.read_text())


def test_every_block_says_whether_it_runs():
    for page in PAGES:
        assert page.read_text().count("\n```") == 2 * len(blocks(page)), page
        assert {language for language, _ in blocks(page)} <= {*RUN, *SHOWN}, page


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if any(language in RUN for language, _ in blocks(page))],
    ids=lambda page: page.name,
)
def test_the_blocks_of_a_page_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(ROOT / "docs/how-to")
    names = {"__name__": "__docs__"}
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    for language, code in blocks(page):
        if language == "python":
            exec(compile(code, str(page), "exec", dont_inherit=True), names)
        elif language == "bash":
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", code],
                env=environment,
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
            assert done.returncode == 0, done.stdout + done.stderr


def test_links_between_pages_lead_somewhere():
    for page in [*PAGES, *ROOT.glob("*.md")]:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_readme_tells_what_its_example_prints(capsys):
    (code,) = [code for language, code in blocks(ROOT / "README.md") if language == "python"]
    exec(compile(code, "README.md", "exec", dont_inherit=True), {"__name__": "__docs__"})
    for line in capsys.readouterr().out.splitlines():
        assert f"`{line}`" in (ROOT / "README.md").read_text()
