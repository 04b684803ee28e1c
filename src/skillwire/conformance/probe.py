"""Prober: asks a server everything that its answers are judged by. It judges nothing.

The steps, in order:
  1. List the skills, page by page, and look at each entry.
  2. Get the entry of each skill to be checked.
  3. Walk the directories, from the prefixes down.
  4. Look for skills that are not listed.
  5. Read every file, and read it again.
  6. Ask for what must be refused.
  7. Read the resource listing.
  8. List once more, then send the same requests side by side.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, Protocol

import anyio

from skillwire.conformance.contents import FileSeen, see_file
from skillwire.conformance.directory_walk import DirectoryWalk
from skillwire.conformance.entry_view import EntryView, ListedFile, view_entry
from skillwire.conformance.observations import Burst, Candidate, Observations, Paged, Probe
from skillwire.conformance.responses import Answer, Failure
from skillwire.conformance.session import Opening, Session
from skillwire.errors import FormatError
from skillwire.json_types import JsonObject, is_list, is_object
from skillwire.skill.frontmatter import parse_skill_md
from skillwire.skill.names import name_issues
from skillwire.skill.uris import SCHEME, SKILL_FILE, SkillUri, parse_uri, skill_name_in, skill_root
from skillwire.wire.paging import PageLimits, Stop
from skillwire.wire.v1 import METHOD_GET, METHOD_LIST, METHOD_READ_DIRECTORY

SIDE_BY_SIDE: Final = 32
_AT_ONCE: Final = 8
_NO_SUCH: Final = "skillwire-verify-no-such"
_BAD_CURSOR: Final = "skillwire-verify-no-such-cursor"
_SKILL_URI: Final = re.compile(rf"{SCHEME}://[^\s<>\"'`()\[\]]+/{re.escape(SKILL_FILE)}")


class Progress(Protocol):
    """Told where the work is: a step, how much of it is done, and how much there is."""

    def __call__(self, step: str, done: int, total: int) -> None: ...


class Prober:
    """One era of one server. `max_skills` bounds whose files are read; the listing is read whole."""

    def __init__(self, speaker: Session, opening: Opening, *, max_skills: int, progress: Progress) -> None:
        self._speaker = speaker
        self._max_skills = max_skills
        self._progress = progress
        self.survey = Observations(era=speaker.era, opening=opening)

    async def run(self) -> Observations:
        survey = self.survey
        if survey.settings is not None:
            await self._list()
            await self._get()
            await self._walk()
            await self._find_unlisted()
            await self._read()
            await self._probe()
            survey.resources = await self.pages("resources/list", {}, "resources")
            if survey.listing.first is not None and survey.listing.first.result is not None:
                survey.relisting = await self.pages(METHOD_LIST, {}, "skills")
            await self._burst()
        survey.failures = tuple(self._speaker.failures)
        survey.noise = tuple(self._speaker.channel.noise)
        survey.unread = self._speaker.skipped
        return survey

    async def pages(self, method: str, params: JsonObject, key: str) -> Paged:
        """Follow `nextCursor` until it ends, repeats or goes on for too long (LST-1, SEC-9)."""
        pages: list[Answer] = []
        paging = PageLimits(self._speaker.limits)
        cursor: object = None
        while True:
            answer = await self._speaker.ask(
                method, {**params, "cursor": cursor} if isinstance(cursor, str) else params
            )
            pages.append(answer)
            found = (answer.result or {}).get(key)
            cursor = (answer.result or {}).get("nextCursor")
            next_cursor = cursor if isinstance(cursor, str) else None
            stop = paging.stop(next_cursor, len(found) if is_list(found) else 0)
            if stop is Stop.LAST or (stop and not next_cursor):
                return Paged(tuple(pages))
            if stop is Stop.LOOP:
                return Paged(tuple(pages), f"the cursor of page {paging.pages} was given before")
            if stop is not None:
                return Paged(
                    tuple(pages), f"more to come after {paging.pages} pages and {paging.items} entries"
                )

    async def _list(self) -> None:
        self._progress("listing", 0, 1)
        survey = self.survey
        survey.listing = await self.pages(METHOD_LIST, {}, "skills")
        items = survey.listing.items("skills")
        survey.entries = tuple(view_entry(item, f"skills[{number}]") for number, item in enumerate(items))
        chosen: dict[SkillUri, EntryView] = {}
        for entry in survey.entries:
            if entry.uri is not None and len(chosen) < self._max_skills:
                chosen.setdefault(entry.uri, entry)
        survey.checked = tuple(chosen.values())

    async def _get(self) -> None:
        asked = {entry.uri: entry.asked for entry in self.survey.checked if entry.uri is not None}

        async def get(uri: SkillUri) -> None:
            self.survey.gets[uri] = await self._speaker.ask(METHOD_GET, {"uri": asked[uri]})

        await self._each("getting", asked, get)

    async def _walk(self) -> None:
        survey = self.survey
        if not survey.reads_directories:
            return
        is_whole = len(survey.checked) == len({entry.uri for entry in survey.entries if entry.uri})
        walk = DirectoryWalk(self, survey.checked, is_whole=is_whole)
        await walk.run(self._each)
        survey.directories = walk.seen
        survey.too_deep = walk.too_deep

    async def _find_unlisted(self) -> None:
        """LST-3: what is shown or named but not listed is served all the same, when it is a skill."""
        survey = self.survey
        listed = {entry.uri for entry in survey.entries}
        shown = {uri for entry in survey.checked for uri in entry.files if _is_skill_md(uri)}
        for directory in survey.directories.values():
            shown |= {child.uri for child in directory.children if child.uri and _is_skill_md(child.uri)}
        named: set[SkillUri] = set()
        for text in _SKILL_URI.findall(survey.opening.instructions)[: self._speaker.limits.linked_skills]:
            try:
                named.add(parse_uri(text))
            except FormatError:
                continue
        found: dict[SkillUri, Candidate] = {}

        async def ask(uri: SkillUri) -> None:
            if uri in named or await self._is_skill(uri):
                answer = await self._speaker.ask(METHOD_GET, {"uri": uri})
                found[uri] = Candidate(uri, answer, uri in named)

        await self._each("looking for unlisted skills", sorted((shown | named) - listed), ask)
        survey.candidates = tuple(found[uri] for uri in sorted(found))
        for candidate in survey.candidates:
            skill = (candidate.answer.result or {}).get("skill")
            view = view_entry(skill, candidate.uri) if is_object(skill) else None
            if view is not None and view.uri == candidate.uri and len(survey.checked) < self._max_skills:
                survey.gets[candidate.uri] = candidate.answer
                survey.checked = (*survey.checked, view)

    async def _is_skill(self, uri: SkillUri) -> bool:
        """FMT-8: Markdown that is called SKILL.md is a skill only when it reads as one."""
        seen = see_file(await self._speaker.ask("resources/read", {"uri": uri}), uri, None, read_text=False)
        try:
            name = parse_skill_md(seen.data or b"").frontmatter.get("name")
        except FormatError:
            return False
        return isinstance(name, str) and name == skill_name_in(uri) and not name_issues(name)

    async def _read(self) -> None:
        survey = self.survey
        wanted: dict[SkillUri, ListedFile | None] = {}
        asked: dict[SkillUri, str] = {}
        for entry in survey.checked:
            if entry.uri is not None and entry.uri not in entry.files:
                wanted.setdefault(entry.uri, None)
                asked.setdefault(entry.uri, entry.asked)
            for file in entry.files.values():
                # A nested file stands in two manifests; the first digest that was given is held against it.
                wanted[file.uri] = wanted.get(file.uri) or file
                asked.setdefault(file.uri, file.asked)

        def reading(into: dict[SkillUri, FileSeen], *, first: bool) -> Callable[[SkillUri], Awaitable[None]]:
            async def read(uri: SkillUri) -> None:
                answer = await self._speaker.ask("resources/read", {"uri": asked[uri]})
                into[uri] = see_file(answer, uri, wanted[uri], read_text=first)

            return read

        await self._each("reading", wanted, reading(survey.files, first=True))
        await self._each(
            "reading again",
            [uri for uri in wanted if survey.files[uri].digest],
            reading(survey.again, first=False),
        )

    async def _probe(self) -> None:
        survey = self.survey
        ask = self._speaker.ask
        probes: dict[Probe, tuple[str, JsonObject]] = {
            Probe.LIST_CURSOR: (METHOD_LIST, {"cursor": _BAD_CURSOR}),
            Probe.GET_UNKNOWN: (METHOD_GET, {"uri": f"{SCHEME}://{_NO_SUCH}-skill/{SKILL_FILE}"}),
            Probe.GET_NOTHING: (METHOD_GET, {}),
            Probe.READ_UNKNOWN_SKILL: (
                "resources/read",
                {"uri": f"{SCHEME}://{_NO_SUCH}-skill/{SKILL_FILE}"},
            ),
        }
        if survey.reads_directories:
            unknown = f"{SCHEME}://{_NO_SUCH}-directory"
            probes[Probe.DIRECTORY_UNKNOWN] = METHOD_READ_DIRECTORY, {"uri": unknown}
        # A skill that is made on request may well answer for any path.
        skill = next((entry for entry in survey.checked if entry.uri and not entry.is_dynamic), None)
        if skill is not None and skill.uri is not None:
            probes.update(self._probes_of(skill, skill.uri))
        for probe, (method, params) in probes.items():
            survey.probes[probe] = await ask(method, params)

    def _probes_of(self, skill: EntryView, uri: SkillUri) -> Iterable[tuple[Probe, tuple[str, JsonObject]]]:
        root = skill.asked.removesuffix(f"/{SKILL_FILE}")
        scheme, _, path = root.partition("://")
        first = f"{scheme}://{path.partition('/')[0]}"
        file = next((file.asked for file in skill.files.values() if not _is_skill_md(file.uri)), None)
        read = "resources/read"
        yield Probe.GET_DIRECTORY, (METHOD_GET, {"uri": root})
        yield Probe.READ_UNKNOWN, (read, {"uri": f"{root}/{_NO_SUCH}-file.md"})
        yield Probe.READ_DIRECTORY, (read, {"uri": root})
        # FMT-9: each climbs out of the authority, which no tidying of URIs does, and comes back to the
        # SKILL.md, so that a server that lets it reach its files shows that and no more.
        yield Probe.READ_CLIMB, (read, {"uri": f"{first}/../{path}/{SKILL_FILE}"})
        yield Probe.READ_ENCODED_CLIMB, (read, {"uri": f"{first}/%2e%2e/{path}/{SKILL_FILE}"})
        yield Probe.READ_ENCODED_SLASH, (read, {"uri": f"{first}/..%2f{path}/{SKILL_FILE}"})
        if file is not None:
            yield Probe.GET_FILE, (METHOD_GET, {"uri": file})
        if self.survey.reads_directories:
            yield Probe.DIRECTORY_FILE, (METHOD_READ_DIRECTORY, {"uri": skill.asked})
            yield Probe.DIRECTORY_CURSOR, (METHOD_READ_DIRECTORY, {"uri": root, "cursor": _BAD_CURSOR})

    async def _burst(self) -> None:
        """The same request many times at once. Only what answers the same in turn is worth asking for."""
        survey = self.survey
        requests: list[tuple[str, JsonObject]] = []
        if survey.relisting is not None and _plain(survey.listing.first) == _plain(survey.relisting.first):
            requests.append((METHOD_LIST, {}))
        steady = [
            entry
            for entry in survey.checked
            if entry.uri and survey.files[entry.uri].digest and not survey.changes(entry.uri)
        ]
        for entry in [entry for entry in steady if not entry.is_dynamic][:1]:
            requests.append(("resources/read", {"uri": entry.asked}))
            if entry.uri and survey.gets[entry.uri].result is not None:
                requests.append((METHOD_GET, {"uri": entry.asked}))
        bursts: list[Burst] = []
        for number, (method, params) in enumerate(requests):
            self._progress("asking side by side", number, len(requests))
            answers: list[Answer] = []

            async def ask(method: str, params: JsonObject, into: list[Answer]) -> None:
                into.append(await self._speaker.ask(method, params))

            async with anyio.create_task_group() as tasks:
                for _ in range(SIDE_BY_SIDE):
                    tasks.start_soon(ask, method, params, answers)
            kept = [_plain(answer) for answer in answers if answer.failure is None]
            different = [one for number, one in enumerate(kept) if one not in kept[:number]]
            about = params.get("uri")
            bursts.append(Burst(method, about if isinstance(about, str) else "", len(kept), len(different)))
        survey.bursts = tuple(bursts)

    async def _each(
        self, step: str, items: Iterable[SkillUri], work: Callable[[SkillUri], Awaitable[None]]
    ) -> None:
        """Do the work for each item, a few at a time."""
        todo = list(items)
        room = anyio.CapacityLimiter(_AT_ONCE)
        done = 0

        async def one(item: SkillUri) -> None:
            nonlocal done
            async with room:
                await work(item)
            done += 1
            self._progress(step, done, len(todo))

        async with anyio.create_task_group() as tasks:
            for item in todo:
                tasks.start_soon(one, item)


def _is_skill_md(uri: SkillUri) -> bool:
    try:
        return bool(skill_root(uri))
    except FormatError:
        return False


def _plain(answer: Answer | None) -> object:
    """An answer without what may honestly differ each time: the rest of its life, and `_meta`."""
    if answer is None or answer.failure is Failure.SKIPPED:
        return None
    if answer.error is not None:
        return answer.error.code
    return {key: value for key, value in (answer.result or {}).items() if key not in ("ttlMs", "_meta")}
