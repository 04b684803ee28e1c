"""One walk over a directory of skills, which hashes files as they are read. A link is followed if its target
is allowed (`LinkScope`) and not a cycle; any other link is reported with its target. Devices and pipes are
skipped. Credentials are never part of a skill. An unreadable file only affects its own skill.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from operator import attrgetter
from typing import Final, NamedTuple

from skillwire.errors import FormatError, Issue, LimitExceeded, SourceError
from skillwire.limits import Limits
from skillwire.skill import (
    SKILL_FILE,
    SkillUri,
    belongs_to_skill,
    child_uri,
    is_credential_name,
    is_plain_path,
    make_uri,
    shown_uri,
)
from skillwire.sources.base import Problem
from skillwire.sources.directory.builder import (
    FoundFile,
    Known,
    MeasuredSkill,
    Rules,
    SkillBuilder,
    SkillFinisher,
)
from skillwire.sources.directory.files import LinkScope, OpenDirectory, Root, is_passing, relative_path
from skillwire.sources.directory.snapshot import ScannedSkill

__all__ = ["Known", "MeasuredSkill", "Rules", "Walk"]

_SKILL_FILE_LOWER: Final = SKILL_FILE.lower()
_name_of: Final = attrgetter("name")
# The number of directories of a skill that stay open until it is finished; others are opened again.
_MOST_HELD: Final = 32
# A directory that is no directory any more when it is opened was deleted or replaced in between.
_REPLACED: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})

BUNDLED_FOLDER: Final = ".system"
"""Where Codex puts the skills that it brings along, beside the user's own: they are not the user's."""


class _Item(NamedTuple):
    """A child of a directory. `walked` is its path in the walk, `path` the real one. A directory without
    links has no status, because none is needed.
    """

    name: str
    walked: str
    path: str
    status: os.stat_result | None

    @property
    def is_file(self) -> bool:
        return self.status is not None and stat.S_ISREG(self.status.st_mode)


class _Place(NamedTuple):
    """Where the walk is: an open directory, the path that led there, its URI and its depth.

    Once a link has been followed, `trail` has the identities of the directories that led here. Without a link
    there is no cycle. `is_held` says that the directory stays open until the skill around it is finished.
    """

    walked: str
    opened: OpenDirectory
    uri: SkillUri | None
    depth: int
    trail: tuple[tuple[int, int], ...] | None
    is_held: bool = False

    def uri_of(self, name: str, limits: Limits) -> SkillUri:
        uri = make_uri((name,)) if self.uri is None else child_uri(self.uri, name)
        if len(uri) > limits.uri_bytes:
            message = f"its URI would have more than {limits.uri_bytes} characters"
            raise FormatError.of(rule="uri-too-long", message=message, fix="shorten names")
        return uri


class Walk:
    """Walks one root, or one directory of it, and collects `skills` and `problems`. `has_outer_links` means
    that a link outside of skills was followed, so that a skill can have several places. `outside` has the
    real paths outside the root that links led to. With `on_skill`, no skill is validated: each one is passed
    to it, and only problems outside of skills are collected.
    """

    def __init__(
        self,
        root: Root,
        *,
        limits: Limits,
        reach: LinkScope | None = None,
        rules: Rules = Rules(),  # noqa: B008 - frozen
        known: Known | None = None,
        on_skill: Callable[[MeasuredSkill], None] | None = None,
    ) -> None:
        self.skills: list[ScannedSkill] = []
        self.problems: list[Problem] = []
        self.has_outer_links = False
        self.outside: set[str] = set()
        self._root = root
        self._inside = os.path.join(root.path, "")
        self._limits = limits
        self._reach = LinkScope((str(root.path),)) if reach is None else reach
        self._only = rules.only
        self._is_local = rules.local
        self._bench = SkillFinisher(
            root, limits=limits, reach=self._reach, rules=rules, known=known or Known()
        )
        self._on_skill = on_skill
        self._directories = 0

    def run(self) -> Walk:
        """Walk the whole root. Raises `SourceError` if it cannot be read."""
        directory, prefix = str(self._root.path), self._root.prefix
        try:
            opened = OpenDirectory.open(directory, listed=True)
            opened.children()
        except OSError as error:
            raise SourceError(f"{shown_uri(directory)} cannot be read: {error.strerror}") from None
        with opened:
            place = _Place(directory, opened, make_uri(prefix) if prefix else None, 1, None)
            self._visit(place, (), may_be_named=True)
        return self

    def run_below(self, directory: str, uri: SkillUri) -> Walk:
        """Walk one directory outside of skills. If it is gone, nothing is found."""
        try:
            path = os.path.realpath(directory, strict=True)
            trail = self._trail(directory)
            # A link that was allowed before may have another target now.
            if not (self._is_inside(path) or self._reach.allows(path)):
                return self
            opened = self._open(path)
        except OSError as error:
            if is_passing(error):
                raise _not_now(directory, error) from None
            return self
        if not self._is_inside(path):
            self.outside.add(path)
        with opened:
            is_plain = path == directory
            self._visit(_Place(directory, opened, uri, len(trail), None if is_plain else trail), ())
        return self

    def _open(self, path: str) -> OpenDirectory:
        """A directory by its real path, which must be within reach."""
        base = self._reach.base_of(path)
        if base is None:
            raise OSError(errno.EXDEV, "out of reach", path)
        if path == base:
            return OpenDirectory.open(base, listed=True)
        with OpenDirectory.open(base) as opened:
            return opened.below(relative_path(path, base))

    def _trail(self, directory: str) -> tuple[tuple[int, int], ...]:
        """The identities of the directories from the root to this one."""
        at = str(self._root.path)
        trail = [_identity(os.stat(at))]
        for name in os.path.relpath(directory, at).split(os.sep):
            if name != os.curdir:
                at = os.path.join(at, name)
                trail.append(_identity(os.stat(at)))
        return tuple(trail)

    def _visit(self, place: _Place, owners: tuple[SkillBuilder, ...], *, may_be_named: bool = False) -> bool:
        """Add a directory; false when it is gone. `owners` are the skills around it, outermost first."""
        self._directories += 1
        if self._directories > self._limits.directories_per_root:
            raise LimitExceeded(
                f"{self._root.path} holds more than {self._limits.directories_per_root} directories; "
                "serve a directory with little else than skills"
            )
        try:
            children = place.opened.children()
        except FileNotFoundError:
            return False  # Deleted since the directory around it was listed.
        except OSError as error:
            self._unreadable(owners, place.walked, error)
            return True
        found = [entry for entry in children if belongs_to_skill(entry.name)]
        if self._is_local and not owners:
            found = [entry for entry in found if entry.name != BUNDLED_FOLDER]
        found.sort(key=_name_of)
        # 1. Look at every child, links resolved.
        items: list[_Item] = []
        failed: list[tuple[str, OSError]] = []
        is_skill = False
        status_of = place.opened.status
        path_here = place.opened.inside
        walked_here = path_here if place.walked == place.opened.path else os.path.join(place.walked, "")
        for entry in found:
            name = entry.name
            walked, path = walked_here + name, path_here + name
            try:
                if entry.is_dir(follow_symlinks=False):
                    items.append(_Item(name, walked, path, None))
                    continue
                if entry.is_symlink():
                    linked = self._follow(path, walked)
                    if linked is None:
                        continue
                    item = _Item(name, walked, *linked)
                else:
                    item = _Item(name, walked, path, status_of(name))
            except FileNotFoundError:
                continue  # Deleted since the directory was listed.
            except OSError as error:
                failed.append((walked, error))
                continue
            items.append(item)
            if name == SKILL_FILE and item.is_file:
                is_skill = True
        # 2. A directory with a SKILL.md is a skill (FMT-1).
        mine = None
        if is_skill:
            if may_be_named:
                place = self._named_root(place)
            if place.uri is not None:
                mine = SkillBuilder(
                    SkillUri(f"{place.uri}/{SKILL_FILE}"),
                    place.walked,
                    place.opened,
                    is_nested=bool(owners),
                )
                place = place if owners else place._replace(is_held=True)
                owners = (*owners, mine)
        elif not owners:
            self._report_misspelt(items)
        if owners and len(found) < len(children):
            self._report_credentials(place, children)
        # 3. Add them (FMT-8). What is empty is known only afterwards: some are skipped.
        try:
            for walked, error in failed:
                self._unreadable(owners, walked, error)
            added = [item for item in items if self._add(item, place, owners)]
            if not added and not failed and place.uri is not None:
                for owner in owners:
                    owner.empty.append(place.uri)
            for owner in owners:
                if self._bench.is_oversize(owner):
                    owner.forget_files()  # Still counted for the report; none of it will be read.
            # 4. All of it is known now.
            if mine is not None:
                self._finish(mine)
        finally:
            if mine is not None:
                mine.release()
        return True

    def _named_root(self, place: _Place) -> _Place:
        """A root that is itself a skill has its own name as the last segment of the skill path."""
        try:
            return place._replace(uri=place.uri_of(self._root.path.name, self._limits))
        except FormatError as error:
            self._report(place.walked, "file-name", error.issues[0].message, error.issues[0].fix)
            return place._replace(uri=None)

    def _follow(self, path: str, walked: str) -> tuple[str, os.stat_result] | None:
        """The target of a link; `None`, and a problem that names the target, if it is not followed."""
        try:
            real = os.path.realpath(path, strict=True)
        except OSError:
            message = f"is a link to {_target(path)}, which does not exist"
            self._report(walked, "link-dangling", message, "fix or remove the link")
            return None
        if not self._reach.allows(real):
            if self._reach.base_of(real) is None:
                message = f"is a link to {shown_uri(real)}, outside the directories served"
                fix = "serve that directory too, copy it in, or add --follow-links"
            else:
                message = f"is a link to {shown_uri(real)}, which may contain credentials"
                fix = "remove the link"
            self._report(walked, "link-leaves-root", message, fix)
            return None
        if not self._is_inside(real):
            self.outside.add(real)
        # S4: the path to the target contains no links, whatever has happened since.
        if real in self._reach.bases:
            with OpenDirectory.open(real) as opened:
                return real, opened.status()
        with self._open(os.path.dirname(real)) as parent:
            status = parent.status(os.path.basename(real))
        if stat.S_ISLNK(status.st_mode):
            return None  # Replaced since it was resolved.
        return real, status

    def _is_inside(self, path: str) -> bool:
        return path == str(self._root.path) or path.startswith(self._inside)

    def _add(self, item: _Item, place: _Place, owners: tuple[SkillBuilder, ...]) -> bool:
        """Add one child of a directory; false if it is not served."""
        status = item.status
        is_directory = status is None or stat.S_ISDIR(status.st_mode)
        if status is not None and not is_directory and not (owners and stat.S_ISREG(status.st_mode)):
            return False  # a file of no skill, a device, a pipe, a socket
        try:
            uri = place.uri_of(item.name, self._limits)
        except FormatError as error:
            issue = error.issues[0]
            self._blame(owners, item.walked, "file-name", issue.message, issue.fix)
            return True
        # Most names have nothing that is encoded. No rule of the extension forbids the others.
        if owners and "%" in uri and not is_plain_path(item.name):
            for owner in owners:
                owner.warn(item.walked, "file-name", "its name has control characters: hosts may refuse it")
        if status is None or is_directory:
            return self._enter(item, uri, place, owners)
        # S4: what lies in the directory is opened from it. Where a link leads is looked up by its own way.
        is_here = place.is_held and item.path == place.opened.inside + item.name
        file = FoundFile(uri, item.path, item.walked, status, place.opened if is_here else None)
        for owner in owners:
            owner.add(file)
        return True

    def _enter(self, item: _Item, uri: SkillUri, place: _Place, owners: tuple[SkillBuilder, ...]) -> bool:
        if place.depth > self._limits.directory_depth:
            self._blame(owners, item.walked, "too-deep", "is nested too deep", "move it up")
            return False
        trail = place.trail
        try:
            opened = place.opened.child(item.name) if item.status is None else self._open(item.path)
        except OSError as error:
            if error.errno in _REPLACED:
                return False  # Deleted or replaced since the directory was listed.
            self._unreadable(owners, item.walked, error)
            return True
        is_held = bool(owners) and len(owners[0].held) < _MOST_HELD
        if is_held:
            owners[0].held.append(opened)
        try:
            if item.status is not None or trail is not None:
                try:
                    trail = self._trail(place.walked) if trail is None else trail
                    identity = _identity(opened.status())
                except FileNotFoundError:
                    return False  # Deleted since the directory was listed.
                except OSError as error:
                    self._unreadable(owners, item.walked, error)
                    return True
                if identity in trail:
                    return False  # a cycle of links
                trail = (*trail, identity)
            if item.status is not None and not owners:
                self.has_outer_links = True
            return self._visit(_Place(item.walked, opened, uri, place.depth + 1, trail, is_held), owners)
        finally:
            if not is_held:
                opened.close()

    def _finish(self, builder: SkillBuilder) -> None:
        if self._on_skill is not None:
            self._on_skill(self._bench.measure(builder))
        else:
            match self._bench.finish(builder):
                case Problem() as problem:
                    self.problems.append(problem)
                case skill if self._only is None or skill.entry.name in self._only:
                    self.skills.append(skill)
                case _:
                    pass
        known = {problem.place for problem in self.problems} if builder.credentials else ()
        for walked in builder.credentials:
            if walked not in known:
                self.problems.append(credential_problem(walked))

    def _report_credentials(self, place: _Place, children: list[os.DirEntry[str]]) -> None:
        for name in sorted(entry.name for entry in children if is_credential_name(entry.name)):
            self.problems.append(credential_problem(os.path.join(place.walked, name)))

    def _report_misspelt(self, items: list[_Item]) -> None:
        for item in items:
            if item.name.lower() == _SKILL_FILE_LOWER and item.is_file:
                self._report(item.walked, "skill-md-case", "is not spelled SKILL.md", "rename it to SKILL.md")

    def _unreadable(self, owners: tuple[SkillBuilder, ...], walked: str, error: OSError) -> None:
        if is_passing(error):
            raise _not_now(walked, error) from None
        self._blame(owners, walked, "unreadable", f"cannot be read: {error.strerror}", "grant read access")

    def _report(self, walked: str, rule: str, message: str, fix: str) -> None:
        """A problem that only affects the file or directory itself."""
        self.problems.append(Problem(walked, (Issue(rule=rule, message=message, fix=fix),)))

    def _blame(
        self, owners: tuple[SkillBuilder, ...], walked: str, rule: str, message: str, fix: str
    ) -> None:
        """A problem for which every skill around it is left out."""
        if not owners:
            self._report(walked, rule, message, fix)
        for owner in owners:
            owner.blame(walked, rule, message, fix)


def credential_problem(walked: str) -> Problem:
    """A file that is left out because it contains credentials (C1)."""
    issue = Issue(
        rule="credential-file",
        message="looks like credentials and is never served",
        fix="keep secrets outside of the skill's directory, for example in environment variables",
    )
    return Problem(walked, (issue,))


def _target(path: str) -> str:
    try:
        return shown_uri(os.readlink(path))
    except OSError:
        return "a place"


def _not_now(path: str, error: OSError) -> SourceError:
    return SourceError(f"{shown_uri(path)} cannot be read now: {error.strerror}")


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino
