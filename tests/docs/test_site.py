"""The pages that the site makes of the package itself."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

import fedwqcp
from fedwqcp import methods

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.fixture(scope="module")
def generate():
    """The module that makes them."""
    pytest.importorskip("sklearn")
    spec = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_public_name_and_method_is_in_the_reference(generate):
    page = generate.python()
    for name in set(fedwqcp.__all__) - {"methods", "scores"}:
        assert f"   fedwqcp.{name}\n" in page
    for name in methods.available():
        kind = methods.find(name)
        assert f"   {kind.__module__}.{kind.__qualname__}\n" in page


def test_every_command_is_in_the_reference(generate):
    page = generate.commands()
    for name in ("server open", "agent predict", "report figure", "monitor show"):
        assert f"\n## {name}\n" in page
    assert page.count("`--json") == page.count("\n## ")


def test_pages_are_written_only_where_they_change(generate, tmp_path):
    generate.write(tmp_path / "made")
    pages = sorted((tmp_path / "made").iterdir())
    before = [page.stat().st_mtime_ns for page in pages]
    generate.write(tmp_path / "made")
    assert [page.name for page in pages] == ["commands.md", "python.rst"]
    assert [page.stat().st_mtime_ns for page in pages] == before


SEARCHES = {
    "Byzantine": "explanation/byzantine.md",
    "secure aggregation": "how-to/secure-aggregation.md",
    "label shift": "explanation/label-shift.md",
    "new site": "how-to/new-site.md",
    "empty set": "how-to/empty-sets.md",
    "small site": "how-to/small-agents.md",
    "which method": "explanation/which-method.md",
}


@pytest.mark.parametrize("query", SEARCHES)
def test_a_search_finds_its_page_first(query):
    """The site's search ranks titles by the share of them that the query is, from half on."""
    found = {}
    for page in DOCS.rglob("*.md"):
        prose = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
        for level, title in re.findall(r"^(#+) (.+)$", prose, flags=re.MULTILINE):
            share = len(query) / len(title)
            if query.lower() in title.lower() and share >= 0.5:
                name = page.relative_to(DOCS).as_posix()
                found[name] = max(found.get(name, 0), round(15 * share) + (level == "#"))
    assert found.pop(SEARCHES[query]) > max(found.values(), default=0)
