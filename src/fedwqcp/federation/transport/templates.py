"""Folders written from the templates of an engine's package."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from pathlib import Path

from fedwqcp._io import exists, in_folder, is_folder, make_folder, write_atomic
from fedwqcp.errors import InputError


def write_templates(
    package: str, folder: Path, files: Mapping[str, str], /, **words: str
) -> tuple[Path, ...]:
    """Write the templates of an engine's package into a new or empty folder.

    `files` are their names there; each ``@word@`` in a name or a text stands for one of the words.
    """
    if exists(folder) and (not is_folder(folder) or in_folder(folder)):
        raise InputError(f"{folder} must be a new or an empty folder")
    written = []
    for source, target in files.items():
        text = template(package, source, **words)
        written.append(folder / filled(target, words))
        make_folder(written[-1].parent)
        write_atomic(written[-1], text.encode(), shared=True)
    return tuple(written)


def template(package: str, name: str, /, **words: str) -> str:
    """Return the text of a template of an engine's package, with these words."""
    return filled(resources.files(package).joinpath("template", name).read_text("utf-8"), words)


def filled(text: str, words: Mapping[str, str]) -> str:
    for word, value in words.items():
        text = text.replace(f"@{word}@", value)
    return text
