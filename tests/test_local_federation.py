"""Processes and all that they started are gone when the block is left."""

from __future__ import annotations

import os
import sys

import msgspec
import pytest
from local_federation import (
    Processes,
    descendants,
    round_ended,
    wait_until,
)

from fedwqcp.errors import InputError
from fedwqcp.federation.record import Ledger
from fedwqcp.wire.messages import Choice, Round

STUBBORN = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
print("ready", flush=True)
time.sleep(600)
"""


def test_a_failing_block_stops_stubborn_processes_and_their_detached_children(tmp_path):
    started = []

    def begin(processes):
        process = processes.start("stubborn", (sys.executable, "-c", STUBBORN), tmp_path)
        wait_until(lambda: "ready" in processes.output("stubborn"), 20, "the process")
        started.extend([process.pid, *descendants(process.pid)])
        processes._running["stubborn"].wait = quick(process.wait)
        raise RuntimeError("the test itself fails")

    with pytest.raises(RuntimeError), Processes(tmp_path / "logs", os.environ) as processes:
        begin(processes)
    assert len(started) == 2
    for pid in started:
        assert not os.path.exists(f"/proc/{pid}") or state(pid) == "Z"


def quick(wait):
    """Wait a moment where several seconds would be waited."""
    return lambda seconds=None: wait(seconds and 0.1)


def state(pid):
    """State of a process as the system writes it."""
    with open(f"/proc/{pid}/stat") as stat:
        return stat.read().rpartition(")")[2].split()[0]


def test_a_process_that_ended_is_known_as_such(tmp_path):
    with Processes(tmp_path / "logs", os.environ) as processes:
        processes.start("short", (sys.executable, "-c", "print('done')"), tmp_path)
        wait_until(lambda: not processes.alive("short"), 20, "the end")
        assert processes.output("short") == "done\n"
        with pytest.raises(InputError):
            processes.start("none", (tmp_path / "no-such-program",), tmp_path)


@pytest.mark.parametrize("end", ["stored", "failed"])
def test_a_round_has_ended_once_its_log_says_so(tmp_path, end):
    assert not round_ended(tmp_path / "records")
    folder = tmp_path / "records" / "r1"
    ledger = Ledger(folder, Round("r1", Choice("fedwq-cp"), Choice("lac"), (0.1,), ("a",), 1))
    ledger.refused(0, "a", 'says "event": "stored"')
    assert not round_ended(tmp_path / "records")
    getattr(ledger, end)(("a",) if end == "stored" else "nobody answered")
    assert round_ended(tmp_path / "records")
    log = folder / "log.jsonl"
    lines = log.read_bytes().splitlines()
    log.write_bytes(b"\n".join(msgspec.json.format(line, indent=-1) for line in lines))
    assert round_ended(tmp_path / "records"), "whatever the spaces between keys and values"
