"""The site's side of a secure round: its words leave under the masks of SecAgg+, or not at all.

SecAgg+ works on messages that train; here it is given queries of ours in that shape, so that an app
that trains, with SecAgg+ or without, is left alone.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, Context, Message
from flwr.app.message_type import MessageType
from msgspec.structs import replace

from fedwqcp.errors import InputError, OutOfRangeError
from fedwqcp.federation.plan import Plan
from fedwqcp.federation.secure import plain_ask, scale_of, words_of, words_out_of_range
from fedwqcp.federation.transport.envelope import OK, Request
from fedwqcp.federation.transport.flower.carrier import RECORD, read_request, write_reply
from fedwqcp.federation.transport.flower.secagg import (
    CHECK,
    RECORD_KEY_CONFIGS,
    Key,
    Stage,
    fit_reply,
    secaggplus_mod,
    unopened,
)
from fedwqcp.federation.transport.site import (
    OwnOutputs,
    RefusedError,
    Site,
    answer,
    keep_error,
    plan_of,
    refuse_with,
    reply_to,
)
from fedwqcp.methods import MODULUS, FixedPoint

_DATA_CODES = ("data", "answer", "budget")
"""Refusals that depend on the site's data: asked again in the same round, it refuses again."""


def check_ready(site: Site, request: Request, outputs: OwnOutputs) -> bytes:
    """Reply whether this site can take part, without any number of its own.

    It makes the words once, which shows that they can be made, and forgets them.
    """
    with refuse_with("terms"):
        round = plan_of(request.round).round
    with refuse_with("round"):
        before = site.previous_answer(round, request.round, "ready")
    if before is None:
        status = OK
        try:
            _words(site, request, outputs)
        except RefusedError as refused:
            if refused.code not in _DATA_CODES:
                raise
            keep_error(site.folder, request, refused.code, refused.__cause__)
            status = refused.code
        before = status.encode()
        with refuse_with("round"):
            before = site.keep_answer(round, request.round, "ready", before)
    if before != OK.encode():
        raise RefusedError(before.decode(), kept=True)
    return b""


def take_part(message: Message, context: Context, outputs: OwnOutputs, watchdog: bool) -> Message:
    """Let SecAgg+ do one stage; whatever goes wrong is reported by a fixed code."""
    action, done = message.metadata.message_type, list[Message]()

    def _do(site: Site, request: Request) -> bytes:
        with refuse_with("terms"):
            plan = plan_of(request.round)
            scale = scale_of(plan)
        configs = message.content.config_records[RECORD_KEY_CONFIGS]
        with refuse_with("masks"):
            _check_stage(configs, plan, scale)
        if faulty := unopened(configs, context):
            raise RefusedError("shares", json.dumps(faulty).encode())
        message.metadata.message_type = MessageType.TRAIN

        def _fit(question: Message, _: Context) -> Message:
            """Make the words; SecAgg+ calls this where a model would be trained."""
            work = partial(_words, site, request, outputs)
            status, body = site.perform(work, request, watchdog)
            if status != OK:
                raise RefusedError(status, kept=True)
            words = np.array([*json.loads(body), CHECK], dtype=np.float64)
            return Message(fit_reply([words]), reply_to=question)  # `whole_words` gives them back

        done.append(secaggplus_mod()(message, context, _fit))
        return b""

    settings = context.node_config
    fields = reply_to(lambda: read_request(message), lambda: settings, _do, False)
    message.metadata.message_type = action
    if not done:  # nothing of SecAgg+ goes with a refusal
        return write_reply(message, fields)
    done[0].content[RECORD] = ConfigRecord(dict(fields))
    done[0].metadata.message_type = action
    return done[0]


def _words(site: Site, request: Request, outputs: OwnOutputs) -> bytes:
    """Return what a site adds to a sum, before it is masked, as JSON.

    The site's own folder keeps the answer, which does not leave. Numbers outside the
    round's range change the words, under the mask: a refusal would tell the server of them.
    """
    with refuse_with("terms"):
        plan = plan_of(request.round)
        scale_of(plan)  # refuses terms that are not those of a secure round
        question = plain_ask(plan, request.body)
    try:
        answered = answer(site, replace(request, body=question or b""), outputs, masked=True)
        with refuse_with("answer"):
            words = words_of(plan, request.body, answered)
    except RefusedError as refused:
        if not isinstance(refused.__cause__, OutOfRangeError):
            raise
        keep_error(site.folder, request, refused.code, refused.__cause__)
        words = words_out_of_range(plan, request.body)
    return json.dumps(words).encode()


def _check_stage(configs: ConfigRecord, plan: Plan, scale: FixedPoint) -> None:
    """Refuse a stage that would hide less than a secure round promises.

    That is one with fewer agents than the quorum, one where half of the shares would be enough to
    unmask, and one where the words would be clipped or rounded.
    """
    stated: dict[str, Any] = dict(configs)
    stage, target = stated[Key.STAGE], 2**scale.bits
    sound, present = True, plan.round.quorum
    if stage == Stage.SETUP:
        present = int(stated[Key.SAMPLE_NUMBER])
        sound = (
            2 * int(stated[Key.THRESHOLD]) > present
            and {
                Key.SHARE_NUMBER: present,
                Key.CLIPPING_RANGE: target / 2,
                Key.TARGET_RANGE: target,
                Key.MOD_RANGE: MODULUS,
                Key.MAX_WEIGHT: float(target),
            }.items()
            <= stated.items()
        )
    elif stage == Stage.SHARE_KEYS:
        present = len(stated) - 1
    elif stage == Stage.COLLECT_MASKED_VECTORS:
        present = 1 + len(set(stated[Key.SOURCE_LIST]))
    elif stage == Stage.UNMASK:
        active, dead = (
            set(stated[key]) for key in (Key.ACTIVE_NODE_ID_LIST, Key.DEAD_NODE_ID_LIST)
        )
        present, sound = len(active), not active & dead
    if present < plan.round.quorum or not sound:
        raise InputError(f"a masked sum needs {plan.round.quorum} agents and the round's own masks")
