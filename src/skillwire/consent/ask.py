"""The question before a skill is loaded, who asks it, and the one state of a skill that everything shows.

`list`, `show`, `approve`, the review page, the gateway, JSON and adapters print `ApprovalStatus.words`. It
decides nothing. Whether a skill is disabled is said beside it.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Final, Generic, TextIO, TypeAlias, TypeVar, cast

from skillwire.catalog import HostSkill
from skillwire.clients import running_agent
from skillwire.errors import ApprovalRequired, LimitExceeded, SkillwireError
from skillwire.limits import Limits
from skillwire.skill import DYNAMIC, NO_SIZE, SetDigest, SkillEntry, SkillResource, path_below, skill_root
from skillwire.text import safe_line
from skillwire.trust import (
    NO_GRANTS,
    AdmissionRequest,
    Allowed,
    Approval,
    ApprovalMode,
    Denied,
    FileChange,
    Grants,
    Purpose,
    Reason,
    Scan,
    SignatureVerdict,
    VerifiedFile,
    admit,
    check_entry,
    missing_publisher,
)
from skillwire.words import counted


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequest:
    """A question to the user: may this skill be loaded, as it is now?"""

    skill: HostSkill
    files: tuple[SkillResource, ...]
    """Every file that a yes covers, with its size and digest: show these. `SKILL.md` comes first, if it is
    among them. Any other file of a skill without digests is a question of its own, when it is read."""
    reason: Reason
    changes: tuple[FileChange, ...]
    nested: bool
    requested_tools: tuple[str, ...]
    signature: SignatureVerdict
    """Who signed it as it is now, over which of its files. It does not replace an approval."""
    signer_change: str
    """How its signer changed since the last approval or load: show it as prominently as `changes`."""
    scans: tuple[Scan, ...] = ()
    """The findings of the scanners of the policy, or why there are none: show these too."""
    digest: SetDigest | None
    """Of the files that would be approved; `None` for a dynamic skill, where that is what was retrieved."""
    seen_digest: SetDigest | None = None
    """Of `files`, for a dynamic skill; `None` for others."""
    preview: Callable[[str], Awaitable[VerifiedFile]] = field(repr=False)
    """Reads a file of the skill for the user to look at. This does not load it (SEC-7)."""
    approved: Callable[[str], Awaitable[bytes | None]] = field(repr=False)
    """Reads a file as the user approved it last, to compare with; `None` when that is not cached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Once:
    """An approval for this load only: nothing is stored, and the next load asks again."""

    grants: Grants = NO_GRANTS


Answer: TypeAlias = Grants | Once | bool

ApprovalCallback: TypeAlias = Callable[[ApprovalRequest], Awaitable[Answer]]
"""Asks the user. `True` approves the skill with no grants, `Grants` with those, `Once` for this load alone;
anything else is a no. The answer counts for the files that the request names: when the server has others by
then, the user is asked again about those."""


def covered_files(entry: SkillEntry, shown: Iterable[SkillResource] = ()) -> tuple[SkillResource, ...]:
    """The files that a yes to a skill covers: those of its entry; of a dynamic one, those that are shown.

    `SKILL.md` comes first.
    """
    covered = shown if entry.resources is DYNAMIC else entry.resources
    return tuple(sorted(covered, key=lambda file: file.uri != entry.uri))


def file_lines(entry: SkillEntry, files: Sequence[SkillResource]) -> list[str]:
    """The files of a question, each with its size and digest, for a person to read; the last of very many are
    counted."""
    lines: list[str] = []
    for file in files[:_FILES_NAMED]:
        size = "" if file.size == NO_SIZE else f"{counted(file.size, 'byte')}, "
        lines.append(f"{file_path(entry, file)} ({size}{file.digest[:_DIGEST_CHARS]}…)")
    more = len(files) - _FILES_NAMED
    return [*lines, f"and {counted(more, 'more file')}"] if more > 0 else lines


def file_path(entry: SkillEntry, file: SkillResource) -> str:
    """The path of a file in its skill, for a person to read."""
    return safe_line("/".join(path_below(file.uri, skill_root(entry.uri))), limit=200)


def single_file(entry: SkillEntry, files: Sequence[SkillResource]) -> str:
    """The path of the one file that a question is about; empty if it is about the skill."""
    return (
        ""
        if any(file.uri == entry.uri for file in files)
        else ", ".join(file_path(entry, file) for file in files)
    )


Callback = TypeVar("Callback")

_FILES_NAMED: Final = 50
_DIGEST_CHARS: Final = len("sha256:") + 12

_REPLACED: Final[ContextVar[Mapping[object, object]]] = ContextVar("replaced callbacks", default={})  # noqa: B039


class ScopedCallback(Generic[Callback]):
    """The callback that asks the user: that of the enclosing `replaced` block, or the host's own."""

    def __init__(self, given: Callback | None) -> None:
        self._given = given

    @property
    def current(self) -> Callback | None:
        return cast("Callback | None", _REPLACED.get().get(self, self._given))

    @contextmanager
    def replaced(self, callback: Callback) -> Generator[None]:
        """Inside the block, calls of this task use this callback."""
        token = _REPLACED.set({**_REPLACED.get(), self: callback})
        try:
            yield
        finally:
            _REPLACED.reset(token)


