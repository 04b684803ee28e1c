"""SkillTable: the skills of all origins, each with a unique handle (ENT-4, ENT-5).

`Naming` is what skills are called, and which one keeps a name that several want. It is data, so that a host
can follow another host's conventions.

A handle that was shown or looked up once means the same skill for the life of the table. If a second skill
has the same name, both are qualified from then on; the old handle still means the first. Every collision is
reported once with its origins; copies of the same files do not collide.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cache
from typing import Final, TypeAlias

from skillwire.errors import AmbiguousName, FormatError, SkillNotFound
from skillwire.skill import MAX_NAME_LENGTH, SkillEntry, SkillUri, digest_of, shown_uri, skill_path
from skillwire.text import clean_line, shown
from skillwire.trust import Origin, shown_digest

MAX_HANDLE_LENGTH: Final = 200
_SHORT_MARK: Final = 8
_MARKS: Final = "-_.:/~"
BEFORE_MARK: Final = "~"
_RUN_OF_HYPHENS: Final = re.compile("-{2,}")
_PLAIN_NAME: Final = re.compile("[A-Za-z0-9]+(?:[._-][A-Za-z0-9]+)*+")
_PLAIN_HANDLE: Final = re.compile(f"[A-Za-z0-9]+(?:[{re.escape(_MARKS)}][A-Za-z0-9]+)*+")


@dataclass(frozen=True, slots=True, order=True)
class SkillKey:
    """The identity of a skill: its origin, and its URI there (ENT-4)."""

    origin: Origin
    uri: SkillUri

    def __hash__(self) -> int:
        return hash((self.origin.label, self.uri))  # Hashed many times per skill; the kind would cost most.


Spellings: TypeAlias = Callable[[Origin, SkillEntry], tuple[str, ...]]
"""The possible handles of a skill, from the shortest to the most specific."""

Keeper: TypeAlias = Callable[[Sequence[SkillKey]], SkillKey | None]
"""Which of several skills keeps a handle; with `None`, all get longer ones."""


def nobody(claimants: Sequence[SkillKey]) -> SkillKey | None:
    """All are qualified: no skill shadows another."""
    return None


def spec_spellings(origin: Origin, entry: SkillEntry) -> tuple[str, ...]:
    """`name`, then `label/name`, then `label:path/to/name` if a server has the name twice."""
    name = plain_name(entry)
    return name, f"{origin.label}/{name}", f"{origin.label}:{'/'.join(skill_path(entry.uri))}"


@dataclass(frozen=True, slots=True)
class Naming:
    """The handles of skills, and which skill keeps one in a collision."""

    spellings: Spellings = spec_spellings
    keeper: Keeper = nobody

    def handles(self, key: SkillKey, entry: SkillEntry) -> tuple[str, ...]:
        """The possible handles in plain characters, whatever the server sent; the last one is unique."""
        return *self.spelled_handles(key, entry), *self.marked_handles(key, entry)

    def spelled_handles(self, key: SkillKey, entry: SkillEntry) -> tuple[str, ...]:
        """Those without a mark, which are enough for most skills."""
        handles = dict.fromkeys(map(clean_handle, self.spellings(key.origin, entry)))
        return tuple([handle for handle in handles if handle and len(handle) <= MAX_HANDLE_LENGTH])

    def marked_handles(self, key: SkillKey, entry: SkillEntry) -> tuple[str, str]:
        """Those with a mark of the URI: a short one, and the unique one."""
        stem = f"{key.origin.label}/{plain_name(entry)}{BEFORE_MARK}"
        mark = digest_of(key.uri.encode())[len("sha256:") :]
        return stem + mark[:_SHORT_MARK], stem + mark


SPEC_NAMING: Final = Naming()


def plain_name(entry: SkillEntry) -> str:
    """The skill's name, reduced to letters, digits, `-`, `_` and `.`."""
    name = entry.name
    if len(name) <= MAX_NAME_LENGTH and _PLAIN_NAME.fullmatch(name):
        return name  # Most are as they may be.
    named = clean_handle(name, marks="-_.") or clean_handle(skill_path(entry.uri)[-1], marks="-_.")
    return named[:MAX_NAME_LENGTH].strip("-_.") or "skill"


def clean_handle(text: str, *, marks: str = _MARKS) -> str:
    """Text as part of a handle: letters, digits, a few marks, and hyphens for everything else."""
    if "_" in marks and (_PLAIN_HANDLE if marks == _MARKS else _PLAIN_NAME).fullmatch(text):
        return text  # Most are as they may be.
    # SEC-11: some invisible characters count as letters.
    seen = clean_line(text).text
    plain = _others(marks).sub("-", seen)
    return _RUN_OF_HYPHENS.sub("-", plain).strip(_MARKS)


