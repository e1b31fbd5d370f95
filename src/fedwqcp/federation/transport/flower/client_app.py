"""The side of a site: it answers a round from its own data, and keeps all that leaves."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from flwr.app import ArrayRecord, Context, Message
from flwr.clientapp import ClientApp

from fedwqcp.errors import BudgetError, InputError
from fedwqcp.federation.agent import Agent
from fedwqcp.federation.outputs import Outputs, load_outputs
from fedwqcp.federation.plan import Plan
from fedwqcp.federation.predict import calibration_of
from fedwqcp.federation.record import parse
from fedwqcp.federation.signing import SigningKey
from fedwqcp.federation.transport.flower.letters import (
    ASK,
    MODEL,
    RELEASE,
    Ask,
)
from fedwqcp.federation.transport.flower.replies import RefusedError, reply, told_as
from fedwqcp.federation.transport.flower.site import Site
from fedwqcp.methods import Calibration
from fedwqcp.wire.codec import decode
from fedwqcp.wire.envelope import Ask as Question
from fedwqcp.wire.release import Release
from fedwqcp.wire.round import Round

Found: TypeAlias = Outputs | Calibration | tuple[npt.ArrayLike, npt.ArrayLike]
"""What a site's function may return: outputs and labels, in one of three forms."""
OutputsOf: TypeAlias = Callable[[Context], Found]
"""A site's function: from Flower's context to the model's outputs on calibration data."""


def from_files(context: Context) -> Outputs:
    """Read the outputs from the file that the node's own configuration names.

    Parameters
    ----------
    context : Context
        Its ``node_config`` has ``outputs``, and ``labels`` where the outputs carry none.

    Returns
    -------
    Outputs
        What the files hold.

    Raises
    ------
    InputError
        If no file is named, or it cannot be read.
    """
    path, labels = context.node_config.get("outputs"), context.node_config.get("labels")
    if path is None:
        raise InputError("name the file: --node-config \"agent='st-mary' outputs='cal.npz'\"")
    return load_outputs(Path(str(path)), None if labels is None else Path(str(labels)))


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
        """Answer a question."""
        model = message.content.get(MODEL)
        if isinstance(model, ArrayRecord):
            context.state[MODEL] = model
        return reply(message, context, lambda site, ask: _answer(site, ask, context), watchdog)

    def _answer(site: Site, ask: Ask, context: Context) -> bytes:
        """Compute one answer that leaves as it is."""
        with told_as("terms"):
            secure = _plan(ask.round).round.secure is not None
        if site.secure_only or secure:
            raise RefusedError("secure")
        return answer(site, ask, lambda: outputs(context))

    def _release(message: Message, context: Context) -> Message:
        """Store the release."""
        return reply(message, context, store, False)

    from fedwqcp.federation.transport.flower.secure_site import sum_with  # it builds on this file

    app.query(ASK)(_ask)
    app.query(RELEASE)(_release)
    sum_with(app, outputs, watchdog=watchdog)


def answer(site: Site, ask: Ask, outputs: Callable[[], Found], *, masked: bool = False) -> bytes:
    """Answer one question, or give again what was answered before.

    Parameters
    ----------
    site : Site
        Who answers.
    ask : Ask
        The question.
    outputs : callable
        Gives the model's outputs on the site's calibration data.
    masked : bool, optional
        Whether the answer stays here and only a masked sum leaves, which tells no single scores.

    Returns
    -------
    bytes
        The encoded answer, kept in the site's folder.
    """
    with told_as("terms"):
        plan = _plan(ask.round)
        round = plan.round
        step = decode(ask.body, Question, plan.kinds, "server").step if ask.body else 0
    if not round.expects(site.agent):
        raise RefusedError("roster")
    with told_as("round"):
        before = site.kept(round, ask.round, f"step-{step}")
    if before is not None:
        return before
    with told_as("data"):
        cal = _calibration(round, outputs())
        agent = Agent(
            site.agent,
            plan,
            cal,
            allow_samples=site.allow_samples,
            limit=None if masked else site.limit,
            budget=site.budget,
            sign_key=None if site.sign_key is None else SigningKey(site.sign_key),
        )
    with told_as("answer"), told_as("budget", BudgetError):
        found = agent.answer(ask.body or None)
        site.keep(round, ask.round, f"step-{step}", found)
    return found


def store(site: Site, ask: Ask) -> bytes:
    """Store the release of a round.

    Parameters
    ----------
    site : Site
        Who stores it.
    ask : Ask
        Its body is the encoded release.

    Returns
    -------
    bytes
        The digest of the release, as acknowledgement.
    """
    with told_as("terms"):
        release, digest = _released(ask.body)
    if not release.round.expects(site.agent):
        raise RefusedError("roster")
    with told_as("round"):
        site.store(release, ask.body)
    return digest


@lru_cache(maxsize=4)
def _plan(data: bytes) -> Plan:
    """Read the terms of a round, once in a process that stands for many sites."""
    return Plan.of(decode(data, Round, source="server"))


@lru_cache(maxsize=4)
def _released(data: bytes) -> tuple[Release, bytes]:
    """Read a release, once in a process that stands for many sites."""
    return parse(data, "server"), sha256(data).hexdigest().encode()


def _calibration(round: Round, found: Found) -> Calibration:
    """Score what a site's function returned."""
    if isinstance(found, Calibration):
        return found
    if isinstance(found, tuple):
        found = Outputs(np.asarray(found[0]), np.asarray(found[1]))
    return calibration_of(round, found)
