"""The side of a site in a secure round: its words leave under masks, or not at all."""

from __future__ import annotations

import json

from flwr.app import ArrayRecord, Context, Message
from flwr.clientapp import ClientApp

from fedwqcp.federation.plan import Plan
from fedwqcp.federation.secure.contribution import inner_ask, words_of
from fedwqcp.federation.transport.flower.client_app import OutputsOf, answer
from fedwqcp.federation.transport.flower.letters import MODEL, READY, SUM, Ask
from fedwqcp.federation.transport.flower.replies import reply, told_as
from fedwqcp.federation.transport.flower.site import Site
from fedwqcp.wire.codec import decode
from fedwqcp.wire.round import Round


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
            """Make the words, which shows that they fit, and forget them."""
            words(site, ask, outputs, context)
            return b""

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
        A list of whole numbers, as JSON.
    """
    with told_as("terms"):
        plan = Plan.of(decode(ask.round, Round, source="server"))
        inner = inner_ask(plan, ask.body)
    plain = Ask(ask.nonce, ask.round, inner or b"", ask.seconds)
    own = answer(site, plain, lambda: outputs(context), masked=True)
    with told_as("bounds"):
        return json.dumps(words_of(plan, ask.body, own)).encode()
