"""What the code costs and how it is shaped: ``python tools/structure.py [--base REV]``.

Prints the price table (with ``--base`` before and after), then for each subpackage files, lines of
code, docstring lines, public module-level names, and modules that exactly one other module imports.
``--walks`` follows some calls through the files.
"""

from __future__ import annotations

import argparse
import ast
import os
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import chdir
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

HEADER = f"{'package':34}{'files':>7}{'code':>8}{'doc':>8}{'public':>8}{'solo':>6}"


@dataclass
class Module:
    """One source file."""

    name: str
    code: int = 0
    doc: int = 0
    public: int = 0
    imports: set[str] = field(default_factory=set)

    @property
    def package(self) -> str:
        """The folder or module directly below the package."""
        return ".".join(self.name.split(".")[:2])


def read(package: Path) -> list[Module]:
    """Read every module of a package."""
    return [_module(path, package) for path in sorted(package.rglob("*.py"))]


def _module(path: Path, package: Path) -> Module:
    parts = path.relative_to(package.parent).with_suffix("").parts
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    doc: set[int] = set()
    for node in ast.walk(tree):
        value = getattr(node, "value", None)
        if (
            isinstance(node, ast.Expr)
            and isinstance(value, ast.Constant)
            and isinstance(value.value, str)
        ):
            doc.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    code = sum(
        bool(line.strip()) and not line.strip().startswith("#") and number not in doc
        for number, line in enumerate(text.splitlines(), 1)
    )
    return Module(name, code, len(doc), len(set(_public(tree))), set(_imports(tree)))


