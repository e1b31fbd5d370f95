"""Every Python and shell block of the documentation runs, in order; the folder has the records.

A `text` block after "It prints" is what the block above it prints; `...` stands for any text. After
"It prints, with other numbers in every run" numbers and ids may differ.
"""

from __future__ import annotations

import ast
import doctest
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from command_line import programs

ROOT = Path(__file__).resolve().parents[2]
MADE = (ROOT / "docs/auto_gallery", ROOT / "docs/reference/generated")
PAGES = sorted(
    page
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    if not any(page.is_relative_to(folder) for folder in MADE)
)
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NEEDS = re.compile(r"^<!-- needs: ([\w, ]+) -->$", re.MULTILINE)
PRINTS = re.compile(
    r"\n\n(?:<!-- [\w ]+ -->\n\n)*"
    r"It prints(, with other numbers in every run)?\n\n```text\n(.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
NUMBERS = re.compile(r"[0-9a-f]{16}|\d+(?:\.\d+)?(?: \d+)*")
RUN = ("python", "bash")
SHOWN = ("console", "toml", "yaml", "json", "text")
GALLERY = sorted((ROOT / "docs/gallery").glob("*.py"))


def blocks(page):
    """Return (language, code) of every fenced block."""
    return BLOCK.findall(page.read_text())


def differs(text, end, printed):
    """Say how what a block printed differs from what the page shows after the block's end."""
    shown = PRINTS.match(text, end)
    if shown is None:
        return ""
    if shown[1]:
        printed, wanted = (NUMBERS.sub("0", part) for part in (printed, shown[2]))
    else:
        wanted = shown[2]
    how = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    same = doctest.OutputChecker().check_output(wanted, printed, how)
    return "" if same else f"the page shows\n{wanted}\nand it prints\n{printed}"


def skip_what_is_not_there(page):
    """Skip a page whose packages are not installed, but for ``make test-docs``."""
    for name in ", ".join(NEEDS.findall(page.read_text())).split(", "):
        if name and "FEDWQCP_EVERY_PAGE" not in os.environ:
            pytest.importorskip(name, reason=f"{page.name} needs {name}: make test-docs")


def test_every_block_says_whether_it_runs():
    for page in PAGES:
        assert page.read_text().count("\n```") == 2 * len(blocks(page)), page
        assert {language for language, _ in blocks(page)} <= {*RUN, *SHOWN}, page


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if any(language in RUN for language, _ in blocks(page))],
    ids=lambda page: page.name,
)
def test_the_blocks_of_a_page_run(page, tmp_path, monkeypatch, capsys):
    skip_what_is_not_there(page)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").symlink_to(ROOT / "results")
    monkeypatch.syspath_prepend(ROOT / "docs/how-to")
    names = {"__name__": "__docs__"}
    paths = (programs(), Path(sys.executable).parent, os.environ["PATH"])
    environment = {**os.environ, "PATH": os.pathsep.join(map(str, paths))}
    text, tables = page.read_text(), []
    for block in BLOCK.finditer(text):
        language, code = block.groups()
        printed = ""
        if language == "python":
            exec(compile(code, str(page), "exec", dont_inherit=True), names)
            printed = capsys.readouterr().out
            tables += [line for line in printed.splitlines() if line.startswith("| ")]
        elif language == "bash":
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", code],
                env=environment,
                capture_output=True,
                text=True,
                timeout=300,
                check=False,
            )
            assert done.returncode == 0, done.stdout + done.stderr
            printed = done.stdout
        assert not differs(text, block.end(), printed), differs(text, block.end(), printed)
    assert [line for line in tables if line not in text] == [], "a table is not as printed"


def test_an_output_that_is_not_as_shown_is_found():
    page = "```python\n```\n\nIt prints{}\n\n```text\nround {} ...\n```\n"
    end = page.index("\n\nIt")
    assert not differs(page.format("", 7), end, "round 7 ends\n")
    assert differs(page.format("", 7), end, "round 8 ends\n")
    loose = page.format(", with other numbers in every run", 7)
    assert not differs(loose, end, "round 8 ends\n")
    assert differs(loose, end, "step 8 ends\n")


@pytest.mark.parametrize("example", GALLERY, ids=lambda example: example.stem)
def test_an_example_of_the_gallery_runs_and_draws_one_figure(example, tmp_path, monkeypatch):
    pytest.importorskip("sklearn")
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("agg")
    plt.close("all")
    monkeypatch.chdir(tmp_path)
    drawn = []
    monkeypatch.setattr(plt, "show", lambda: drawn.append(plt.get_fignums()))
    try:
        with plt.rc_context():
            exec(compile(example.read_text(), str(example), "exec"), {"__name__": "__main__"})
    finally:
        plt.close("all")
    assert [len(figures) for figures in drawn] == [1]


def test_five_models_take_under_forty_lines_of_code():
    tree = ast.parse((ROOT / "docs/gallery/07_five_models.py").read_text())
    code = tree.body[1:]  # the first is the page's title
    assert sum(each.end_lineno - each.lineno + 1 for each in code) < 40


def test_links_between_pages_lead_somewhere():
    for page in [*PAGES, *ROOT.glob("*.md")]:
        prose = BLOCK.sub("", page.read_text())  # code may look like a link
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", prose):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_every_page_is_reached_from_the_first():
    index = ROOT / "docs/index.md"
    linked = {
        (index.parent / target).resolve()
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", index.read_text())
    }
    docs = {page for page in PAGES if page.is_relative_to(ROOT / "docs")}
    sections = {
        ROOT / "docs/project.md",
        ROOT / "docs/evidence.md",
        *(page for page in docs if page.name == "index.md"),
    }
    assert docs - linked <= sections


def test_the_readme_tells_what_its_example_prints(capsys):
    example, paper = (code for language, code in blocks(ROOT / "README.md") if language == "python")
    scope = {"__name__": "__docs__"}
    exec(compile(example, "README.md", "exec", dont_inherit=True), scope)
    assert f"```text\n{capsys.readouterr().out}```" in (ROOT / "README.md").read_text()
    exec(compile(paper, "README.md", "exec", dont_inherit=True), scope)
    threshold = capsys.readouterr().out.splitlines()[0]
    assert f"# {float(threshold):.4f} here" in paper