NO_TERMINAL: Final = (
    "there is no terminal to ask on: run this in one, over SSH with `ssh -t`, or use the review page"
)
"""Why nobody was asked, and what a person does then."""
_LINE_BYTES: Final = 4096


def require_person(act: str, *, page: bool = True, environment: Mapping[str, str] | None = None) -> None:
    """Return if no known agent runs this process; otherwise raise an `ApprovalRequired`.

    `act` is what only a person does, such as "approving a skill"; with `page`, it can be done on the review
    page as well. The message names no command: it is read by the model whose agent ran this one.
    """
    agent = running_agent(os.environ if environment is None else environment)
    if agent is not None:
        elsewhere = ", or on the review page" if page else ""
        raise ApprovalRequired(
            f"{act} is up to a person, and this was run by {agent}: nothing was done. The user can do it in "
            f"a terminal of their own, outside of any agent{elsewhere}",
            reason="person",
            origin="",
            uri="",
        )


class PersonTerminal:
    """The controlling terminal: what is asked is shown and answered there."""

    def __init__(self, answers: TextIO, screen: TextIO) -> None:
        self._answers = answers
        self.screen = screen

    async def answer(self) -> str:
        """The next line that is typed, in lowercase. A question that is canceled reads nothing more: what is
        typed after it is for whoever reads next.
        """
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[str] = loop.create_future()

        def read() -> str:
            try:
                # A terminal gives whole lines, and no more than this of one.
                return os.read(self._answers.fileno(), _LINE_BYTES).decode("utf-8", "replace")
            except (OSError, ValueError):  # The terminal is gone.
                return ""

        try:
            loop.add_reader(self._answers.fileno(), lambda: _settle(answered, read()))
        except (NotImplementedError, PermissionError):  # A console of Windows, and a file in a test.
            return (await read_line(self._answers)).strip().lower()
        try:
            return (await answered).strip().lower()
        finally:
            loop.remove_reader(self._answers.fileno())

    def forget_typed_ahead(self) -> None:
        """Discard what was typed before a question is shown: it is no answer to it."""
        forget_typed_ahead(self._answers)


def forget_typed_ahead(answers: TextIO) -> None:
    """Discard what was typed at a terminal before a question is shown: it is no answer to it."""
    with suppress(ImportError, OSError, ValueError):
        if sys.platform == "win32":
            import msvcrt

            while msvcrt.kbhit():
                msvcrt.getwch()
        else:
            import termios

            termios.tcflush(answers.fileno(), termios.TCIFLUSH)


async def read_line(answers: TextIO) -> str:
    """Read a line in a thread that is not waited for: Ctrl-C ends the question at once."""
    loop = asyncio.get_running_loop()
    answered: asyncio.Future[str] = loop.create_future()

    def read() -> None:
        line = answers.readline()
        if not loop.is_closed():
            loop.call_soon_threadsafe(_settle, answered, line)

    threading.Thread(target=read, daemon=True).start()
    return await answered


def _settle(answered: asyncio.Future[str], line: str) -> None:
    if not answered.done():
        answered.set_result(line)


def open_terminal(platform: str = sys.platform) -> PersonTerminal | None:
    """The controlling terminal of this process, or its console on Windows; `None` if it has none."""
    names = ("CONIN$", "CONOUT$") if platform == "win32" else ("/dev/tty", "/dev/tty")
    answers, screen = map(Path, names)
    with ExitStack() as opened:
        try:
            # A terminal has no position to seek to, so it is opened once for each direction.
            reader = opened.enter_context(answers.open(encoding="utf-8", errors="replace"))
            writer = opened.enter_context(screen.open("w", encoding="utf-8", errors="backslashreplace"))
            # Whoever reads from a terminal in the background is stopped, and nobody sees why.
            if platform != "win32" and os.tcgetpgrp(reader.fileno()) != os.getpgrp():
                return None
        except OSError:
            return None
        opened.pop_all()
        return PersonTerminal(reader, writer)


UNCHECKED: Final = "signature not checked yet"
"""Why a skill of an origin with a required signer has no better state before its signature was fetched."""


