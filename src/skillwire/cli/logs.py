"""Log lines on standard error: text made printable, or one JSON object per line."""

from __future__ import annotations

import json
import logging
import sys
import time

from skillwire.cli.output import printable, verbosity


class _TextFormatter(logging.Formatter):
    """Log lines may quote what a client sent. Each is one line; of a traceback, only the error."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(f"skillwire: {_kind(record)}: {_message(record)}")


class _JsonFormatter(logging.Formatter):
    """One JSON object per line. The fields of an access log record are members of it."""

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, object] = {
            "time": f"{moment}.{int(record.msecs):03}Z",
            "level": record.levelname.lower(),
        }
        fields = getattr(record, "fields", None)
        if isinstance(fields, dict):
            line |= {"event": _kind(record), **fields}
        else:
            line["message"] = _message(record)
        return json.dumps(line)


def log_to_stderr(*, as_json: bool = False, access_log: bool = False, changes: bool = False) -> None:
    """Send warnings to standard error; with `--verbose` also what libraries do.

    `access_log` and `changes` add a line for each HTTP request and for each skill that changed.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonFormatter() if as_json else _TextFormatter())
    logging.basicConfig(
        level=(logging.ERROR, logging.WARNING, logging.INFO)[verbosity() + 1], handlers=[handler], force=True
    )
    logging.getLogger("skillwire.access").setLevel(logging.INFO if access_log else logging.CRITICAL)
    logging.getLogger("skillwire.changes").setLevel(
        logging.INFO if changes and verbosity() >= 0 else logging.CRITICAL
    )


def _kind(record: logging.LogRecord) -> str:
    """The level, or what an informational line is about."""
    area = record.name.rpartition(".")[2]
    return area if area in ("access", "changes") else record.levelname.lower()


def _message(record: logging.LogRecord) -> str:
    error = record.exc_info[1] if record.exc_info else None
    text = record.getMessage()
    return text if error is None else f"{text}: {type(error).__name__}: {error}"
