"""Keys for trying out: of the right kind, readable by their owner alone, never replaced."""

from __future__ import annotations

import ssl
import stat

import pytest

from fedwqcp.errors import InputError

x509 = pytest.importorskip("cryptography.x509")
make_certs = pytest.importorskip("fedwqcp.federation.certs").make_certs


def test_the_server_certificate_is_signed_by_the_ca_and_names_every_host(tmp_path):
    make_certs(tmp_path, ("north",), ("server.example", "127.0.0.1"))
    root = x509.load_pem_x509_certificate((tmp_path / "ca.crt").read_bytes())
    server = x509.load_pem_x509_certificate((tmp_path / "server.pem").read_bytes())
    server.verify_directly_issued_by(root)
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["server.example"]
    assert [str(ip) for ip in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]
    assert root.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert not server.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem", tmp_path / "server.key")


def test_no_key_has_the_file_of_another(tmp_path):
    with pytest.raises(InputError):
        make_certs(tmp_path, ("a", "a.pub"), ("localhost",))
    with pytest.raises(InputError):
        make_certs(tmp_path, ("A", "a.PUB"), ("localhost",))
    assert not (tmp_path / "keys").exists()


@pytest.mark.parametrize(
    "host", ["h" * 65, "", "köln.example", "a b", "http://x:9", "ok\x00", "x/y", 7]
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
    before = (tmp_path / "ca.key").read_bytes()
    with pytest.raises(InputError):
        make_certs(tmp_path, ("south",), ("localhost",))
    assert (tmp_path / "ca.key").read_bytes() == before


def test_bad_names_are_refused(tmp_path):
    with pytest.raises(InputError, match="a name has"):
        make_certs(tmp_path, ("../north",), ("localhost",))
    with pytest.raises(InputError):
        make_certs(tmp_path, ("north",), ())
