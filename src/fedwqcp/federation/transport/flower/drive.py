"""Asking nodes and hearing replies: push and pull with quorum, deadline and grace."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from math import inf, isfinite

from flwr.app import ArrayRecord
from flwr.common.constant import ErrorCode
from flwr.serverapp import Grid

from fedwqcp.errors import InputError
from fedwqcp.federation.transport.flower.letters import (
    Ask,
    Reply,
    new_nonce,
    read_reply,
    write_ask,
)

_SPARE = 30.0
"""Seconds that a message outlives its deadline, so that clocks may differ a little."""


@dataclass(frozen=True)
class Pace:
    """How long a step of a round waits.

    Parameters
    ----------
    deadline : float
        Seconds after which a step ends in any case.
    grace : float
        Seconds to wait for the others once the quorum has answered.
    poll : float
        Seconds between two looks.
    """

    deadline: float = 90.0
    grace: float = 10.0
    poll: float = 0.25

    def __post_init__(self) -> None:
        for name in ("deadline", "grace", "poll"):
            value = getattr(self, name)
            if not (isfinite(value) and value >= 0) or (name != "grace" and value == 0):
                raise InputError(f"{name} must be a number of seconds, got {value}")


class Post:
    """Messages to nodes, each with a nonce of its own; at most one reply to each is heard.

    Parameters
    ----------
    grid : Grid
        Flower's way to the nodes.
    pace : Pace
        How long messages live.
    """

    def __init__(self, grid: Grid, pace: Pace) -> None:
        self._grid = grid
        self._pace = pace
        self._waiting: dict[str, tuple[int, str]] = {}
        self.gone: set[int] = set()

    def online(self) -> set[int]:
        """Return the nodes that are online.

        Returns
        -------
        set of int
            Their ids.
        """
        return set(self._grid.get_node_ids())

    def send(self, action: str, asks: Mapping[int, Ask], model: ArrayRecord | None = None) -> None:
        """Send each node its question with a fresh nonce.

        Parameters
        ----------
        action : str
            What kind of question.
        asks : mapping of int to Ask
            By node; their nonces are set here.
        model : ArrayRecord, optional
            Parameters of a model that go with the question.
        """
        if not asks:
            return
        nonces = {node: new_nonce() for node in asks}
        ttl = self._pace.deadline + _SPARE
        messages = [
            write_ask(node, action, replace(ask, nonce=nonces[node]), ttl, model)
            for node, ask in asks.items()
        ]
        for node, message_id in zip(asks, self._grid.push_messages(messages), strict=False):
            if message_id:
                self._waiting[message_id] = (node, nonces[node])

    def hear(self) -> list[Reply]:
        """Return the replies that came since the last look.

        Returns
        -------
        list of Reply
            The first reply to each question; a second one is dropped unread.
        """
        if not self._waiting:
            return []
        heard = []
        for message in self._grid.pull_messages(list(self._waiting)):
            asked = self._waiting.pop(message.metadata.reply_to_message_id, None)
            if asked is not None:
                heard.append(read_reply(message, *asked))
                if message.has_error() and message.error.code == ErrorCode.NODE_UNAVAILABLE:
                    self.gone.add(asked[0])
        return heard

    def back(self) -> set[int]:
        """Return the nodes that the engine lost since they were asked, and that are online again.

        Returns
        -------
        set of int
            Each once: it is to be asked again.
        """
        back = self.gone & self.online() if self.gone else set()
        self.gone -= back
        return back

    def forget(self) -> None:
        """Stop listening: what comes after a step is closed is never heard."""
        self._waiting.clear()
        self.gone.clear()


def collect(
    hear: Callable[[], Iterable[tuple[str, bool]]],
    wanted: Iterable[str],
    quorum: int,
    pace: Pace,
) -> None:
    """Hear replies until all have come, or the quorum and its grace, or the deadline.

    Parameters
    ----------
    hear : callable
        Takes what has come, and returns for each agent heard whether its answer was sound.
    wanted : iterable of str
        The agents to wait for.
    quorum : int
        How many sound answers start the grace period.
    pace : Pace
        How long to wait.
    """
    open_, sound = set(wanted), set()
    end = time.monotonic() + pace.deadline
    graced = inf
    while True:
        for agent, is_sound in hear():
            open_.discard(agent)
            if is_sound:
                sound.add(agent)
        now = time.monotonic()
        if graced == inf and len(sound) >= quorum:
            graced = now + pace.grace
        if not open_ or now >= min(end, graced):
            return
        time.sleep(min(pace.poll, max(0.0, min(end, graced) - now)))
