"""FLARE jobs from templates, and startup kits that run no foreign code; it imports no nvflare."""

from __future__ import annotations

import re
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import msgspec

from fedwqcp._io import exists, from_json, is_file, read, to_json, write_atomic
from fedwqcp.errors import InputError
from fedwqcp.federation.site_folder import make_site_folder
from fedwqcp.federation.transport.site import load_settings
from fedwqcp.federation.transport.templates import template, write_templates

OLDEST = (2, 9)
"""The first FLARE that refuses what a job says of itself."""
SETTINGS = "fedwqcp.toml"
"""Name of the site's own settings, in the folder ``local`` of its startup kit."""
CONTROLLER = "fedwqcp.federation.transport.nvflare.controller.CalibrationController"
EXECUTOR = "fedwqcp.federation.transport.nvflare.executor.CalibrationExecutor"
"""The classes that a startup kit allows: one of a coordinator, one of a site."""
_LOCK = {
    "id": "app_deployer",
    "path": "fedwqcp.federation.transport.nvflare.lock.SiteLock",
    "args": {},
}
"""What FLARE hands each job to, before it writes anything at a site."""
_FILES = {
    "meta.json.in": "meta.json",
    "README.md.in": "README.md",
    "config_fed_server.conf.in": "app/config/config_fed_server.conf",
    "config_fed_client.json.in": "app/config/config_fed_client.json",
}


def new_job(folder: Path) -> tuple[Path, ...]:
    """Write a FLARE job into a new or empty folder, which names the job."""
    name = folder.resolve().name
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]{0,40}", name):
        raise InputError(f"the folder names the job: letters, digits, '_' and '-', got {name!r}")
    return write_templates(__package__, folder, _FILES, name=name)


def check_flare() -> None:
    """Refuse a FLARE that runs the coordinator's code at a locked site, as 2.8 does."""
    here = version("nvflare")
    if tuple(int(part) for part in re.findall(r"\d+", here)[:2]) < OLDEST:
        raise InputError(
            f"must be at least 2.9, got {here}: older ones run code of a job in a locked kit; "
            "pip install 'nvflare>=2.9'",
            field="nvflare",
        )


def allow(kit: Path) -> tuple[Path, ...]:
    """Let a startup kit run one class of this package, no other, and no code of a job.

    Writes ``local/resources.json`` (the allow-list, and no streaming of logs to the coordinator)
    and ``local/authorization.json`` (nobody may bring code, or list and read the kit's files from
    afar). At a site also ``local/fedwqcp.toml`` for its own settings, where it has none, and the
    folder that these name, outside the kit.
    """
    check_flare()
    written = lock(kit)
    if _is_site(kit):
        settings = kit / "local" / SETTINGS
        if not exists(settings):
            write_atomic(settings, template(__package__, "fedwqcp.toml.in").encode(), shared=True)
            written.append(settings)
        folder = load_settings(settings, kit)["folder"]
        if folder and make_site_folder(Path(str(folder))):
            written.append(Path(str(folder)))
    return tuple(written)


def _is_site(kit: Path) -> bool:
    return exists(kit / "startup" / "fed_client.json")


def lock(kit: Path) -> list[Path]:
    """Write the allow-list and the rights of a startup kit."""
    local = kit / "local"
    given = local / "resources.json.default"
    if not is_file(given):
        raise InputError(f"{kit} must be a startup kit of FLARE: it has no local/{given.name}")
    current = local / "resources.json"
    held = _own_json(current if exists(current) else given, _Resources)
    held |= {
        "class_list_enforcement_mode": "enforce",
        "class_allow_list": [EXECUTOR if _is_site(kit) else CONTROLLER],
        "allow_log_streaming": False,
    }
    dropped = ("site_log_streamer", _LOCK["id"])
    held["components"] = [c for c in held["components"] if c.get("id") not in dropped]
    if _is_site(kit):
        held["components"].append(_LOCK)
    rights = _own_json(local / "authorization.json.default", _Authorization)
    rights["permissions"] = {
        role: {**(_EVERYTHING if may == "any" else may), "byoc": "none", "shell_commands": "none"}
        for role, may in rights["permissions"].items()
    }
    written = [current, local / "authorization.json"]
    for path, value in zip(written, (held, rights), strict=True):
        write_atomic(path, to_json(value, indent=2), shared=True)
    return written


class _Resources(msgspec.Struct):
    components: list[dict[str, Any]]


class _Authorization(msgspec.Struct):
    permissions: dict[str, Literal["any"] | dict[str, Any]]


def _own_json(path: Path, kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Read a file of FLARE's own, which operators may have edited."""
    data = read(path)
    table = from_json(data, dict[str, Any])
    if table is None or from_json(data, kind) is None:
        (key,) = kind.__struct_fields__
        raise InputError(
            f"{path} must be JSON with {key!r}, as FLARE writes it: restore it from the startup kit"
        )
    return table


_EVERYTHING = dict.fromkeys(
    ("submit_job", "clone_job", "manage_job", "download_job", "view", "operate"), "any"
)
"""What is left to a role that may do anything."""