@cache
def _others(marks: str) -> re.Pattern[str]:
    """A pattern for everything except letters, digits and these marks. `_` counts as a letter unless
    excluded.
    """
    return re.compile(f"[^\\w{re.escape(marks)}]" + ("" if "_" in marks else "|_"))


def fold_handle(handle: str) -> str:
    """A handle in the form in which handles are compared, ignoring case and width."""
    if handle.isascii():
        lowered = handle.lower()
        return handle if lowered == handle else lowered  # One copy of the many that are in lower case.
    return unicodedata.normalize("NFKC", handle).casefold()


@dataclass(frozen=True, slots=True)
class Selection:
    """Patterns such as `refund*`, ignoring case. `include` has one list for each file that has rules."""

    include: tuple[tuple[str, ...], ...] = ()
    exclude: tuple[str, ...] = ()

    def narrowed(self, *, include: Iterable[str] | None = None, exclude: Iterable[str] = ()) -> Selection:
        """Add rules: includes are intersected, excludes merged; an empty include denies all."""
        included = self.include if include is None else (*self.include, tuple(include))
        return Selection(included, (*self.exclude, *exclude))

    def admits(self, entry: SkillEntry) -> bool:
        """Whether the user wants this skill."""
        if not self.include and not self.exclude:
            return True
        # Both the name as the server sent it and as it is shown: hidden characters must not evade a pattern.
        names = {fold_handle(entry.name), fold_handle(plain_name(entry))}
        return all(_fits(names, patterns) for patterns in self.include) and not _fits(names, self.exclude)


EVERYTHING: Final = Selection()


def _fits(names: Iterable[str], patterns: Iterable[str]) -> bool:
    folded = [fold_handle(pattern) for pattern in patterns]
    return any(fnmatchcase(name, pattern) for name in names for pattern in folded)


_NEAR = 3


@dataclass(frozen=True, slots=True)
class HostSkill:
    """A skill of the registry. `listed` is false if it was only found by its URI."""

    origin: Origin
    entry: SkillEntry
    handle: str
    enabled: bool = True
    listed: bool = True

    @property
    def uri(self) -> SkillUri:
        return self.entry.uri

    @property
    def key(self) -> SkillKey:
        return SkillKey(self.origin, self.entry.uri)


def copies_of(skills: Iterable[HostSkill]) -> dict[SkillKey, tuple[HostSkill, ...]]:
    """The other skills with the name and exactly the files of a skill, by the one that stands for them.

    That is the user's own, then the one with the first label, in whichever order they come. A skill without
    digests is nobody's copy. Only names that occur twice cost anything.
    """
    first: dict[str, HostSkill] = {}
    by_name: dict[str, list[HostSkill]] = {}
    for skill in skills:
        if (other := first.setdefault(skill.entry.name, skill)) is not skill:
            by_name.setdefault(skill.entry.name, [other]).append(skill)
    found: dict[SkillKey, tuple[HostSkill, ...]] = {}
    for alike in by_name.values():
        groups: dict[str, list[HostSkill]] = {}
        for skill in sorted(alike, key=_preference):
            if digest := _digest_of(skill.entry):
                groups.setdefault(digest, []).append(skill)
        found |= {group[0].key: tuple(group[1:]) for group in groups.values() if len(group) > 1}
    return found


def without_copies(skills: Sequence[HostSkill]) -> tuple[HostSkill, ...]:
    """The skills, and of equal ones the first: a model has no use for the same text under two names."""
    copies = {copy.key for group in copies_of(skills).values() for copy in group}
    return tuple(skill for skill in skills if skill.key not in copies) if copies else tuple(skills)


def _preference(skill: HostSkill) -> tuple[str, str, str]:
    """The order of equal skills: the user's own comes first, then the first label."""
    return skill.origin.kind, skill.origin.label, skill.uri


def _are_copies(skills: Sequence[HostSkill]) -> bool:
    """Whether all of them have the same name and files."""
    return len(copies_of(skills).get(skills[0].key, ())) == len(skills) - 1


def _digest_of(entry: SkillEntry) -> str:
    try:
        return shown_digest(entry) or ""
    except FormatError:
        return ""


