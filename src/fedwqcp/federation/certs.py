"""Keys for trying out a federation: a certificate that the server signs itself, a key per site.

A real federation takes its server certificate from its own authority, and every site makes its own
key and hands over the public half alone.
"""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import re
from collections.abc import Sequence
from pathlib import Path

from fedwqcp._io import exists, make_folder, write_key
from fedwqcp._validation import checked, shown
from fedwqcp.errors import InputError, MissingExtraError
from fedwqcp.wire.messages import check_names

try:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import (
        SECP384R1,
        EllipticCurvePrivateKey,
        generate_private_key,
    )
    from cryptography.hazmat.primitives.hashes import SHA384
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        PublicFormat,
    )
except ImportError:
    raise MissingExtraError("making certificates", "flower") from None

DAYS = 30
"""How long the certificates are valid."""
_HOST = re.compile(r"[*A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""A host name; the first also names the certificate, in at most 64 characters."""


@checked
def make_certs(folder: Path, agents: Sequence[str], hosts: Sequence[str]) -> tuple[Path, ...]:
    """Make a server certificate and a key pair for each site; no file is ever replaced."""
    check_names(tuple(agents))
    if not hosts:
        raise InputError("hosts: name at least one host or address of the server")
    names = [_host(host) for host in hosts]
    server = generate_private_key(SECP384R1())
    private = {"server.key": _private(server, PrivateFormat.PKCS8)}
    public = {"server.pem": _certificate(server, hosts[0], names).public_bytes(Encoding.PEM)}
    for name in agents:
        key = generate_private_key(SECP384R1())
        line = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
        private[f"keys/{name}"] = _private(key, PrivateFormat.OpenSSH)  # the form of SuperNodes
        public[f"keys/{name}.pub"] = line + b"\n"
    if set(map(str.casefold, private)) & set(map(str.casefold, public)):  # some disks know no case
        raise InputError("agents: no name must be another one with '.pub' behind it: rename one")
    files = {**private, **public}
    for name in files:  # all are written, or none
        if exists(folder / name):
            text = f"{folder / name} exists; keys are never replaced: choose another folder"
            raise InputError(text)
    make_folder(folder / "keys")
    for name, data in files.items():
        write_key(folder / name, data, shared=name in public)
    return tuple(folder / name for name in files)


def _certificate(
    key: EllipticCurvePrivateKey, host: str, names: Sequence[x509.GeneralName]
) -> x509.Certificate:
    """Return a certificate of the hosts that is signed with its own key: sites trust it alone."""
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, host)])
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=DAYS))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(key, SHA384())
    )


def _host(host: str) -> x509.GeneralName:
    """Return a host as a certificate names it."""
    with contextlib.suppress(ValueError):
        return x509.IPAddress(ipaddress.ip_address(host))
    if not _HOST.fullmatch(host):
        raise InputError(
            "hosts must be IP addresses, or host names of 1 to 64 ASCII letters, digits, '.', "
            f"'_' and '-', got {shown(host)}"
        )
    return x509.DNSName(host)


def _private(key: EllipticCurvePrivateKey, form: PrivateFormat) -> bytes:
    return bytes(key.private_bytes(Encoding.PEM, form, NoEncryption()))
