"""Registry: the skills of all origins, each with a unique handle (ENT-4, ENT-5).

A handle that was shown or looked up once means the same skill for the life of the registry. If a second skill
has the same name, both are qualified from then on; the old handle still means the first. Every collision is
reported with its origins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from skillwire.catalog.naming import MAX_HANDLE_LENGTH, SPEC_NAMING, Naming, SkillKey, fold_handle
from skillwire.errors import AmbiguousName, FormatError, SkillNotFound
from skillwire.issues import shown
from skillwire.skill.entries import SkillEntry
from skillwire.skill.uris import SkillUri, shown_uri
from skillwire.trust.origin import Origin

_NEAR = 3


@dataclass(frozen=True, slots=True)
class RegisteredSkill:
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


@dataclass(frozen=True, slots=True)
class Collision:
    """Several skills have the same name. `skills` have the handles that are shown instead."""

    handle: str
    skills: tuple[RegisteredSkill, ...]

    def __str__(self) -> str:
        each = ", ".join(f"{skill.handle} from {skill.origin}" for skill in self.skills)
        return f"{len(self.skills)} skills are called {self.handle}; they are shown as {each}"


@dataclass(frozen=True, slots=True)
class Changes:
    """What one update did."""

    added: tuple[RegisteredSkill, ...] = ()
    changed: tuple[RegisteredSkill, ...] = ()
    removed: tuple[RegisteredSkill, ...] = ()
    collisions: tuple[Collision, ...] = ()
    repeated: tuple[SkillKey, ...] = ()
    """Listed twice with different content; the first is used."""


@dataclass(frozen=True, slots=True)
class _Record:
    entry: SkillEntry
    listed: bool
    handles: tuple[str, ...]
    folds: tuple[str, ...]
    """The handles as they are compared."""


class Registry:
    """Skills by (origin, URI), and their handles."""

    def __init__(self, naming: Naming = SPEC_NAMING) -> None:
        self._naming = naming
        self._records: dict[SkillKey, _Record] = {}
        self._shown: dict[SkillKey, str] = {}
        self._meanings: dict[str, SkillKey] = {}
        self._contested: dict[str, frozenset[SkillKey]] = {}
        self._origins: dict[str, Origin] = {}
        self._disabled: set[SkillKey] = set()
        self._watchers: list[Callable[[Changes], None]] = []
        self._foreseen: dict[SkillKey, _Record] = {}
        # Cached results of frequent calls, until something changes.
        self._listed: dict[bool, tuple[RegisteredSkill, ...]] = {}
        self._uris: dict[Origin, frozenset[SkillUri]] = {}

    def watch(self, tell: Callable[[Changes], None]) -> None:
        """Call a function after every update from now on."""
        self._watchers.append(tell)

    def foresee(self, origin: Origin, entries: Iterable[SkillEntry]) -> None:
        """Compute the possible handles of these skills in advance, so that adding them takes less time."""
        for entry in entries:
            key = SkillKey(origin, entry.uri)
            self._foreseen[key] = self._record(key, entry, listed=True)

    def replace(self, origin: Origin, entries: Iterable[SkillEntry]) -> Changes:
        """Replace the listing of an origin. Skills added by URI are kept: a listing may be partial."""
        # LST-3: a skill that is not listed may still be served.
        return self.replace_many({origin: entries})

    def replace_many(self, listings: Mapping[Origin, Iterable[SkillEntry]]) -> Changes:
        """Replace the listings of several origins at once, so that their order does not matter."""
        self._claim_labels(listings)
        records = {
            key: record
            for key, record in self._records.items()
            if key.origin not in listings or not record.listed
        }
        repeated: list[SkillKey] = []
        fresh: dict[SkillKey, SkillEntry] = {}
        for origin, entries in listings.items():
            for entry in entries:
                key = SkillKey(origin, entry.uri)
                if fresh.setdefault(key, entry) != entry:
                    repeated.append(key)
        records.update({key: self._record(key, entry, listed=True) for key, entry in fresh.items()})
        self._foreseen.clear()
        return self._update(records, tuple(dict.fromkeys(repeated)))

    def add(self, origin: Origin, entry: SkillEntry) -> Changes:
        """Add a skill that was found by its URI. It is kept until its origin is cleared."""
        self._claim_labels((origin,))
        key = SkillKey(origin, entry.uri)
        listed = key in self._records and self._records[key].listed
        return self._update({**self._records, key: self._record(key, entry, listed=listed)})

    def clear(self, origin: Origin) -> Changes:
        """Remove all skills of an origin. Their handles stay reserved."""
        return self._update({key: record for key, record in self._records.items() if key.origin != origin})

    def set_enabled(self, key: SkillKey, enabled: bool) -> None:
        """Disable or enable a skill, even before it is added."""
        self._listed.clear()
        if enabled:
            self._disabled.discard(key)
        else:
            self._disabled.add(key)

    def skills(self, *, disabled: bool = False) -> tuple[RegisteredSkill, ...]:
        """The enabled skills, or with `disabled` all; local ones first, then by label.

        Returns the same tuple while nothing changes.
        """
        if disabled not in self._listed:
            keys = sorted(self._records, key=lambda key: (key.origin.kind, key.origin.label, key.uri))
            self._listed[disabled] = tuple(
                self._skill(key) for key in keys if disabled or key not in self._disabled
            )
        return self._listed[disabled]

    def uris(self, origin: Origin) -> frozenset[SkillUri]:
        """The URIs of all skills of an origin, for `is_nested`."""
        if origin not in self._uris:
            self._uris[origin] = frozenset(key.uri for key in self._records if key.origin == origin)
        return self._uris[origin]

    def get(self, key: SkillKey) -> RegisteredSkill | None:
        """The skill of this origin and URI, enabled or not."""
        return self._skill(key) if key in self._records else None

    def find(self, handle: str) -> RegisteredSkill:
        """The skill that a handle means; `SkillNotFound` or `AmbiguousName` otherwise."""
        if handle in self._meanings:
            return self._usable(self._meanings[handle], handle)
        keys = [key for key, record in self._records.items() if handle in record.handles]
        keys = [key for key in keys if key not in self._disabled] or keys
        if not keys:
            raise self._not_found(handle)
        if len(keys) > 1:
            raise AmbiguousName(shown(handle), sorted(self._shown[key] for key in keys))
        skill = self._usable(keys[0], handle)
        self._meanings[handle] = skill.key
        return skill

    def find_uri(self, uri: SkillUri, label: str | None = None) -> RegisteredSkill:
        """The skill with this URI, on the server of this label if one is given."""
        keys = [
            key for key in self._records if key.uri == uri and (label is None or key.origin.label == label)
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

    def _record(self, key: SkillKey, entry: SkillEntry, *, listed: bool) -> _Record:
        known = self._foreseen.get(key) or self._records.get(key)
        if known is not None and (known.entry is entry or known.entry == entry):
            return _Record(entry, listed, known.handles, known.folds)
        handles = self._naming.handles(key, entry)
        return _Record(entry, listed, handles, tuple(map(fold_handle, handles)))

    def _update(self, records: dict[SkillKey, _Record], repeated: tuple[SkillKey, ...] = ()) -> Changes:
        before = self._records
        self._listed.clear()
        self._uris.clear()
        if records == before:
            self._records = records
            return Changes(repeated=repeated)  # Most listings are unchanged when they are listed again.
        removed = tuple(self._skill(key) for key in before if key not in records)
        self._records = records
        clashes = self._name_all()
        both = [key for key in records if key in before]
        changes = Changes(
            added=tuple(self._skill(key) for key in records if key not in before),
            changed=tuple(self._skill(key) for key in both if records[key].entry != before[key].entry),
            removed=removed,
            collisions=tuple(
                Collision(handle, tuple(self._skill(key) for key in keys)) for handle, keys in clashes.items()
            ),
            repeated=repeated,
        )
        for tell in self._watchers:
            tell(changes)
        return changes

    def _name_all(self) -> dict[str, list[SkillKey]]:
        """Give every skill its handle; the new collisions of bare handles."""
        claims: dict[str, list[SkillKey]] = {}
        for key, record in self._records.items():
            for fold in record.folds:
                claims.setdefault(fold, []).append(key)
        clashes: dict[str, list[SkillKey]] = {}
        for fold, keys in claims.items():
            known = self._contested.get(fold, frozenset())
            if len(keys) > 1 and not known.issuperset(keys):
                self._contested[fold] = known.union(keys)
                # A collision is reported once, not again for each longer handle.
                record = self._records[keys[0]]
                if record.folds[0] == fold:
                    clashes[record.handles[0]] = keys
        self._shown = {key: self._handle_for(key, record, claims) for key, record in self._records.items()}
        return clashes

    def _handle_for(self, key: SkillKey, record: _Record, claims: Mapping[str, list[SkillKey]]) -> str:
        *wanted, unique = record.handles
        for handle, fold in zip(wanted, record.folds, strict=False):
            keeps = fold not in self._contested or self._naming.keeper(claims[fold]) == key
            if keeps and self._meanings.setdefault(handle, key) == key:
                return handle
        self._meanings[unique] = key
        return unique

    def _skill(self, key: SkillKey) -> RegisteredSkill:
        record = self._records[key]
        return RegisteredSkill(
            key.origin, record.entry, self._shown[key], key not in self._disabled, record.listed
        )

    def _usable(self, key: SkillKey, called: str) -> RegisteredSkill:
        if key not in self._records:
            raise self._not_found(called)
        if key in self._disabled:
            raise SkillNotFound(f"{shown(called)} is disabled: enable it to use it", uri=key.uri)
        return self._skill(key)

    def _not_found(self, called: str) -> SkillNotFound:
        names: dict[str, list[str]] = {}
        for skill in self.skills():
            for name in {skill.handle, self._records[skill.key].handles[0]}:
                names.setdefault(fold_handle(name), []).append(skill.handle)
        matches = get_close_matches(fold_handle(called[:MAX_HANDLE_LENGTH]), names, n=_NEAR)
        near = list(dict.fromkeys(handle for match in matches for handle in names[match]))[:_NEAR]
        advice = f"did you mean {' or '.join(near)}?" if near else "list the skills to see their names"
        return SkillNotFound(f"no skill is called {shown(called)}: {advice}")
