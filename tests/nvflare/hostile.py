"""A coordinator that was taken over: its process sends sites whatever message a file asks for.

Python imports it as ``sitecustomize`` where this folder's copy comes first on the path.
"""

import json
import os
import sys
import threading
import time
from pathlib import Path

DESK = Path(os.environ.get("HOSTILE_DESK", "/nowhere"))


def serve(engine):
    """Send every client the messages that lie on the desk, and lay their replies there."""
    from nvflare.private.admin_defs import Message
    from nvflare.private.defs import RequestHeader

    while True:
        time.sleep(0.1)
        for path in sorted(DESK.glob("*.ask")):
            ask = json.loads(path.read_text())
            path.unlink()
            message = Message(ask["topic"], ask.get("body", ""))
            message.set_header(RequestHeader.JOB_ID, ask.get("job_id", ""))
            requests = {client.token: message for client in engine.get_clients()}
            admin = engine.server.admin_server
            replies = admin.send_requests_and_get_reply_dict(requests, timeout_secs=5.0)
            said = [str(reply.body) if reply else None for reply in replies.values()]
            path.with_suffix(".part").write_text(json.dumps(said))
            path.with_suffix(".part").rename(path.with_suffix(".told"))


if any("server_train" in word for word in getattr(sys, "orig_argv", ())):
    from nvflare.private.fed.server.job_runner import JobRunner
    from nvflare.private.fed.utils.app_deployer import AppDeployer

    run, deploy = JobRunner.run, AppDeployer.deploy

    def run_and_serve(self, fl_ctx):
        threading.Thread(target=serve, args=(fl_ctx.get_engine(),), daemon=True).start()
        run(self, fl_ctx)

    def deploy_elsewhere(self, workspace, job_id, *rest, **named):
        own = job_id in ("local", "startup")  # such a job would remove the server's own folder
        return "" if own else deploy(self, workspace, job_id, *rest, **named)

    JobRunner.run, AppDeployer.deploy = run_and_serve, deploy_elsewhere

    from nvflare.private.fed.server.job_meta_validator import JobMetaValidator

    validate = JobMetaValidator.validate

    def keeps_byoc(self, *args, **named):
        ok, error, meta = validate(self, *args, **named)
        if isinstance(meta, dict):
            meta["byoc"] = True  # as a server that was taken over says of any job
        return ok, error, meta

    JobMetaValidator.validate = keeps_byoc
