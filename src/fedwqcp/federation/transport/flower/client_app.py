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
    OwnOutputs,
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

    def _handler(
        work: Callable[[Site, Request, OwnOutputs], bytes], watchdog: bool
    ) -> Callable[[Message, Context], Message]:
        """Let a site do some work, and reply with its result or with a fixed code."""

        def _handle(message: Message, context: Context) -> Message:
            model = message.content.get(MODEL)
            if isinstance(model, ArrayRecord):  # where the site's function finds them
                context.state[MODEL] = model
            fields = reply_to(
                lambda: read_request(message),
                lambda: context.node_config,
                lambda site, request: work(site, request, lambda: outputs(context)),
                watchdog,
            )
            return write_reply(message, fields)

        return _handle

    # Secure rounds use Flower's own SecAgg+, whose modules may change with its version: they are
    # loaded only when a secure round is asked for.

    def _ready(site: Site, request: Request, own: OwnOutputs) -> bytes:
        from fedwqcp.federation.transport.flower.secure_site import check_ready

        return check_ready(site, request, own)

    def _sum(message: Message, context: Context) -> Message:
        from fedwqcp.federation.transport.flower.secure_site import take_part

        return take_part(message, context, lambda: outputs(context), watchdog)

    app.query(ASK)(_handler(answer, watchdog))
    app.query(RELEASE)(_handler(lambda site, request, _: accept_release(site, request), False))
    app.query(READY)(_handler(_ready, watchdog))
    app.query(SUM)(_sum)
