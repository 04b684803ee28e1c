"""What a gateway records: the decisions of its callers, and the audit log, one JSON object on each line.

The log says who listed, loaded, read, approved or was refused what. Nothing here needs the MCP SDK: a gateway
answers its first lists before that is imported.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import threading
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal, Protocol, TypeAlias

from skillwire.consent import ApprovalStatus, ConsentStore
from skillwire.errors import ApprovalRequired, SkillwireError, SourceError
from skillwire.gateway.upstreams import Offer
from skillwire.skill import SetDigest, SkillResource, digest_of
from skillwire.trust import FileChange, ResourceSet, Scan

Act: TypeAlias = Literal["list", "get", "load", "read", "approve", "refuse", "run"]

CLIENT: ContextVar[str] = ContextVar("client", default="stdio")
"""Where the request that is served comes from: the address of an HTTP client, or `stdio`."""

_REOPEN: Final = b""
_MOST_WAITING: Final = 100_000
_CLOSE_SECONDS: Final = 5.0

_log = logging.getLogger("skillwire.gateway")


class Audit(Protocol):
    """Where a gateway records what was done."""

    @property
    def problem(self) -> str:
        """Why nothing can be recorded now; empty while it can. After `close`, what was not recorded."""
        ...

    @property
    def waiting(self) -> int:
        """How many lines are not where they belong yet."""
        ...

    @property
    def lost(self) -> int:
        """How many lines could not be recorded."""
        ...

    def write(self, act: Act, *, caller: str, **details: object) -> None: ...
    def reopen(self) -> None: ...
    def close(self) -> None: ...


class AuditLog:
    """An append-only file. `reopen` begins a new one after the old was renamed."""

    def __init__(self, path: Path) -> None:
        """Open the file, or raise a `SourceError`: a gateway that must keep a log does not start without
        it."""
        self.path = path
        self.problem = ""
        """Why lines cannot be written now; empty while they can."""
        self._descriptor = _open(path)
        self._lines: queue.Queue[bytes | None] = queue.Queue(_MOST_WAITING)
        self._reopen = threading.Event()
        self.lost = 0
        """How many lines could not be written."""
        self._noted = 0
        self._thread = threading.Thread(target=self._run, name="skillwire-audit", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """How many lines are not in the file yet."""
        return self._lines.qsize()

    def write(self, act: Act, *, caller: str, **details: object) -> None:
        """Append a line. `details` with empty values are left out."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        fields = {"time": now, "act": act, "caller": caller, "client": CLIENT.get(), **details}
        line = {key: value for key, value in fields.items() if value not in (None, "") or key == "caller"}
        try:
            self._lines.put_nowait(json.dumps(line, ensure_ascii=False).encode("utf-8", "replace") + b"\n")
        except queue.Full:
            self.lost += 1

    def reopen(self) -> None:
        """Open the path again after the lines so far: for log rotation, on SIGHUP."""
        try:
            self._lines.put_nowait(_REOPEN)
        except queue.Full:
            self._reopen.set()  # The next line reopens it.

    def close(self) -> None:
        """Write what is waiting, and close the file. `problem` says if something is left."""
        with suppress(queue.Full):
            self._lines.put(None, timeout=_CLOSE_SECONDS)
        self._thread.join(_CLOSE_SECONDS)
        left = self.lost + (self.waiting if self._thread.is_alive() else 0)
        if left:
            self.problem = f"{left:,} lines of the audit log {self.path} were lost: it could not be written"

    def _run(self) -> None:
        while (line := self._lines.get()) is not None:
            if line is _REOPEN or self._reopen.is_set():
                self._reopen.clear()
                self._open_again()
            if line is _REOPEN:
                continue
            lost = self.lost - self._noted
            if lost:
                note = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "lost": lost}
                line = json.dumps(note).encode() + b"\n" + line
            if self._append(line):
                self._noted += lost
        os.close(self._descriptor)

    def _open_again(self) -> None:
        try:
            descriptor = _open(self.path)
        except SourceError as error:
            self._complain(str(error))
            return
        os.close(self._descriptor)
        self._descriptor = descriptor

    def _append(self, line: bytes) -> bool:
        """One write for a line, so that lines of several processes do not mix. A partial line is
        terminated."""
        try:
            written = os.write(self._descriptor, line)
            if written < len(line):
                os.write(self._descriptor, b"\n")
                raise OSError(0, "the disk is full")
        except OSError as error:
            self.lost += 1
            self._complain(f"the audit log {self.path} cannot be written: {error.strerror}")
            return False
        self.problem = ""
        return True

    def _complain(self, problem: str) -> None:
        if problem != self.problem:
            _log.error("%s", problem)
        self.problem = problem


def _open(path: Path) -> int:
    flags = (
        os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
    )
    try:
        return os.open(path, flags, 0o600)
    except OSError as error:
        raise SourceError(f"the audit log {path} cannot be opened: {error.strerror}") from None


@dataclass(frozen=True, slots=True)
class CallerQuestion:
    """A question to a caller: may this skill be loaded with exactly these files?"""

    offer: Offer
    digest: SetDigest | None
    """Of all its files; `None` for a skill without digests, where the answer is for `files` alone."""
    files: tuple[SkillResource, ...]
    """Every file that a yes covers."""
    changes: tuple[FileChange, ...] = ()
    """Differences from the version that was approved before."""
    scans: tuple[Scan, ...] = ()
    """The findings of the scanners of the policy."""

    @property
    def seen(self) -> ResourceSet:
        return frozenset((file.uri, file.digest) for file in self.files)

    @property
    def subject(self) -> tuple[str, str, str]:
        """The skill and the set of files, as plain values to compare and to sign."""
        seen = "".join(sorted(f"{uri} {digest}\n" for uri, digest in self.seen))
        return self.offer.skill.origin.label, self.offer.skill.uri, self.digest or digest_of(seen.encode())


class Unapproved(ApprovalRequired):
    """A caller has to approve a skill before it is loaded. `question` is `None` if nobody may be asked."""

    def __init__(
        self,
        message: str,
        *,
        offer: Offer,
        reason: str,
        question: CallerQuestion | None,
        status: ApprovalStatus,
        policy: str = "",
    ) -> None:
        super().__init__(message, reason=reason, origin=offer.skill.origin.label, uri=offer.uri)
        self.policy = policy
        """Why the policy refuses it, whoever approves it; empty if it does not."""
        self.question = question
        self.offer = offer
        self.status = status
        """The state of the skill for this caller, in the words that the user sees everywhere."""


class Approvals:
    """The records of the callers' decisions, which are those of the host, and whether they can be read."""

    def __init__(self, store: ConsentStore) -> None:
        self.store = store
        self.problem = ""
        """Why approvals cannot be read now. Nothing that needs one is loaded then."""

    async def refresh(self) -> None:
        """Read what other processes approved and revoked."""
        try:
            await self.store.refresh()
            self.problem = ""
        except SkillwireError as error:
            if not self.problem:
                _log.warning("%s", error)
            self.problem = str(error)
