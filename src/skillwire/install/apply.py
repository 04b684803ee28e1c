"""Apply: carry out a plan, so that each folder is entirely the old one or the new one.

For each folder:

1. The new one is written beside it, in a folder of our own inside the target, and read back.
2. It is exchanged with the old one in a single step. Where the system has no such step, the old one is
   moved aside first; `recover` puts it back if the process dies in between.
3. The old one is compared with the plan again. If it was edited after the plan was made, it is put back.
4. Only then is it removed.

Nothing is written through a link, and nothing outside the targets.
"""

from __future__ import annotations

import errno
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from skillwire.clients import CANONICAL_TARGET
from skillwire.errors import SkillwireError, SourceError, VerificationError
from skillwire.files import CREATE, make_folder
from skillwire.install.candidates import FetchFailure
from skillwire.install.lock import LockedSkill
from skillwire.install.plan import DiskState, Link, Missing, Plan, Step, StepKind, Tree
from skillwire.install.state import look_at, read_file
from skillwire.skill import digest_of, name_issues
from skillwire.skill.files import clashes, windows_problem
from skillwire.text import shown

_CURRENT_DIRECTORY: Final = -100
_EXCHANGE: Final = 2
_UNKNOWN: Final = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP})


def exchange(one: Path, other: Path) -> bool:
    """Exchange what is at two paths in one step; false when the system cannot do that."""
    call = _system_call()
    if call is None:
        return False
    code = call(os.fsencode(one), os.fsencode(other))
    if code == 0:
        return True
    if code in _UNKNOWN:
        return False
    raise OSError(code, os.strerror(code), str(other))


@cache
def _system_call() -> Callable[[bytes, bytes], int] | None:
    if sys.platform == "win32":
        return None
    import ctypes

    library = ctypes.CDLL(None, use_errno=True)
    if sys.platform == "darwin":
        function = getattr(library, "renamex_np", None)
        if function is None:
            return None
        return lambda one, other: 0 if function(one, other, _EXCHANGE) == 0 else ctypes.get_errno()
    function = getattr(library, "renameat2", None)
    if function is None:
        return None
    at = _CURRENT_DIRECTORY
    return lambda one, other: 0 if function(at, one, at, other, _EXCHANGE) == 0 else ctypes.get_errno()


STAGING: Final = ".skillwire-tmp-"
"""The prefix of the folders that installations are prepared in. Leftover ones may be deleted."""
_NEW, _OLD, _GONE, _NAME = "new", "old", "gone", "name"
_LONGEST_NAME: Final = 255
_FATAL: Final = frozenset({errno.ENOSPC, errno.EROFS, errno.EDQUOT})
_NO_LINKS: Final = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EACCES})
_NO_PRIVILEGE: Final = 1314  # Windows: only administrators and developers may make links.


@dataclass(frozen=True, slots=True)
class StepResult:
    """The outcome of a step. `problem` is one line; empty when it was done."""

    step: Step
    problem: str = ""
    link: bool = False
    """Whether a link was made. Where links are not allowed, it is a copy."""
    fatal: str = ""
    """Why no other step would succeed either: the disk is full or cannot be written at all."""

    @property
    def done(self) -> bool:
        return not self.problem


def write_step(
    step: Step, content: Callable[[LockedSkill], Mapping[str, bytes]], *, windows: bool = os.name == "nt"
) -> StepResult:
    """Carry out a step that writes. `content` gives the bytes of a version by path."""
    try:
        return StepResult(step, link=_carry_out(step, content, windows=windows))
    except OSError as error:
        reason = f"{error.strerror or error}: {step.path}"
        fatal = (error.strerror or "") if error.errno in _FATAL else ""
        return StepResult(step, f"unchanged, because: {_advice(error, reason)}", fatal=fatal)
    except SkillwireError as error:
        return StepResult(step, str(error))


def recover(folders: Iterable[Path]) -> None:
    """Clean up after a process that died while installing, and restore what it had moved aside."""
    for staging in leftovers(folders):
        with suppress(OSError, ValueError):
            name = (read_file(staging / _NAME, _LONGEST_NAME) or b"").decode()
            if name and name_issues(name):
                continue  # Not one of ours: a separator or a drive would lead out of the folder.
            if name and _has_the_only_copy(staging, staging.parent / name):
                (staging / _OLD).rename(staging.parent / name)
            # The name is written first and removed last: without it, nothing was moved aside.
            if name or not os.path.lexists(staging / _OLD):
                _remove(staging)


def leftovers(folders: Iterable[Path]) -> list[Path]:
    """The staging folders in these folders: while nothing is being installed, a dead process left them."""
    found: list[Path] = []
    for folder in set(folders):
        with suppress(OSError), os.scandir(folder) as entries:
            found += [
                folder / entry.name
                for entry in entries
                if entry.name.startswith(STAGING) and entry.is_dir(follow_symlinks=False)
            ]
    return found


