"""The coordinator's side: a Controller that runs one round, and its tasks as a carrier."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from functools import partial
from math import ceil
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from msgspec.structs import replace
from nvflare.apis.controller_spec import ClientTask, Task
from nvflare.apis.fl_constant import FLContextKey, ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.impl.controller import Controller
from nvflare.apis.shareable import Shareable
from nvflare.apis.signal import Signal

from fedwqcp._validation import named
from fedwqcp.errors import FedwqcpError, InputError, RoundError, traced
from fedwqcp.federation.transport.envelope import NodeId, Reply, Request, new_nonce
from fedwqcp.federation.transport.session import Carrier, Session, SessionResult, hand_over
from fedwqcp.federation.transport.settings import (
    RunConfig,
    Timeouts,
    nodes_of,
    round_of,
    secure_of,
    timeouts_of,
)
from fedwqcp.wire.messages import ascii_name

_log = logging.getLogger("fedwqcp")
RECORD = "fedwqcp"
"""Key of our fields in what FLARE carries."""
_LOG_END = 2**20
"""Bytes of FLARE's log that are searched, the last ones."""
_SPARE = 30
"""Seconds that a task outlives its deadline; the session clears it earlier."""


class CalibrationController(Controller):
    """Runs one round of a job, and hands the release to the agents.

    Parameters
    ----------
    terms : dict
        The terms of the round, as a job's ``config_fed_server.conf`` states them; see
        `fedwqcp.federation.transport.settings.round_of`. ``nodes`` ("st-mary=site-1,...") says
        which site each agent is; by default the one of its name, in ASCII by `ascii_name`.
        ``records`` is the folder for the record of the round, below the coordinator's startup kit
        unless absolute ("": nowhere). ``hand-over`` is the id of a round there whose release is
        handed over again, to every site that connects before the deadline.
    task_check_period : float, optional
        How often FLARE looks at its open tasks, in seconds.

    Notes
    -----
    Override `finished` to do more with a release.
    """

    def __init__(self, terms: Mapping[str, object], task_check_period: float = 0.2) -> None:
        super().__init__(task_check_period)
        self.terms = terms  # FLARE looks for arguments under their own names

    def start_controller(self, fl_ctx: FLContext) -> None:
        """Nothing to prepare."""

    def stop_controller(self, fl_ctx: FLContext) -> None:
        """Nothing to end."""

    def control_flow(self, abort_signal: Signal, fl_ctx: FLContext) -> None:
        """Run the round; without a release the job ends as failed, and the record says why."""
        try:
            result = self.calibrate(abort_signal, fl_ctx)
        except InputError as error:
            self.system_panic(error.by_files, fl_ctx)
        except FedwqcpError as error:
            self.system_panic(str(error), fl_ctx)
        else:
            self.finished(result, fl_ctx)

    def calibrate(self, abort_signal: Signal, fl_ctx: FLContext) -> SessionResult:
        """Run the round that the terms state."""
        config = self.terms  # settings of method and score are tables here
        if secure_of(config):
            raise InputError(
                "secure must be false over NVIDIA FLARE: masked sums need SecAgg+, which only the "
                "Flower transport has"
            )
        given, round, timeouts = RunConfig.of(config), round_of(config), timeouts_of(config)
        records = Path(str(fl_ctx.get_prop(FLContextKey.WORKSPACE_ROOT, "."))) / given.records
        nodes = nodes_of(config, str) or {name: ascii_name(name) for name in round.agents}
        carrier = TaskCarrier(self, abort_signal, fl_ctx, timeouts)
        if given.hand_over:
            return hand_over(carrier, records / given.hand_over, timeouts, nodes)
        record = records / round.id if given.records else None
        return Session(carrier, round, timeouts, nodes, record).run()

    def finished(self, result: SessionResult, fl_ctx: FLContext) -> None:
        """Say in the log who has the release; it is in the record already."""
        self.log_info(fl_ctx, f"fedwqcp: {result}")


class TaskCarrier(Carrier):
    """Carries requests as tasks of a controller, one for each site."""

    def __init__(
        self, controller: Controller, abort: Signal, context: FLContext, timeouts: Timeouts
    ) -> None:
        self.gone = set()
        self._controller = controller
        self._abort = abort
        self._context = context
        self._timeout = ceil(timeouts.deadline) + _SPARE
        self._open: dict[str, tuple[NodeId, Task]] = {}
        self._results: SimpleQueue[tuple[str, Shareable]] = SimpleQueue()

    def online(self) -> set[NodeId]:
        clients = self._context.get_engine().get_clients()
        return {client.name for client in clients if not self._is_lost(client.name)}

    def send(self, action: str, requests: Mapping[NodeId, Request], model: Any = None) -> None:
        del model  # a model that a job trained lies at the sites already
        for node, request in requests.items():
            asked = replace(request, nonce=new_nonce())
            task = Task(
                name=action,
                data=Shareable({RECORD: asked.fields()}),
                timeout=self._timeout,
                result_received_cb=partial(self._keep, asked.nonce),
            )
            self._open[asked.nonce] = (node, task)
            self._controller.send(task, self._context, targets=[node])

    def receive(self) -> list[Reply]:
        if self._abort.triggered:
            raise RoundError(f"the job was stopped: {self._reported() or 'FLARE names no site'}")
        replies = []
        while not self._results.empty():
            nonce, result = self._results.get()
            asked = self._open.pop(nonce, None)
            if asked is not None:
                replies.append(read_reply(result, asked[0], nonce))
        for nonce, (node, task) in list(self._open.items()):
            if self._is_lost(node):
                del self._open[nonce]
                self._controller.cancel_task(task)
                self.gone.add(node)
                replies.append(Reply(node, "", "engine"))
        return replies

    def clear(self) -> None:
        for _, task in self._open.values():
            self._controller.cancel_task(task)
        self._open.clear()
        self.gone.clear()

    def _reported(self) -> str:
        """Return which sites ended the job, and why.

        They tell FLARE's own process on this machine, which tells a controller no more than to
        stop, and logs the rest.
        """
        log = Path(str(self._context.get_prop(FLContextKey.WORKSPACE_ROOT, "."))) / "log.txt"
        if not log.is_file():
            return ""
        with log.open("rb") as lines:
            lines.seek(max(0, log.stat().st_size - _LOG_END))
            text = lines.read().decode(errors="replace")
        job = re.escape(self._context.get_job_id())
        failures = re.findall(rf"job {job} due to reported failure from (\S+): (.+)", text)
        return named((f"{site}: {reason}" for site, reason in dict(failures).items()), 12)

    def _keep(self, nonce: str, client_task: ClientTask, fl_ctx: FLContext) -> None:
        """Keep a result until the session takes it; FLARE calls this in a thread of its own."""
        del fl_ctx
        self._results.put((nonce, client_task.result))

    def _is_lost(self, node: NodeId) -> bool:
        """Tell whether FLARE counts a site as disconnected."""
        return self._controller.get_client_disconnect_time(node) is not None


def _code_name(result: Shareable) -> str:
    """Return FLARE's name of an error; any other text of a site stays unread."""
    code = result.get_return_code()
    return str(code) if code in vars(ReturnCode).values() else ""


def read_reply(result: Shareable, node: NodeId, nonce: str) -> Reply:
    """Return what a site replied, or which rule the reply breaks; it never raises."""
    try:
        if result.get_return_code() != ReturnCode.OK:
            return Reply(node, "", "engine", detail=_code_name(result))
        return Reply.of(node, nonce, result.get(RECORD))
    except Exception as error:
        _log.error("a reply of site %s was refused: %s", node, traced(error))
        return Reply(node, "", "internal")
