"""The scan of all roots together, which decides the URI of each skill.

1. Walk every root.
2. If several roots have skills at the same URIs, the outermost skill wins; of two at the same place, that of
   the first root.
3. A skill whose name is not its directory's is served under its name, at PARENT/NAME, since the last segment
   of the path must be the name (FMT-3). If that is taken, at PARENT/DIRECTORY/NAME. It never displaces a
   skill that is named like its directory.
4. A nested skill whose name is not its directory's is only served as files of the outer skill, which lists
   those files under their real path (FMT-8).
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Final

from skillwire.errors import FormatError, Issue, Severity
from skillwire.limits import Limits
from skillwire.skill import (
    SKILL_FILE,
    SkillEntry,
    SkillResource,
    SkillUri,
    belongs_to_skill,
    child_uri,
    make_uri,
    shown_uri,
    skill_name_in,
    skill_root,
)
from skillwire.sources.base import Conflict, Problem, directories_down_to, resolve_conflicts
from skillwire.sources.directory.builder import Known, Rules
from skillwire.sources.directory.files import LinkScope, Root
from skillwire.sources.directory.snapshot import NO_LINKS, ScannedSkill, Snapshot
from skillwire.sources.directory.walk import Walk
from skillwire.text import shown

URI_TAKEN = "uri-taken"
_NOT_DIRECTORY = "name-not-directory"


def scan(
    roots: Sequence[Root],
    *,
    limits: Limits,
    reach: LinkScope,
    rules: Rules,
    known: Known | None = None,
    before: Snapshot | None = None,
) -> Snapshot:
    """Walk every root and build the combined snapshot. A root that existed `before` and is missing now is
    treated as empty until it is back.
    """
    walks: list[Walk] = []
    problems: list[Problem] = []
    for root in roots:
        walk = Walk(root, limits=limits, reach=reach, rules=rules, known=known)
        walks.append(walk)
        if before is not None and not os.path.isdir(root.path):
            problems.append(_gone(root))
        else:
            walk.run()
            problems += walk.problems
    skills = _settle(walks, problems, before)
    problems += [Problem(skill.directory, skill.warnings) for skill in skills if skill.warnings]
    return Snapshot(
        skills,
        problems,
        before=before,
        has_outer_links=any(walk.has_outer_links for walk in walks),
        outside=frozenset[str]().union(*(walk.outside for walk in walks)),
    )


def is_misnamed(skill: ScannedSkill) -> bool:
    """Whether the name is not that of the directory, so that the skill has another URI."""
    uri = skill.entry.uri
    return not uri.endswith(f"/{skill.entry.name}/{SKILL_FILE}") and skill_name_in(uri) != skill.entry.name


@dataclass(frozen=True, slots=True)
class _Tree:
    """A skill that cannot be served under the name of its directory, and the skills inside it."""

    outer: ScannedSkill
    inner: tuple[ScannedSkill, ...]


def _settle(walks: Sequence[Walk], problems: list[Problem], before: Snapshot | None) -> list[ScannedSkill]:
    """The skills that are served, with the URIs that they are served under."""
    owned: dict[tuple[SkillUri, int], ScannedSkill] = {}
    trees: list[_Tree] = []
    for number, walk in enumerate(walks):
        plain: Iterable[ScannedSkill] = walk.skills
        if any(map(is_misnamed, walk.skills)):
            plain, misnamed = _separate(walk.skills, problems)
            trees += misnamed
        owned |= {(skill.entry.uri, number): skill for skill in plain}
    if len(walks) > 1:
        for lost in resolve_conflicts(owned).lost:
            skill = owned.pop((lost.uri, lost.owner))
            winner = owned[lost.winner, lost.winning_owner]
            # One skill that two roots reach, one of them through a link, is not a conflict.
            if os.path.realpath(skill.directory) != os.path.realpath(winner.directory):
                problems.append(_collision(skill, winner, lost))
    served = list(owned.values())
    return [*served, *_rename(trees, served, problems, before)] if trees else served


def _separate(
    skills: Sequence[ScannedSkill], problems: list[Problem]
) -> tuple[list[ScannedSkill], list[_Tree]]:
    """The skills that keep the URI of their directory, and the trees of those that cannot."""
    by_root = {skill_root(skill.entry.uri): skill for skill in skills}
    plain: list[ScannedSkill] = []
    inner: dict[SkillUri, list[ScannedSkill]] = {}
    for root, skill in by_root.items():
        outermost = next(by_root[at] for at in directories_down_to(root) if at in by_root)
        if outermost is skill:
            if is_misnamed(skill):
                inner.setdefault(root, [])
            else:
                plain.append(skill)
        elif is_misnamed(skill):
            problems.append(_only_files(skill))
        elif is_misnamed(outermost):
            inner.setdefault(skill_root(outermost.entry.uri), []).append(skill)
        else:
            plain.append(skill)
    return plain, [_Tree(by_root[root], tuple(inner[root])) for root in sorted(inner)]


def _rename(
    trees: Iterable[_Tree],
    served: Iterable[ScannedSkill],
    problems: list[Problem],
    before: Snapshot | None,
) -> Iterator[ScannedSkill]:
    """The trees under the names of their skills, if those places are free."""
    taken = {skill_root(skill.entry.uri) for skill in served}
    # A skill's directory cannot contain files of other sources, so its parents are not available either.
    parents = {at for root in taken for at in directories_down_to(root)}
    for tree in trees:
        place = skill_root(tree.outer.entry.uri)
        for root in _places_for(place, tree.outer.entry.name):
            if root not in parents and not any(at in taken for at in directories_down_to(root)):
                taken.add(root)
                parents.update(directories_down_to(root))
                for skill in (tree.outer, *tree.inner):
                    moved = SkillUri(root + skill.entry.uri[len(place) :])
                    yield _moved(skill, moved, before)
                break
        else:
            problems.append(_name_taken(tree.outer))


def _places_for(place: SkillUri, name: str) -> Iterator[SkillUri]:
    """Where a misnamed skill may be served: PARENT/NAME, otherwise PARENT/DIRECTORY/NAME."""
    parent = place.rpartition("/")[0]
    with suppress(FormatError):
        yield make_uri((name,)) if parent.endswith("/") else child_uri(SkillUri(parent), name)
        yield child_uri(place, name)


def _moved(skill: ScannedSkill, uri: SkillUri, before: Snapshot | None) -> ScannedSkill:
    """The skill under another URI. Returns the same object as before if nothing changed."""
    known = None if before is None else before.skills.get(uri)
    if known is not None and known.origin is skill:
        return known
    old, new = skill_root(skill.entry.uri), skill_root(uri)

    def move(inside: SkillUri) -> SkillUri:
        return SkillUri(new + inside[len(old) :])

    resources = tuple([SkillResource(move(file.uri), file.digest, file.size) for file in skill.resources])
    warnings = [issue for issue in skill.warnings if issue.rule != _NOT_DIRECTORY]
    if is_misnamed(skill):
        warnings.insert(0, _renamed(skill, new))
    entry = SkillEntry(uri, skill.entry.frontmatter, resources, skill.entry.meta, skill.entry.draft)
    return replace(
        skill,
        entry=known.entry if known is not None and known.entry == entry else entry,
        empty_directories=tuple(map(move, skill.empty_directories)),
        links={move(file): path for file, path in skill.links.items()} or NO_LINKS,
        warnings=tuple(warnings),
        origin=skill,
    )


def _renamed(skill: ScannedSkill, root: SkillUri) -> Issue:
    line = next((issue.line for issue in skill.warnings if issue.rule == _NOT_DIRECTORY), None)
    return Issue(
        rule=_NOT_DIRECTORY,
        message=f"the name `{shown(skill.entry.name)}` is not the name of its directory, so it is served at "
        f"{shown_uri(root)}",
        fix="give the skill and its directory the same name",
        file=SKILL_FILE,
        line=line,
        severity=Severity.WARNING,
    )


def _only_files(skill: ScannedSkill) -> Problem:
    consequence = "it is inside another skill, so its files are only served as files of that skill"
    return _misnamed(skill, _NOT_DIRECTORY, consequence)


def _name_taken(skill: ScannedSkill) -> Problem:
    return _misnamed(skill, URI_TAKEN, "other skills are served where its name would put it")


def _misnamed(skill: ScannedSkill, rule: str, consequence: str) -> Problem:
    issue = Issue(
        rule=rule,
        message=f"the name `{shown(skill.entry.name)}` is not that of its directory, and {consequence}",
        fix="give the skill and its directory the same name",
        file=SKILL_FILE,
    )
    return Problem(skill.directory, (issue,))


def _gone(root: Root) -> Problem:
    issue = Issue(rule="root-gone", message="the directory is gone", fix="put it back")
    return Problem(str(root.path), (issue,))


def _collision(skill: ScannedSkill, winner: ScannedSkill, lost: Conflict) -> Problem:
    place = shown_uri(winner.directory)
    if lost.uri == lost.winner:
        message = f"{shown_uri(lost.uri)} is already served from {place}"
    else:
        message = f"{shown_uri(lost.uri)} lies inside {shown_uri(lost.winner)}, served from {place}"
    fix = "give one of the directories a prefix, as in acme=./skills"
    return Problem(skill.directory, (Issue(rule=URI_TAKEN, message=message, fix=fix),))


# Where to walk again after a change: only the outermost directories that it can affect. A skill's manifest
# includes nested skills (FMT-8), so a walk starts at the outermost skill around a change. Here, a skill is a
# directory that was one at the last scan or has a `SKILL.md` now.


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


# The problems of a scan in a few lines, with a share for every directory and every rule.

# The number of problems of one rule that are listed separately.
_LISTED: Final = 3


def problems_of(root: Root, problems: Iterable[Problem]) -> list[Problem]:
    """The problems of one directory."""
    inside = os.path.join(root.path, "")
    return [one for one in problems if one.place == str(root.path) or one.place.startswith(inside)]


def problem_lines(problems: Sequence[Problem], roots: Sequence[Root], *, limit: int) -> list[str]:
    """At most `limit` lines about the problems, and one that counts the rest. Skills that were left out come
    before warnings. Many problems of one rule share a line. The directories take turns, so that none hides
    the others.
    """
    lines: list[tuple[str, int]] = []
    for is_left_out in (True, False):
        chosen = [one for one in problems if one.is_left_out is is_left_out]
        word = "left out" if is_left_out else "warning"
        shares = [_lines(word, problems_of(root, chosen)) for root in _outermost_roots(roots)]
        lines += [line for turn in zip_longest(*shares) for line in turn if line is not None]
    shown = lines[:limit]
    rest = sum(count for _, count in lines[limit:])
    text = [line for line, _ in shown]
    if rest:
        text.append(f"... and {rest:,} more; skillwire lint shows them all")
    return text


def _lines(word: str, problems: Iterable[Problem]) -> Iterator[tuple[str, int]]:
    """Lines about the problems of one directory, each with the number of problems that it covers."""
    groups: dict[str, list[Problem]] = {}
    for one in problems:
        groups.setdefault(one.issues[0].rule, []).append(one)
    for rule, group in groups.items():
        if len(group) <= _LISTED:
            yield from ((f"{word}: {one}", 1) for one in group)
        else:
            yield f"{word}: {group[0]} [and {len(group) - 1:,} more with {rule}]", len(group)


def _outermost_roots(roots: Iterable[Root]) -> list[Root]:
    """The roots that are not inside another one, so that no problem is reported twice."""
    found: list[Root] = []
    for root in sorted(dict.fromkeys(roots), key=lambda root: len(root.path.parts)):
        if not any(root.path.is_relative_to(other.path) for other in found):
            found.append(root)
    return found
