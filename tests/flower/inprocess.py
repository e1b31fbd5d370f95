"""A grid within this process, nodes on it, and replies changed on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from flwr.app import ConfigRecord, Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity
from local_federation import make_named_folder

from fedwqcp.federation.transport.flower import client_app

Tamper = Callable[[int, Message, Message], list[Message]]
"""From a node, a question and the true reply to what the grid delivers instead."""


class InProcessGrid(Grid):
    """Delivers each message to a ClientApp at once.

    Parameters
    ----------
    apps : mapping of int to ClientApp
        By node id.
    configs : mapping of int to dict
        Node configuration, by node id.
    tamper : callable, optional
        What is delivered instead of the true reply; by default the reply itself.
    """

    def __init__(
        self,
        apps: Mapping[int, ClientApp],
        configs: Mapping[int, dict[str, object]],
        tamper: Tamper | None = None,
    ) -> None:
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1
        self.apps = apps
        for config in configs.values():
            make_named_folder(config)
        self.contexts = {
            node: Context(1, node, dict(config), RecordDict(), {})
            for node, config in configs.items()
        }
        self.tamper = tamper
        self.sent: list[Message] = []
        self.replies: list[Message] = []

    def set_run(self, run: object) -> None:
        raise NotImplementedError

    @property
    def run(self):
        raise NotImplementedError

    def create_message(self, *args: object, **options: object) -> Message:
        raise NotImplementedError

    def get_node_ids(self) -> Iterable[int]:
        return list(self.contexts)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        ids = []
        for message in messages:
            message.metadata.__dict__["_message_id"] = f"m{len(self.sent)}"
            node = message.metadata.dst_node_id
            self.sent.append(message)
            ids.append(message.metadata.message_id)
            reply = self.apps[node](message, self.contexts[node])
            self.replies += self.tamper(node, message, reply) if self.tamper else [reply]
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        wanted = set(message_ids)
        found = [r for r in self.replies if r.metadata.reply_to_message_id in wanted]
        self.replies = [r for r in self.replies if r.metadata.reply_to_message_id not in wanted]
        return found

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        return self.pull_messages(self.push_messages(messages))


def lost(message: Message) -> Message:
    """What the engine delivers for a node that is gone."""
    return Message(Error(5, "node unavailable"), reply_to=message)


def sites(folder, data, tamper=None, names=None, own=None, outputs=None, **config):
    """Nodes 100, 101, ..., one for each name, each with a folder of that number.

    Their app knows the data of every agent; `own` has more settings of single agents.
    """
    app = client_app(outputs or (lambda c: data[c.node_config["agent"]]), watchdog=False)
    configs = {
        100 + at: {
            "agent": name,
            "folder": str(folder / str(100 + at)),
            "honest-others": len(data) - 1,
            **config,
            **(own or {}).get(name, {}),
        }
        for at, name in enumerate(names or data)
    }
    return InProcessGrid(dict.fromkeys(configs, app), configs, tamper)


def with_fields(message, reply, **changes):
    """The reply with some of its fields changed."""
    fields = {**reply.content["fedwqcp"], **changes}
    return Message(RecordDict({"fedwqcp": ConfigRecord(fields)}), reply_to=message)
