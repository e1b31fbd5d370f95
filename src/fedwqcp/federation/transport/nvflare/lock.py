"""What a locked site takes from its coordinator: jobs of two settings files, and few commands.

FLARE's allow-list names the classes of a job. By itself FLARE also lets a job name its folder like
one of the kit's, which is removed; finds settings of the site in the job, and imports what they
name; and leaves it to the server whether a site checks a command, such as reading its files.
"""

from __future__ import annotations

import io
import re
from typing import Any
from zipfile import BadZipFile, ZipFile

from nvflare.lighter.tool_consts import NVFLARE_SIG_FILE, NVFLARE_SUBMITTER_CRT_FILE
from nvflare.private.defs import SysCommandTopic, TrainingTopic
from nvflare.private.fed.client.client_req_processors import ClientRequestProcessors
from nvflare.private.fed.utils.app_deployer import AppDeployer

_JOB_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_SIGNED = (NVFLARE_SIG_FILE, NVFLARE_SUBMITTER_CRT_FILE)
_FILES = {
    "config/",
    "config/config_fed_client.json",
    "config/config_fed_server.conf",  # sites never read it
    "config/config_fed_server.json",
    *(folder + name for folder in ("", "config/") for name in _SIGNED),
}
_COMMANDS = {
    *(TrainingTopic.CHECK_RESOURCE, TrainingTopic.CANCEL_RESOURCE, TrainingTopic.DEPLOY),
    *(TrainingTopic.START_JOB, TrainingTopic.NOTIFY_JOB_STATUS, TrainingTopic.CHECK_STATUS),
    *(TrainingTopic.ABORT, TrainingTopic.ABORT_TASK, TrainingTopic.GET_SCOPES),
    *(TrainingTopic.SHUTDOWN, TrainingTopic.RESTART),
    *(SysCommandTopic.REPORT_RESOURCES, SysCommandTopic.REPORT_VERSION),
}
"""What the server may ask of a site's own process: to run jobs, to stop and to start again."""


class SiteLock(AppDeployer):
    """Refuses any other job before a file is removed or written, and any other command."""

    def __init__(self) -> None:
        super().__init__()
        known = ClientRequestProcessors.request_processors
        known[:] = [handler for handler in known if _COMMANDS.issuperset(handler.get_topics())]

    def deploy(  # noqa: PLR0917  # FLARE's own arguments
        self,
        workspace: Any,
        job_id: str,
        job_meta: dict[str, Any],
        app_name: str,
        app_data: bytes,
        fl_ctx: Any,
    ) -> str:
        """Return why the job is refused; empty where it lies in its folder."""
        if not _JOB_ID.fullmatch(str(job_id)):
            return "a locked site takes jobs whose id is a UUID, as FLARE gives it"
        try:
            names = ZipFile(io.BytesIO(app_data)).namelist()
        except BadZipFile:
            return "a job must be a ZIP archive"
        if not _FILES.issuperset(names):
            return "BYOC not permitted: a locked site takes jobs of JSON settings alone"
        return str(super().deploy(workspace, job_id, job_meta, app_name, app_data, fl_ctx) or "")