@dataclass(frozen=True, slots=True)
class Collision:
    """Several skills have the same name. `skills` have the handles that are shown instead."""

    handle: str
    skills: tuple[HostSkill, ...]

    def __str__(self) -> str:
        each = ", ".join(f"{skill.handle} from {skill.origin}" for skill in self.skills)
        return f"{len(self.skills)} skills are called {self.handle}; they are shown as {each}"


@dataclass(frozen=True, slots=True)
class Changes:
    """The skills that one update added, changed and removed.

    `collisions` are those that the update brought about, not those that were there before.
    """

    added: tuple[HostSkill, ...] = ()
    changed: tuple[HostSkill, ...] = ()
    removed: tuple[HostSkill, ...] = ()
    collisions: tuple[Collision, ...] = ()


@dataclass(frozen=True, slots=True)
class _Record:
    """A skill with the handles that it may be given without a mark, the preferred one first.

    `folds` are the handles as they are compared. A skill that is not `listed` was found by its URI.
    """

    key: SkillKey
    entry: SkillEntry
    listed: bool
    handles: tuple[str, ...]
    folds: tuple[str, ...]


_Records: TypeAlias = dict[Origin, dict[SkillUri, _Record]]


class SkillTable:
    """Skills by (origin, URI), and their handles."""

    def __init__(self, naming: Naming = SPEC_NAMING) -> None:
        self._naming = naming
        self._records: _Records = {}
        self._shown: dict[SkillKey, str] = {}
        self._meanings: dict[str, SkillKey] = {}
        self._contested: set[str] = set()
        self._reported: dict[str, frozenset[SkillKey]] = {}
        self._origins: dict[str, Origin] = {}
        self._disabled: set[SkillKey] = set()
        self._watchers: list[Callable[[Changes], None]] = []
        # Cached results of frequent calls, until something changes.
        self._listed: dict[bool, tuple[HostSkill, ...]] = {}
        self._uris: dict[Origin, frozenset[SkillUri]] = {}

    def watch(self, tell: Callable[[Changes], None]) -> None:
        """Call a function after every update from now on."""
        self._watchers.append(tell)

    def replace(self, origin: Origin, entries: Iterable[SkillEntry]) -> Changes:
        """Replace the listing of an origin. Skills added by URI are kept: a listing may be partial."""
        # LST-3: a skill that is not listed may still be served.
        return self.replace_many({origin: entries})

    def replace_many(self, listings: Mapping[Origin, Iterable[SkillEntry]]) -> Changes:
        """Replace the listings of several origins at once, so that their order does not matter."""
        self._claim_labels(listings)
        records = dict(self._records)
        for origin, entries in listings.items():
            fresh: dict[SkillUri, SkillEntry] = {}
            for entry in entries:
                # The reader of listings reports a skill that is listed twice.
                fresh.setdefault(entry.uri, entry)
            known = self._records.get(origin, {})
            records[origin] = {uri: record for uri, record in known.items() if not record.listed}
            records[origin] |= {
                uri: self._record(origin, entry, known.get(uri), listed=True) for uri, entry in fresh.items()
            }
        return self._update(records)

    def add(self, origin: Origin, entry: SkillEntry) -> Changes:
        """Add a skill that was found by its URI. It is kept until its origin is cleared."""
        self._claim_labels((origin,))
        known = self._records.get(origin, {})
        listed = entry.uri in known and known[entry.uri].listed
        record = self._record(origin, entry, known.get(entry.uri), listed=listed)
        return self._update({**self._records, origin: {**known, entry.uri: record}})

    def clear(self, origin: Origin) -> Changes:
        """Remove all skills of an origin. Their handles stay reserved."""
        return self._update({other: known for other, known in self._records.items() if other != origin})

    def set_enabled(self, key: SkillKey, enabled: bool) -> None:
        """Disable or enable a skill, even before it is added."""
        if enabled is (key not in self._disabled):
            return
        self._listed.clear()
        if enabled:
            self._disabled.discard(key)
        else:
            self._disabled.add(key)
        for tell in self._watchers:
            tell(Changes())

    def skills(self, *, disabled: bool = False) -> tuple[HostSkill, ...]:
        """The enabled skills, or with `disabled` all; local ones first, then by label.

        Returns the same tuple while nothing changes.
        """
        disabled = disabled and bool(self._disabled)  # The same tuple if there are none.
        if disabled not in self._listed:
            origins = sorted(self._records, key=lambda origin: (origin.kind, origin.label))
            records = [
                self._records[origin][uri] for origin in origins for uri in sorted(self._records[origin])
            ]
            skills = map(self._skill, records)
            self._listed[disabled] = tuple([skill for skill in skills if disabled or skill.enabled])
        return self._listed[disabled]

    def uris(self, origin: Origin) -> frozenset[SkillUri]:
        """The URIs of all skills of an origin, for `is_nested`."""
        if origin not in self._uris:
            self._uris[origin] = frozenset(self._records.get(origin, ()))
        return self._uris[origin]

    def get(self, key: SkillKey) -> HostSkill | None:
        """The skill of this origin and URI, enabled or not."""
        record = self._at(key)
        return self._skill(record) if record is not None else None

    def find(self, handle: str) -> HostSkill:
        """The skill that a handle means; `SkillNotFound` or `AmbiguousName` otherwise."""
        if handle in self._meanings:
            return self._usable(self._meanings[handle], handle)
        keys = [record.key for record in self._all() if self._may_be(record, handle)]
        keys = [key for key in keys if key not in self._disabled] or keys
        if not keys:
            raise self._not_found(handle)
        if len(keys) > 1:
            # ENT-5: copies of the same bytes are one skill to whoever asks. Which one is meant is decided
            # again each time: one of them may change.
            alike = sorted(map(self._required, keys), key=_preference)
            if _are_copies(alike):
                return self._usable(alike[0].key, handle)
            raise AmbiguousName(shown(handle), sorted(self._shown[key] for key in keys))
        skill = self._usable(keys[0], handle)
        self._meanings[handle] = skill.key
        return skill

    def find_uri(self, uri: SkillUri, label: str | None = None) -> HostSkill:
        """The skill with this URI, on the server of this label if one is given."""
        keys = [
            known[uri].key
            for origin, known in self._records.items()
            if uri in known and label in (None, origin.label)
        ]
        keys = [key for key in keys if key not in self._disabled] or keys
        if not keys:
            place = f" on {shown(label)}" if label is not None else ""
            raise SkillNotFound(f"no skill {shown_uri(uri)} is known{place}: check the URI", uri=uri)
        if len(keys) > 1:
            raise AmbiguousName(shown_uri(uri), sorted(self._shown[key] for key in keys))
        return self._usable(keys[0], shown_uri(uri))

    def _claim_labels(self, origins: Iterable[Origin]) -> None:
        for origin in origins:
            holder = self._origins.get(origin.fold, origin)
            if holder != origin:
                # SEC-1: `demo/refunds` must not mean a directory today and a server tomorrow.
                raise FormatError.of(
                    rule="origin-label-taken",
                    message=f"{origin} has the label of {holder}",
                    fix="give each server and directory a label of its own",
                )
            self._origins[origin.fold] = origin

    def _all(self) -> Iterable[_Record]:
        return (record for known in self._records.values() for record in known.values())

    def _at(self, key: SkillKey) -> _Record | None:
        return self._records.get(key.origin, {}).get(key.uri)

    def _record(self, origin: Origin, entry: SkillEntry, known: _Record | None, *, listed: bool) -> _Record:
        """The record of an entry; that of the one before, `known`, where it says the same."""
        if known is not None and (known.entry is entry or known.entry == entry):
            return (
                known
                if known.entry is entry and known.listed == listed
                else replace(known, entry=entry, listed=listed)
            )
        key = SkillKey(origin, entry.uri)
        handles = self._naming.spelled_handles(key, entry) or self._naming.marked_handles(key, entry)
        folds = tuple(map(fold_handle, handles))
        return _Record(key, entry, listed, handles, handles if folds == handles else folds)

    def _update(self, records: _Records) -> Changes:
        before = self._records
        touched = [
            origin
            for origin in dict.fromkeys((*before, *records))
            if before.get(origin) is not records.get(origin)
        ]
        if records == before:
            # Most listings are asked for again and say nothing new, and most of those in the same words.
            if any(
                records[origin][uri] is not before[origin][uri]
                for origin in touched
                for uri in records[origin]
            ):
                self._records = records
                self._listed.clear()
            return Changes()
        self._listed.clear()
        self._uris.clear()
        was = {record.key: record for origin in touched for record in before.get(origin, {}).values()}
        now = {record.key: record for origin in touched for record in records.get(origin, {}).values()}
        removed = tuple(self._skill(record) for key, record in was.items() if key not in now)
        added = [record for key, record in now.items() if key not in was]
        changed = [record for key, record in now.items() if key in was and record.entry != was[key].entry]
        self._records = records
        shared = self._name_all()
        moved = (*added, *changed, *(was[skill.key] for skill in removed)) if shared else ()
        changes = Changes(
            added=tuple(map(self._skill, added)),
            changed=tuple(map(self._skill, changed)),
            removed=removed,
            collisions=tuple(self._new_collisions(shared, {fold for one in moved for fold in one.folds})),
        )
        for tell in self._watchers:
            tell(changes)
        return changes

    def _name_all(self) -> dict[str, list[_Record]]:
        """Give every skill its handle; the records that share one, by that handle as it is compared."""
        first: dict[str, _Record] = {}
        shared: dict[str, list[_Record]] = {}
        for record in self._all():
            for fold in record.folds:
                if (other := first.setdefault(fold, record)) is not record:
                    shared.setdefault(fold, [other]).append(record)
        self._contested.update(shared)
        self._shown = {record.key: self._handle_for(record, shared) for record in self._all()}
        if marked := [
            self._records[key.origin][key.uri] for key, handle in self._shown.items() if not handle
        ]:
            self._mark(marked)
        return shared

    def _new_collisions(
        self, shared: Mapping[str, Sequence[_Record]], moved: Collection[str]
    ) -> Iterator[Collision]:
        """The collisions of bare names among `moved` that were not reported; not again for longer handles.

        Copies are one skill: they collide when one of them changes.
        """
        for fold in (fold for fold in shared if fold in moved):
            records = shared[fold]
            if records[0].folds[0] != fold:
                continue
            skills = without_copies([self._skill(record) for record in records])
            known, keys = self._reported.get(fold, frozenset()), [skill.key for skill in skills]
            if len(skills) > 1 and not known.issuperset(keys):
                self._reported[fold] = known.union(keys)
                yield Collision(records[0].handles[0], skills)

    def _handle_for(self, record: _Record, shared: Mapping[str, list[_Record]]) -> str:
        """The first of its handles that a skill may have; empty if it needs a mark."""
        key = record.key
        for handle, fold in zip(record.handles, record.folds, strict=True):
            keeps = fold not in self._contested or self._keeper(shared.get(fold, [record])) == key
            if keeps and ((holder := self._meanings.setdefault(handle, key)) is key or holder == key):
                return handle
        return ""

    def _mark(self, records: Iterable[_Record]) -> None:
        """Give these skills handles with a mark: the short one, unless several have it."""
        marked = {record.key: self._naming.marked_handles(record.key, record.entry) for record in records}
        counts = Counter(fold_handle(short) for short, _ in marked.values())
        self._contested.update(fold for fold, count in counts.items() if count > 1)
        for key, (short, unique) in marked.items():
            is_taken = fold_handle(short) in self._contested or self._meanings.get(short, key) != key
            self._shown[key] = handle = unique if is_taken else short
            self._meanings[handle] = key

    def _may_be(self, record: _Record, handle: str) -> bool:
        """Whether a skill may be called by this handle."""
        return handle in record.handles or (
            BEFORE_MARK in handle and handle in self._naming.marked_handles(record.key, record.entry)
        )

    def _keeper(self, records: Iterable[_Record]) -> SkillKey | None:
        return self._naming.keeper([record.key for record in records])

    def _skill(self, record: _Record) -> HostSkill:
        key = record.key
        enabled = not self._disabled or key not in self._disabled  # Most hosts disable nothing.
        return HostSkill(key.origin, record.entry, self._shown[key], enabled, record.listed)

    def _required(self, key: SkillKey) -> HostSkill:
        return self._skill(self._records[key.origin][key.uri])

    def _usable(self, key: SkillKey, called: str) -> HostSkill:
        record = self._at(key)
        if record is None:
            raise self._not_found(called)
        if key in self._disabled:
            raise SkillNotFound(f"{shown(called)} is disabled: enable it to use it", uri=key.uri)
        return self._skill(record)

    def _not_found(self, called: str) -> SkillNotFound:
        names: dict[str, list[str]] = {}
        for skill in self.skills():
            for name in {skill.handle, self._records[skill.origin][skill.uri].handles[0]}:
                names.setdefault(fold_handle(name), []).append(skill.handle)
        matches = get_close_matches(fold_handle(called[:MAX_HANDLE_LENGTH]), names, n=_NEAR)
        near = list(dict.fromkeys(handle for match in matches for handle in names[match]))[:_NEAR]
        advice = f"did you mean {' or '.join(near)}?" if near else "list the skills to see their names"
        return SkillNotFound(f"no skill is called {shown(called)}: {advice}")
