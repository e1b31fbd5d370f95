"""Where units are evaluated: in processes of this machine, or on a Ray cluster."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor
from concurrent.futures import wait as futures_wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from fedwqcp.errors import InputError, MissingExtraError

Executor: TypeAlias = Literal["processes", "ray"]
"""What runs the tasks."""

T = TypeVar("T")

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""A task computes in one thread: its matrices are small, and its numbers then depend on nothing."""


class Workers(ABC, Generic[T]):
    """Processes that work off one task for many arguments, which may come one after another."""

    @abstractmethod
    def submit(self, *arguments: Any) -> None:
        """Queue a call.

        Parameters
        ----------
        *arguments : object
            What it gets.
        """

    @abstractmethod
    def finished(self, *, wait: bool = False) -> Iterator[T]:
        """Yield what calls returned that was not yielded before, in no fixed order.

        Parameters
        ----------
        wait : bool, optional
            Until all calls have ended; otherwise only what is there.

        Yields
        ------
        object
            What a call returned.

        Raises
        ------
        InputError
            If a process was killed.
        """


@contextmanager
def workers(
    task: Callable[..., T], *, jobs: int = 1, executor: Executor = "processes"
) -> Iterator[Workers[T]]:
    """Start workers, and stop them at the end; calls that have not begun by then are dropped.

    Parameters
    ----------
    task : callable
        A function of a module.
    jobs : int, optional
        Processes of this machine.
    executor : {"processes", "ray"}, optional
        This machine, or the Ray cluster that ``RAY_ADDRESS`` names, whose machines see the same
        files and which decides itself how many calls run at a time.

    Yields
    ------
    Workers
        They start with the first call.

    Raises
    ------
    InputError
        If there are no jobs.
    MissingExtraError
        If Ray is asked for and not installed.
    """
    if jobs < 1:
        raise InputError(f"jobs must be at least 1, got {jobs}")
    if executor == "ray":
        yield _OnRay(task)
        return
    pool = ProcessPoolExecutor(jobs, get_context("spawn"))
    try:
        yield _InProcesses(task, pool)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


class _InProcesses(Workers[T]):
    """Fresh processes of this machine."""

    def __init__(self, task: Callable[..., T], pool: ProcessPoolExecutor) -> None:
        self._task, self._pool = task, pool
        self._waiting: set[Future[T]] = set()

    def submit(self, *arguments: Any) -> None:
        with _environment(ONE_THREAD):  # a call may start a process
            self._waiting.add(self._pool.submit(self._task, *arguments))

    def finished(self, *, wait: bool = False) -> Iterator[T]:
        try:
            while self._waiting:
                limit = None if wait else 0
                done, self._waiting = futures_wait(self._waiting, limit, FIRST_COMPLETED)
                for future in done:
                    yield future.result()
                if not wait:
                    return
        except BrokenProcessPool:
            raise InputError(
                "a process was killed, as by a lack of memory; use fewer --jobs and --resume"
            ) from None


class _OnRay(Workers[T]):
    """A Ray cluster."""

    def __init__(self, task: Callable[..., T]) -> None:
        try:
            import ray
        except ImportError:
            raise MissingExtraError("--executor ray", "ray") from None
        if not ray.is_initialized():
            ray.init(log_to_driver=False, runtime_env={"env_vars": ONE_THREAD})
        self._ray, self._remote = ray, ray.remote(task)
        self._waiting: list[Any] = []

    def submit(self, *arguments: Any) -> None:
        self._waiting.append(self._remote.remote(*arguments))

    def finished(self, *, wait: bool = False) -> Iterator[T]:
        while self._waiting:
            limit = None if wait else 0
            done, self._waiting = self._ray.wait(self._waiting, timeout=limit)
            yield from self._ray.get(done)
            if not done:
                return


@contextmanager
def _environment(changes: dict[str, str]) -> Iterator[None]:
    """Set variables for processes that start meanwhile."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
