"""Work on a stack in chunks of models: one after another on a GPU, side by side on a CPU."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Lock
from typing import TypeVar

from fedwqcp_lab.models._torch import torch
from fedwqcp_lab.models.engine import Engine

T = TypeVar("T")


def in_chunks(
    engine: Engine, device: torch.device, models: int, work: Callable[[slice], T]
) -> list[T]:
    """Do something for every chunk of a stack.

    On a CPU each chunk has one thread, and several run at a time: small models do not gain from
    threads of their own, and results do not depend on the number of cores.

    Parameters
    ----------
    engine : Engine
        With the device's defaults filled in.
    device : torch.device
        Where the stack is.
    models : int
        How many models it has.
    work : callable
        Called with the slice of each chunk.

    Returns
    -------
    list
        What it gave, in order.
    """
    size = engine.chunk or models
    chunks = [slice(first, min(first + size, models)) for first in range(0, models, size)]
    if device.type != "cpu":
        with torch.cuda.device(device):
            return [work(chunk) for chunk in chunks]
    before = torch.get_num_threads()
    workers = min(engine.workers or before, len(chunks))
    try:
        with ThreadPoolExecutor(workers, initializer=partial(torch.set_num_threads, 1)) as pool:
            return list(pool.map(work, chunks))
    finally:
        torch.set_num_threads(before)


class Progress:
    """The share done of all chunks, told to one listener.

    Parameters
    ----------
    listener : callable or None
        Told a number from 0 to 1, from one thread at a time.
    models : int
        How many models there are in all.
    """

    def __init__(self, listener: Callable[[float], None] | None, models: int) -> None:
        self._listener = listener
        self._models = models
        self._done: dict[int, float] = {}
        self._lock = Lock()

    def of(self, chunk: slice) -> Callable[[float], None]:
        """Return what one chunk tells its own share to.

        Parameters
        ----------
        chunk : slice
            Which models.

        Returns
        -------
        callable
            Takes a number from 0 to 1.
        """
        weight = (chunk.stop - chunk.start) / self._models

        def _tell(share: float) -> None:
            with self._lock:
                self._done[chunk.start] = weight * share
                if self._listener is not None:
                    self._listener(min(1.0, sum(self._done.values())))

        return _tell
