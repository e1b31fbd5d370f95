"""Keys for trying out: of the right kind, readable by their owner alone, never replaced."""

from __future__ import annotations

import contextlib
import ssl
import stat

import pytest

from fedwqcp.errors import InputError

x509 = pytest.importorskip("cryptography.x509")
make_certs = pytest.importorskip("fedwqcp.federation.certs").make_certs


def test_the_server_certificate_names_every_host_and_is_all_that_sites_trust(tmp_path):
    make_certs(tmp_path, ("north",), ("server.example", "127.0.0.1"))
    server = x509.load_pem_x509_certificate((tmp_path / "server.pem").read_bytes())
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["server.example"]
    assert [str(ip) for ip in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]
    assert not server.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem", tmp_path / "server.key")
    assert shaken(context, tmp_path / "server.pem", "server.example")
    make_certs(tmp_path / "other", ("north",), ("server.example",))
    with pytest.raises(ssl.SSLCertVerificationError):
        shaken(context, tmp_path / "other" / "server.pem", "server.example")
    with pytest.raises(ssl.SSLCertVerificationError):
        shaken(context, tmp_path / "server.pem", "other.example")


def shaken(server, trusted, host):
    """A TLS handshake in memory, as strict as Python can be; tells which protocol it agreed on."""
    trust = ssl.create_default_context(cafile=str(trusted))
    trust.verify_flags |= ssl.VERIFY_X509_STRICT
    one, two, three, four = (ssl.MemoryBIO() for _ in range(4))
    ours, theirs = (
        trust.wrap_bio(one, two, server_hostname=host),
        server.wrap_bio(three, four, True),
    )
    for side, read, other in ((ours, two, three), (theirs, four, one)) * 3:
        with contextlib.suppress(ssl.SSLWantReadError):
            side.do_handshake()
        other.write(read.read())
    return ours.version()


def test_no_key_has_the_file_of_another(tmp_path):
    with pytest.raises(InputError):
        make_certs(tmp_path, ("a", "a.pub"), ("localhost",))
    with pytest.raises(InputError):
        make_certs(tmp_path, ("A", "a.PUB"), ("localhost",))
    assert not (tmp_path / "keys").exists()


@pytest.mark.parametrize(
    "host", ["h" * 65, "", "köln.example", "a b", "http://x:9", "ok\x00", "x/y", 1234, None, b"h"]
)
def test_a_host_that_no_certificate_can_name_is_refused(tmp_path, host):
    with pytest.raises(InputError):
        make_certs(tmp_path, ("north",), ("localhost", host))


def test_private_keys_are_for_their_owner_alone_whatever_they_are_called(tmp_path):
    for path in make_certs(tmp_path, ("north", "site.pem", "x.crt"), ("localhost",)):
        private = path.suffix == ".key" or (path.parent.name == "keys" and path.suffix != ".pub")
        mode = stat.S_IMODE(path.stat().st_mode)
        assert (mode & 0o077 == 0) == private, path
    assert "-----BEGIN" in (tmp_path / "keys" / "north").read_text()
    assert (tmp_path / "keys" / "north.pub").read_text().startswith("ecdsa-sha2-nistp384 ")


def test_nothing_is_replaced(tmp_path):
    make_certs(tmp_path, ("north",), ("localhost",))
    before = (tmp_path / "server.key").read_bytes()
    with pytest.raises(InputError):
        make_certs(tmp_path, ("south",), ("localhost",))
    assert (tmp_path / "server.key").read_bytes() == before


def test_bad_names_are_refused(tmp_path):
    with pytest.raises(InputError, match="a name has"):
        make_certs(tmp_path, ("../north",), ("localhost",))
    with pytest.raises(InputError):
        make_certs(tmp_path, ("north",), ())