def _public(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names = [node.name]
        elif isinstance(node, ast.Assign):
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names = [node.target.id]
        else:
            continue
        yield from (name for name in names if not name.startswith("_"))


def _imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def table(modules: list[Module]) -> str:
    """Return one row per package and a total."""
    users: dict[str, set[str]] = defaultdict(set)
    for module in modules:
        for name in module.imports:
            users[name].add(module.name)
    solo = {module.name for module in modules if len(users[module.name] - {module.name}) == 1}
    packages: dict[str, list[Module]] = defaultdict(list)
    for module in modules:
        packages[module.package].append(module)

    def row(name: str, group: list[Module]) -> str:
        alone = sum(module.name in solo for module in group)
        sums = [
            sum(getattr(module, what) for module in group) for what in ("code", "doc", "public")
        ]
        return f"{name:34}{len(group):7}{sums[0]:8}{sums[1]:8}{sums[2]:8}{alone:6}"

    rows = [row(name, group) for name, group in sorted(packages.items())]
    median = statistics.median(module.code for module in modules)
    return "\n".join([HEADER, *rows, row("all", modules), f"median file: {median:g} lines of code"])


GOALS = {
    "lines of code, Python and C++": 17_500,
    "lines of tests": 24_000,
    "words of README, SECURITY, CONTRIBUTING and docs": 40_000,
    "assertions that quote four words or more": 150,
    "public members of Method": 14,
    "calls in calibrate, 3 agents of 40 points": 900,
    "calls in predict_set, 20 rows": 250,
    "lines of code of the laboratory": 6_000,
}
TOP = Path(__file__).resolve().parents[1]


def prices(root: Path) -> list[int]:
    """Return what `GOALS` names, for a checkout."""
    tests = [p for top in ("tests", "lab/tests") for p in sorted((root / top).rglob("*.py"))]
    texts = {path: path.read_text(encoding="utf-8") for path in tests}
    pages = [root / name for name in ("README.md", "SECURITY.md", "CONTRIBUTING.md")]
    made = {"generated", "auto_gallery"}  # by `make docs`
    pages += [page for page in (root / "docs").rglob("*.md") if not made & {*page.parts}]
    native = [
        p for p in (root / "src").rglob("*") if p.suffix in (".c", ".cc", ".cpp", ".h", ".hpp")
    ]
    calls = "import structure; print(*structure.calls())"
    paths = {"PYTHONPATH": f"{root / 'src'}:{Path(__file__).parent}"}
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", calls],
        env={**os.environ, **paths}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    calibrate, predict = map(int, run.stdout.split() or (0, 0))
    return [
        sum(m.code for m in read(root / "src" / "fedwqcp")) + sum(map(_native_lines, native)),
        sum(bool(line.strip()) for text in texts.values() for line in text.splitlines()),
        sum(len(page.read_text(encoding="utf-8").split()) for page in pages),
        sum(_quotes(ast.parse(text)) for path, text in texts.items() if "words" not in path.parts),
        max(
            _members(ast.parse(p.read_text())) for p in (root / "src/fedwqcp/methods").rglob("*.py")
        ),
        calibrate,
        predict,
        sum(module.code for module in read(root / "lab" / "src" / "fedwqcp_lab")),
    ]


def price_table(base: str | None = None) -> str:
    """Return the prices as Markdown, beside those of another revision where one is given."""
    now = prices(TOP)
    if base is None:
        rows = [f"| {name} | {n:,} | {GOALS[name]:,} |" for name, n in zip(GOALS, now, strict=True)]
        return "\n".join(["| price | now | goal |", "|---|---|---|", *rows])
    with TemporaryDirectory() as name:
        packed = subprocess.run(["git", "archive", base], cwd=TOP, capture_output=True, check=True)
        subprocess.run(["tar", "x", "-C", name], input=packed.stdout, check=True)
        before = prices(Path(name))
    rows = [
        f"| {name} | {old:,} | {new:,} | {GOALS[name]:,} |"
        for name, old, new in zip(GOALS, before, now, strict=True)
    ]
    return "\n".join([f"| price | {base} | now | goal |", "|---|---|---|---|", *rows])


def _native_lines(path: Path) -> int:
    lines = path.read_text(encoding="utf-8").splitlines()
    return sum(bool(line.strip()) and not line.strip().startswith("//") for line in lines)


def _quotes(tree: ast.Module) -> int:
    """Count assertions, and ``match=`` arguments, with a text of four words or more."""

    def long(node: ast.AST) -> bool:
        texts = (n.value for n in ast.walk(node) if isinstance(n, ast.Constant))
        return any(isinstance(text, str) and len(text.split()) >= 4 for text in texts)

    asserted = sum(isinstance(n, ast.Assert) and long(n.test) for n in ast.walk(tree))
    matched = sum(
        isinstance(n, ast.Call) and any(k.arg == "match" and long(k.value) for k in n.keywords)
        for n in ast.walk(tree)
    )
    return asserted + matched


def _members(tree: ast.Module) -> int:
    """Count public functions and fields of the class ``Method``."""
    bodies = [n.body for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "Method"]
    names = {
        node.name if isinstance(node, ast.FunctionDef) else ast.unparse(node.target)
        for body in bodies
        for node in body
        if isinstance(node, ast.FunctionDef | ast.AnnAssign)
    }
    return sum(not name.startswith("_") for name in names)


def calls() -> tuple[int, int]:
    """Return how many calls into the package `calibrate` and `predict_set` make."""
    import numpy as np

    import fedwqcp as fw

    rng = np.random.default_rng(0)

    def outputs(name: str, n: int) -> Any:
        probs, labels = rng.dirichlet(np.ones(5), n), rng.integers(5, size=n)
        return fw.Outputs(probs, labels, ids=[f"{name}{row}" for row in range(n)])

    agents = {name: outputs(name, 40) for name in "abc"}
    new = outputs("new", 20)
    release = fw.calibrate(agents, alpha=0.1, score="aps")
    release.predict_set("a", new)
    walked = (
        lambda: fw.calibrate(agents, alpha=0.1, score="aps"),
        lambda: release.predict_set("a", new),
    )
    counts = [len(entered(call)) for call in walked]
    return counts[0], counts[1]


def entered(call: Callable[[], Any]) -> list[str]:
    """Return the module of every call into the package."""
    modules: list[str] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and (name := frame.f_globals.get("__name__", "")).startswith("fedwqcp"):
            modules.append(name)

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return modules


def crossed(call: Callable[[], Any]) -> tuple[int, int]:
    """Return how many files of the package a call enters, and how often it changes file."""
    modules = entered(call)
    return len(set(modules)), sum(a != b for a, b in pairwise(modules))


def walks() -> Iterable[tuple[str, int, int]]:
    """Yield a walk's name, its files and its changes of file; each call has run once before."""
    import numpy as np

    import fedwqcp as fw

    rng = np.random.default_rng(0)
    scores = {"a": rng.random(200), "b": rng.random(100)}
    probs = rng.dirichlet(np.ones(100), size=20_000)
    u = rng.random(len(probs))
    labels = rng.integers(100, size=len(probs))
    lac = fw.calibrate(scores, alpha=0.1, score="lac")
    calls: dict[str, Callable[[], Any]] = {
        "fw.calibrate": lambda: fw.calibrate(scores, alpha=0.1),
        "release.predict_set": lambda: lac.predict_set("a", probs[:10]),
        "a round by files": round_by_files,
        "APS.of, 100 classes": lambda: fw.APS().of(probs, labels, u),
        "APS.invert, 100 classes": lambda: fw.APS().invert(probs, 0.9, u=u),
    }
    for name, call in calls.items():
        call()
        yield name, *crossed(call)


def round_by_files() -> None:
    """Open a round, answer it, close it and predict, by commands in an empty folder."""
    import numpy as np
    from typer.testing import CliRunner

    from fedwqcp.cli.main import app

    rng = np.random.default_rng(0)
    with TemporaryDirectory() as name:
        folder = Path(name)
        roster = folder / "roster.toml"
        roster.write_text('agents = ["a", "b"]\nn_classes = 3\n', encoding="utf-8")
        for agent in "ab":
            probs, labels = rng.dirichlet([1, 2, 3], 60), rng.integers(0, 3, 60)
            np.savez(folder / f"{agent}.npz", probs=probs, labels=labels)
        agents = [
            f"agent calibrate --round round.json --outputs {a}.npz --agent {a} --out {a}.json"
            for a in "ab"
        ]
        with chdir(folder):
            for words in (
                "server open --agents roster.toml --score lac --alpha 0.1 --out round.json",
                *agents,
                "server close round.json a.json b.json --out release.json",
                "agent predict --release release.json --outputs a.npz --agent a --out sets.csv",
            ):
                CliRunner().invoke(app, words.split(), catch_exceptions=False)
        if not (folder / "sets.csv").exists():
            raise SystemExit("the round by files wrote no sets")


def main() -> None:
    """Print what was asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--base", help="a revision to compare with")
    parser.add_argument("--walks", action="store_true", help="count files per walk")
    given = parser.parse_args()
    print(price_table(given.base), end="\n\n")
    print(table(read(TOP / "src" / "fedwqcp")))
    for name, files, changes in walks() if given.walks else ():
        print(f"{name:28} {files:3} files, {changes:4} changes of file")


if __name__ == "__main__":
    main()
