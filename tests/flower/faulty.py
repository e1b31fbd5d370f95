"""A ClientApp whose site shows the fault that the file ``fault.txt`` in its home names.

Tests copy it into an app of theirs, to see what the server makes of such a site.
"""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from fedwqcp.federation.transport.flower import answer_with, from_files

CLAIMS = {
    "claims NaN": (b"threshold", b"NaN"),
    "claims infinity": (b"threshold", b"Infinity"),
    "claims an impossible threshold": (b"threshold", b"999.0"),
    "claims an absurd n": (b"n", b"1000000000000"),
}


def home(context: Context) -> Path:
    """Folder of the site."""
    return Path(str(context.node_config["folder"])).parent


def fault(context: Context) -> str:
    """What the site does wrong."""
    path = home(context) / "fault.txt"
    return path.read_text() if path.exists() else ""


def shown(context: Context) -> None:
    """Tell the test, and the site that waits for the others, that the fault was shown."""
    (home(context) / "shown.txt").touch()


def outputs(context: Context):
    """Faults of the computation, which the site's own guard must catch."""
    what = fault(context)
    if what == "answers last":
        others = home(context).parent
        faults = [p for p in others.glob("*/fault.txt") if p.read_text() != what]
        while not all(path.with_name("shown.txt").exists() for path in faults):
            time.sleep(0.1)
    elif what:
        shown(context)
    if what == "raises":
        raise RuntimeError((home(context) / "secret.txt").read_text())
    if what == "hangs":
        time.sleep(600)
    if what == "dies":
        os._exit(9)
    return from_files(context)


def misbehave(message: Message, context: Context, call_next) -> Message:
    """Faults of the reply, which the server must see."""
    what = fault(context)
    if not message.metadata.message_type.endswith("ask"):
        return call_next(message, context)
    if what == "is gone":
        shown(context)
        os._exit(9)
    reply = call_next(message, context)
    fields = dict(reply.content["fedwqcp"])
    if what == "sends garbage":
        fields |= {"status": "ok", "body": bytes(range(256))}
    elif what == "sends nothing":
        fields |= {"status": "ok", "body": b""}
    elif what == "has another nonce":
        fields["nonce"] = "0" * 32
    elif what == "is late":
        while not list(Path(str(context.run_config["records"])).glob("*/release.json")):
            time.sleep(0.1)
    elif what in CLAIMS:
        key, value = CLAIMS[what]
        was = fields["body"]
        fields["body"] = re.sub(b'("%s": ?)[^,}]+' % key, rb"\g<1>" + value, was)
        assert fields["body"] != was
    return Message(RecordDict({"fedwqcp": ConfigRecord(fields)}), reply_to=message)


app = ClientApp(mods=[misbehave])
answer_with(app, outputs)
