"""InstallState: what Skillwire did in one project or home and the lock file does not record.

It is private to the user: what was installed where, what the user approved, and the earlier versions. One
process at a time works on it.
"""

from __future__ import annotations

import getpass
import hashlib
import json
import os
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, cast

import platformdirs

from skillwire.documents import is_list, is_object
from skillwire.errors import FormatError, SourceError
from skillwire.files import make_folder, try_lock, write_atomic
from skillwire.install.lock import Lock, LockedSkill, format_lock, parse_lock
from skillwire.install.plan import Installation

_VERSION: Final = 1
_WAIT_SECONDS: Final = 600.0
_POLL_SECONDS: Final = 0.05
_GONE_SECONDS: Final = 90 * 24 * 3600


@dataclass(frozen=True, slots=True)
class Version:
    """A version that was installed, and when. It is stored as the text of a lock file of its own."""

    digest: str
    at: str
    text: str

    @property
    def skill(self) -> LockedSkill:
        return parse_lock(self.text).skills[0]


@dataclass(frozen=True, slots=True)
class Acceptance:
    """When something was approved, and by whom."""

    at: str
    by: str = ""


@dataclass(frozen=True, slots=True)
class InstallState:
    """The state of one root. Values are replaced, never changed."""

    placed: Mapping[Path, Installation] = field(default_factory=dict[Path, Installation])
    accepted: Mapping[str, Acceptance] = field(default_factory=dict[str, Acceptance])
    """Approvals for installation, by `acceptance_key`."""
    history: Mapping[str, tuple[Version, ...]] = field(default_factory=dict[str, tuple[Version, ...]])
    """Every version that was installed, by the skill's name, the latest last."""

    def has_accepted(self, skill: LockedSkill) -> bool:
        return acceptance_key(skill) in self.accepted

    def accept(self, skills: Iterable[LockedSkill]) -> InstallState:
        """The state after the user approved these skills as they are pinned."""
        given = Acceptance(_now(), _user())
        return replace(self, accepted={**self.accepted, **{acceptance_key(skill): given for skill in skills}})

    def put(self, placed: Mapping[Path, Installation], gone: Iterable[Path] = ()) -> InstallState:
        """The state after something was installed at places, and removed from others."""
        left = {path: one for path, one in self.placed.items() if path not in set(gone)}
        return replace(self, placed={**left, **placed})

    def forget(self, skills: Iterable[LockedSkill]) -> InstallState:
        """The state after the user revoked an approval. Versions are kept."""
        keys = {acceptance_key(skill) for skill in skills}
        return replace(self, accepted={key: one for key, one in self.accepted.items() if key not in keys})

    def remember(self, skills: Iterable[LockedSkill], keep: int, *, in_place: bool = False) -> InstallState:
        """The state with these versions as the latest ones of their skills.

        With `in_place`, a known version keeps its place in the order, because the user went back to it.
        """
        history = dict(self.history)
        for skill in skills:
            if in_place and any(one.digest == skill.digest for one in history.get(skill.name, ())):
                continue
            before = [one for one in history.get(skill.name, ()) if one.digest != skill.digest]
            latest = Version(skill.digest, _now(), format_lock(Lock((skill,))))
            history[skill.name] = tuple([*before, latest][-keep:])
        return replace(self, history=history)


