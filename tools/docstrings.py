"""Check the docstrings of exported names: `python tools/docstrings.py`.

Every name in the `__all__` of a public module has a full numpydoc docstring; everything else has
one line, or none where name and types say it.
"""

from __future__ import annotations

import inspect
import sys
from importlib import import_module
from pathlib import Path

from numpydoc.validate import validate

import fedwqcp

CHECKS = ("GL06", "GL07", "GL08", "SS02", "SS03", "PR04", "YD01")

OF_FUNCTIONS = ("PR01", "PR03")
"""A class may leave parameters to the class that it extends."""

EXTRAS = ("fedwqcp.torch",)
"""Public modules that need an extra; checked where it is installed."""


def public_modules() -> list[str]:
    """Return every public package and module with an `__all__`."""
    root = Path(fedwqcp.__file__).parent
    found = ["fedwqcp"]
    for path in sorted([*root.glob("*.py"), *root.glob("*/__init__.py")]):
        name = path.parent.name if path.stem == "__init__" else path.stem
        inner = path.parent != root or path.stem != "__init__"
        if inner and not name.startswith("_") and "__all__" in path.read_text(encoding="utf-8"):
            found.append(f"fedwqcp.{name}")
    return found


def exported() -> dict[str, tuple[str, ...]]:
    """Return the full names of exported functions and classes, with the checks of each."""
    names: dict[str, tuple[str, ...]] = {}
    for module in public_modules():
        try:
            loaded = import_module(module)
        except fedwqcp.errors.MissingExtraError:
            if module not in EXTRAS:
                raise
            continue
        for name in loaded.__all__:
            thing = getattr(loaded, name)
            if not inspect.isclass(thing) and not inspect.isfunction(thing):
                continue
            full = f"{thing.__module__}.{thing.__qualname__}"
            names[full] = CHECKS if inspect.isclass(thing) else (*CHECKS, *OF_FUNCTIONS)
    return names


def main() -> int:
    """Print every fault; return how many there are."""
    faults = [
        f"{name}: {code} {text}"
        for name, checks in sorted(exported().items())
        for code, text in validate(name)["errors"]
        if code in checks
    ]
    print("\n".join(faults) or "every exported name is documented")
    return len(faults)


if __name__ == "__main__":
    sys.exit(bool(main()))
