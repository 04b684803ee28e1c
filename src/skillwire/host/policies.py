"""The policy that holds on this machine: its files, the organization's signed policy, and signed feeds.

A file that is there and cannot be used, whoever wrote it, refuses everything with one line that says why. No
environment variable and no option takes a layer away: the machine's file is at one fixed place, which counts
only if nobody but the administrator can write it.

What is fetched is verified before it is stored, and again whenever it is read. The last good version counts
until it expires, and for the grace time after that; a version with a lower serial number never replaces it.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import stat
import sys
import threading
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

from skillwire.consent import approvals_signature, imported
from skillwire.documents import DocumentError, read_json
from skillwire.errors import SkillwireError, SourceError
from skillwire.files import file_stamp, make_folder, read_regular, unreadable, write_atomic
from skillwire.host.config.file import PolicyFile, parse_policy
from skillwire.host.directories import state_paths
from skillwire.limits import DEFAULT_LIMITS
from skillwire.skill import SkillEntry, digest_of
from skillwire.text import redact_url, safe_line
from skillwire.trust import (
    NO_POLICY,
    Allowed,
    Decision,
    Denied,
    LayerKind,
    Origin,
    Policy,
    PolicyLayer,
    Publisher,
    Refusal,
    ResourceSet,
    TeamApproval,
    check_signature,
    resource_set,
)

MACHINE_FILE: Final = Path(
    {
        "darwin": "/Library/Application Support/skillwire/policy.toml",  # Untested.
        "win32": "C:\\ProgramData\\skillwire\\policy.toml",  # Untested.
    }.get(sys.platform, "/etc/skillwire/policy.toml")
)
"""The policy of the machine. No variable moves it."""
PROJECT_FILE: Final = "skillwire-policy.toml"
USER_FILE: Final = "policy.toml"
SIGNED_POLICY: Final = "skillwire-policy.toml"
"""The name under which a policy is signed, so that no other signature is one of a policy."""
SIGNED_REVOCATIONS: Final = "skillwire-revoked.json"
SIGNATURE_SUFFIX: Final = ".sig"
_FETCH_AFTER_SECONDS: Final = 20
_RETRY_AFTER_SECONDS: Final = 40
_FETCH_SECONDS: Final = 5
_LOG_BYTES: Final = 1024 * 1024
_ADMINISTRATOR: Final = 0


@dataclass(frozen=True, slots=True)
class SignedApproval:
    """An approval of a set of files, from some sources, that somebody signed."""

    sources: frozenset[str]
    files: ResourceSet
    approval: TeamApproval


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedPolicy:
    """The policy that holds here, and where it comes from."""

    policy: Policy = NO_POLICY
    files: tuple[PolicyFile, ...] = ()
    remarks: tuple[str, ...] = ()
    """Things that are unusual and still work, such as an organization's policy in its grace time."""
    approvals: Mapping[str, Sequence[SignedApproval]] = field(
        default_factory=dict[str, Sequence[SignedApproval]]
    )
    """Signed approvals by the URI of the skill."""
    publishers: tuple[Publisher, ...] = field(default=(), compare=False)
    loaded_at: float = field(default=0, compare=False)

    def team(self, entry: SkillEntry, sources: Iterable[str]) -> tuple[TeamApproval, ...]:
        """The signed approvals of exactly these files, from one of these sources (SEC-6)."""
        found = self.approvals.get(entry.uri)
        if not found or entry.is_dynamic:
            return ()
        files, names = resource_set(entry), frozenset(sources)
        return tuple(one.approval for one in found if one.files == files and one.sources & names)


NOTHING: Final = LoadedPolicy()


