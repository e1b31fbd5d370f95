"""Where units are evaluated: in processes of this machine, or on a Ray cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any, Literal, TypeAlias, TypeVar

from fedwqcp.errors import InputError, MissingExtraError

Executor: TypeAlias = Literal["processes", "ray"]
"""What runs the tasks."""

T = TypeVar("T")

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""A task computes in one thread: its matrices are small, and its numbers then depend on nothing."""


def spread(
    task: Callable[..., T],
    arguments: Sequence[tuple[Any, ...]],
    *,
    jobs: int = 1,
    executor: Executor = "processes",
) -> Iterator[T]:
    """Run a task for each list of arguments, and yield results as they come.

    Parameters
    ----------
    task : callable
        A function of a module.
    arguments : sequence of tuple
        What each call gets.
    jobs : int, optional
        Processes of this machine.
    executor : {"processes", "ray"}, optional
        This machine, or the Ray cluster that ``RAY_ADDRESS`` names, whose machines see the same
        files.

    Yields
    ------
    object
        What the calls return, in no fixed order.

    Raises
    ------
    InputError
        If there are no jobs, or a process was killed.
    MissingExtraError
        If Ray is asked for and not installed.
    """
    if jobs < 1:
        raise InputError(f"jobs must be at least 1, got {jobs}")
    if arguments:
        yield from (_on_ray if executor == "ray" else _in_processes)(task, arguments, jobs)


def _in_processes(
    task: Callable[..., T], arguments: Sequence[tuple[Any, ...]], jobs: int
) -> Iterator[T]:
    """Run tasks in fresh processes of this machine."""
    workers = min(jobs, len(arguments))
    with _environment(ONE_THREAD), ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        futures = [pool.submit(task, *each) for each in arguments]
        try:
            for future in as_completed(futures):
                yield future.result()
        except BrokenProcessPool:
            raise InputError(
                "a process was killed, as by a lack of memory; use fewer --jobs and --resume"
            ) from None
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _on_ray(task: Callable[..., T], arguments: Sequence[tuple[Any, ...]], jobs: int) -> Iterator[T]:
    """Run tasks on a Ray cluster; it decides how many at a time."""
    del jobs  # the cluster's own affair
    try:
        import ray
    except ImportError:
        raise MissingExtraError("--executor ray", "ray") from None
    if not ray.is_initialized():
        ray.init(log_to_driver=False, runtime_env={"env_vars": ONE_THREAD})
    remote = ray.remote(task)
    waiting = [remote.remote(*each) for each in arguments]
    while waiting:
        done, waiting = ray.wait(waiting)
        yield from ray.get(done)


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
