"""The side of a site in a secure round: its words leave under masks, or not at all."""

from __future__ import annotations

import json

from flwr.app import ArrayRecord, Context, Message
from flwr.clientapp import ClientApp

from fedwqcp.errors import OutOfRangeError
from fedwqcp.federation.plan import Plan
from fedwqcp.federation.secure import plain_ask, scale_of, words_of, words_out_of_range
from fedwqcp.federation.transport.flower.client_app import OutputsOf, answer
from fedwqcp.federation.transport.flower.letters import MODEL, OK, READY, SUM, Ask
from fedwqcp.federation.transport.flower.replies import RefusedError, reply, told_as
from fedwqcp.federation.transport.flower.site import Site
from fedwqcp.wire.codec import decode
from fedwqcp.wire.round import Round

_OF_DATA = ("data", "answer", "budget")
"""Refusals that depend on the site's data: asked again in the same round, it says the same."""


def sum_with(app: ClientApp, outputs: OutputsOf, *, watchdog: bool = True) -> None:
    """Let a ClientApp take part in secure rounds.

    Parameters
    ----------
    app : ClientApp
        The app.
    outputs : callable
        From Flower's context to the model's outputs.
    watchdog : bool, optional
        Compute in a child process that is ended at the deadline.
    """

    def _ready(message: Message, context: Context) -> Message:
        """Say whether this site can take part, without any number of its own."""
        model = message.content.get(MODEL)
        if isinstance(model, ArrayRecord):
            context.state[MODEL] = model

        def _check(site: Site, ask: Ask) -> bytes:
            """Make the words once, which shows that they can be made, and forget them."""
            with told_as("terms"):
                round = decode(ask.round, Round, source="server")
            with told_as("round"):
                before = site.kept(round, ask.round, "ready")
            if before is not None:
                return _told(before.decode())
            status = OK
            try:
                words(site, ask, outputs, context)
            except RefusedError as refused:
                if str(refused) not in _OF_DATA:
                    raise
                site.note(refused.__cause__ or refused)
                status = str(refused)
            with told_as("round"):
                site.keep(round, ask.round, "ready", status.encode())
            return _told(status)

        return reply(message, context, _check, watchdog)

    def _sum(message: Message, context: Context) -> Message:
        """Take part in one stage of a sum; SecAgg+ is loaded only now."""
        from fedwqcp.federation.transport.flower.secure_stage import take_part

        def _words(site: Site, ask: Ask) -> bytes:
            """Make the words of this question."""
            return words(site, ask, outputs, context)

        return take_part(message, context, _words, watchdog)

    app.query(READY)(_ready)
    app.query(SUM)(_sum)


def _told(status: str) -> bytes:
    """Reply as before."""
    if status != OK:
        raise RefusedError(status)
    return b""


def words(site: Site, ask: Ask, outputs: OutputsOf, context: Context) -> bytes:
    """Return what a site adds to a sum, before it is masked.

    Parameters
    ----------
    site : Site
        Who answers; its own folder keeps the answer, which does not leave.
    ask : Ask
        The question.
    outputs : callable
        From Flower's context to the model's outputs.
    context : Context
        Flower's context.

    Returns
    -------
    bytes
        A list of whole numbers, as JSON. What lies outside the round's range is said by them, under
        the mask, and not by a refusal that the server could read.
    """
    with told_as("terms"):
        plan = Plan.of(decode(ask.round, Round, source="server"))
        scale_of(plan)  # refuses terms that are not those of a secure round
        inner = plain_ask(plan, ask.body)
    plain = Ask(ask.nonce, ask.round, inner or b"", ask.seconds)
    try:
        own = answer(site, plain, lambda: outputs(context), masked=True)
        with told_as("answer"):
            found = words_of(plan, ask.body, own)
    except RefusedError as refused:
        if not isinstance(refused.__cause__, OutOfRangeError):
            raise
        site.note(refused.__cause__)
        found = words_out_of_range(plan, ask.body)
    return json.dumps(found).encode()
