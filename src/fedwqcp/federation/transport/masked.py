"""Masked sums between agents of one process: what the server adds up is noise but for the total.

Each pair of agents shares a seed; one adds its mask, the other subtracts it. Here the seeds are
drawn for the agents, since they share a process anyway; over Flower they agree on them by
themselves. Nobody gets lost within a process, so nothing is needed to recover masks.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from itertools import combinations

from fedwqcp.errors import InputError
from fedwqcp.federation.agent import Agent
from fedwqcp.federation.secure.contribution import inner_ask, words_of
from fedwqcp.federation.secure.masks import Words, masked, summed
from fedwqcp.federation.secure.sums import SumServer
from fedwqcp.wire.release import Release


def run_masked(server: SumServer, agents: Mapping[str, Agent]) -> Release:
    """Carry the sums of a round until it ends.

    Parameters
    ----------
    server : SumServer
        The server of the round.
    agents : mapping of str to Agent
        Its agents.

    Returns
    -------
    Release
        What the round ended with; each sum is one round trip here, of four bytes a word.
    """
    up = dict.fromkeys(agents, 0)
    down = dict.fromkeys(agents, 0)
    while not server.ended:
        ask = server.ask()
        vectors = dict(masked_vectors(agents, ask))
        for name, vector in vectors.items():
            up[name] += 4 * len(vector)
            down[name] += len(ask)
        server.hear(tuple(vectors), summed(list(vectors.values())))
    return server.release(server.sums, bytes_up=up, bytes_down=down)


def masked_vectors(agents: Mapping[str, Agent], ask: bytes) -> Iterator[tuple[str, Words]]:
    """Give all that the server sees of one sum: each agent's words under its masks.

    Parameters
    ----------
    agents : mapping of str to Agent
        The agents.
    ask : bytes
        What `SumServer.ask` gave.

    Yields
    ------
    tuple of str and Words
        Name of an agent, and its masked words.
    """
    seeds = {pair: secrets.token_bytes(32) for pair in combinations(agents, 2)}
    for name, agent in agents.items():
        words = _words(agent, ask)
        add = [seed for (first, _), seed in seeds.items() if first == name]
        subtract = [seed for (_, second), seed in seeds.items() if second == name]
        yield name, masked(words, add, subtract)


def _words(agent: Agent, ask: bytes) -> tuple[int, ...]:
    """Return what an agent adds; one that refuses is named."""
    try:
        return words_of(agent.plan, ask, agent.answer(inner_ask(agent.plan, ask)))
    except InputError as error:
        raise InputError(f"agent {agent.name!r}: {error}") from None
