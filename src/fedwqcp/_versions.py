"""Which versions run here: what a bug report needs."""

from __future__ import annotations

import platform
import sys

from fedwqcp.kernels.dispatch import backend

__version__ = "0.1.0"

_SHOWN = ("fedwqcp", "numpy", "scipy", "msgspec", "scikit-learn", "torch", "flwr", "nvflare")


def show_versions() -> None:
    """Print the versions of Python, of fedwqcp and its dependencies, and which kernels serve.

    Examples
    --------
    >>> import fedwqcp as fw
    >>> fw.show_versions()  # doctest: +ELLIPSIS
    python  ...
    """
    from importlib import metadata  # a tenth of importing the package

    lines = {"python": sys.version.split()[0], "platform": platform.platform()}
    for name in _SHOWN:
        try:
            lines[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            lines[name] = "not installed"
    lines["kernels"] = backend().name
    print("\n".join(f"{name:13} {what}" for name, what in lines.items()))
