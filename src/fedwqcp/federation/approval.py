"""New rounds that wait at a site for a person: ``waiting/``, then ``approved/``, in its folder.

An approval is of the terms, not of an id, since the server opens the round again. It is used once.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from msgspec.structs import replace

from fedwqcp._io import exists, in_folder, is_folder, make_folder, move, read, write_atomic
from fedwqcp.errors import InputError
from fedwqcp.wire.codec import decode, encode
from fedwqcp.wire.messages import Round

MOST_WAITING = 100
"""Further rounds are refused and leave no file."""


def is_approved(folder: Path, kept: Path, round: Round, terms: bytes) -> bool:
    """Tell whether a person approved a round; if not, its terms wait in the site's folder.

    ``kept`` is where the site keeps what it sends in this round; the approval moves there.
    """
    file, used = f"{_name(round)}.json", kept / "approved.json"
    if exists(used):
        return _name(_read(used)) == _name(round)
    if exists(folder / "approved" / file):
        make_folder(kept)
        if move(folder / "approved" / file, used):
            return True
    waiting = folder / "waiting"
    if len(in_folder(waiting, "*.json")) < MOST_WAITING:
        make_folder(waiting)
        write_atomic(waiting / file, terms)
    return False


def waiting_rounds(folder: Path) -> dict[str, Round]:
    """Return the rounds that wait, by name."""
    if not is_folder(folder):
        raise InputError(f"{folder} must be the folder of a site over an engine: there is none")
    return {path.stem: _read(path) for path in in_folder(folder / "waiting", "*.json")}


def approve(folder: Path, name: str) -> None:
    """Let the site answer one round on these terms."""
    make_folder(folder / "approved")
    if Path(name).name != name or not move(
        folder / "waiting" / f"{name}.json", folder / "approved" / f"{name}.json"
    ):
        raise InputError("must be the name of a round that waits", field="round")


def _read(path: Path) -> Round:
    return decode(read(path), Round, source=path)


def _name(round: Round) -> str:
    """Return a name for all terms but the id, the key and where the round comes from.

    128 bits: the coordinator chooses the terms, and must not find two rounds of one name.
    """
    return sha256(encode(replace(round, id="", key="", provenance={}))).hexdigest()[:32]