class PolicyFiles:
    """Reads the policy that holds on this machine, and remembers it until a file changes or something is due.

    Whoever decides has one: a host, an installer, a command. Two in one process may name different files.
    """

    def __init__(self, named: Iterable[Path] = ()) -> None:
        """`named` are further layers, such as those of `--policy`. They can only narrow."""
        self.named = tuple(path.absolute() for path in named)
        self._lock = threading.Lock()
        self._current: tuple[object, LoadedPolicy] | None = None

    def current(self, directory: Path | None = None) -> LoadedPolicy:
        """The policy for a directory, by default this one. Blocks: it reads what changed, fetches what is
        due.
        """
        with self._lock:
            project = (directory or Path.cwd()) / PROJECT_FILE
            known = self._current
            if known is not None and known[0] == self._state(project) and not _due(known[1]):
                return known[1]
            loaded = self.load(project)
            self._current = (self._state(project), loaded)
            return loaded

    def _state(self, project: Path) -> object:
        watched = [MACHINE_FILE, *self.named, _user_file(), project, _folder(), approvals_folder()]
        return project, tuple(_stamp(path) for path in watched)

    def load(self, project: Path) -> LoadedPolicy:
        """Read every layer, and fetch what the machine's file names if it is due."""
        files: list[PolicyFile] = []
        remarks: list[str] = []
        machine = _read_layer(MACHINE_FILE, LayerKind.MACHINE, check=check_owner)
        if machine is not None:
            files.append(machine)
            if machine.address:
                organization, remark = _organization(machine)
                files.append(organization)
                remarks += [remark] * bool(remark)
        for path, kind in [
            *((path, LayerKind.OPTION) for path in self.named),
            (_user_file(), LayerKind.USER),
            (project, LayerKind.PROJECT),
        ]:
            read = _read_layer(path, kind)
            if read is not None:
                files.append(read)
            elif kind is LayerKind.OPTION:
                problem = f"there is no {path}: check the path of --policy"
                files.append(PolicyFile(layer=PolicyLayer(kind=kind, place=str(path), problem=problem)))
        if not files:
            return NOTHING
        files = [_with_revocations(one, remarks) for one in files]
        publishers = tuple(
            Publisher.from_pem(one.name, key=pem.encode())
            for file in files
            for one in file.layer.publishers
            for pem in one.pems
        )
        approvals = _signed_approvals(files, publishers, remarks)
        return LoadedPolicy(
            policy=Policy(tuple(one.layer for one in files)),
            files=tuple(files),
            remarks=tuple(remarks),
            approvals=approvals,
            publishers=publishers,
            loaded_at=time.time(),
        )


def _stamp(path: Path) -> tuple[object, ...]:
    try:
        found = path.lstat()
    except OSError as error:
        return (error.errno,)
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino, found.st_mode, file_stamp(path)


# Files


def _user_file() -> Path:
    return state_paths().config.parent / USER_FILE


def _read_layer(
    path: Path, kind: LayerKind, *, check: Callable[[Path], None] = lambda path: None
) -> PolicyFile | None:
    """A file as a layer, or one that refuses everything; `None` if there is no such file."""
    try:
        if not os.path.lexists(path):
            return None
        check(path)
        data = read_regular(path, DEFAULT_LIMITS.document_bytes + 1)
        if len(data) > DEFAULT_LIMITS.document_bytes:
            raise SourceError(f"it has more than {DEFAULT_LIMITS.document_bytes:,} bytes")
        return parse_policy(data.decode("utf-8"), kind=kind, place=str(path))
    except (OSError, UnicodeError) as error:
        problem = f"{path} cannot be read ({unreadable(error)})"
    except SkillwireError as error:
        problem = f"{path} cannot be used: {error}"
    whom = "ask the administrator of this machine" if kind is LayerKind.MACHINE else "correct the file"
    words = safe_line(f"{problem}; nothing is used until it can be; {whom}", limit=1000)
    return PolicyFile(layer=PolicyLayer(kind=kind, place=str(path), name=kind.value, problem=words))


def check_owner(path: Path) -> None:
    """Raise a `SourceError` if others than the administrator can write a file, or a folder on the way."""
    if sys.platform == "win32":
        return  # The folder of all users is writable by administrators alone.
    real = Path(os.path.realpath(path))
    for one in (path, *path.parents, real, *real.parents):
        found = one.lstat()
        if found.st_uid != _ADMINISTRATOR:
            raise SourceError(f"{one} belongs to another user than root: make root its owner")
        if not stat.S_ISLNK(found.st_mode) and found.st_mode & 0o022 and not _is_sticky(found.st_mode):
            raise SourceError(f"others than root can write {one}: run chmod go-w on it")


def _is_sticky(mode: int) -> bool:
    """Whether only the owner of a file can replace it in this folder."""
    return stat.S_ISDIR(mode) and bool(mode & stat.S_ISVTX)


# What is fetched


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """The last good version of what is at an address, and how the last attempt to fetch it ended."""

    data: bytes = b""
    signature: bytes = b""
    tried_at: float = 0
    problem: str = ""


