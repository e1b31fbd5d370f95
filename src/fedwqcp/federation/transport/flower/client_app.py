"""The site's side: a ClientApp that answers rounds from the site's own data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from flwr.app import ArrayRecord, Context, Message
from flwr.clientapp import ClientApp

from fedwqcp.federation.transport.envelope import ASK, RELEASE, Request
from fedwqcp.federation.transport.flower.carrier import MODEL, READY, SUM, read_request, write_reply
from fedwqcp.federation.transport.site import (
    Site,
    SiteOutputs,
    accept_release,
    answer,
    read_outputs,
    reply_to,
)
from fedwqcp.outputs import Outputs
from fedwqcp.readers.batches import OutputBatches

OutputsOf: TypeAlias = Callable[[Context], SiteOutputs]
"""A site's function: from Flower's context to the model's outputs on calibration data."""


def from_files(context: Context, outputs: str | Path | None = None) -> Outputs | OutputBatches:
    """Read the outputs from the file that the node's own configuration names.

    Parameters
    ----------
    context : Context
        Its ``node_config`` has ``outputs``, and ``labels`` where the outputs carry none.
    outputs : str or Path, optional
        The file of a node whose configuration names none, as simulated nodes; a full path.

    Returns
    -------
    Outputs or OutputBatches
        What the files hold, read in batches where they are large.

    Raises
    ------
    InputError
        If no file is named, or it cannot be read.
    """
    named = {} if outputs is None else {"outputs": str(outputs)}
    return read_outputs({**named, **context.node_config})


def client_app(outputs: OutputsOf = from_files, *, watchdog: bool = True) -> ClientApp:
    """Return a ClientApp that answers rounds.

    Parameters
    ----------
    outputs : callable, optional
        From Flower's context to ``(outputs, labels)``; by default the file that the node names.
    watchdog : bool, optional
        Compute in a child process that is ended at the deadline.

    Returns
    -------
    ClientApp
        Ready to be named in an app's ``pyproject.toml``.
    """
    app = ClientApp()
    answer_with(app, outputs, watchdog=watchdog)
    return app


def answer_with(app: ClientApp, outputs: OutputsOf, *, watchdog: bool = True) -> None:
    """Let a ClientApp that already trains answer rounds too.

    Parameters
    ----------
    app : ClientApp
        The app.
    outputs : callable
        From Flower's context to ``(outputs, labels)``. Parameters that the server sent with the
        round lie in ``context.state["fedwqcp.model"]``.
    watchdog : bool, optional
        Compute in a child process that is ended at the deadline.
    """

    def _ask(message: Message, context: Context) -> Message:
        _keep_model(message, context)

        def _answer(site: Site, request: Request) -> bytes:
            return answer(site, request, lambda: outputs(context))

        return _reply(message, context, _answer, watchdog)

    def _release(message: Message, context: Context) -> Message:
        return _reply(message, context, accept_release, False)

    # Secure rounds use Flower's own SecAgg+, whose modules may change with its version: they are
    # loaded only when a secure round is asked for.

    def _ready(message: Message, context: Context) -> Message:
        _keep_model(message, context)

        def _check(site: Site, request: Request) -> bytes:
            from fedwqcp.federation.transport.flower.secure_site import check_ready

            return check_ready(site, request, lambda: outputs(context))

        return _reply(message, context, _check, watchdog)

    def _sum(message: Message, context: Context) -> Message:
        from fedwqcp.federation.transport.flower.secure_site import take_part

        return take_part(message, context, lambda: outputs(context), watchdog)

    app.query(ASK)(_ask)
    app.query(RELEASE)(_release)
    app.query(READY)(_ready)
    app.query(SUM)(_sum)


def _reply(
    message: Message, context: Context, work: Callable[[Site, Request], bytes], watchdog: bool
) -> Message:
    """Do some work, and reply with its result or with a fixed code."""
    config = context.node_config
    return write_reply(
        message, reply_to(lambda: read_request(message), lambda: config, work, watchdog)
    )


def _keep_model(message: Message, context: Context) -> None:
    """Keep the parameters that came with a request where the site's function finds them."""
    model = message.content.get(MODEL)
    if isinstance(model, ArrayRecord):
        context.state[MODEL] = model
