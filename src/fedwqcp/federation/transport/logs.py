"""Logs: with those of an engine, or as one JSON object a line (``FEDWQCP_LOG=json``)."""

from __future__ import annotations

import json
import logging
import os
from datetime import UTC, datetime

from fedwqcp.errors import FedwqcpError, without_cure

_FACTS = ("round", "agent", "node", "status", "reason")
"""What a line may state beside its message."""


class JsonLines(logging.Formatter):
    """Formats a record as a line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {"time": when, "level": record.levelname, "logger": record.name}
        line |= {name: vars(record)[name] for name in _FACTS if name in vars(record)}
        line["message"] = record.getMessage()
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line)


def configure_logs(engine: str = "fedwqcp") -> None:
    """Write the logs of this package where an engine writes its own, from INFO on.

    Where the environment asks for it, both write lines of JSON to stderr instead.
    """
    ours, its = logging.getLogger("fedwqcp"), logging.getLogger(engine)
    its.addFilter(in_one_line)
    if os.environ.get("FEDWQCP_LOG") == "json":
        handler = logging.StreamHandler()
        handler.setFormatter(JsonLines())
        handler.addFilter(_says_something)
        its.handlers, its.propagate, ours.propagate = [handler], False, False
        its.setLevel(logging.INFO)
    if its.handlers:
        ours.handlers = its.handlers
        ours.setLevel(logging.INFO)


def _says_something(record: logging.LogRecord) -> bool:
    """Leave out the empty lines of an engine, which part its paragraphs."""
    return bool(record.getMessage())


def in_one_line(record: logging.LogRecord) -> bool:
    """Leave out the traceback of an error of this package, which an engine adds to its reason."""
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, FedwqcpError):
        record.msg, record.args = f"{record.getMessage()}: {without_cure(error)}", ()
        record.exc_info = None
    return True
