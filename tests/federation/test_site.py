"""A site's settings; and work that hangs, dies or starts processes of its own is ended."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from fedwqcp.errors import InputError
from fedwqcp.federation.transport.site import Site, run_with_timeout


def test_a_result_comes_back_whole():
    body = bytes(range(256)) * 4096
    assert run_with_timeout(lambda: ("ok", body), 20) == ("ok", body)


def test_the_work_is_done_in_another_process():
    status, body = run_with_timeout(lambda: ("ok", str(os.getpid()).encode()), 20)
    assert (status, int(body) == os.getpid()) == ("ok", False)


def test_what_hangs_is_ended(tmp_path):
    pid = tmp_path / "pid"

    def hangs():
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        pid.write_text(f"{os.getpid()} {child.pid}")
        time.sleep(600)
        return "ok", b""

    assert run_with_timeout(hangs, 1.0) == ("deadline", b"")
    for process in map(int, pid.read_text().split()):
        assert is_gone(process)


def test_what_dies_is_reported():
    assert run_with_timeout(lambda: os._exit(3), 20) == ("died", b"")


def is_gone(process):
    """Whether a process ends within a moment."""
    for _ in range(100):
        try:
            with open(f"/proc/{process}/stat") as stat:
                if stat.read().rpartition(")")[2].split()[0] == "Z":
                    return True
        except OSError:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize(("stated", "only_secure"), [(False, False), ("true", True), (1, True)])
def test_a_doubtful_secure_only_is_a_yes(stated, only_secure):
    assert Site.of({"agent": "north", "secure-only": stated}).secure_only is only_secure


def test_a_budget_needs_a_folder():
    site = Site.of({"agent": "north", "folder": "", "privacy-budget": 1.0})
    with pytest.raises(InputError, match="give this agent a folder"):
        _ = site.budget
    assert Site.of({"agent": "north"}).budget is None


def test_a_budget_is_not_forgotten(tmp_path):
    (tmp_path / "privacy").mkdir()
    site = Site.of({"agent": "north", "folder": str(tmp_path)})
    with pytest.raises(InputError, match="keeps a privacy budget: say how much"):
        _ = site.budget
