"""A computation that cannot outlive its deadline: a child process, ended when time is over."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import TypeAlias

Work: TypeAlias = Callable[[], tuple[str, bytes]]
"""Returns a status and the bytes that go with it."""


def guarded(work: Work, seconds: float) -> tuple[str, bytes]:
    """Do some work in a child process that is ended at the deadline.

    Parameters
    ----------
    work : callable
        What to do; it must not raise.
    seconds : float
        How long it may take.

    Returns
    -------
    tuple of str and bytes
        What the work returned; ``deadline`` if it took too long, ``died`` if its process ended.

    Notes
    -----
    The child is a copy of this process (fork), so that the work may be any function. It has a
    process group of its own, which ends with it, and an alarm of its own, in case this process is
    gone by then. Where processes cannot be copied the work is done here, without a deadline.
    """
    if "fork" not in multiprocessing.get_all_start_methods():
        return work()
    context = multiprocessing.get_context("fork")
    mine, theirs = context.Pipe(duplex=False)
    child = context.Process(target=_child, args=(work, theirs, seconds))
    child.start()
    theirs.close()
    late = threading.Event()

    def _end() -> None:
        """End the child and what it started."""
        if child.pid:
            with contextlib.suppress(OSError):
                os.killpg(child.pid, signal.SIGKILL)
        child.kill()

    def _too_late() -> None:
        """End the child because its time is over."""
        late.set()
        _end()

    timer = threading.Timer(seconds, _too_late)
    timer.start()
    try:
        status, _, body = mine.recv_bytes().partition(b"\n")
        return status.decode(), body
    except (EOFError, OSError):
        return ("deadline" if late.is_set() else "died"), b""
    finally:
        timer.cancel()
        timer.join()
        _end()
        child.join()
        mine.close()


def _child(work: Work, pipe: Connection, seconds: float) -> None:
    """Do the work and hand over its result; nothing of the parent's clean-up runs here."""
    try:
        os.setsid()
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, seconds + 1.0)
        status, body = work()
        pipe.send_bytes(status.encode() + b"\n" + body)
    finally:
        os._exit(0)
