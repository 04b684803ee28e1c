"""Prober: asks a server everything that the checks need. It evaluates nothing.

The steps, in order:
  0. Read the resource listing, and ask for a skill that it or the instructions name, before any is listed.
  1. List the skills, page by page, and parse each entry.
  2. Get the entry of each skill to be checked.
  3. Walk the directories, from the prefixes down.
  4. Look for skills that are not listed.
  5. Read every file, and read it again.
  6. Ask for what must be refused: unknown URIs, wrong types, and neighbors of real URIs.
  7. List once more, then send the same requests at once.
  8. On a second connection, ask for one skill before anything is listed.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

import anyio

from skillwire.conformance.entries import EntryView, FileSeen, ListedFile, see_file, view_entry
from skillwire.conformance.messages import Answer, RequestFailure, same_entry
from skillwire.conformance.observations import (
    NO_SUCH,
    Burst,
    DirectoryWalk,
    Neighbor,
    Observations,
    Paged,
    Probe,
    SecondLook,
    UnlistedSkill,
    directory_neighbors,
    file_neighbors,
)
from skillwire.conformance.session import Session
from skillwire.documents import JsonObject, is_list, is_object
from skillwire.errors import FormatError
from skillwire.limits import Limits
from skillwire.skill import (
    SCHEME,
    SKILL_FILE,
    SkillUri,
    name_issues,
    parse_skill_md,
    parse_uri,
    skill_name_in,
    skill_root,
    split_uri,
)
from skillwire.wire import METHOD_GET, METHOD_LIST, METHOD_READ_DIRECTORY, PageLimits, Stop

_SHOWN: Final = 200


class KeptItems:
    """Which items of a paged listing are kept: the first ones, until there are too many (SEC-9).

    Of `skills/list`, entries without a usable URI are counted separately: no server needs many.
    """

    def __init__(self, limits: Limits, *, is_listing: bool) -> None:
        self._room = limits.entries_per_server
        self._bad_room = limits.verified_bad_entries
        self._is_listing = is_listing
        self._known: set[SkillUri] = set()
        self.left_out = 0

    def kept(self, items: Sequence[object]) -> list[object]:
        kept: list[object] = []
        for item in items[: self._room]:
            if self._is_listing and self._is_bad(item):
                if not self._bad_room:
                    break
                self._bad_room -= 1
            kept.append(shortened(item) if self._is_listing else item)
        self._room -= len(kept)
        if len(kept) < len(items):
            self._room = 0
        self.left_out += len(items) - len(kept)
        return kept

    def _is_bad(self, item: object) -> bool:
        given = item.get("uri") if is_object(item) else None
        try:
            uri = parse_uri(given) if isinstance(given, str) else None
        except FormatError:
            return True
        if uri is None or not is_skill_md(uri) or uri in self._known:
            return True
        self._known.add(uri)
        return False


def shortened(item: object) -> object:
    """An entry as it was sent or, if it has no URI, no more than a report says about it."""
    if not is_object(item):
        return [] if is_list(item) else item[:_SHOWN] if isinstance(item, str) else item
    given = item.get("uri")
    if isinstance(given, str):
        return item
    if "uri" not in item:
        return {}
    return {"uri": {} if is_object(given) else [] if is_list(given) else given}


def is_skill_md(uri: SkillUri) -> bool:
    try:
        return bool(skill_root(uri))
    except FormatError:
        return False


AT_ONCE: Final = 32
_PARALLEL: Final = 8
_READ: Final = "resources/read"
_BAD_CURSOR: Final = f"{NO_SUCH}-cursor"
_OTHER_METHODS: Final = ("skills/search", "skills/read", "skills/call", f"skills/{NO_SUCH}")
"""The last one is made up; servers in the field have had the others."""
_SKILL_URI: Final = re.compile(rf"{SCHEME}://[^\s<>\"'`()\[\]]+/{re.escape(SKILL_FILE)}")


class Progress(Protocol):
    """Called with the current step, how much of it is done, and how much there is."""

    def __call__(self, step: str, done: int, total: int) -> None: ...


@dataclass(kw_only=True, eq=False)
class Prober:
    """One revision of one server."""

    session: Session
    seen: Observations
    """What is seen is added to it."""
    max_skills: int
    """The number of skills whose files are read. The listing is read to its end."""
    progress: Progress
    known: EntryView | None = None
    """A skill that another connection listed, to ask for before this one lists anything."""
    quick: bool = False
    """Whether nothing is asked twice, at once or about neighbors."""

    async def run(self) -> Observations:
        """Steps 0 to 7."""
        seen = self.seen
        if seen.settings is not None:
            if self.known is not None:
                seen.second = await look(self.session, self.known, reads_directories=seen.reads_directories)
            seen.resources = await self.pages("resources/list", {}, "resources")
            await self._ask_early()
            await self._list()
            await self._get()
            await self._walk()
            await self._find_unlisted()
            await self._read()
            await self._probe()
            if not self.quick:
                await self._probe_neighbors()
                if seen.listing.first is not None and seen.listing.first.result is not None:
                    seen.relisting = await self.pages(METHOD_LIST, {}, "skills")
                await self._burst()
        seen.failures = tuple(self.session.failures)
        seen.passing = (*seen.passing, *self.session.passing)
        seen.exchanges = self.session.exchanges
        seen.unsolicited = self.session.channel.unsolicited
        seen.skipped = self.session.skipped
        return seen

    async def pages(self, method: str, params: JsonObject, key: str) -> Paged:
        """Follow `nextCursor` until it ends, repeats or goes on for too long (LST-1, SEC-9).

        What is kept of the items of a hostile server is bounded.
        """
        pages: list[Answer] = []
        keeping = KeptItems(self.session.limits, is_listing=method == METHOD_LIST)
        paging = PageLimits(self.session.limits)
        cursor: object = None
        while True:
            answer = await self.session.ask(
                method, {**params, "cursor": cursor} if isinstance(cursor, str) else params
            )
            found = (answer.result or {}).get(key)
            if is_list(found):
                answer = replace(answer, result={**(answer.result or {}), key: keeping.kept(found)})
            pages.append(answer)
            cursor = (answer.result or {}).get("nextCursor")
            next_cursor = cursor if isinstance(cursor, str) else None
            stop = paging.stop(next_cursor, len(found) if is_list(found) else 0)
            if stop is Stop.LAST or (stop and not next_cursor):
                return Paged(tuple(pages), left_out=keeping.left_out)
            if stop is Stop.LOOP:
                reason = f"the cursor of page {paging.pages} was returned before"
                return Paged(tuple(pages), reason, keeping.left_out)
            if stop is not None:
                reason = f"more to come after {paging.pages} pages and {paging.items} entries"
                return Paged(tuple(pages), reason, keeping.left_out)

    async def _ask_early(self) -> None:
        """GET-1: one skill, while the server has listed none; its file first."""
        items = self.seen.resources.items("resources")
        shown = [str(item.get("uri")) for item in items if is_object(item)]
        named: list[str] = _SKILL_URI.findall(self.seen.opening.instructions)
        for text in (*shown, *named)[: self.session.limits.linked_skills]:
            try:
                uri = parse_uri(text)
            except FormatError:
                continue
            if is_skill_md(uri):
                file = see_file(await self.session.ask(_READ, {"uri": text}), uri, None, read_text=False)
                get = await self.session.ask(METHOD_GET, {"uri": text})
                self.seen.early = ((uri, get, file),)
                return

    async def _list(self) -> None:
        self.progress("listing", 0, 1)
        seen = self.seen
        seen.listing = await self.pages(METHOD_LIST, {}, "skills")
        items = seen.listing.items("skills")
        seen.entries = tuple(view_entry(item, f"skills[{number}]") for number, item in enumerate(items))
        chosen: dict[SkillUri, EntryView] = {}
        for entry in seen.entries:
            if entry.uri is not None and len(chosen) < self.max_skills:
                chosen.setdefault(entry.uri, entry)
        seen.checked = tuple(chosen.values())

    async def _get(self) -> None:
        asked = {entry.uri: entry.asked for entry in self.seen.checked if entry.uri is not None}

        async def get(uri: SkillUri) -> None:
            self.seen.gets[uri] = await self.session.ask(METHOD_GET, {"uri": asked[uri]})

        await self._each("getting", asked, get)

    async def _walk(self) -> None:
        seen = self.seen
        if not seen.reads_directories:
            return
        is_whole = len(seen.checked) == len({entry.uri for entry in seen.entries if entry.uri})
        walk = DirectoryWalk(self, seen.checked, is_whole=is_whole and not seen.listing.left_out)
        await walk.run(self._each)
        seen.directories = walk.seen
        seen.too_deep = walk.too_deep

    async def _find_unlisted(self) -> None:
        """LST-3: a skill that is shown or named but not listed is still served."""
        seen = self.seen
        if seen.listing.left_out:
            return  # It is unknown what is not listed.
        listed = {entry.uri for entry in seen.entries}
        listed_files = {uri for entry in seen.checked for uri in entry.files}
        shown = set(filter(is_skill_md, listed_files))
        for directory in seen.directories.values():
            shown |= {child.uri for child in directory.children if child.uri and is_skill_md(child.uri)}
        named: set[SkillUri] = set()
        for text in _SKILL_URI.findall(seen.opening.instructions)[: self.session.limits.linked_skills]:
            try:
                named.add(parse_uri(text))
            except FormatError:
                continue
        found: dict[SkillUri, UnlistedSkill] = {}

        async def ask(uri: SkillUri) -> None:
            read = await self.session.ask(_READ, {"uri": uri})
            if uri in named or read.error is not None or _is_skill(read, uri):
                answer = await self.session.ask(METHOD_GET, {"uri": uri})
                # A file that an entry lists is read and judged with that entry.
                refused = str(read.error) if read.error is not None and uri not in listed_files else ""
                if uri in named or not read.error or answer.result is not None:
                    found[uri] = UnlistedSkill(uri, answer, uri in named, refused)

        await self._each("looking for unlisted skills", sorted((shown | named) - listed), ask)
        seen.candidates = tuple(found[uri] for uri in sorted(found))
        for candidate in seen.candidates:
            skill = (candidate.answer.result or {}).get("skill")
            view = view_entry(skill, candidate.uri) if is_object(skill) else None
            if view is not None and view.uri == candidate.uri and len(seen.checked) < self.max_skills:
                seen.gets[candidate.uri] = candidate.answer
                seen.checked = (*seen.checked, view)

    async def _read(self) -> None:
        seen = self.seen
        wanted: dict[SkillUri, ListedFile | None] = {}
        asked: dict[SkillUri, str] = {}
        for entry in seen.checked:
            if entry.uri is not None and entry.uri not in entry.files:
                wanted.setdefault(entry.uri, None)
                asked.setdefault(entry.uri, entry.asked)
            for file in entry.files.values():
                # A nested file is in two manifests; the first digest is compared here, the others by a check.
                wanted[file.uri] = wanted.get(file.uri) or file
                asked.setdefault(file.uri, file.asked)

        def reading(into: dict[SkillUri, FileSeen], *, first: bool) -> Callable[[SkillUri], Awaitable[None]]:
            async def read(uri: SkillUri) -> None:
                answer = await self.session.ask(_READ, {"uri": asked[uri]})
                into[uri] = see_file(answer, uri, wanted[uri], others=wanted, read_text=first)

            return read

        await self._each("reading", wanted, reading(seen.files, first=True))
        if not self.quick:
            again = [uri for uri in wanted if seen.files[uri].digest]
            await self._each("reading again", again, reading(seen.again, first=False))

    async def _probe(self) -> None:
        seen = self.seen
        unknown = f"{SCHEME}://{NO_SUCH}-skill/{SKILL_FILE}"
        probes: dict[Probe, tuple[str, JsonObject]] = {
            Probe.LIST_CURSOR: (METHOD_LIST, {"cursor": _BAD_CURSOR}),
            Probe.GET_UNKNOWN: (METHOD_GET, {"uri": unknown}),
            Probe.GET_NOTHING: (METHOD_GET, {}),
            Probe.GET_EMPTY: (METHOD_GET, {"uri": ""}),
            Probe.GET_NUMBER: (METHOD_GET, {"uri": 7}),
            Probe.READ_UNKNOWN_SKILL: (_READ, {"uri": unknown}),
        }
        if seen.reads_directories:
            probes[Probe.DIRECTORY_NOTHING] = (METHOD_READ_DIRECTORY, {})
            probes[Probe.DIRECTORY_UNKNOWN] = (
                METHOD_READ_DIRECTORY,
                {"uri": f"{SCHEME}://{NO_SUCH}-directory"},
            )
        skill = self._subject()
        if skill is not None:
            probes.update(self._probes_of(skill))
        for probe, (method, params) in probes.items():
            answer = await self.session.ask(method, params)
            if answer.result is not None and "cursor" in params:
                answer = replace(answer, result={})  # A whole listing: it only matters that there is one.
            seen.probes[probe] = answer
        if not seen.is_modern:  # Later revisions have `_meta` in the params of every request.
            seen.probes[Probe.LIST_NO_PARAMS] = await self.session.ask(METHOD_LIST, None)
        seen.other_methods = tuple([await self.session.ask(name, {}) for name in _OTHER_METHODS])

    def _subject(self) -> EntryView | None:
        """The skill to probe around: the deepest one whose files are listed."""
        stable = [entry for entry in self.seen.checked if entry.uri and not entry.is_dynamic]
        uris = {entry.uri for entry in self.seen.entries}
        listed = [entry for entry in stable if entry.uri in uris] or stable
        return max(listed, key=lambda entry: (_depth(entry), bool(_supporting_file(entry))), default=None)

    def _probes_of(self, skill: EntryView) -> Iterable[tuple[Probe, tuple[str, JsonObject]]]:
        root = skill.asked.removesuffix(f"/{SKILL_FILE}")
        scheme, _, path = root.partition("://")
        first = f"{scheme}://{path.partition('/')[0]}"
        file = _supporting_file(skill)
        yield Probe.GET_DIRECTORY, (METHOD_GET, {"uri": root})
        yield Probe.READ_UNKNOWN, (_READ, {"uri": f"{root}/{NO_SUCH}-file.md"})
        yield Probe.READ_DIRECTORY, (_READ, {"uri": root})
        # FMT-9: each leaves the authority, which no normalization of URIs does, and comes back to the
        # SKILL.md, so that a server that lets it reach its files shows that and no more.
        yield Probe.READ_CLIMB, (_READ, {"uri": f"{first}/../{path}/{SKILL_FILE}"})
        yield Probe.READ_ENCODED_CLIMB, (_READ, {"uri": f"{first}/%2e%2e/{path}/{SKILL_FILE}"})
        yield Probe.READ_ENCODED_SLASH, (_READ, {"uri": f"{first}/..%2f{path}/{SKILL_FILE}"})
        if file is not None:
            yield Probe.GET_FILE, (METHOD_GET, {"uri": file.asked})
        if self.seen.reads_directories:
            inside: JsonObject = {"uri": f"{root}/{NO_SUCH}-directory"}
            yield Probe.DIRECTORY_UNKNOWN_INSIDE, (METHOD_READ_DIRECTORY, inside)
            yield Probe.DIRECTORY_FILE, (METHOD_READ_DIRECTORY, {"uri": skill.asked})
            yield Probe.DIRECTORY_CURSOR, (METHOD_READ_DIRECTORY, {"uri": root, "cursor": _BAD_CURSOR})

    async def _probe_neighbors(self) -> None:
        seen = self.seen
        skill = self._subject()
        if skill is None or skill.uri is None:
            return
        known = {entry.asked for entry in seen.entries} | {candidate.uri for candidate in seen.candidates}
        files = {file.asked for entry in seen.checked for file in entry.files.values()} | known
        file = _supporting_file(skill)
        near_file = list(file_neighbors(file.asked if file is not None else skill.asked))
        if file is not None:
            near_file += [one for one in file_neighbors(skill.asked) if not one.impossible]
        await self._ask_neighbors(METHOD_GET, file_neighbors(skill.asked), known, seen.get_neighbors)
        await self._ask_neighbors(_READ, near_file, files, seen.read_neighbors)
        if seen.reads_directories and skill.root is not None:
            near_root = directory_neighbors(skill.root)
            shown = set(map(str, seen.directories))
            await self._ask_neighbors(METHOD_READ_DIRECTORY, near_root, shown, seen.directory_neighbors)

    async def _ask_neighbors(
        self,
        method: str,
        neighbors: Iterable[Neighbor],
        known: Iterable[str],
        into: list[tuple[Neighbor, Answer]],
    ) -> None:
        real = set(known)
        for neighbor in neighbors:
            # A skill that was not read may well have such a URI.
            may_exist = self.seen.listing.left_out and not neighbor.impossible
            if neighbor.uri not in real and not may_exist:
                into.append((neighbor, await self.session.ask(method, {"uri": neighbor.uri})))

    async def _burst(self) -> None:
        """The same request many times at once. Only requests whose answers are stable are used."""
        seen = self.seen
        requests: list[tuple[str, JsonObject, int]] = []
        if seen.relisting is not None and same_entry(
            _plain(seen.listing.first), _plain(seen.relisting.first)
        ):
            requests.append((METHOD_LIST, {}, seen.listing.first.size if seen.listing.first else 0))
        steady = [
            entry
            for entry in seen.checked
            if entry.uri and seen.files[entry.uri].digest and not seen.changes(entry.uri)
        ]
        for entry in [entry for entry in steady if not entry.is_dynamic][:1]:
            if entry.uri:
                requests.append((_READ, {"uri": entry.asked}, seen.files[entry.uri].size or 0))
            if entry.uri and seen.gets[entry.uri].result is not None:
                requests.append((METHOD_GET, {"uri": entry.asked}, seen.gets[entry.uri].size))
        bursts: list[Burst] = []
        for number, (method, params, size) in enumerate(requests):
            self.progress("asking at once", number, len(requests))
            # SEC-9: all the answers together are no longer than one may be.
            times = min(AT_ONCE, self.session.limits.answer_bytes // max(size, 1))
            if times > 1:
                burst = await self._ask_at_once(method, params, times)
                if burst.different > 1:
                    # A file may have changed in between: the same again, before it counts.
                    again_at_once = await self._ask_at_once(method, params, times)
                    if again_at_once.different <= 1:
                        reason = f"{burst.different} different answers to {burst.times} requests at once"
                        seen.passing += (Answer(method=method, about=burst.about, reason=reason),)
                    burst = again_at_once
                bursts.append(burst)
        seen.bursts = tuple(bursts)

    async def _ask_at_once(self, method: str, params: JsonObject, times: int) -> Burst:
        answered = 0
        different: list[object] = []

        async def ask() -> None:
            nonlocal answered
            answer = await self.session.ask(method, params)
            if answer.failure is None:
                answered += 1
                plain = _plain(answer)
                if not any(same_entry(plain, other) for other in different):
                    different.append(plain)

        async with anyio.create_task_group() as tasks:
            for _ in range(times):
                tasks.start_soon(ask)
        about = params.get("uri")
        return Burst(method, about if isinstance(about, str) else "", answered, len(different))

    async def _each(
        self, step: str, items: Iterable[SkillUri], work: Callable[[SkillUri], Awaitable[None]]
    ) -> None:
        """Do the work for each item, a few at a time."""
        todo = list(items)
        room = anyio.CapacityLimiter(_PARALLEL)
        done = 0

        async def one(item: SkillUri) -> None:
            nonlocal done
            async with room:
                await work(item)
            done += 1
            self.progress(step, done, len(todo))

        async with anyio.create_task_group() as tasks:
            for item in todo:
                tasks.start_soon(one, item)


def second_skill(seen: Observations) -> EntryView | None:
    """The skill that a second connection is asked about, if there is one to ask about."""
    good = [
        entry
        for entry in seen.checked
        if entry.uri is not None and entry.uri in seen.gets and seen.gets[entry.uri].result is not None
    ]
    # The last one of the listing: a server that builds its index while it lists adds it last.
    uris = {entry.uri for entry in seen.entries}
    listed = [entry for entry in good if entry.uri in uris] or good
    return listed[-1] if listed else None


async def look(session: Session, skill: EntryView, *, reads_directories: bool) -> SecondLook:
    """Step 8: one skill on a new connection: its file, its directory, its entry, and no listing."""
    read: FileSeen | None = None
    if skill.uri is not None:
        answer = await session.ask(_READ, {"uri": skill.asked})
        read = see_file(answer, skill.uri, skill.files.get(skill.uri), read_text=False)
    directory: Answer | None = None
    if reads_directories and skill.root is not None:
        directory = await session.ask(METHOD_READ_DIRECTORY, {"uri": skill.root})
    get = await session.ask(METHOD_GET, {"uri": skill.asked})
    return SecondLook(skill, get, read, directory)


def _is_skill(read: Answer, uri: SkillUri) -> bool:
    """FMT-8: Markdown that is called SKILL.md is a skill only if it can be parsed as one."""
    seen = see_file(read, uri, None, read_text=False)
    try:
        name = parse_skill_md(seen.data or b"").frontmatter.get("name")
    except FormatError:
        return False
    return isinstance(name, str) and name == skill_name_in(uri) and not name_issues(name)


def _supporting_file(skill: EntryView) -> ListedFile | None:
    files = [file for file in skill.files.values() if not is_skill_md(file.uri)]
    return max(files, key=lambda file: (file.uri.count("/"), file.uri), default=None)


def _depth(entry: EntryView) -> int:
    return len(split_uri(entry.uri).segments) if entry.uri else 0


def _plain(answer: Answer | None) -> object:
    """An answer without what may differ each time: the remaining lifetime and `_meta`."""
    if answer is None or answer.failure is RequestFailure.SKIPPED:
        return None
    if answer.error is not None:
        return answer.error.code
    return {key: value for key, value in (answer.result or {}).items() if key not in ("ttlMs", "_meta")}