def _folder() -> Path:
    return state_paths().approvals.parent / "policy"


def _place(url: str, name: str) -> Path:
    return _folder() / f"{hashlib.sha256(f'{name} {url}'.encode()).hexdigest()[:32]}.json"


def _read_stored(url: str, name: str) -> Stored:
    try:
        values = read_json(read_regular(_place(url, name), 2 * DEFAULT_LIMITS.document_bytes))
        return Stored(
            data=b64decode(values["data"]),
            signature=b64decode(values["signature"]),
            tried_at=float(values["tried_at"]),
            problem=str(values["problem"]),
        )
    except (OSError, ValueError, TypeError, LookupError, SkillwireError):
        return Stored()


def _write_stored(url: str, name: str, stored: Stored) -> None:
    document = {
        "url": redact_url(url),
        "data": b64encode(stored.data).decode(),
        "signature": b64encode(stored.signature).decode(),
        "tried_at": stored.tried_at,
        "problem": stored.problem,
    }
    try:
        make_folder(_folder())
        write_atomic(_place(url, name), json.dumps(document).encode())
    except OSError:
        return  # It is fetched again the next time.


def _due(loaded: LoadedPolicy) -> bool:
    """Whether something of a policy may have to be fetched again, or has expired since."""
    fetches = any(file.address or file.revoked_feed or file.approvals_feed for file in loaded.files)
    return fetches and not 0 <= time.time() - loaded.loaded_at < _FETCH_AFTER_SECONDS


def _fetched(url: str, name: str, check: Callable[[bytes, bytes, Stored], None], *, detached: bool) -> Stored:
    """The last good version, fetched now if that is due. `check` raises for one that must not replace it."""
    stored = _read_stored(url, name)
    # A server that did not answer costs each command its deadline, so it is asked less often.
    wait = _RETRY_AFTER_SECONDS if stored.problem else _FETCH_AFTER_SECONDS
    if 0 <= time.time() - stored.tried_at < wait:
        return stored
    try:
        data, signature = _in_thread(partial(_get, url, detached))
        check(data, signature, stored)
        stored = Stored(data=data, signature=signature, tried_at=time.time())
    except SkillwireError as error:
        problem = safe_line(str(error), limit=500)
        stored = replace(stored, tried_at=time.time(), problem=problem)
    _write_stored(url, name, stored)
    return stored


async def _get(url: str, detached: bool) -> tuple[bytes, bytes]:
    from skillwire.net.http import fetch, open_client  # Few machines have a policy to fetch.

    async with open_client(DEFAULT_LIMITS) as client:
        most = DEFAULT_LIMITS.document_bytes
        data = await fetch(client, url, most=most, seconds=_FETCH_SECONDS)
        if not detached:
            return data, b""
        return data, await fetch(client, url + SIGNATURE_SUFFIX, most=most, seconds=_FETCH_SECONDS)


def _in_thread(job: Callable[[], Any]) -> tuple[bytes, bytes]:
    """Run a coroutine function to its end, whether or not this thread runs an event loop."""
    outcome: list[tuple[bytes, bytes] | BaseException] = []

    def run() -> None:
        try:
            outcome.append(asyncio.run(job()))
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join()
    [result] = outcome
    if isinstance(result, BaseException):
        raise result
    return result


def require_signature(data: bytes, signature: bytes, keys: Iterable[str], name: str) -> str:
    """Who signed a document under a name: one of these keys, or a `SourceError`."""
    publishers = [Publisher.from_pem("policy", key=pem.encode()) for pem in keys]
    verdict = check_signature({name: digest_of(data)}, signature, publishers, now=datetime.now(UTC))
    if not verdict.is_signed:
        raise SourceError(f"it is not signed by one of the keys that are pinned for it ({verdict})")
    return verdict.signer


def _check_newer(serial: int, before: int, data: bytes, last: bytes) -> None:
    if serial < before or (serial == before and data != last):
        raise SourceError(f"it has the serial number {serial}, and {before} is known: it was rolled back")


# The organization's policy


