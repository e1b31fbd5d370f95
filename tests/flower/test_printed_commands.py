"""A federation with TLS by nothing but the commands that ``flower new`` writes down."""

from __future__ import annotations

import re

import pytest
from local_federation import (
    PROGRAMS,
    Processes,
    descendants,
    free_ports,
    wait_until,
)

import fedwqcp as fw
from command_line import call
from fedwqcp.federation.audit import audit

pytestmark = pytest.mark.flower

LATE = "flwr run my-app fed --stream -c 'quorum=2 grace=3.0'"


def test_three_sites_from_a_new_app_to_the_audit_and_one_that_comes_late(
    tmp_path, monkeypatch, stops_when_terminated
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{PROGRAMS}:/usr/bin:/bin")
    call("flower", "new", "my-app", "--sites", "3")
    coordinator, site, ending, late = blocks(tmp_path / "my-app" / "README.md", free_ports(4))
    _, checked, stop = ending.splitlines()
    first = [coordinator, site, site.replace("i=0", "i=1"), LATE]
    again = [site.replace("i=0", "i=2"), late.replace("ID", "$(ls records)"), checked]
    script = "\n".join(["set -e", *first, *again, "touch ended", stop])
    with Processes(tmp_path / "logs", {"PATH": f"{PROGRAMS}:/usr/bin:/bin"}) as processes:
        shell = processes.start("all", ("bash", "-c", script), tmp_path)
        wait_until(lambda: not processes.alive("all"), 240, "the end of the commands", 0.5)
    said = (tmp_path / "logs" / "all.log").read_text()
    assert (tmp_path / "ended").exists(), said
    assert not descendants(shell.pid)
    (record,) = (tmp_path / "records").iterdir()
    assert record.name in said
    release = fw.load(record / "record.json")
    assert (release.used, release.missing) == (("agent-0", "agent-1"), ("agent-2",))
    assert audit(record).matches
    assert (tmp_path / "kept" / "agent-2" / "release.json").exists()


def blocks(page, ports):
    """The commands of the section, with ports that are free here."""
    section = page.read_text().partition("## Deployment")[2]
    text = section.replace("8000", str(ports[0])).replace("$((9100 + i))", f"$(({ports[1]} + i))")
    found = re.findall(r"(?:^    .*\n)+", text, re.MULTILINE)
    commands = [re.sub(r"^    ", "", block, flags=re.MULTILINE).strip() for block in found]
    config = page.parent / ".flwr" / "config.toml"
    config.write_text(config.read_text().replace("8000", str(ports[0])))
    inline = re.search(r"`(flwr run [^`]*hand-over[^`]*)`", section)[1]
    return [*commands, inline.replace("'hand-over=\"ID\"'", '"hand-over=\\"ID\\""')]
