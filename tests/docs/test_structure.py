"""A class name stands for one thing, the laboratory is on the public API, CI is complete."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_workflow_runs_what_ci_runs():
    targets = re.findall(r"\bmake ([\w-]+)", (ROOT / ".ci" / "run").read_text())
    workflow = (ROOT / ".github" / "workflows" / "check.yml").read_text()
    assert len(targets) > 5
    assert [t for t in targets if not re.search(rf"\bmake {t}\b(?!-)", workflow)] == []


def test_the_list_of_targets_fits_a_terminal():
    targets = re.findall(
        r"^([a-z-]+):[^#\n]*## (.*)", (ROOT / "Makefile").read_text(), re.MULTILINE
    )
    assert len(targets) > 20
    assert [name for name, text in targets if len(f"{name:20} {text}") > 80] == []


SHARED = {f"fedwqcp.methods._{name}" for name in ("answers", "averages", "base", "calibration")} | {
    "fedwqcp.methods._search",
    "fedwqcp.methods._sketches",
    "fedwqcp._validation",
}
"""What plug-ins and bounds that were in the package still share with it."""


def test_the_laboratory_imports_nothing_private():
    found = [
        f"{path.name}: {node.module}.{alias.name}"
        for path in sorted((ROOT / "lab" / "src").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and re.match(r"fedwqcp\b", node.module or "")
        if not (path.parent.name == "plugins" or path.stem == "bounds") or node.module not in SHARED
        for alias in node.names
    ]
    assert len(found) > 100
    assert [each for each in found if re.search(r"\._", each)] == []


def test_a_name_of_a_class_or_an_alias_stands_for_one_thing():
    classes: dict[str, list[str]] = defaultdict(list)
    aliases: dict[str, set[str]] = defaultdict(set)
    for root in (ROOT / "src", ROOT / "lab" / "src"):
        for path in sorted(root.rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                match node:
                    case ast.ClassDef():
                        classes[node.name].append(f"{path.relative_to(ROOT)}:{node.lineno}")
                    case ast.AnnAssign(ast.Name(name), ast.Name("TypeAlias"), ast.expr() as value):
                        local = name.startswith("_") or "kernels" in path.parts  # compiled types
                        if not local:
                            aliases[name].add(ast.unparse(value))
    assert len(classes) > 300
    assert {name: places for name, places in classes.items() if len(places) > 1} == {}
    assert len(aliases) > 50
    assert {name: values for name, values in aliases.items() if len(values) > 1} == {}
    outside = {name for name, places in classes.items() if any("kernels/" not in p for p in places)}
    assert outside & aliases.keys() == set()
