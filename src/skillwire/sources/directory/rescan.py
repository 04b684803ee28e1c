"""Where to walk again after a change: only the outermost directories that it can affect. A skill's manifest
includes nested skills (FMT-8), so a walk starts at the outermost skill around a change. Here, a skill is a
directory that was one at the last scan or has a `SKILL.md` now.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from skillwire.errors import FormatError
from skillwire.skill.files import belongs_to_skill
from skillwire.skill.uris import SKILL_FILE, SkillUri, child_uri, make_uri, skill_root
from skillwire.sources.directory.roots import Root
from skillwire.sources.directory.snapshot import ScannedSkill, Snapshot


@dataclass(frozen=True, slots=True)
class Start:
    """A directory outside of skills to walk again. It may no longer exist."""

    root: Root
    directory: str
    uri: SkillUri

    def covers(self, other: Start) -> bool:
        return self.root == other.root and os.path.join(other.directory, "").startswith(
            os.path.join(self.directory, "")
        )


class _Everything(Exception):
    """A change that requires a full walk."""


def starts_for(paths: Iterable[str], snapshot: Snapshot, roots: Sequence[Root]) -> tuple[Start, ...] | None:
    """Where to walk after a change at these paths; `None` means everywhere."""
    if snapshot.has_outer_links:
        return None
    found: dict[tuple[Root, str], Start] = {}
    try:
        for path in {*paths, *_watched_from_afar(snapshot)}:
            for root in roots:
                start = _start(path, root, snapshot)
                if start is not None:
                    found[root, start.directory] = start
    except (_Everything, FormatError):
        return None
    return _outermost(found.values())


def start_of(skill: ScannedSkill) -> Start:
    """The start of a walk over one outermost skill."""
    return Start(skill.root, skill.directory, skill_root(skill.walked.entry.uri))


def concerns_skills(path: str, roots: Iterable[Root]) -> bool:
    """Whether a change at this path is relevant, by the rules of what belongs to a skill."""
    return any(
        (names := _names(path, root)) is not None and all(map(belongs_to_skill, names)) for root in roots
    )


def is_below(path: str, places: Iterable[str]) -> bool:
    """Whether a change at this path outside the roots can affect the targets of links."""
    for place in places:
        inside = os.path.join(place, "")
        if path == place or (
            path.startswith(inside) and all(map(belongs_to_skill, path[len(inside) :].split(os.sep)))
        ):
            return True
    return False


def _watched_from_afar(snapshot: Snapshot) -> Iterator[str]:
    """The skills that can change without a change in their own directory, because they contain links."""
    for uri in snapshot.linked:
        yield snapshot.skills_around(uri)[0].directory
    for problem in snapshot.problems:
        if any(issue.rule.startswith("link-") for issue in problem.issues):
            yield problem.place


def _start(path: str, root: Root, snapshot: Snapshot) -> Start | None:
    names = _names(path, root)
    if names is None or not all(map(belongs_to_skill, names)):
        return None
    at, uri = str(root.path), make_uri(root.prefix) if root.prefix else None
    # The URI of a root that is itself a skill ends with its name, which is not part of any path in it.
    if not names or os.path.lexists(os.path.join(at, SKILL_FILE)) or names == [SKILL_FILE]:
        raise _Everything
    if any(skill.directory == at for skill in _skill_named(root, snapshot)):
        raise _Everything
    for name in names:
        if uri is not None and _is_skill(at, uri, root, snapshot):
            return Start(root, at, uri)
        parent, parent_uri = at, uri
        at = os.path.join(at, name)
        uri = make_uri((name,)) if uri is None else child_uri(uri, name)
        if name.lower() == SKILL_FILE.lower():
            # It may belong to a skill that was left out, or be misspelled, so its directory is walked.
            if parent_uri is None:
                raise _Everything
            return Start(root, parent, parent_uri)
    if uri is None:
        raise AssertionError("a path below a root has at least one name")
    if os.path.islink(at):
        raise _Everything
    # A file outside of skills is irrelevant. A removed path may have been a directory of skills.
    return None if os.path.isfile(at) else Start(root, at, uri)


def _skill_named(root: Root, snapshot: Snapshot) -> tuple[ScannedSkill, ...]:
    """The skill that a root itself was, if it was one."""
    try:
        uri = make_uri((*root.prefix, root.path.name, SKILL_FILE))
    except FormatError:
        return ()
    skill = snapshot.get(uri)
    return () if skill is None or skill.root != root else (skill,)


def _is_skill(directory: str, uri: SkillUri, root: Root, snapshot: Snapshot) -> bool:
    known = snapshot.get(SkillUri(f"{uri}/{SKILL_FILE}"))
    if known is not None and known.root == root:
        return True
    return os.path.isfile(os.path.join(directory, SKILL_FILE))


def _names(path: str, root: Root) -> list[str] | None:
    """The path segments from a root to a path; `None` outside of it."""
    at = str(root.path)
    if path == at:
        return []
    inside = os.path.join(at, "")
    return path[len(inside) :].split(os.sep) if path.startswith(inside) else None


def _outermost(starts: Collection[Start]) -> tuple[Start, ...]:
    kept: list[Start] = []
    for start in sorted(starts, key=lambda start: (str(start.root.path), start.directory + os.sep)):
        if not kept or not kept[-1].covers(start):
            kept.append(start)
    return tuple(kept)
