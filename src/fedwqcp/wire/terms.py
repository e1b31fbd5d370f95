"""The digests of a round's terms: a short one binds answers, the full one signatures."""

from __future__ import annotations

from hashlib import blake2b, sha256

from fedwqcp.wire.codec import encode
from fedwqcp.wire.messages import Round


def terms(round: Round) -> str:
    """Return the digest that binds an answer to the terms of its round.

    Sixteen hexadecimal digits: another score setting, level or roster gives others. They are the
    same for a round and for what its agents are sent of it.
    """
    return blake2b(encode(round.brief()), digest_size=8).hexdigest()


def full_digest(round: Round) -> bytes:
    """Return the digest of the same bytes that signatures cover."""
    return sha256(encode(round.brief())).digest()
