"""Scans: runs the scanners of a policy in the sandbox, and knows what they found.

A scan is for exactly one set of files and one command. Its findings are cached on disk, so that the same
bytes are not scanned twice. But the user can edit that cache: a threshold of the machine or of the
organization is decided only by a scan that was made through the same `Scans`.

Whatever prevents a scan is a `problem` of it: a threshold refuses then, and otherwise a person is told.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

import anyio
import anyio.to_thread

from skillwire.documents import DocumentError, read_json
from skillwire.errors import LimitExceeded, SandboxUnavailable, SkillwireError, SourceError
from skillwire.files import file_stamp, make_folder, read_regular, write_atomic
from skillwire.host.directories import state_paths
from skillwire.host.policies import check_owner
from skillwire.limits import DEFAULT_LIMITS, MIB, Limits
from skillwire.skill import SetDigest, SkillEntry, set_digest
from skillwire.text import safe_line
from skillwire.trust import (
    Finding,
    FindingLevel,
    LayerKind,
    Policy,
    Scan,
    Scanner,
    VerifiedFile,
    make_scan,
    parse_sarif,
    shown_digest,
)

Fetch: TypeAlias = Callable[[], Awaitable[Sequence[VerifiedFile]]]
"""Gives every file of a skill, verified."""

_KEPT: Final = 10_000
_STORED: Final = 2_000
_RETRY_SECONDS: Final = 60
"""A scan that failed is not repeated before that: each may take its whole time."""
_USERS_OWN: Final = (LayerKind.OPTION, LayerKind.USER, LayerKind.PROJECT)
_SUCCESS: Final = (0, 1)  # Most scanners end with 1 if they found something.


@dataclass(frozen=True, slots=True)
class _Known:
    scan: Scan
    at: float
    by_us: bool
    """Whether it was scanned here, and not read from disk."""


_Key: TypeAlias = tuple[str, str]


class Scans:
    """What scanners found. A host has one, and hosts of one gateway share one."""

    def __init__(self) -> None:
        self.revision = 0
        """A number that changes with every scan."""
        self._known: OrderedDict[_Key, _Known] = OrderedDict()
        self._turns: dict[_Key, threading.Lock] = {}
        self._guard = threading.Lock()
        self._slots: anyio.CapacityLimiter | None = None

    def known(self, policy: Policy, entry: SkillEntry) -> Mapping[str, Scan] | None:
        """The known scans of a skill, without scanning it; `None` if one that decides about it is missing."""
        if not policy.scanners:
            return None
        try:
            digest = shown_digest(entry)
        except SkillwireError:
            return None  # It is broken, and refused as such.
        if digest is None:
            problem = "it lists no digests, so its files may be others at each request"
            return {one.key: Scan(scanner=one.name, problem=problem) for one in policy.scanners}
        found: dict[str, Scan] = {}
        for one in policy.scanners:
            scan = self._remembered(policy, one, digest)
            if scan is not None:
                found[one.key] = scan
        return found if policy.thresholds <= found.keys() else None

    async def scan(
        self,
        policy: Policy,
        entry: SkillEntry,
        fetch: Fetch,
        *,
        everything: bool = True,
        limits: Limits = DEFAULT_LIMITS,
    ) -> tuple[Scan, ...]:
        """Scan a skill, as far as that is not known yet; without `everything`, by scanners that may refuse
        it.
        """
        wanted = [one for one in policy.scanners if everything or one.key in policy.thresholds]
        digest = shown_digest(entry) if wanted else None
        if digest is None:
            return tuple((self.known(policy, entry) or {}).values())
        missing = await anyio.to_thread.run_sync(self._missing, policy, wanted, digest)
        if missing:
            try:
                files = await fetch()
            except SourceError as error:
                failed = Scan(
                    scanner="", problem=f"its files cannot be read ({safe_line(str(error), limit=200)})"
                )
                for one in missing:
                    self._remember(one, digest, replace(failed, scanner=one.name))
            else:
                await self._in_slot(partial(self.run, policy, missing, files, limits=limits))
        scans = (self._remembered(policy, one, digest) for one in wanted)
        return tuple(scan for scan in scans if scan is not None)

    async def _in_slot(self, job: Callable[..., None]) -> None:
        """Run a job in a thread, a few at once. A caller that gives up ends it."""
        if self._slots is None:
            self._slots = anyio.CapacityLimiter(DEFAULT_LIMITS.scans_at_once)
        stopped = threading.Event()
        try:
            await anyio.to_thread.run_sync(
                partial(job, stopped=stopped), limiter=self._slots, abandon_on_cancel=True
            )
        finally:
            stopped.set()

    def run(
        self,
        policy: Policy,
        scanners: Iterable[Scanner],
        files: Sequence[VerifiedFile],
        *,
        stopped: threading.Event | None = None,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        """Scan these files with each scanner that has not scanned them yet; blocks."""
        # What is known then is bound to what was scanned, whatever an entry says.
        digest = set_digest((file.path, file.digest) for file in files)
        for one in scanners:
            with self._guard:
                turn = self._turns.setdefault((digest, one.key), threading.Lock())
            with turn:
                if self._remembered(policy, one, digest) is None:
                    decisive = _is_decisive(policy, one)
                    scan = run_scanner(one, files, decisive=decisive, stopped=stopped, limits=limits)
                    if stopped is None or not stopped.is_set():
                        self._remember(one, digest, scan, by_us=True)
            with self._guard:
                self._turns.pop((digest, one.key), None)

    def _remembered(self, policy: Policy, scanner: Scanner, digest: str) -> Scan | None:
        with self._guard:
            known = self._known.get(_key(scanner, digest))
        if known is None or not (known.by_us or not _is_decisive(policy, scanner)):
            return None
        if known.scan.problem and time.monotonic() - known.at > _RETRY_SECONDS:
            return None
        return replace(known.scan, scanner=scanner.name)

    def _remember(self, scanner: Scanner, digest: str, scan: Scan, *, by_us: bool = False) -> None:
        key = _key(scanner, digest)
        with self._guard:
            self._known[key] = _Known(scan, time.monotonic(), by_us)
            self._known.move_to_end(key)
            while len(self._known) > _KEPT:
                self._known.popitem(last=False)
            self.revision += 1
        if by_us and not scan.problem:
            _store(key, scan)

    def _missing(self, policy: Policy, scanners: Iterable[Scanner], digest: SetDigest) -> list[Scanner]:
        """The scanners whose findings are neither known here nor, where that counts, stored; blocks."""
        missing: list[Scanner] = []
        for one in scanners:
            if self._remembered(policy, one, digest) is not None:
                continue
            stored = None if _is_decisive(policy, one) else _read(_key(one, digest), one.name)
            if stored is None:
                missing.append(one)
            else:
                self._remember(one, digest, stored)
        return missing


def run_scanner(
    scanner: Scanner,
    files: Sequence[VerifiedFile],
    *,
    decisive: bool = False,
    stopped: threading.Event | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Scan:
    """Run one scanner on files, which it finds in `/skill`; blocks. It has no network, no home, no variables.

    A scan that is `decisive` for others than the user runs only programs that the user cannot replace.
    """
    from skillwire.sandbox import SandboxPlan, find_bubblewrap, run, system_folders
    from skillwire.sandbox.plan import SYSTEM

    program = scanner.command[0]
    if absent := next((path for path in (program, *scanner.reads) if not Path(path).exists()), ""):
        return Scan(scanner=scanner.name, problem=f"there is no {safe_line(absent, limit=200)}")
    is_elsewhere = not program.startswith(tuple(f"{folder}/" for folder in (*SYSTEM, *scanner.reads)))
    plan = SandboxPlan(
        script="",
        interpreter=scanner.command,
        system=system_folders(),
        trees=(*scanner.reads, *([program] if is_elsewhere else [])),
        limits=replace(
            limits, script_seconds=scanner.seconds, script_output_bytes=limits.document_bytes - MIB
        ),
    )
    try:
        sandbox = find_bubblewrap()
        for path in (sandbox, program, *scanner.reads) if decisive else ():
            check_owner(Path(path))
        result = run(plan, files, stopped=stopped, program=sandbox)
    except (SandboxUnavailable, SourceError, LimitExceeded, OSError) as error:
        return Scan(scanner=scanner.name, problem=safe_line(str(error), limit=500))
    if result.ended:
        return Scan(scanner=scanner.name, problem=result.ended)
    scan = parse_sarif(result.stdout, scanner.name)
    if result.exit_code not in _SUCCESS:
        scan = Scan(scanner=scanner.name, problem=f"it ended with {result.exit_code}")
    said = result.stderr.strip().rpartition("\n")[2] if scan.problem else ""
    return replace(scan, said=safe_line(said, limit=200))


# What is known


def _is_decisive(policy: Policy, scanner: Scanner) -> bool:
    """Whether a threshold that the user cannot change depends on a scanner."""
    return any(
        one.refuse is not None and one.key == scanner.key
        for layer in policy.layers
        if layer.kind not in _USERS_OWN
        for one in layer.scanners
    )


def _key(scanner: Scanner, digest: str) -> _Key:
    """A command and its files as they are now: a new version of a scanner scans again."""
    paths = [path for path in (*scanner.command, *scanner.reads) if path.startswith("/")]
    state = json.dumps([scanner.key, [(path, file_stamp(Path(path))) for path in paths]])
    return digest, hashlib.sha256(state.encode()).hexdigest()


# On disk


def _folder() -> Path:
    return state_paths().cache.parent / "scans"


def _place(key: _Key) -> Path:
    return _folder() / f"{hashlib.sha256(' '.join(key).encode()).hexdigest()[:32]}.json"


def _store(key: _Key, scan: Scan) -> None:
    rows = [[one.level, one.rule, one.message, one.path, one.line] for one in scan.findings]
    document = {"key": key, "counts": scan.counts, "findings": rows}
    try:
        make_folder(_folder())
        stored = sorted(_folder().iterdir(), key=lambda path: path.stat().st_mtime)
        for path in stored[: max(len(stored) - _STORED, 0)]:
            path.unlink(missing_ok=True)
        write_atomic(_place(key), json.dumps(document).encode())
    except OSError:
        return  # It is scanned again the next time.


def _read(key: _Key, scanner: str) -> Scan | None:
    """A stored scan; `None` for anything else, such as a file that somebody edited without care."""
    with suppress(OSError, DocumentError, SkillwireError, ValueError, TypeError, LookupError):
        document: dict[str, Any] = read_json(read_regular(_place(key), DEFAULT_LIMITS.document_bytes))
        if tuple(document["key"]) != key:
            return None
        findings = [
            Finding(
                FindingLevel(level),
                safe_line(str(rule), limit=100),
                safe_line(str(message), limit=300),
                safe_line(str(path), limit=300),
                int(line),
            )
            for level, rule, message, path, line in document["findings"]
        ]
        counts = tuple((FindingLevel(level), int(count)) for level, count in document["counts"])
        return replace(make_scan(scanner, findings), counts=tuple(sorted(counts, reverse=True)))
    return None