def write_tree(
    folder: Path, skill: LockedSkill, files: Mapping[str, bytes], *, windows: bool = False
) -> None:
    """Write a version to a new folder, and read it back.

    Bytes that differ from what is pinned, or names that this file system changes, are a `VerificationError`.
    """
    if windows:
        for file in skill.files:
            if problem := windows_problem(file.path):
                raise VerificationError(f"not possible on Windows: {problem}", uri=skill.name)
    root = str(folder)
    _make_folder(root)
    made: set[str] = set()
    try:
        for file in skill.files:
            data = files[file.path]
            if len(data) != file.size or digest_of(data) != file.digest:
                raise VerificationError(f"{shown(file.path)} is not what is pinned", uri=skill.name)
            _make_parents(root, file.path, made)
            mode = 0o755 if file.executable else 0o644
            descriptor = os.open(os.path.join(root, file.path), CREATE, mode)
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(data)
                if hasattr(os, "fchmod"):
                    with suppress(PermissionError):
                        os.fchmod(descriptor, mode)
    except FileExistsError:
        raise VerificationError(_clash_words(skill), uri=skill.name) from None
    there = look_at(folder, [file.path for file in skill.files])
    if not isinstance(there, Tree) or there.digest != skill.digest:
        raise VerificationError(
            f"this file system does not store its file names unchanged: {_odd_names(skill, there)}",
            uri=skill.name,
        )


def _carry_out(step: Step, content: Callable[[LockedSkill], Mapping[str, bytes]], *, windows: bool) -> bool:
    folder = step.path.parent
    if step.act is not StepKind.REMOVE:
        make_folder(folder, 0o755)
    staging = Path(tempfile.mkdtemp(prefix=STAGING, dir=folder))
    try:
        linked = _replace(step, content, staging, windows=windows)
    except BaseException as error:
        if _has_the_only_copy(staging, step.path):
            problem = (
                f"{step.path} could not be put back: it is in {staging / _OLD}, and the next run restores it"
            )
            raise SourceError(problem) from error
        _remove(staging)
        raise
    _remove(staging)
    return linked


def _replace(
    step: Step, content: Callable[[LockedSkill], Mapping[str, bytes]], staging: Path, *, windows: bool
) -> bool:
    (staging / _NAME).write_text(step.name, "utf-8")
    if step.act is StepKind.REMOVE:
        step.path.rename(staging / _OLD)
        _refuse_change(step, staging / _OLD)
        # From here on nothing restores it: it is deleted file by file.
        (staging / _OLD).rename(staging / _GONE)
        return False
    if step.skill is None:
        raise AssertionError("a step that installs has a skill")
    if step.link_to is not None and not step.link_to.is_dir():
        raise SourceError(f"not linked, because {step.link_to} could not be written")
    linked = step.link_to is not None and _make_link(staging / _NEW, step.link_to, step.path.parent)
    if not linked:
        write_tree(staging / _NEW, step.skill, content(step.skill), windows=windows)
    _swap(step, staging)
    return linked


def _has_the_only_copy(staging: Path, path: Path) -> bool:
    """Whether what was at `path` was moved aside and is not back."""
    return os.path.lexists(staging / _OLD) and not os.path.lexists(path)


def _remove(staging: Path) -> None:
    """Remove a staging folder, the name last. Mostly there is nothing else in it, and `rmtree` is slow."""
    with suppress(OSError):
        for name in os.listdir(staging):
            path = staging / name
            if path.is_symlink():
                path.unlink()
            elif name != _NAME:
                shutil.rmtree(path)
        (staging / _NAME).unlink(missing_ok=True)
        staging.rmdir()


def _swap(step: Step, staging: Path) -> None:
    """Move the staged version into place, and what was there before into the staging folder."""
    if isinstance(step.found, Missing):
        if os.path.lexists(step.path):
            raise VerificationError(
                f"{step.path} appeared in the meantime, and was not changed; run the command again",
                uri=step.name,
            )
        (staging / _NEW).rename(step.path)
        return
    if exchange(staging / _NEW, step.path):
        (staging / _NEW).rename(staging / _OLD)
        _refuse_change(step, staging / _OLD)
        return
    step.path.rename(staging / _OLD)
    try:
        (staging / _NEW).rename(step.path)
    except OSError:
        (staging / _OLD).rename(step.path)
        raise
    _refuse_change(step, staging / _OLD)


def _refuse_change(step: Step, old: Path) -> None:
    """Put a folder back that is no longer what the plan was made for, and raise."""
    pinned = [file.path for file in step.skill.files] if step.skill else ()
    there = look_at(old, pinned)
    if _same(there, step.found, old, step.path):
        return
    if not os.path.lexists(step.path):
        old.rename(step.path)
    elif not exchange(old, step.path):
        step.path.rename(old.with_name("refused"))
        old.rename(step.path)
    raise VerificationError(
        f"{step.path} was edited in the meantime, and was not changed; run the command again",
        uri=step.name,
    )


