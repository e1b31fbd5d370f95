"""NVIDIA FLARE within one process: its tasks and messages between a controller and executors."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from time import sleep

from nvflare.apis.client import Client
from nvflare.apis.fl_constant import FLContextKey, ReservedKey
from nvflare.apis.fl_context import FLContext, FLContextManager
from nvflare.apis.impl.wf_comm_server import WFCommServer
from nvflare.apis.signal import Signal
from nvflare.apis.utils.decomposers import flare_decomposers
from nvflare.apis.workspace import Workspace
from nvflare.fuel.utils import fobs

from fedwqcp.federation.site_folder import make_site_folder
from fedwqcp.federation.transport.nvflare import CalibrationController, CalibrationExecutor
from fedwqcp.federation.transport.nvflare.controller import TaskCarrier
from fedwqcp.federation.transport.nvflare.deployment import SETTINGS
from fedwqcp.federation.transport.session import Session
from fedwqcp.federation.transport.settings import Timeouts

flare_decomposers.register()
QUICK = Timeouts(deadline=5.0, grace=1.0, poll=0.01)


class Engine:
    """The server's engine as far as controllers see it."""

    def __init__(self, names, root):
        self.clients = [Client(name, f"token-{name}") for name in names]
        self.contexts = FLContextManager(
            self, "coordinator", "job", public_stickers={}, private_stickers={}
        )
        self.panics = []
        with self.new_context() as context:
            context.set_prop(FLContextKey.WORKSPACE_ROOT, str(root), sticky=True)

    def new_context(self):
        return self.contexts.new_context()

    def get_clients(self):
        return self.clients

    def fire_event(self, event, context):
        if "fatal" in event:
            self.panics.append(context.get_prop(FLContextKey.EVENT_DATA))


class OwnData(CalibrationExecutor):
    """A site that has its data in memory, and does without a process for each answer."""

    watchdog = False

    def __init__(self, data):
        super().__init__()
        self.data = data

    def outputs(self, settings, fl_ctx):
        return self.data() if callable(self.data) else self.data


@contextmanager
def federation(home, data, terms=None, tamper=None, settings="max-share = 1.0\nmin-class = 1\n"):
    """A controller, and sites that fetch their tasks in threads of their own.

    `tamper` returns the submissions that come instead of a site's reply to a task.
    """
    engine = Engine(data, home)
    communicator, controller = WFCommServer(0.01), CalibrationController(terms or {}, 0.01)
    controller.set_communicator(communicator)
    over, errors = threading.Event(), []
    with engine.new_context() as context:
        communicator.initialize_run(context)
        controller.initialize(context)

        def serve(client, executor):
            own = site_context(client.name, home / client.name, settings)
            try:
                while not over.wait(0.005):
                    with engine.new_context() as asked:
                        name, number, task = communicator.process_task_request(client, asked)
                        if not name:
                            continue
                        reply = executor.execute(name, carried(task), own, Signal())
                        for each in tamper(client.name, name, reply) if tamper else [reply]:
                            communicator.process_submission(
                                client, name, number, carried(each), asked
                            )
            except Exception as error:
                errors.append(error)

        threads = [
            threading.Thread(target=serve, args=(client, executor_of(data[client.name])))
            for client in engine.clients
        ]
        for thread in threads:
            thread.start()
        try:
            yield controller, context
        finally:
            over.set()
            for thread in threads:
                thread.join()
            communicator.finalize_run(context)
            sleep(0.02)  # until FLARE's own thread has seen it
    assert not errors, errors


def executor_of(data):
    return data if isinstance(data, CalibrationExecutor) else OwnData(data)


def site_context(name, home, settings):
    """What FLARE tells an executor: its name, and where its startup kit lies."""
    for folder in ("startup", "local"):
        (home / folder).mkdir(parents=True, exist_ok=True)
    if settings is not None:
        if "folder" not in settings:
            settings += f'folder = "../{home.name}.kept"\n'
            make_site_folder(home.with_name(f"{home.name}.kept"))
        (home / "local" / SETTINGS).write_text(settings)
    context = FLContext()
    context.set_prop(ReservedKey.IDENTITY_NAME, name, private=False, sticky=False)
    workspace = Workspace(str(home), name)
    context.set_prop(FLContextKey.WORKSPACE_OBJECT, workspace, private=True, sticky=False)
    return context


def carried(shareable):
    """What arrives of a message: FLARE's own bytes, read again."""
    return fobs.loads(fobs.dumps(shareable))


def run(round, home, data, timeouts=QUICK, record=None, **options):
    """Hold one round over FLARE's classes."""
    with federation(home, data, **options) as (controller, context):
        nodes = {name: name for name in round.agents}
        carrier = TaskCarrier(controller, Signal(), context, timeouts)
        return Session(carrier, round, timeouts, nodes, record).run()
