"""Signed answers: a site's Ed25519 key, and what its signature covers.

A round that names a public key for each agent takes signed answers alone. The signature covers the
digest of the terms, the question and the whole answer: agent, step, method, levels and numbers.
Whoever carries or keeps the answer, the server too, can then change nothing in it, make none, and
pass none off as the answer to another question.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec.structs import replace

from fedwqcp._io import read, write_key
from fedwqcp.errors import InputError, MissingExtraError, WrongRoundError
from fedwqcp.federation.plan import Plan
from fedwqcp.wire.codec import encode
from fedwqcp.wire.messages import Answer, Round

_CONTEXT = b"fedwqcp signed answer\n"
"""What the signed bytes begin with, so that the key signs nothing else by mistake."""


class SigningKey:
    """The private key of a site: Ed25519 in PEM form without a password, as `new_key` writes it."""

    def __init__(self, path: Path) -> None:
        kinds = ed25519()
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        try:
            self._key: Any = load_pem_private_key(read(path), None)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            self._key = None
        if not isinstance(self._key, kinds.Ed25519PrivateKey):
            raise InputError(
                f"{path} must hold an Ed25519 private key in PEM form, without a password; "
                "`fedwqcp keys new` makes one"
            )
        self.public: str = self._key.public_key().public_bytes_raw().hex()

    def check(self, round: Round, agent: str) -> None:
        """Refuse a round that does not name this key for the agent: nobody could check it.

        A long roster is a digest, in which a key cannot be looked up. The signature covers it, so
        that it counts in no round of another roster.
        """
        if not round.signed:
            raise InputError(
                "this round takes unsigned answers, and this agent has a key to sign with: ask the "
                "server for a round that requires signatures, or answer without the key"
            )
        if round.roster is None and round.keys.get(agent) != self.public:
            raise InputError(
                f"the round names another public key for {agent!r} than this key's: {self.public}; "
                "ask the server to correct its roster"
            )

    def sign(self, answer: Answer, plan: Plan, ask: bytes = b"") -> Answer:
        """Return an answer with its signature; signing twice gives the same bytes.

        ``ask`` is the encoded question of a later step; the terms imply the first one.
        """
        return replace(answer, signature=self._key.sign(_signed_bytes(answer, plan, ask)).hex())


def new_key(path: Path) -> str:
    """Write a new private key, readable by its owner alone, and return the public key."""
    key = ed25519().Ed25519PrivateKey.generate()
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    data = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    write_key(path, data)
    return str(key.public_key().public_bytes_raw().hex())


def check_signature(answer: Answer, plan: Plan, ask: bytes = b"") -> None:
    """Refuse an answer that its agent did not sign, in a round that names keys.

    ``ask`` is the encoded question of a later step.
    """
    if not plan.round.keys:
        if answer.signature:
            raise WrongRoundError(
                answer.agent, "signature", "this round names no keys, so that none can be checked"
            )
        return
    if not answer.signature:
        raise WrongRoundError(
            answer.agent, "signature", "this round takes signed answers alone (--sign-key)"
        )
    key = ed25519().Ed25519PublicKey
    from cryptography.exceptions import InvalidSignature

    try:
        public = key.from_public_bytes(bytes.fromhex(plan.round.keys[answer.agent]))
        signature = bytes.fromhex(answer.signature)
        if signature.hex() != answer.signature:  # one signature has one spelling
            raise ValueError
        public.verify(signature, _signed_bytes(answer, plan, ask))
    except (ValueError, InvalidSignature):
        raise WrongRoundError(
            answer.agent,
            "signature",
            "is not of the key that the round names for this agent, over this answer, its question "
            "and terms",
        ) from None


def _signed_bytes(answer: Answer, plan: Plan, ask: bytes) -> bytes:
    """Return what a signature covers; the digest that an answer holds would be too short."""
    return _CONTEXT + plan.digest + ask + encode(replace(answer, signature=""))


def ed25519() -> Any:
    """Load what makes and checks signatures, or name the extra that brings it."""
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise MissingExtraError("signing answers and checking signatures", "sign") from None
    return ed25519
