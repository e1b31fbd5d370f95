"""How a site replies: with a result, or with a fixed code whose reason stays at the site."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from flwr.app import Context, Message

from fedwqcp.errors import FedwqcpError
from fedwqcp.federation.transport.flower.letters import OK, Ask, read_ask, write_reply
from fedwqcp.federation.transport.flower.site import Site
from fedwqcp.federation.transport.flower.watchdog import guarded


class RefusedError(Exception):
    """Carries the code that the server is told."""


@contextmanager
def told_as(code: str, kind: type[FedwqcpError] = FedwqcpError) -> Iterator[None]:
    """Turn an expected error into its code.

    Parameters
    ----------
    code : str
        What the server is told.
    kind : type, optional
        The errors that are meant.

    Yields
    ------
    None
        Nothing.

    Raises
    ------
    RefusedError
        In place of such an error.
    """
    try:
        yield
    except kind as error:
        raise RefusedError(code) from error


def reply(
    message: Message, context: Context, work: Callable[[Site, Ask], bytes], watchdog: bool
) -> Message:
    """Do some work, and reply with its result or with a fixed code.

    Parameters
    ----------
    message : Message
        What the server asked.
    context : Context
        Flower's, with the site's own settings.
    work : callable
        From the site and the question to the body of the reply.
    watchdog : bool
        Whether to stop work that takes longer than the question allows.

    Returns
    -------
    Message
        The reply; it carries the question's nonce.
    """
    nonce, agent = "", ""
    try:
        ask = read_ask(message)
        nonce = ask.nonce
        site = Site.of(context.node_config)
        agent = site.agent

        def _work() -> tuple[str, bytes]:
            """Return the result or a code; the text of an error stays here."""
            try:
                return OK, work(site, ask)
            except RefusedError as refused:
                site.note(refused.__cause__ or refused)
                return str(refused), b""
            except BaseException as error:
                site.note(error)
                return "failed", b""

        seconds = max(0.1, min(ask.seconds, site.max_seconds))
        status, body = guarded(_work, seconds) if watchdog else _work()
    except Exception:
        status, body = "failed", b""
    return write_reply(message, nonce, agent, status, body)
