"""What a user is asked before a skill is loaded, what they can answer, and who asks them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final, Generic, TypeAlias, TypeVar, cast

from skillwire.catalog.registry import RegisteredSkill
from skillwire.skill.digests import SetDigest
from skillwire.trust.approval import NO_GRANTS, FileChange, Grants, Reason
from skillwire.trust.signatures import SignatureVerdict
from skillwire.trust.verify import VerifiedFile


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequest:
    """A question to the user: may this skill be loaded, as it is now?"""

    skill: RegisteredSkill
    reason: Reason
    changes: tuple[FileChange, ...]
    nested: bool
    requested_tools: tuple[str, ...]
    signature: SignatureVerdict
    """Who signed it as it is now, over which of its files. It does not replace an approval."""
    signer_change: str
    """How its signer changed since the last approval or load: show it as prominently as `changes`."""
    digest: SetDigest | None
    """Of the files that would be approved; `None` for a dynamic skill, where that is what was retrieved."""
    seen_digest: SetDigest | None = None
    """Of what was retrieved of a dynamic skill so far; `None` for others."""
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

Callback = TypeVar("Callback")

_REPLACED: Final[ContextVar[Mapping[object, object]]] = ContextVar("replaced callbacks", default={})  # noqa: B039


class Asker(Generic[Callback]):
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
