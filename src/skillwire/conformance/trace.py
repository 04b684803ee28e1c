"""TraceFile: the raw traffic of a run, one JSON object per line, with secrets removed."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final
from urllib.parse import quote

from skillwire.errors import SourceError
from skillwire.text import redact

_LONGEST: Final = 256 * 1024


class TraceFile:
    """Writes to `path` until it is closed. `secrets` never reach the file, wherever they occur."""

    def __init__(self, path: Path, secrets: Iterable[str] = ()) -> None:
        kept = set(secrets)
        self._secrets = kept | {quote(secret, safe="") for secret in kept}
        self._secrets |= {json.dumps(secret)[1:-1] for secret in kept}
        self._start = time.monotonic()
        self._connection = 0
        self._revision = ""
        self._path = path
        self._problem: OSError | None = None
        try:
            self._file = path.open("w", encoding="utf-8")
        except OSError as error:
            raise self._cannot_write(error) from None

    def connection(self, revision: str) -> None:
        """Count a new connection, on which this protocol revision is used."""
        self._connection += 1
        self._revision = revision

    def __call__(self, kind: str, text: bytes) -> None:
        line: dict[str, object] = {
            "seconds": round(time.monotonic() - self._start, 6),
            "connection": self._connection,
            "revision": self._revision,
            "kind": kind,
        }
        line["text"] = redact(text[:_LONGEST].decode("utf-8", "replace"), self._secrets)
        if len(text) > _LONGEST:
            line["bytes"] = len(text)
        # Only ASCII: what a server wrote cannot control the terminal that shows the file.
        try:
            self._file.write(json.dumps(line) + "\n")
        except OSError as error:
            self._problem = error

    def close(self) -> None:
        try:
            self._file.close()
        except OSError as error:
            self._problem = error

    def check(self) -> None:
        """Raise a `SourceError` if something could not be written. Call it after `close`."""
        if self._problem is not None:
            raise self._cannot_write(self._problem)

    def _cannot_write(self, error: OSError) -> SourceError:
        return SourceError(f"cannot write the trace {self._path}: {error.strerror}")
