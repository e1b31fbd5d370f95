"""The files of ``deploy/`` as they are, before a real SuperLink, but for names, ports and paths."""

from __future__ import annotations

import http.client
import shutil
import ssl
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

import pytest
from local_federation import HOST, LocalFederation, free_ports, wait_until

import fedwqcp as fw
from engine import finished
from fedwqcp.federation.audit import audit
from fedwqcp.federation.transport.flower.deployment import new_app

DEPLOY = Path(__file__).parents[2] / "deploy"
FILES = {"nginx": "nginx.conf", "caddy": "Caddyfile"}
REFUSED = (
    "/",
    "/health",
    "/v1/control/list-runs",
    "/v1/control/start-run",
    "/v1/runtime/x",
    "/v1/fleet",
    "/v1/fleet/../control/list-runs",
    "/v1/fleet/%2e%2e/control/list-runs",
    "/v1/control/../fleet/pull-messages",
    "//v1/control/list-runs",
)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Folder of the whole federation."""
    return tmp_path_factory.mktemp("deploy")


@pytest.fixture(scope="module")
def federation(root, stops_when_terminated):
    """A SuperLink with one site for each proxy; no site is online yet."""
    new_app(root / "my-app")
    with LocalFederation(root / "federation", tuple(FILES)) as running:
        yield running


def adapted(text, changes):
    """The text with other names; each of them must occur in it."""
    for before, after in changes.items():
        assert before in text, before
        text = text.replace(before, str(after))
    return text


def configured(name, federation, home, port):
    """Write the proxy's configuration for this machine, and return the command that starts it."""
    home.mkdir()
    home.chmod(0o777)  # nginx's workers have no privileges
    certs = federation.folder / "certs"
    changes = {
        "/etc/fedwqcp/proxy.pem": certs / "server.pem",
        "/etc/fedwqcp/proxy.key": certs / "server.key",
        "/etc/fedwqcp/ca.crt": certs / "server.pem",
        "127.0.0.1:8000": f"{HOST}:{federation.port}",
    }
    config = home / FILES[name]
    if name == "nginx":
        changes |= {"listen 443": f"listen {HOST}:{port}", "/var/log/nginx": home}
        config.write_text(adapted((DEPLOY / FILES[name]).read_text(), changes))
        return ("nginx", "-c", config, "-e", home / "e.log", "-g", f"daemon off; pid {home}/pid;")
    changes["federation.example.org"] = f"https://{HOST}:{port}"
    options = "{\n\tadmin off\n\tauto_https disable_redirects\n}\n"  # nothing on other ports
    config.write_text(options + adapted((DEPLOY / FILES[name]).read_text(), changes))
    return ("caddy", "run", "--adapter", "caddyfile", "--config", config)


def status(federation, port, path):
    """What the proxy answers to a request from outside, with its path exactly as given."""
    trust = ssl.create_default_context(cafile=str(federation.folder / "certs" / "server.pem"))
    link = http.client.HTTPSConnection(HOST, port, context=trust, timeout=10)
    try:
        link.request("POST", path, b"")
        return link.getresponse().status
    except OSError:
        return None
    finally:
        link.close()


@pytest.mark.nightly
@pytest.mark.parametrize("name", FILES)
def test_a_round_passes_through_the_proxy_and_nothing_else(name, federation, root):
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed here")
    (port,) = free_ports(1)
    command = configured(name, federation, root / name, port)
    federation.processes.start(f"proxy-{name}", command, root / name)
    wait_until(lambda: status(federation, port, "/") is not None, 20, name)
    assert {path: status(federation, port, path) for path in REFUSED} == dict.fromkeys(REFUSED, 403)
    federation.start_site(name, {"partition-id": 0, "folder": root / "sites" / name}, port=port)
    federation.wait_online(1)
    records = root / "records" / name
    run = federation.submit(root / "my-app", {"agents": name, "records": records})
    ended, record = finished(federation, records, run)
    assert ended == "finished:completed", federation.processes.output(f"proxy-{name}")
    assert audit(record).matches
    assert fw.load(record / "release.json").used == (name,)
    federation.processes.stop(name)
    federation.processes.stop(f"proxy-{name}")


def test_a_site_that_crashed_starts_again_until_the_superlink_takes_it():
    """For about a minute after a crash its key counts as in use, and Flower refuses it."""
    text = (DEPLOY / "supernode.service").read_text()
    unit = ConfigParser(strict=False)
    unit.optionxform = str
    unit.read_string(text)
    assert unit["Service"]["Restart"] == "on-failure"
    assert 5 <= float(unit["Service"]["RestartSec"]) <= 60
    assert unit["Unit"]["StartLimitIntervalSec"] == "0", "systemd never gives up"


@pytest.mark.parametrize("name", ["supernode", "superlink"])
def test_a_unit_is_sound_and_contains_what_runs_in_it(tmp_path, name):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed here")
    text = (DEPLOY / f"{name}.service").read_text()
    unit, program = tmp_path / f"{name}.service", f"flower-{name}"
    there = Path(sys.executable).parent / program
    unit.write_text(adapted(text, {f"/opt/fedwqcp/bin/{program}": there}))
    for words in (("verify",), ("security", "--offline=true", "--threshold=29")):  # below 3
        command = ["systemd-analyze", *words, str(unit)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
