"""Where a dataset's files are, and how they are downloaded."""

from __future__ import annotations

import hashlib
import http.client
import os
import sys
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import TypeAlias
from urllib.error import HTTPError

from fedwqcp.errors import InputError
from fedwqcp_lab.datasets.catalog import Dataset, Remote

SYSTEM_FOLDERS = (Path("/usr/share/datasets"),)
"""Where distributions install datasets; Debian's ``dataset-fashion-mnist`` does."""


def cache_folder() -> Path:
    """Return the folder of downloads: ``FEDWQCP_CACHE``, else the system's folder for caches."""
    if chosen := os.environ.get("FEDWQCP_CACHE"):
        return Path(chosen)
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "fedwqcp"


def places(data: Path | None = None) -> tuple[Path, ...]:
    """Return the folders that are searched: the given one, else ``FEDWQCP_DATA``; system; cache."""
    named = "the data folder" if data is not None else "FEDWQCP_DATA"
    if data is None and (chosen := os.environ.get("FEDWQCP_DATA")):
        data = Path(chosen)
    if data is not None and not data.is_dir():
        raise InputError(f"{named} must be a folder that exists, got {data}")
    given = () if data is None else (data,)
    return (*given, *SYSTEM_FOLDERS, cache_folder())


def locate(dataset: Dataset, data: Path | None = None) -> tuple[Path, ...] | None:
    """Return the files of a dataset from the first place that has all of them."""
    for place in places(data):
        for names in dataset.file_sets:
            files = tuple(place / name for name in names)
            if all(file.is_file() for file in files):
                return files
    return None


def missing(dataset: Dataset, data: Path | None = None) -> InputError:
    """Return the error that says which files were looked for, where, and how to get them."""
    folders = places(data)
    expected = " or ".join(_joined(names) for names in dataset.file_sets)
    return InputError(
        f"{dataset.name}: no data found; looked for {expected} in "
        + ", ".join(str(folder) for folder in folders)
        + "".join(_incomplete(dataset, folder) for folder in folders)
        + f"; get it with: fedwqcp-lab data fetch {dataset.name}"
    )


def _joined(names: tuple[str, ...]) -> str:
    """Name a set of files briefly."""
    return names[0] if len(names) == 1 else f"{names[0]} with {len(names) - 1} more"


def _incomplete(dataset: Dataset, folder: Path) -> str:
    """Name the missing files of a set that is there in part."""
    lacking = [
        name
        for names in dataset.file_sets
        if any((folder / name).is_file() for name in names)
        for name in names
        if not (folder / name).is_file()
    ]
    return f"; {folder} lacks {', '.join(lacking)}" if lacking else ""


OnBytes: TypeAlias = Callable[[str, int, int | None], None]
"""Called with a file's name, the bytes that have come, and how many there will be if known."""

_BLOCK = 1 << 18
_RANGE_REFUSED = 416


@dataclass(frozen=True)
class RetryPolicy:
    """How often a download is tried, and with which timeouts."""

    timeout: float = 30.0  # seconds without a byte after which a connection is given up
    tries: int = 4  # of each address
    wait: float = 1.0  # seconds before the second try; twice as long before each further one


class _TransferError(Exception):
    """A transfer broke off; another try may succeed."""


def fetch(
    dataset: Dataset,
    folder: Path,
    *,
    progress: OnBytes | None = None,
    retry: RetryPolicy | None = None,
) -> tuple[Path, ...]:
    """Return the published files of a dataset, downloading those that the folder lacks."""
    files = tuple(folder / remote.path for remote in dataset.remote)
    for remote, file in zip(dataset.remote, files, strict=True):
        if not (file.is_file() and md5_of(file) == remote.md5):
            download(remote, file, progress=progress, retry=retry or RetryPolicy())
    return files


def download(
    remote: Remote, target: Path, *, progress: OnBytes | None = None, retry: RetryPolicy
) -> None:
    """Download one file; it appears under its name only with the published checksum."""
    part = target.with_name(target.name + ".part")
    _prepare(part)
    if part.exists() and md5_of(part) == remote.md5:  # whole, but not renamed before the end
        os.replace(part, target)
        return
    reasons: dict[str, str] = {}
    for attempt in range(retry.tries):
        if attempt:
            time.sleep(retry.wait * 2 ** (attempt - 1))
        for url in remote.urls:
            try:
                _transfer(url, part, retry.timeout, progress)
            except _TransferError as error:
                reasons[url] = str(error)
                continue
            if (found := md5_of(part)) == remote.md5:
                os.replace(part, target)
                return
            part.unlink()
            reasons[url] = f"md5 must be {remote.md5}, got {found}; nothing was kept"
    failures = "; ".join(f"{url}: {reason}" for url, reason in reasons.items())
    raise InputError(
        f"{target.name} could not be downloaded after {retry.tries} tries ({failures}); "
        f"try again, or put the file at {target}"
    )


def md5_of(path: Path) -> str:
    """Return the MD5 checksum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def _prepare(part: Path) -> None:
    """Make the folder and see that it takes files, before anything is downloaded for it."""
    try:
        part.parent.mkdir(parents=True, exist_ok=True)
        part.open("ab").close()
        if not part.stat().st_size:
            part.unlink()
    except OSError as error:
        raise InputError(
            f"{part.parent} must be a folder that can be written, got: {error.strerror}; "
            "choose another with FEDWQCP_CACHE"
        ) from error


def _transfer(url: str, part: Path, timeout: float, progress: OnBytes | None) -> None:
    """Append what the partial file lacks, or begin anew where the server cannot go on."""
    have = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"User-Agent": "fedwqcp"})
    if have:
        request.add_header("Range", f"bytes={have}-")
    try:
        with urllib.request.urlopen(request, timeout=timeout) as response:
            _receive(response, part, have if _goes_on(response, have) else 0, progress)
    except HTTPError as error:
        if error.code == _RANGE_REFUSED:
            part.unlink()
        raise _TransferError(f"the server answered {error.code} {error.reason}") from error
    except TimeoutError as error:
        raise _TransferError(f"no byte came for {timeout:g} s") from error
    except (OSError, http.client.HTTPException) as error:
        raise _TransferError(
            str(getattr(error, "reason", error)) or type(error).__name__
        ) from error


def _goes_on(response: http.client.HTTPResponse, have: int) -> bool:
    """Whether the server sends the rest and not the whole."""
    return response.status == http.HTTPStatus.PARTIAL_CONTENT and response.headers.get(
        "Content-Range", ""
    ).startswith(f"bytes {have}-")


def _receive(
    response: http.client.HTTPResponse, part: Path, have: int, progress: OnBytes | None
) -> None:
    """Write the body to the partial file, from a position on."""
    length = response.headers.get("Content-Length", "")
    total = have + int(length) if length.isdigit() else None
    with part.open("ab", buffering=0) as file:
        file.truncate(have)
        while block := response.read1(_BLOCK):
            _write(file, block, part)
            have += len(block)
            if progress is not None:
                progress(part.name.removesuffix(".part"), have, total)
    if total is not None and have < total:
        raise _TransferError(f"the connection ended after {have} of {total} bytes")


def _write(file: FileIO, block: bytes, part: Path) -> None:
    """Write a block; a full disk ends the download and frees what it took."""
    try:
        while block:
            block = block[file.write(block) :]
    except OSError as error:
        part.unlink(missing_ok=True)
        raise InputError(
            f"{part} could not be written: {error.strerror}; make room, or choose another folder "
            "with FEDWQCP_CACHE"
        ) from error
