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
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from skillwire.collector import collector_paused
from skillwire.errors import FormatError
from skillwire.issues import Issue, Severity, shown
from skillwire.limits import Limits
from skillwire.skill.entries import SkillEntry, SkillResource
from skillwire.skill.uris import (
    SKILL_FILE,
    SkillUri,
    child_uri,
    make_uri,
    shown_uri,
    skill_name_in,
    skill_root,
)
from skillwire.sources.base import Problem
from skillwire.sources.conflicts import Conflict, directories_down_to, resolve_conflicts
from skillwire.sources.directory.builder import Known, Rules
from skillwire.sources.directory.roots import Reach, Root
from skillwire.sources.directory.snapshot import NO_LINKS, ScannedSkill, Snapshot
from skillwire.sources.directory.walk import Walk

URI_TAKEN = "uri-taken"
_NOT_DIRECTORY = "name-not-directory"


def scan(
    roots: Sequence[Root],
    *,
    limits: Limits,
    reach: Reach,
    rules: Rules,
    known: Known | None = None,
    before: Snapshot | None = None,
) -> Snapshot:
    """Walk every root and build the combined snapshot. A root that existed `before` and is missing now is
    treated as empty until it is back.
    """
    with collector_paused():
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
