"""Logs as one JSON object a line, for programs that collect them: ``FEDWQCP_LOG=json``."""

from __future__ import annotations

import json
import logging
import os
from datetime import UTC, datetime

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


def configure_logs(*names: str) -> None:
    """Let these loggers write lines of JSON to stderr where the environment asks for them."""
    if os.environ.get("FEDWQCP_LOG") != "json":
        return
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    for name in names:
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.INFO)