def acceptance_key(skill: LockedSkill) -> str:
    """Return the key of an approval: of the name, the source, every byte, the powers and the signer.

    Anything else about a skill may change without asking again: its targets, or how its source was written.
    """
    parts = [
        skill.name,
        list(skill.pin.identity),
        skill.pin.get("url"),
        skill.digest,
        list(skill.powers.allowed_tools),
        list(skill.powers.scripts),
        [file.path for file in skill.files if file.executable],
        skill.signer,
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class StateFiles:
    """Where the state of a root is stored, and the versions of all roots."""

    folder: Path

    @classmethod
    def of_user(cls) -> StateFiles:
        return cls(Path(platformdirs.user_data_dir("skillwire", appauthor=False)) / "install")

    @property
    def versions(self) -> Path:
        return self.folder / "versions"

    def file(self, root: Path) -> Path:
        name = hashlib.sha256(os.fsencode(root.resolve())).hexdigest()[:32]
        return self.folder / "roots" / f"{name}.json"

    def read(self, root: Path) -> InstallState:
        """The state of a root; an empty one if there is none, or if it cannot be parsed."""
        try:
            data = self.file(root).read_bytes()
        except FileNotFoundError:
            return InstallState()
        except OSError as error:
            raise SourceError(f"{self.file(root)} cannot be read: {error.strerror}") from None
        try:
            return _parse(json.loads(data))
        except (ValueError, TypeError, KeyError, FormatError, RecursionError):
            # Without it, every folder counts as somebody else's, so nothing is overwritten.
            return InstallState()

    def write(self, root: Path, state: InstallState) -> None:
        file = self.file(root)
        document = {
            "version": _VERSION,
            "root": str(root.resolve()),
            "placed": {
                str(path): {"name": one.name, "digests": sorted(one.digests), "link": one.link}
                for path, one in sorted(state.placed.items())
            },
            "accepted": {key: {"at": one.at, "by": one.by} for key, one in sorted(state.accepted.items())},
            "history": {
                name: [{"digest": one.digest, "at": one.at, "lock": one.text} for one in versions]
                for name, versions in sorted(state.history.items())
            },
        }
        try:
            make_folder(file.parent)
            write_atomic(file, json.dumps(document).encode())
        except OSError as error:
            raise SourceError(
                f"{file} cannot be written: {error.strerror}; free some space, or make it writable"
            ) from None

    def roots(self) -> list[InstallState] | None:
        """The state of every root; `None` if one of them cannot be parsed.

        A root counts until its folder has been gone for 90 days: its disk may only be unmounted.
        """
        states: list[InstallState] = []
        for file in sorted((self.folder / "roots").glob("*.json")):
            try:
                document = json.loads(file.read_bytes())
                is_old = time.time() - file.stat().st_mtime > _GONE_SECONDS
                if not (is_old and not Path(str(document["root"])).exists()):
                    states.append(_parse(document))
            except (OSError, ValueError, TypeError, KeyError, FormatError, RecursionError):
                return None
        return states

    @contextmanager
    def working(
        self, root: Path, *, seconds: float = _WAIT_SECONDS, on_wait: Callable[[], None] = lambda: None
    ) -> Generator[None]:
        """Let one process at a time work on a root; another one waits, after `on_wait`."""
        path = self.file(root).with_suffix(".lock")
        try:
            make_folder(path.parent)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
        except OSError as error:
            raise SourceError(
                f"{path.parent} cannot be written: {error.strerror}; free some space, or make it writable"
            ) from None
        try:
            end = time.monotonic() + seconds
            waited = False
            while not try_lock(descriptor):
                if not waited:
                    on_wait()
                    waited = True
                if time.monotonic() >= end:
                    raise SourceError(
                        f"another skillwire has been working on {root} for {seconds:.0f} seconds: "
                        "wait for it, or end it"
                    )
                time.sleep(_POLL_SECONDS)
            yield
        finally:
            os.close(descriptor)  # This releases the lock, as the end of the process does.


def _parse(document: object) -> InstallState:
    if not is_object(document) or document.get("version") != _VERSION:
        raise ValueError
    placed = _object(document["placed"])
    accepted = _object(document["accepted"])
    history = _object(document["history"])
    return InstallState(
        placed={
            Path(path): Installation(str(row["name"]), frozenset(row["digests"]), bool(row["link"]))
            for path, row in placed.items()
        },
        accepted={key: Acceptance(str(row["at"]), str(row["by"])) for key, row in accepted.items()},
        history={
            name: tuple(
                Version(str(row["digest"]), str(row["at"]), str(row["lock"]))
                for row in (cast("list[dict[str, Any]]", rows) if is_list(rows) else [])
            )
            for name, rows in history.items()
        },
    )


def _object(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError
    return cast("dict[str, Any]", value)


def has_forgotten(before: InstallState, after: InstallState) -> bool:
    """Whether a version that was stored before is no longer stored."""
    return any(
        not {one.digest for one in versions} <= {one.digest for one in after.history.get(name, ())}
        for name, versions in before.history.items()
    )


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # A container's user may have no name.
        return ""


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
