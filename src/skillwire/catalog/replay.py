"""Replay: the text of loaded skills to put back into a compacted conversation. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from skillwire.catalog.render import LOAD_TOOL
from skillwire.skill.digests import SetDigest
from skillwire.trust.approval import Grants
from skillwire.trust.origin import Origin
from skillwire.trust.verify import CheckedEntry


@dataclass(frozen=True, slots=True)
class ActiveSkill:
    """A loaded skill: where it came from, the entry it was loaded with, and what the user granted to it."""

    handle: str
    origin: Origin
    entry: CheckedEntry
    grants: Grants
    digest: SetDigest | None
    """Of all its files; `None` for a dynamic skill."""
    line: str
    """The handle, the origin and the digest, on one line that is safe to print."""


@dataclass(frozen=True, slots=True)
class Replay:
    """What to put back, as a tool result or a user message, never as a system message (SEC-12)."""

    text: str
    replayed: tuple[str, ...]
    """The handles whose text is in it, most recently loaded first."""
    named: tuple[str, ...]
    """The handles whose text is not in it: load them again."""

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Candidate:
    """A loaded skill, fenced, or the reason why it must not be repeated."""

    handle: str
    text: str
    digest: SetDigest | None
    problem: str = ""


_HEAD = "These skills were loaded before the conversation was shortened. Their text is repeated here."
_MOST_NAMED = 20
_NO_ROOM = "has no room here"


def fit_replay(candidates: Sequence[Candidate], budget: int) -> Replay:
    """The texts in the given order, each once, within a number of characters; omitted skills are named.

    A text is included if it fits together with the names of all omitted skills. If not even the names fit,
    the result is empty.
    """
    replayed: list[Candidate] = []
    first_of: dict[SetDigest, str] = {}
    notes: dict[str, str] = {}
    for one in candidates:
        if one.problem:
            notes[one.handle] = one.problem
        elif one.digest is not None and one.digest in first_of:
            notes[one.handle] = f"has the same files as {first_of[one.digest]}"
        else:
            notes[one.handle] = _NO_ROOM
            if one.digest is not None:
                first_of[one.digest] = one.handle
    for one in candidates:
        fitting = {handle: note for handle, note in notes.items() if handle != one.handle}
        if notes[one.handle] == _NO_ROOM and len(_text([*replayed, one], fitting)) <= budget:
            replayed.append(one)
            notes = fitting
    text = _text(replayed, notes)
    if len(text) > budget:
        return Replay("", (), tuple(one.handle for one in candidates))
    return Replay(text, tuple(one.handle for one in replayed), tuple(notes))


def _text(replayed: Sequence[Candidate], notes: Mapping[str, str]) -> str:
    parts = [_HEAD, *(one.text for one in replayed)] if replayed else []
    if notes:
        named = [f"{handle} {note}" for handle, note in notes.items()]
        more = [f"and {len(named) - _MOST_NAMED} more"] if len(named) > _MOST_NAMED else []
        lines = "\n".join(f"- {line}" for line in [*named[:_MOST_NAMED], *more])
        parts.append(f"Not repeated; call {LOAD_TOOL} for what is still needed:\n{lines}")
    return "\n\n".join(parts)
