"""One stage of Flower's SecAgg+ at a site.

SecAgg+ works on messages that train; here it is given queries of ours in that shape, so that an app
that trains, with SecAgg+ or without, is left alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeAlias, cast

import numpy as np
from flwr.app import ConfigRecord, Context, Message
from flwr.app.message_type import MessageType
from flwr.common import Code, FitRes, Status, ndarrays_to_parameters
from flwr.common.secure_aggregation.crypto.symmetric_encryption import decrypt
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS, Key, Stage
from flwr.common.secure_aggregation.secaggplus_utils import share_keys_plaintext_separate
from flwr.compat.common.recorddict_compat import fitres_to_recorddict

from fedwqcp.errors import InputError
from fedwqcp.federation.plan import Plan
from fedwqcp.federation.secure import scale_of
from fedwqcp.federation.transport.flower.letters import OK, RECORD, Ask, read_ask, write_reply
from fedwqcp.federation.transport.flower.replies import RefusedError, told_as
from fedwqcp.federation.transport.flower.secure_carrier import CHECK, are_shares
from fedwqcp.federation.transport.flower.secure_masks import secaggplus_mod, secaggplus_state
from fedwqcp.federation.transport.flower.site import Site
from fedwqcp.federation.transport.flower.watchdog import guarded
from fedwqcp.wire.codec import decode
from fedwqcp.wire.masked import MODULUS, FixedPoint
from fedwqcp.wire.round import Round

WordsOf: TypeAlias = Callable[[Site, Ask], bytes]
"""Makes the words that a site adds."""


def take_part(message: Message, context: Context, words: WordsOf, watchdog: bool) -> Message:
    """Let SecAgg+ do one stage; whatever goes wrong is told by a fixed code.

    Parameters
    ----------
    message : Message
        The query.
    context : Context
        Flower's context, which holds the site's keys between the stages.
    words : callable
        Makes the words of a question.
    watchdog : bool
        Compute in a child process that is ended at the deadline.

    Returns
    -------
    Message
        The reply.
    """
    action, nonce, agent = message.metadata.message_type, "", ""

    def _refusal(code: str, body: bytes = b"") -> Message:
        """Reply with a code, and with nothing of SecAgg+."""
        message.metadata.message_type = action
        return write_reply(message, nonce, agent, code, body)

    try:
        ask = read_ask(message)
        nonce = ask.nonce
        site = Site.of(context.node_config)
        agent = site.agent
        try:
            with told_as("terms"):
                plan = Plan.of(decode(ask.round, Round, source="server"))
                scale = scale_of(plan)
            configs = message.content.config_records[RECORD_KEY_CONFIGS]
            with told_as("masks"):
                check_stage(configs, plan, scale)
            if faulty := _unopened(configs, context):
                return _refusal("shares", json.dumps(faulty).encode())
            message.metadata.message_type = MessageType.TRAIN
            made = _fit(site, ask, lambda: words(site, ask), watchdog)
            reply = secaggplus_mod()(message, context, lambda msg, _: made(msg, scale))
        except RefusedError as refused:
            site.note(refused.__cause__ or refused)
            return _refusal(str(refused))
        except Exception as error:
            site.note(error)
            return _refusal("failed")
    except Exception:
        return _refusal("failed")
    reply.content[RECORD] = ConfigRecord(
        {"nonce": nonce, "agent": agent, "status": OK, "body": b""}
    )
    message.metadata.message_type = reply.metadata.message_type = action
    return reply


def _unopened(configs: ConfigRecord, context: Context) -> list[int]:
    """Return the nodes whose key shares for this site cannot be opened, or are none.

    Only this site can tell; without a word of its own it would look like the one at fault.
    """
    if configs[Key.STAGE] != Stage.COLLECT_MASKED_VECTORS:
        return []
    state: Any = secaggplus_state(context)
    sources, ciphertexts = (cast(Any, configs[k]) for k in (Key.SOURCE_LIST, Key.CIPHERTEXT_LIST))
    faulty = []
    for source, ciphertext in zip(sources, ciphertexts, strict=True):
        try:
            shares = decrypt(state.ss2_dict[source], ciphertext)
            sender, receiver, seed, key = share_keys_plaintext_separate(shares)
            sound = (sender, receiver) == (source, state.nid)
            sound = sound and are_shares([seed], [key])
        except Exception:  # whatever another site put there
            sound = False
        faulty += [] if sound else [source]
    return faulty


def _fit(
    site: Site, ask: Ask, work: Callable[[], bytes], watchdog: bool
) -> Callable[[Message, FixedPoint], Message]:
    """Return what SecAgg+ calls where a model would be trained: it makes the words."""

    def _work() -> tuple[str, bytes]:
        """Return the words or a code."""
        try:
            return OK, work()
        except RefusedError as refused:
            site.note(refused.__cause__ or refused)
            return str(refused), b""
        except BaseException as error:
            site.note(error)
            return "failed", b""

    def _made(message: Message, scale: FixedPoint) -> Message:
        """Return the words as SecAgg+ wants them: its quantisation then changes nothing."""
        seconds = max(0.1, min(ask.seconds, site.max_seconds))
        status, body = guarded(_work, seconds) if watchdog else _work()
        if status != OK:
            raise RefusedError(status)
        target = 2**scale.bits
        words = [*json.loads(body), CHECK]
        centred = (np.array(words, dtype=np.float64) - target / 2) * target
        parameters = ndarrays_to_parameters([centred])  # multiplied by 1 / target there
        result = FitRes(Status(Code.OK, ""), parameters, 1, {})
        return Message(fitres_to_recorddict(result, False), reply_to=message)

    return _made


def check_stage(configs: ConfigRecord, plan: Plan, scale: FixedPoint) -> None:
    """Refuse a stage that would hide less than a secure round promises.

    Parameters
    ----------
    configs : ConfigRecord
        What SecAgg+ sends to this site.
    plan : Plan
        What the round computes.
    scale : FixedPoint
        How numbers become words.

    Raises
    ------
    InputError
        If fewer agents than the quorum take part, half of the shares would be enough to unmask, or
        the words would be clipped or rounded.
    """
    told: dict[str, Any] = dict(configs)
    stage, target = told[Key.STAGE], 2**scale.bits
    sound, there = True, plan.round.quorum
    if stage == Stage.SETUP:
        there = int(told[Key.SAMPLE_NUMBER])
        sound = (
            2 * int(told[Key.THRESHOLD]) > there
            and {
                Key.SHARE_NUMBER: there,
                Key.CLIPPING_RANGE: target / 2,
                Key.TARGET_RANGE: target,
                Key.MOD_RANGE: MODULUS,
                Key.MAX_WEIGHT: float(target),
            }.items()
            <= told.items()
        )
    elif stage == Stage.SHARE_KEYS:
        there = len(told) - 1
    elif stage == Stage.COLLECT_MASKED_VECTORS:
        there = 1 + len(set(told[Key.SOURCE_LIST]))
    elif stage == Stage.UNMASK:
        active, dead = (set(told[key]) for key in (Key.ACTIVE_NODE_ID_LIST, Key.DEAD_NODE_ID_LIST))
        there, sound = len(active), not active & dead
    if there < plan.round.quorum or not sound:
        raise InputError(f"a masked sum needs {plan.round.quorum} agents and the round's own masks")