class State(StrEnum):
    """The result that a load would have."""

    OWN = "own files"
    """The user's own files: no approval is needed."""
    APPROVED = "approved"
    """It is loaded: exactly these files were approved."""
    ALLOWED = "allowed"
    """It is loaded without asking: the approval mode of its server is `always`."""
    NOT_APPROVED = "not approved"
    """The user is asked, or it is refused where the approval mode of its server is `pinned`."""
    CHANGED = "changed"
    """Its files, or who signed them, are not those that were approved."""
    DECLINED = "declined"
    """The user declined exactly these files."""
    REFUSED = "refused"
    """It is not loaded, and no approval changes that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalStatus:
    """Whether a skill is approved, what was granted to it, and what changed since."""

    state: State
    approval_mode: ApprovalMode
    """The approval mode of its server; `always` for the user's own files."""
    nested: bool = False
    """Whether it is inside another skill of its origin. Then no approval mode loads it without asking, and an
    approval of the other skill does not cover it (SEC-5)."""
    grants: Grants = NO_GRANTS
    """Grants beyond being read, if it is loaded now."""
    changes: tuple[FileChange, ...] = ()
    """How its files differ from those that were approved; empty if nothing was."""
    approved: Approval | None = None
    """The approval, valid now or before the skill changed."""
    reason: str = ""
    """Why it is in this state, in a few words; empty where the state says it all."""
    problem: str = ""
    """Why it is refused, in one line that says what to do; empty if an approval is all that it needs."""
    signer_change: str = ""
    """How its signer changed or disappeared since it was last loaded or approved, if that was checked."""

    @property
    def words(self) -> str:
        """The state, with its reason if there is one: the same text wherever a state is shown."""
        return f"{self.state.value} ({self.reason})" if self.reason else self.state.value

    @property
    def waits(self) -> bool:
        """Whether an approval by the user would make it usable."""
        return self.state in (State.NOT_APPROVED, State.CHANGED) and self.reason != UNCHECKED


def status_of(candidate: AdmissionRequest, *, limits: Limits) -> ApprovalStatus:
    """The result that a load would have, determined without loading."""
    candidate = candidate.before_scan
    try:
        entry = check_entry(candidate.entry, limits=limits)
    except SkillwireError as error:
        reason = "too large" if isinstance(error, LimitExceeded) else "broken"
        return _status(candidate, State.REFUSED, reason=reason, problem=str(error))
    # A disabled skill has a status too: what would happen on a load once it is enabled.
    if candidate.disabled or entry is not candidate.entry:
        candidate = replace(candidate, entry=entry, disabled=False)
    decision = admit(candidate, Purpose.LOAD)
    if isinstance(decision, Denied) and decision.refusal is not None:
        if candidate.signature is None and decision.refusal.rule.startswith("publishers."):
            return _status(candidate, State.NOT_APPROVED, reason=UNCHECKED)
        reason = f"policy {decision.refusal.layer.title}"
        return _status(candidate, State.REFUSED, reason=reason, problem=decision.refusal.message)
    if missing := missing_publisher(candidate):
        if candidate.signature is not None:
            problem = missing.removeprefix("is refused: ")
            return _status(
                candidate, State.REFUSED, reason=f"not signed by {candidate.require[0]}", problem=problem
            )
        # Who signed it is not known yet: only what holds in any case is said.
        without = status_of(replace(candidate, require=()), limits=limits)
        if without.state in (State.CHANGED, State.DECLINED, State.REFUSED):
            return without
        return _status(candidate, State.NOT_APPROVED, reason=UNCHECKED)
    if isinstance(decision, Allowed):
        state = State.APPROVED if decision.approved else State.ALLOWED
        state = State.OWN if candidate.origin.is_own else state
        by = " and ".join(f"by {name} on {one.approved_at[:10]}" for name, one in decision.team)
        return _status(candidate, state, grants=decision.grants, reason=by)
    if candidate.unavailable or not candidate.selected or candidate.style_refusal:
        return _status(
            candidate, State.REFUSED, reason="not offered", problem=getattr(decision, "message", "")
        )
    if candidate.approval_mode is ApprovalMode.NEVER:
        problem = "the approval mode of its server is never; change that to load it"
        return _status(candidate, State.REFUSED, reason="approval mode never", problem=problem)
    if candidate.declined:
        return _status(candidate, State.DECLINED)
    if decision.reason is Reason.CHANGED or candidate.signer_change:
        changed = [counted(len(decision.changes), "file")] if decision.changes else []
        reason = " and ".join([*changed, *(["signer"] if candidate.signer_change else [])])
        return _status(candidate, State.CHANGED, reason=reason, changes=decision.changes)
    waiting = _WAITING[candidate.approval_mode]
    if not entry.is_dynamic and _last_approval(candidate) is None and not candidate.nested:
        return waiting  # One value for most skills of a large server.
    return _status(candidate, State.NOT_APPROVED, reason="no digests" if entry.is_dynamic else "")


def _status(
    candidate: AdmissionRequest,
    state: State,
    *,
    reason: str = "",
    problem: str = "",
    grants: Grants = NO_GRANTS,
    changes: tuple[FileChange, ...] = (),
) -> ApprovalStatus:
    return ApprovalStatus(
        state=state,
        approval_mode=ApprovalMode.ALWAYS if candidate.origin.is_own else candidate.approval_mode,
        nested=candidate.nested,
        grants=grants,
        changes=changes,
        approved=_last_approval(candidate),
        reason=reason,
        problem=problem,
        signer_change=candidate.signer_change,
    )


def _last_approval(candidate: AdmissionRequest) -> Approval | None:
    return candidate.session or candidate.approval or candidate.ended


_WAITING: Final = {
    mode: ApprovalStatus(state=State.NOT_APPROVED, approval_mode=mode) for mode in ApprovalMode
}