def _same(there: DiskState, planned: DiskState, moved: Path, before: Path) -> bool:
    if isinstance(there, Link) and isinstance(planned, Link):
        # A relative link leads elsewhere after it is moved.
        return os.path.relpath(there.leads_to, moved.parent) == os.path.relpath(
            planned.leads_to, before.parent
        )
    return there == planned


def _make_link(path: Path, leads_to: Path, folder: Path) -> bool:
    """A relative link for `folder`; false where links are not allowed."""
    try:
        path.symlink_to(os.path.relpath(leads_to, folder), target_is_directory=True)
    except NotImplementedError:
        return False
    except OSError as error:
        if error.errno in _NO_LINKS or getattr(error, "winerror", None) == _NO_PRIVILEGE:
            return False
        raise
    return True


def _make_parents(root: str, path: str, made: set[str]) -> None:
    segments = path.split("/")[:-1]
    for length in range(1, len(segments) + 1):
        part = "/".join(segments[:length])
        if part not in made:
            _make_folder(os.path.join(root, part))
            made.add(part)


def _make_folder(path: str) -> None:
    os.mkdir(path, 0o755)
    # Whatever the umask says: the same modes everywhere.
    with suppress(PermissionError):
        os.chmod(path, 0o755)  # noqa: S103


def _clash_words(skill: LockedSkill) -> str:
    pairs = clashes(file.path for file in skill.files)
    names = " and ".join(shown(name) for name in pairs[0]) if pairs else "two of its names"
    return f"on this file system, {names} are the same name"


def _odd_names(skill: LockedSkill, there: DiskState) -> str:
    names = {file.path for file in there.files} if isinstance(there, Tree) else set[str]()
    odd = [file.path for file in skill.files if file.path not in names]
    return ", ".join(shown(path) for path in odd[:3]) or "their content differs"


def _advice(error: OSError, reason: str) -> str:
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            return f"{reason}; free some space and run it again"
        case errno.EROFS | errno.EACCES | errno.EPERM:
            return f"{reason}; make the folder writable and run it again"
        case _:
            return reason


@dataclass(frozen=True, slots=True)
class InstallReport:
    """The result of a command, by the names of skills.

    Nothing is missing if `stopped`, `refused` and `failures` are empty.
    """

    installed: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    current: tuple[str, ...] = ()
    """Those that were as the lock says already."""
    stopped: tuple[Step, ...] = ()
    """Folders that were left as they are: someone edited them, or something is there that Skillwire did not
    put there."""
    refused: tuple[FetchFailure, ...] = ()
    """Skills that the user did not approve, or that a policy forbids."""
    failures: tuple[FetchFailure, ...] = ()
    """Skills that could not be fetched, verified or written."""
    copies: tuple[Path, ...] = ()
    """Where a copy was made because links are not allowed."""
    differing: tuple[str, ...] = ()
    """Skills that were installed before and whose folders do not match the lock: `sync` asks about them."""
    unrecorded: str = ""
    """Why the approval of what was installed could not be stored: hosts ask again."""

    @property
    def is_whole(self) -> bool:
        return not (self.stopped or self.refused or self.failures)


def make_report(made: Plan, outcomes: Sequence[StepResult]) -> InstallReport:
    """Report what was done of a plan."""
    done = [one for one in outcomes if one.done]
    # The first problem of a skill is the cause of the others.
    failures = {one.step.name: one.problem for one in reversed(outcomes) if not one.done}
    stopped = {step.name for step in made.stopped}
    new = {
        one.step.name
        for one in done
        if one.step.act is StepKind.INSTALL and one.step.target == CANONICAL_TARGET
    }
    written = {one.step.name for one in done if one.step.skill is not None}
    removed = {one.step.name for one in done if one.step.skill is None}
    current = {step.name for step in made.steps if step.act is StepKind.CURRENT} - written - stopped
    bad = set(failures)
    return InstallReport(
        installed=tuple(sorted(new - bad)),
        updated=tuple(sorted(written - new - bad)),
        removed=tuple(sorted(removed - bad)),
        current=tuple(sorted(current - bad)),
        stopped=made.stopped,
        failures=tuple(
            FetchFailure(name, SourceError(f"{name}: {problem}"))
            for name, problem in sorted(failures.items())
        ),
        copies=tuple(
            one.step.path for one in done if one.step.skill and one.step.link_to is not None and not one.link
        ),
    )


def merge_reports(first: InstallReport, second: InstallReport) -> InstallReport:
    """Merge the reports of two operations, one after the other. What either changed is not current."""
    changed = {*second.installed, *second.updated, *(failure.what for failure in second.failures)}
    return InstallReport(
        installed=(*first.installed, *second.installed),
        updated=(*first.updated, *second.updated),
        removed=(*first.removed, *second.removed),
        current=tuple(name for name in first.current if name not in changed),
        stopped=(*first.stopped, *second.stopped),
        refused=(*first.refused, *second.refused),
        failures=(*first.failures, *second.failures),
        copies=(*first.copies, *second.copies),
        differing=(*first.differing, *second.differing),
        unrecorded=first.unrecorded or second.unrecorded,
    )