def _organization(machine: PolicyFile) -> tuple[PolicyFile, str]:
    """The signed policy, or a layer that refuses everything; and a remark about it."""
    place = redact_url(machine.address)

    def parsed(data: bytes, signature: bytes) -> PolicyFile:
        require_signature(data, signature, machine.keys, SIGNED_POLICY)
        file = parse_policy(data.decode("utf-8", "replace"), kind=LayerKind.ORGANIZATION, place=place)
        if machine.serial is not None and (file.serial or 0) < machine.serial:
            raise SourceError(
                f"it has the serial number {file.serial}, and the machine asks for {machine.serial}"
            )
        return file

    def check(data: bytes, signature: bytes, stored: Stored) -> None:
        file = parsed(data, signature)
        if stored.data:
            _check_newer(file.serial or 0, _serial(parsed, stored), data, stored.data)

    stored = _fetched(machine.address, SIGNED_POLICY, check, detached=True)
    why = stored.problem or "it was not fetched yet"
    try:
        if not stored.data:
            raise SourceError(f"the policy at {place} was never fetched: {why}")
        file = parsed(stored.data, stored.signature)
        if (late := _lateness(file.expires, machine.grace)) == "over":
            raise SourceError(
                f"the policy at {place} expired on {file.expires:%Y-%m-%d}, more than {machine.grace.days} "
                f"days ago, and no newer one could be fetched: {why}"
            )
        remark = f"the policy at {place} expired on {file.expires:%Y-%m-%d}: {why}" if late else ""
        return file, remark or (f"the policy at {place}: {stored.problem}" if stored.problem else "")
    except SkillwireError as error:
        layer = PolicyLayer(
            kind=LayerKind.ORGANIZATION,
            place=place,
            name=machine.layer.name,
            contact=machine.layer.contact,
            reports_only=machine.layer.reports_only,
            problem=safe_line(f"{error}; connect to it once, then try again", limit=1000),
        )
        return PolicyFile(layer=layer), ""


def _serial(parsed: Callable[[bytes, bytes], PolicyFile], stored: Stored) -> int:
    try:
        return parsed(stored.data, stored.signature).serial or 0
    except SkillwireError:
        return 0  # Its key is not pinned any more, or it was damaged.


def _lateness(expires: datetime | None, grace: Any) -> str:
    now = datetime.now(UTC)
    if expires is None or now <= expires:
        return ""
    return "late" if now <= expires + grace else "over"


# Revocations


def parse_revocations(data: bytes) -> tuple[int, datetime, dict[str, str]]:
    """The serial number, the expiry and the digests of a feed, or a `SourceError`."""
    try:
        document = cast("dict[str, Any]", read_json(data, what="the feed"))
        if document["skillwire_revoked"] != 1:
            raise ValueError("another format")
        revoked: dict[str, str] = {
            str(digest): safe_line(str(reason), limit=200) for digest, reason in document["revoked"].items()
        }
        expires = datetime.fromisoformat(document["expires"])
        if expires.tzinfo is None:
            raise ValueError("no offset")
        return int(document["serial"]), expires, revoked
    except (DocumentError, ValueError, TypeError, LookupError, AttributeError):
        raise SourceError("it is not a feed of revocations in format 1") from None


def revocations_document(serial: int, expires: datetime, revoked: Mapping[str, str]) -> bytes:
    """A feed as it is signed: its one spelling, so that whoever has the same values has the same bytes."""
    document = {
        "skillwire_revoked": 1,
        "serial": serial,
        "expires": expires.isoformat(timespec="seconds"),
        "revoked": revoked,
    }
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode("ascii")


def _with_revocations(file: PolicyFile, remarks: list[str]) -> PolicyFile:
    """The file with the digests of its feed. Without a feed that counts, the layer refuses everything."""
    url = file.revoked_feed
    if not url:
        return file
    place = redact_url(url)

    def check(data: bytes, signature: bytes, stored: Stored) -> None:
        require_signature(data, signature, file.revoked_by, SIGNED_REVOCATIONS)
        before = parse_revocations(stored.data)[0] if stored.data else 0
        _check_newer(parse_revocations(data)[0], before, data, stored.data or data)

    stored = _fetched(url, SIGNED_REVOCATIONS, check, detached=True)
    try:
        if not stored.data:
            raise SourceError(f"the revocations at {place} were never fetched: {stored.problem}")
        require_signature(stored.data, stored.signature, file.revoked_by, SIGNED_REVOCATIONS)
        _, expires, revoked = parse_revocations(stored.data)
        if _lateness(expires, file.grace) == "over":
            raise SourceError(f"the revocations at {place} expired on {expires:%Y-%m-%d}: {stored.problem}")
    except SkillwireError as error:
        problem = safe_line(f"{error}; connect to it once, then try again", limit=1000)
        return replace(file, layer=replace(file.layer, problem=file.layer.problem or problem))
    if stored.problem:
        remarks.append(f"the revocations at {place}: {stored.problem}")
    return replace(file, layer=replace(file.layer, revoked={**revoked, **file.layer.revoked}))


