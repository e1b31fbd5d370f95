"""The site's side: an Executor that answers rounds from the site's own data and settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from nvflare.apis.executor import Executor
from nvflare.apis.fl_constant import FLContextKey, ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.signal import Signal

from fedwqcp.federation.transport.envelope import ASK, RELEASE, Request
from fedwqcp.federation.transport.nvflare.controller import RECORD
from fedwqcp.federation.transport.nvflare.deployment import SETTINGS, check_flare
from fedwqcp.federation.transport.site import (
    Site,
    SiteOutputs,
    accept_release,
    answer,
    load_settings,
    read_outputs,
    refuse_with,
    reply_to,
)
from fedwqcp.wire.messages import agent_name


class CalibrationExecutor(Executor):
    """Answers rounds as the site's own ``local/fedwqcp.toml`` allows.

    A job can pass it nothing: it takes no arguments.

    Notes
    -----
    A site with a model of its own overrides `outputs` in a class that it installs and allows.
    """

    watchdog = True
    """Compute in a child process that is ended at the deadline."""

    def outputs(self, settings: Mapping[str, object], fl_ctx: FLContext) -> SiteOutputs:
        """Return the model's outputs on this site's calibration data, and the true labels.

        Parameters
        ----------
        settings : mapping
            The site's own settings.
        fl_ctx : FLContext
            FLARE's context.

        Returns
        -------
        Outputs, Calibration or tuple
            By default what the file ``outputs`` of the settings holds.
        """
        del fl_ctx
        return read_outputs(settings)

    def execute(
        self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal
    ) -> Shareable:
        """Answer a question or store a release; the reply holds an answer or a fixed code."""
        del abort_signal  # the watchdog and the deadline of the request end a computation
        if task_name not in (ASK, RELEASE):  # TASK_UNKNOWN would end the whole job
            return make_reply(ReturnCode.EXECUTION_EXCEPTION)

        def _do(site: Site, request: Request) -> bytes:
            with refuse_with("terms"):
                check_flare()
            if not asked:
                return accept_release(site, request)
            return answer(site, request, lambda: self.outputs(self._settings(fl_ctx), fl_ctx))

        asked = task_name == ASK
        reply = make_reply(ReturnCode.OK)
        reply[RECORD] = reply_to(
            lambda: Request.of(shareable[RECORD]),
            lambda: self._settings(fl_ctx),
            _do,
            asked and self.watchdog,
        )
        return reply

    def _settings(self, fl_ctx: FLContext) -> dict[str, object]:
        """Read the site's settings; a site that names no agent has the name of its certificate."""
        workspace = fl_ctx.get_prop(FLContextKey.WORKSPACE_OBJECT)
        path = Path(workspace.get_site_config_dir()) / SETTINGS
        settings = load_settings(path, Path(workspace.get_root_dir()))
        return {"agent": agent_name(fl_ctx.get_identity_name()), **settings}
