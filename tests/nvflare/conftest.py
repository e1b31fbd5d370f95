"""FLARE tests need the extra; those with processes of their own carry the marker ``nvflare``."""

from __future__ import annotations

import importlib.util

if importlib.util.find_spec("nvflare.apis") is None:  # without it, `nvflare` is this folder
    collect_ignore_glob = ["test_*.py"]
