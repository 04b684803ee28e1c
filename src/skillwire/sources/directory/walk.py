"""One walk over a directory of skills: what is there, hashed as it is read.

Links inside the root are followed and cycles cut; a link that leaves the root is refused, a dangling one
reported; devices and pipes are passed over. A file that cannot be read costs its skill alone.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from operator import attrgetter
from typing import Final, NamedTuple

from skillwire.errors import FormatError, LimitExceeded, SourceError
from skillwire.issues import Issue
from skillwire.limits import Limits
from skillwire.skill.membership import belongs_to_skill
from skillwire.skill.uris import SKILL_FILE, SkillUri, child_uri, make_uri, shown_uri
from skillwire.sources.base import Problem
from skillwire.sources.directory.builder import Bench, FoundFile, FoundSkill, Known, SkillBuilder
from skillwire.sources.directory.files import is_passing
from skillwire.sources.directory.roots import Root
from skillwire.sources.directory.snapshot import ScannedSkill

__all__ = ["FoundSkill", "Known", "Walk"]

_SKILL_FILE_LOWER: Final = SKILL_FILE.lower()
_name_of: Final = attrgetter("name")


class _Item(NamedTuple):
    """A child of a directory. `walked` is its path as the walk came, `path` the real one.

    Of a directory that no link leads to, nothing needs to be asked, and it has no status.
    """

    name: str
    walked: str
    path: str
    status: os.stat_result | None

    @property
    def is_file(self) -> bool:
        return self.status is not None and stat.S_ISREG(self.status.st_mode)


class _Place(NamedTuple):
    """Where the walk stands: a directory, its URI and its depth.

    Once a link has been followed, `trail` has the identities of the directories that led here. Without a link
    there is no cycle.
    """

    walked: str
    path: str
    uri: SkillUri | None
    depth: int
    trail: tuple[tuple[int, int], ...] | None

    def uri_of(self, name: str, limits: Limits) -> SkillUri:
        uri = make_uri((name,)) if self.uri is None else child_uri(self.uri, name)
        if len(uri) > limits.uri_bytes:
            message = f"its URI would have more than {limits.uri_bytes} characters"
            raise FormatError(Issue(rule="uri-too-long", message=message, fix="shorten names"))
        return uri


class Walk:
    """Walks one root, or one directory of it, and keeps what it finds in `skills` and `problems`.

    `has_outer_links` says that a link outside every skill was followed: then a skill has more than one place.
    With `on_skill` the walk judges no skill: it hands each one over, and keeps only what lies outside them.
    """

    def __init__(
        self,
        root: Root,
        *,
        limits: Limits,
        allow_oversize: bool = False,
        known: Known | None = None,
        on_skill: Callable[[FoundSkill], None] | None = None,
    ) -> None:
        self.skills: list[ScannedSkill] = []
        self.problems: list[Problem] = []
        self.has_outer_links = False
        self._root = root
        self._inside = os.path.join(root.path, "")
        self._limits = limits
        self._bench = Bench(root, limits=limits, allow_oversize=allow_oversize, known=known or Known())
        self._on_skill = on_skill
        self._directories = 0

    def run(self) -> Walk:
        """Walk the whole root; a `SourceError` when it cannot be read."""
        directory, prefix = str(self._root.path), self._root.prefix
        try:
            os.scandir(directory).close()
            place = self._starting_place(directory, make_uri(prefix) if prefix else None)
        except OSError as error:
            raise SourceError(f"{shown_uri(directory)} cannot be read: {error.strerror}") from None
        self._visit(place, (), may_be_named=True)
        return self

    def run_below(self, directory: str, uri: SkillUri) -> Walk:
        """Walk one directory of the root, which no skill encloses. When it is gone, nothing is found."""
        try:
            place = self._starting_place(directory, uri)
        except OSError as error:
            if is_passing(error):
                raise _not_now(directory, error) from None
            return self
        # A link that was good when it was last seen may lead elsewhere now.
        if self._is_inside(place.path):
            self._visit(place, ())
        return self

    def _starting_place(self, directory: str, uri: SkillUri | None) -> _Place:
        """Where to begin, as a walk from the root would have come there."""
        path = os.path.realpath(directory, strict=True)
        trail = self._trail(directory)
        return _Place(directory, path, uri, len(trail), None if path == directory else trail)

    def _trail(self, directory: str) -> tuple[tuple[int, int], ...]:
        """The identities of the directories from the root down to this one."""
        at = str(self._root.path)
        trail = [_identity(os.stat(at))]
        for name in os.path.relpath(directory, at).split(os.sep):
            if name != os.curdir:
                at = os.path.join(at, name)
                trail.append(_identity(os.stat(at)))
        return tuple(trail)

    def _visit(self, place: _Place, owners: tuple[SkillBuilder, ...], *, may_be_named: bool = False) -> bool:
        """Take in a directory; false when it is gone. `owners` are the skills around it, outermost first."""
        self._directories += 1
        if self._directories > self._limits.directories_per_root:
            raise LimitExceeded(
                f"{self._root.path} holds more than {self._limits.directories_per_root} directories; "
                "serve a directory that holds skills and little else"
            )
        try:
            with os.scandir(place.path) as entries:
                found = [entry for entry in entries if belongs_to_skill(entry.name)]
        except FileNotFoundError:
            return False  # Deleted since the directory around it was listed.
        except OSError as error:
            self._unreadable(owners, place.walked, error)
            return True
        found.sort(key=_name_of)
        # 1. Look at every child, links resolved.
        items: list[_Item] = []
        failed: list[tuple[str, OSError]] = []
        is_real = place.walked == place.path
        is_skill = False
        for entry in found:
            name, path = entry.name, entry.path
            walked = path if is_real else os.path.join(place.walked, name)
            try:
                if entry.is_dir(follow_symlinks=False):
                    items.append(_Item(name, walked, path, None))
                    continue
                if entry.is_symlink():
                    path = self._resolve(path, walked)
                    if path is None:
                        continue
                item = _Item(name, walked, path, os.stat(path, follow_symlinks=False))
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
                    SkillUri(f"{place.uri}/{SKILL_FILE}"), place.walked, is_nested=bool(owners)
                )
                owners = (*owners, mine)
        elif not owners:
            self._remark_misspelt(items)
        # 3. Take them in (FMT-8). What is empty is known only afterwards: some are passed over.
        for walked, error in failed:
            self._unreadable(owners, walked, error)
        kept = [item for item in items if self._take(item, place, owners)]
        if not kept and not failed and place.uri is not None:
            for owner in owners:
                owner.empty.append(place.uri)
        for owner in owners:
            if self._bench.is_oversize(owner):
                owner.forget_files()  # Counted on for the report; none of it will be read.
        # 4. All of it is known now.
        if mine is not None:
            self._finish(mine)
        return True

    def _named_root(self, place: _Place) -> _Place:
        """A root that is itself a skill has its own name as the last segment of the skill path."""
        try:
            return place._replace(uri=place.uri_of(self._root.path.name, self._limits))
        except FormatError as error:
            self._remark(place.walked, "file-name", error.issues[0].message, error.issues[0].fix)
            return place._replace(uri=None)

    def _resolve(self, path: str, walked: str) -> str | None:
        """What a link leads to; `None` and a remark when that is nothing, or lies outside the root."""
        try:
            path = os.path.realpath(path, strict=True)
        except OSError:
            self._remark(walked, "link-dangling", "is a link that leads nowhere", "mend or remove it")
            return None
        if not self._is_inside(path):
            message = "is a link that leaves the directory served"
            self._remark(walked, "link-leaves-root", message, "copy the file in")
            return None
        return path

    def _is_inside(self, path: str) -> bool:
        return path == str(self._root.path) or path.startswith(self._inside)

    def _take(self, item: _Item, place: _Place, owners: tuple[SkillBuilder, ...]) -> bool:
        """Take in one child of a directory; false when it is no part of what is served."""
        status = item.status
        is_directory = status is None or stat.S_ISDIR(status.st_mode)
        if not is_directory and not (owners and item.is_file):
            return False  # a file of no skill, a device, a pipe, a socket
        try:
            uri = place.uri_of(item.name, self._limits)
        except FormatError as error:
            issue = error.issues[0]
            self._blame(owners, item.walked, "file-name", issue.message, issue.fix)
            return True
        if status is None or is_directory:
            return self._enter(item, uri, place, owners)
        file = FoundFile(uri, item.path, item.walked, status)
        for owner in owners:
            owner.add(file)
        return True

    def _enter(self, item: _Item, uri: SkillUri, place: _Place, owners: tuple[SkillBuilder, ...]) -> bool:
        trail = place.trail
        if item.status is not None or trail is not None:
            try:
                trail = self._trail(place.walked) if trail is None else trail
                identity = _identity(item.status or os.stat(item.path, follow_symlinks=False))
            except FileNotFoundError:
                return False  # Deleted since the directory was listed.
            except OSError as error:
                self._unreadable(owners, item.walked, error)
                return True
            if identity in trail:
                return False  # a cycle of links
            trail = (*trail, identity)
        if place.depth > self._limits.directory_depth:
            self._blame(owners, item.walked, "too-deep", "lies too deep", "move it nearer to the top")
            return False
        if item.status is not None and not owners:
            self.has_outer_links = True
        return self._visit(_Place(item.walked, item.path, uri, place.depth + 1, trail), owners)

    def _finish(self, gathering: SkillBuilder) -> None:
        if self._on_skill is not None:
            self._on_skill(self._bench.measure(gathering))
            return
        match self._bench.finish(gathering):
            case Problem() as problem:
                self.problems.append(problem)
            case skill:
                self.skills.append(skill)

    def _remark_misspelt(self, items: list[_Item]) -> None:
        for item in items:
            if item.name.lower() == _SKILL_FILE_LOWER and item.is_file:
                self._remark(item.walked, "skill-md-case", "is not spelt SKILL.md", "rename it to SKILL.md")

    def _unreadable(self, owners: tuple[SkillBuilder, ...], walked: str, error: OSError) -> None:
        if is_passing(error):
            raise _not_now(walked, error) from None
        self._blame(owners, walked, "unreadable", f"cannot be read: {error.strerror}", "grant read access")

    def _remark(self, walked: str, rule: str, message: str, fix: str) -> None:
        """A problem that costs nothing but the thing itself."""
        self.problems.append(Problem(walked, (Issue(rule=rule, message=message, fix=fix),)))

    def _blame(
        self, owners: tuple[SkillBuilder, ...], walked: str, rule: str, message: str, fix: str
    ) -> None:
        """A problem that costs every skill it lies in."""
        if not owners:
            self._remark(walked, rule, message, fix)
        for owner in owners:
            owner.blame(walked, rule, message, fix)


def _not_now(path: str, error: OSError) -> SourceError:
    return SourceError(f"{shown_uri(path)} cannot be read now: {error.strerror}")


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino
