"""The table of the page on Byzantine agents is what its command gives."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import fedwqcp as fw

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "SECURITY.md").read_text()
TOOL = runpy.run_path(str(ROOT / "tools" / "byzantine_table.py"))


def test_the_tables_are_of_now():
    for path, made in (("PAGE", "page"), ("SECURITY", "security")):
        text = TOOL[path].read_text()
        assert TOOL[made](text) == text, "run python tools/byzantine_table.py"


def test_every_method_is_in_them():
    assert set(TOOL["METHODS"]) == set(TOOL["PARTIES"]) == set(fw.methods.available())


def test_every_test_that_the_page_on_security_names_is_there():
    named = re.findall(r"`((?:tests/)?[a-z_]+/[a-z_/]*test_[a-z_]+\.py)(?:::(test_\w+))?`", TEXT)
    assert len(named) > 20
    for file, name in named:
        source = (ROOT / "tests" / file.removeprefix("tests/")).read_text()
        assert f"def {name}(" in source or not name, (file, name)