# Approvals

_APPROVALS: Final = "skillwire-approvals.json"


def approvals_folder() -> Path:
    """Where imported signed approvals are. Each is verified whenever it is read."""
    return state_paths().approvals.parent / "signed-approvals"


def store_signed_approvals(data: bytes) -> Path:
    """Keep a signed export for every host of this user."""
    path = approvals_folder() / f"{digest_of(data).removeprefix('sha256:')[:32]}.json"
    make_folder(path.parent)
    write_atomic(path, data)
    return path


def _signed_approvals(
    files: Sequence[PolicyFile], publishers: Sequence[Publisher], remarks: list[str]
) -> dict[str, list[SignedApproval]]:
    found: dict[str, list[SignedApproval]] = {}
    documents: list[bytes] = []
    for file in files:
        if file.approvals_feed:

            def check(data: bytes, signature: bytes, stored: Stored) -> None:
                if not signed_export(data, publishers):
                    raise SourceError("it is not signed by a publisher of the policy")

            stored = _fetched(file.approvals_feed, _APPROVALS, check, detached=False)
            documents += [stored.data] * bool(stored.data)
            if stored.problem:
                remarks.append(f"the approvals at {redact_url(file.approvals_feed)}: {stored.problem}")
    folder = approvals_folder()
    for path in sorted(folder.glob("*.json")) if publishers and folder.is_dir() else ():
        try:
            documents.append(read_regular(path, DEFAULT_LIMITS.document_bytes + 1))
        except OSError:
            continue
    for data in documents:
        for uri, one in signed_export(data, publishers):
            found.setdefault(uri, []).append(one)
    return found


def signed_export(data: bytes, publishers: Sequence[Publisher]) -> list[tuple[str, SignedApproval]]:
    """The approvals of an export that one of these publishers signed; none if that does not hold."""
    try:
        document = read_json(data, what="the export")
        verdict = approvals_signature(document, publishers)
        if not verdict.is_signed:
            return []
        found: list[tuple[str, SignedApproval]] = []
        for one in document["approvals"]:
            approval = imported(one).approval()
            if approval is None or not approval.bound:
                continue
            team = TeamApproval(
                signer=verdict.signer,
                grants=approval.grants,
                approved_at=safe_line(str(one["approved_at"]), limit=40),
            )
            sources = frozenset(map(str, one.get("sources", ())))
            found.append((approval.uri, SignedApproval(sources, approval.resources, team)))
        return found
    except (SkillwireError, ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return []


# The log


def policy_log() -> Path:
    """Where refusals by policy are written, a line of JSON each."""
    return state_paths().approvals.parent / "policy.log"


def log_decision(decision: Decision, *, skill: str, origin: Origin | None, act: str) -> list[str]:
    """Write a line for what a policy refuses, or would refuse if it were enforced; what they say. Blocks."""
    if isinstance(decision, Denied) and decision.refusal is not None:
        _log_refusal(decision.refusal, skill=skill, origin=origin, act=act, enforced=True)
        return [decision.message]
    reported = decision.reported if isinstance(decision, Allowed) else ()
    for refusal in reported:
        _log_refusal(refusal, skill=skill, origin=origin, act=act, enforced=False)
    return [f"would be refused: {refusal.message}" for refusal in reported]


def _log_refusal(refusal: Refusal, *, skill: str, origin: Origin | None, act: str, enforced: bool) -> None:
    """Write one line about a refusal. The file before it is kept when it has grown large."""
    line = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "act": act,
        "refused": enforced,
        "skill": skill,
        "origin": origin.label if origin is not None else "",
        "policy": refusal.layer.name,
        "layer": refusal.layer.kind.value,
        "rule": refusal.rule,
        "reason": refusal.reason,
    }
    path = policy_log()
    try:
        make_folder(path.parent)
        if path.exists() and path.stat().st_size > _LOG_BYTES:
            path.replace(path.with_suffix(".log.1"))
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "a", encoding="utf-8") as stream:
            stream.write(json.dumps(line) + "\n")
    except OSError:
        return  # The event says the same.
