"""HostAdmin: the servers of a host, and what a user or an administrator decides about its skills.

`SkillReview` is what a person is shown before that, the same on a terminal and on a page.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from skillwire.catalog import HostSkill, SkillTable
from skillwire.consent import ApprovalStatus, ConsentStore, Decision, State, status_of
from skillwire.errors import FormatError, SkillNotFound, SkillwireError
from skillwire.host.approver import Approver, Case, changed_meanwhile
from skillwire.host.config.server import ServerConfig
from skillwire.host.inventory import Inventory
from skillwire.host.loader import Fetcher, Loader, OnPreview, SkillFiles
from skillwire.host.registration import Following, Registration
from skillwire.host.search import Resolver
from skillwire.host.state import ServedTemplate, ServerState, Switches, find_template
from skillwire.host.storage import SkillCache, SkillUse, UsageRecorder, UseKind
from skillwire.host.styles.base import Style
from skillwire.limits import Limits
from skillwire.skill import (
    SKILL_FILE,
    SetDigest,
    SkillEntry,
    SkillUri,
    parse_set_digest,
    parse_uri,
    path_below,
    skill_root,
)
from skillwire.sources import DirectoryChild
from skillwire.text import decode_text, safe_line
from skillwire.text import shown as shown_name
from skillwire.trust import (
    NO_GRANTS,
    AdmissionRequest,
    Approval,
    ApprovalMode,
    ChangeKind,
    CheckedEntry,
    Grants,
    Origin,
    Publisher,
    Scan,
    SignatureVerdict,
    VerifiedFile,
    check_entry,
    requested_tools,
    seen_set,
    shown_digest,
)
from skillwire.wire import ListedResource


@dataclass(frozen=True, slots=True)
class SkillReview:
    """A skill and its approval status. An approval is for exactly the files that `digest` names."""

    skill: HostSkill
    status: ApprovalStatus

    @property
    def digest(self) -> SetDigest | None:
        """Of all files of the skill; `None` where it has no set of files that could be approved."""
        try:
            return shown_digest(self.skill.entry)
        except FormatError:
            return None

    @property
    def requested_tools(self) -> tuple[str, ...]:
        """The tools that its frontmatter asks for. A request, never a grant (SEC-4)."""
        return requested_tools(self.skill.entry.frontmatter.get("allowed-tools"))

    @property
    def sentence(self) -> str:
        """The words of its approval status, and what follows from it."""
        status = self.status
        more = {
            State.OWN: "no approval is needed",
            State.APPROVED: "with the text that you saw; any other text is asked about"
            if self.skill.entry.is_dynamic
            else "as it is now",
            State.ALLOWED: "the approval mode of its server is always",
            State.NOT_APPROVED: "its server lists no digests, so a yes is for the files that you see"
            if self.skill.entry.is_dynamic
            else "",
            State.CHANGED: "since you approved it",
            State.DECLINED: "by you, as it is now",
            State.REFUSED: shown_name(status.problem, 2000),
        }[status.state]
        if status.state is State.NOT_APPROVED and status.approval_mode is ApprovalMode.PINNED:
            more = "the approval mode of its server is pinned, so you are not asked"
        words = f"{status.words}: {more}" if more else status.words
        if self.granted:
            words += f"; granted: {', '.join(self.granted)}"
        return f"{words}; it is nested in another skill" if status.nested else words

    @property
    def granted(self) -> tuple[str, ...]:
        """The grants of the user beyond reading, in words."""
        given = (
            ("its tools", self.status.grants.allowed_tools),
            ("running code", self.status.grants.execute_code),
        )
        scripts = (safe_line(f"{script} {grant}") for script, grant in sorted(self.status.grants.scripts))
        return (*(words for words, is_given in given if is_given), *scripts)

    @property
    def waits(self) -> bool:
        """Whether the user has still to decide about it."""
        return self.status.waits and self.skill.enabled


@dataclass(frozen=True, slots=True, kw_only=True)
class FileComparison:
    """A file that differs from what was approved.

    What is not available is `None`, and `problem` says why.
    """

    uri: SkillUri
    path: str
    kind: ChangeKind
    old: bytes | None = None
    """The approved content; `None` also for an added file."""
    new: bytes | None = None
    """The content served now; `None` also for a removed file."""
    problem: str = ""

    @property
    def old_text(self) -> str | None:
        return decode_text(self.old)

    @property
    def new_text(self) -> str | None:
        return decode_text(self.new)


async def compare(
    review: SkillReview,
    preview: Callable[[str], Awaitable[VerifiedFile]],
    approved: Callable[[SkillUri], Awaitable[bytes | None]],
) -> tuple[FileComparison, ...]:
    """Every file that changed since the skill was approved, both versions as far as they are available."""
    root = skill_root(review.skill.uri)
    compared: list[FileComparison] = []
    for change in review.status.changes:
        old = new = None
        problem = ""
        if change.kind is not ChangeKind.ADDED:
            old = await approved(change.uri)
            problem = "" if old is not None else "the approved version is not in the cache"
        if change.kind is not ChangeKind.REMOVED:
            try:
                new = (await preview(change.uri)).data
            except SkillwireError as error:
                problem = f"it cannot be read now: {error}"
        path = "/".join(path_below(change.uri, root))
        compared.append(
            FileComparison(uri=change.uri, path=path, kind=change.kind, old=old, new=new, problem=problem)
        )
    return tuple(compared)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostAdmin:
    """The servers, approvals, switches and cache of one host: `host.admin`."""

    approvals: ConsentStore
    cache: SkillCache
    _registry: SkillTable
    _inventory: Inventory
    _resolver: Resolver
    _loader: Loader
    _fetcher: Fetcher
    _approver: Approver
    _following: Following
    _watchers: list[Callable[[], None]]
    _style: Style
    _limits: Limits

    # What servers offer

    def servers(self) -> tuple[ServerState, ...]:
        """The state of every server."""
        return self._inventory.places.states()

    def server_view(self, label: str) -> str:
        """One server with its skills, as the style shows it to a person."""
        return self._style.server_view(
            self._inventory.places.server(label), self._registry.skills(), self._limits
        )

    async def list_resources(self, server: str) -> tuple[ListedResource, ...]:
        """Every resource that a server lists, skills or not. The strings are the server's own."""
        return await self._inventory.places.list_resources(self._inventory.places.server(server))

    def templates(self) -> tuple[ServedTemplate, ...]:
        """Entries of servers' indexes that stand for many skills: load one with a value for each argument."""
        return self._inventory.places.templates()

    async def complete(
        self, template: str, argument: str, prefix: str = "", *, server: str | None = None
    ) -> tuple[str, ...]:
        """The values that a server suggests for an argument of a template, given the start of a value."""
        found = find_template(template, self.templates(), server)
        if argument not in found.arguments:
            known = ", ".join(found.arguments)
            raise SkillNotFound(f"{found.name} has no argument {shown_name(argument)}; known: {known}")
        return await self._resolver.suggestions(found, argument, prefix)

    def files(self, skill: HostSkill | str) -> tuple[str, ...]:
        """The paths of a skill's supporting files, as far as its entry or its server lists them."""
        return self._resolver.files(self._registry.find(skill) if isinstance(skill, str) else skill)

    def watch(self, tell: Callable[[], None]) -> None:
        """Call a function whenever something changed that a person may be shown: a decision of another
        process, the configuration, or when a server was listed. What happens to skills is in `host.log`."""
        self._watchers.append(tell)

    # What is known of a skill

    def follow(self, skill: HostSkill) -> None:
        """Be told of changes of a skill that a person is shown now, as of those in use and those approved."""
        self._following.show(skill)

    def status(self, skill: HostSkill) -> ApprovalStatus:
        """Whether a skill is approved as it is, changed since, new, and so on. The user is not asked."""
        return self._approver.status(skill)

    def statuses(self, skills: Iterable[HostSkill]) -> list[ApprovalStatus]:
        """The `status` of each of these skills, in less time than one by one."""
        return list(self._approver.statuses(skills))

    async def signature(
        self, skill: HostSkill, publishers: Sequence[Publisher] | None = None
    ) -> SignatureVerdict:
        """Who signed a skill, over which of its files. At most its signature file is fetched.

        With `publishers`, these are recognized instead of the host's."""
        return await self._approver.signatures.check(skill, self._fetcher.preview, publishers)

    def known_signature(self, skill: HostSkill) -> SignatureVerdict | None:
        """The verdict on a skill's signature without fetching it; `None` when it has not been checked."""
        return self._approver.signatures.known(skill)

    @property
    def signature_revision(self) -> int:
        """A number that changes with every signature that was checked."""
        return self._approver.signatures.revision

    async def check_signatures(self, skills: Iterable[HostSkill] | None = None) -> None:
        """Check the signatures of these skills concurrently, or of all whose origin requires a publisher.

        `status` then knows which of them are refused."""
        signatures = self._approver.signatures
        if skills is None:
            required = cache(signatures.required)
            skills = [one for one in self._registry.skills(disabled=True) if required(one.origin)]
        await signatures.check_all(skills, self._fetcher.preview)

    async def scan(self, skill: HostSkill) -> tuple[Scan, ...]:
        """The findings of the policy's scanners in a skill, for a person who decides about it."""
        return await self._approver.scan(skill, self._fetcher.all_files(skill))

    def review(self, skill: HostSkill, *, caller: str = "") -> SkillReview:
        """The review of a skill, for a person who decides about it. The user is not asked.

        With `caller`, what a caller of a gateway is shown: their approval status instead of the user's."""
        return SkillReview(skill, self._approver.status(skill, caller=caller))

    async def compare(self, review: SkillReview) -> tuple[FileComparison, ...]:
        """Every file that changed since the skill was approved, both versions; does not load it (SEC-7)."""
        skill, approved = review.skill, review.status.approved
        return await compare(
            review,
            lambda path: self._fetcher.preview(skill, path),
            lambda uri: self._approver.approved_bytes(skill, uri, approved),
        )

    async def history(self, skill: HostSkill, *, caller: str = "") -> tuple[Decision, ...]:
        """The decisions of the user, or of a caller of a gateway, about a skill, the latest first."""
        return await self.approvals.history(self.approvals.key(skill.origin, skill.uri, caller))

    def local_path(self, skill: HostSkill) -> Path | None:
        """Where the `SKILL.md` of a local skill is on disk; `None` for a skill of a server."""
        path = self._inventory.places.local_path(skill.origin, skill.uri) if skill.origin.is_local else ""
        return Path(path) if path else None

    async def preview(self, name: str, path: str = SKILL_FILE, *, server: str | None = None) -> VerifiedFile:
        """A file for the user to look at before the skill is loaded. This does not load it (SEC-7)."""
        return await self._fetcher.preview(await self._resolver.find(name, server), path)

    async def preview_skills(
        self,
        skills: Iterable[HostSkill],
        *,
        together: int,
        on_file: Callable[[HostSkill], None],
        on_skill: OnPreview,
    ) -> None:
        """Every file of skills as `preview` gives it, `together` at once from each server.

        `on_skill` gets a skill's files when they are all there, or the reason why they are not."""
        await self._fetcher.preview_skills(skills, together=together, on_file=on_file, on_skill=on_skill)

    async def fetch_files(self, name: str, *, server: str | None = None) -> SkillFiles:
        """Every file of a skill, for a user who decides on it now, and the digest to approve it by.

        Of a skill whose entry lists no files these are its `SKILL.md` and what its server lists below it."""
        return await self._fetcher.fetch_files(await self._resolver.find(name, server))

    # What the user decides

    @property
    def can_ask(self) -> bool:
        """Whether the user can be asked now: the host has `ask`, or this is inside a block of `asking`."""
        return self._approver.asker.current is not None

    async def approve(
        self,
        skill: HostSkill | str,
        *,
        digest: str | None = None,
        grants: Grants = NO_GRANTS,
        server: str | None = None,
        how: str = "",
        keep_files: bool = False,
        caller: str = "",
    ) -> Approval:
        """Approve a skill of a server with exactly the files that the user was shown (SEC-6).

        Give the skill as `find` returned it when it was shown, or its name and the digest of its files. If
        the server has other files by now, this is an `ApprovalRequired` that names them, and nothing is
        approved. With `keep_files` the approved files are fetched, verified and cached, so that a later
        change can be compared with them: for a user who reviews them now. Otherwise nothing is fetched before
        it is needed (VER-5). `how` is recorded with the approval, beside the time and the user. With
        `caller`, the approval is that caller's instead of the user's.

        A skill whose entry lists no files is approved by the digest of its `fetch_files`: they are fetched
        again, and the approval is for exactly these bytes. Any other file is asked about when it is read.
        """
        how = how or "approved by the application"
        if digest is not None:
            found = skill if isinstance(skill, HostSkill) else await self._resolver.find(skill, server)
            if found.entry.is_dynamic:
                return await self._approve_seen(found, parse_set_digest(digest), grants, how, caller)
        current, entry = await self._shown(skill, digest, server)
        case = await self._approver.open(current, entry)
        await self._approver.check_publishers(case, self._fetcher.preview)
        await self._approver.check_scans(case, self._fetcher.all_files(current))
        if keep_files:
            await self._fetcher.keep(current, entry)
        return await self._approver.approve(current, entry, grants, how=how, caller=caller)

    async def decline(
        self,
        skill: HostSkill | str,
        *,
        digest: str | None = None,
        server: str | None = None,
        how: str = "",
        caller: str = "",
    ) -> None:
        """Decline a skill with exactly the files that the user was shown, given as for `approve`.

        It is not loaded, no model is told of it, and the user is not asked about it, until its files change
        or it is approved.
        """
        current, entry = await self._shown(skill, digest, server)
        if not caller:
            self._loader.release(current.key)
        how = how or "declined by the application"
        await self._approver.decline(current, entry, how=how, caller=caller)

    async def _shown(
        self, skill: HostSkill | str, digest: str | None, server: str | None
    ) -> tuple[HostSkill, CheckedEntry]:
        """The skill as it is now, and its entry, when that is what the user was shown (SEC-6)."""
        if isinstance(skill, str):
            if digest is None:
                raise ValueError("say what was shown to the user: give its digest, or the skill from find()")
            shown: SkillEntry | SetDigest = parse_set_digest(digest)
            current = await self._resolver.find(skill, server)
        else:
            shown = parse_set_digest(digest) if digest is not None else skill.entry
            current = self._registry.get(skill.key) or skill
        return current, self._approver.check_shown(current, shown)

    async def _approve_seen(
        self, skill: HostSkill, digest: SetDigest, grants: Grants, how: str, caller: str
    ) -> Approval:
        """Approve a dynamic skill with exactly what the user was shown, if it still has that."""
        entry = check_entry(skill.entry, limits=self._limits)
        case = await self._approver.open(skill, entry)
        await self._approver.check_publishers(case, self._fetcher.preview)
        await self._approver.check_scans(case, self._fetcher.all_files(skill))
        current = await self._fetcher.fetch_files(skill)
        if current.digest != digest:
            raise changed_meanwhile(skill, current.digest, ())
        approval = await self._approver.approve(
            skill, entry, grants, seen=seen_set(current.files), how=how, caller=caller
        )
        for file in current.files:
            await self.cache.store(file, approved=True)
        return approval

    async def approved_text(self, skill: HostSkill, uri: str) -> bytes | None:
        """A file of a skill as it was when the user approved it last; `None` when that is not cached."""
        return await self._approver.approved_bytes(skill, parse_uri(uri))

    async def revoke(self, name: str, *, server: str | None = None, caller: str = "") -> bool:
        """Revoke an approval and release the skill, or take a decline back; false when there was neither.

        With `caller`, the decision of that caller of a gateway.
        """
        skill = await self._resolver.find(name, server)
        if not caller:
            self._loader.release(skill.key)
        return await self.approvals.revoke(self.approvals.key(skill.origin, skill.uri, caller))

    def set_enabled(self, name: str, enabled: bool) -> None:
        """Disable or enable one skill, by handle or URI. A disabled skill is released."""
        skills = [
            skill for skill in self._registry.skills(disabled=True) if name in (skill.handle, skill.uri)
        ]
        if not skills:
            raise SkillNotFound(f"no skill is called {shown_name(name)}: list the skills to see their names")
        for skill in skills:
            self._registry.set_enabled(skill.key, enabled)
            if not enabled:
                self._loader.release(skill.key)

    async def set_switches(self, switches: Switches) -> None:
        """Disable and enable servers. The skills of disabled servers are removed at once.

        A skill in use stays loaded, as its text is in the context, but nothing more is read of it (SEC-2).
        """
        for origin in self._inventory.set_switches(switches):
            await self._inventory.refresh(origin.label)

    async def reconnect(self, label: str) -> None:
        """Connect to a server again now, if its connection was lost; otherwise list it again."""
        await self._inventory.reconnect(label)

    async def forget_server(self, label: str) -> tuple[int, int]:
        """Remove everything cached and approved for a server. Returns the number of files and approvals."""
        origin = Origin.mcp(label)
        self._loader.release_server(origin)
        return await self.cache.forget_server(origin), await self.approvals.remove_server(origin)


@dataclass(frozen=True, kw_only=True, eq=False)
class SkillFeed:
    """The skills of a host, independent of any agent: `host.feed`."""

    _registry: SkillTable
    _inventory: Inventory
    _registration: Registration
    _loader: Loader
    _fetcher: Fetcher
    _approver: Approver
    _following: Following
    _usage: UsageRecorder

    def record_use(self, kind: UseKind, skill: HostSkill) -> None:
        """Count a use of a skill by another program that this host fetched it for."""
        self._usage.use(SkillUse(kind, skill))

    def record_offer(self, text: str, skills: Sequence[HostSkill]) -> None:
        """Count that a model was told of the skills whose names are in a text."""
        self._usage.offer_names(text, skills)

    def skills(self) -> tuple[HostSkill, ...]:
        """Every skill that is known and enabled. The same tuple while nothing changes."""
        return self._registry.skills()

    def origins(self) -> tuple[Origin, ...]:
        """Every server and directory, whether it works now or not."""
        return self._inventory.places.origins()

    def servers(self) -> Mapping[str, ServerConfig]:
        """The configuration of every server by its label, as it is now."""
        configs = self._inventory.places.configs
        return {origin.label: config for origin, config in configs.items()}

    def watch(self, callback: Callable[[], None]) -> None:
        """Call `callback` whenever a skill was added, changed or removed, or the policy changed."""
        self._registry.watch(lambda changes: callback())
        self._registration.on_policy.append(callback)

    def watch_opening(self, callback: Callable[[Origin, Sequence[SkillEntry]], None]) -> None:
        """Call `callback` with the entries of each origin as they arrive, before the host is open.

        Use it to prepare them while slower origins are still listed; `skills` does not have them yet.
        """
        self._registration.on_collected = callback

    def candidate(self, skill: HostSkill) -> AdmissionRequest:
        """Return the facts that the admission of a skill depends on, without its approval."""
        return self._approver.facts_of(skill)

    def status(self, candidate: AdmissionRequest) -> ApprovalStatus:
        """The state of a candidate, in the words that everything shows."""
        return status_of(candidate, limits=self._approver.limits)

    @property
    def policy_revision(self) -> int:
        """A number that changes with the policy."""
        return self._registration.policy_revision

    def source_names(self, origin: Origin) -> tuple[str, ...]:
        """The place of an origin, as the patterns of a policy name it."""
        return self._registration.names(origin)

    def is_permitted(self, skill: HostSkill) -> bool:
        """Whether the policy lets a skill be used as it is now, whatever people decided."""
        return self._approver.is_permitted(skill)

    def approval_mode(self, origin: Origin) -> ApprovalMode:
        """Return the configured approval mode of all skills of an origin."""
        return self._registration.approval_mode(origin)

    async def find(self, uri: SkillUri, origin: Origin) -> HostSkill:
        """A skill of an origin, also one that it does not list (LST-3); `SkillNotFound` otherwise."""
        return await self._inventory.look_up(uri, origin)

    async def fetch(self, skill: HostSkill, uri: SkillUri) -> VerifiedFile:
        """A file of a skill, from the cache or from its server, verified and cached (VER-1, VER-2, SEC-8)."""
        return await self._fetcher.fetch(skill, uri)

    async def at_hand(self, skill: HostSkill) -> bytes | None:
        """The `SKILL.md` of a skill, if it is a local file or in the cache in the version of its entry."""
        return await self._fetcher.at_hand(skill)

    async def check_publishers(self, skill: HostSkill) -> None:
        """Check who signed a skill, if that matters; refuse it if a required publisher did not."""
        signatures = self._approver.signatures
        if signatures.required(skill.origin) or signatures.publishers or self._registration.policy_revision:
            await self._approver.check_publishers(await self._case(skill), self._fetcher.preview)

    async def check_scans(self, skill: HostSkill, *, report: bool = False) -> None:
        """Have a skill scanned as the policy asks for; refuse it if the policy refuses it for that. With
        `report`, what layers that only report would refuse is recorded.
        """
        policy = self._approver.facts(skill).policy
        if policy.scanners or (report and policy.reporting):
            case, fetch = await self._case(skill), self._fetcher.all_files(skill)
            await self._approver.check_scans(case, fetch, everything=True, report=report)

    async def _case(self, skill: HostSkill) -> Case:
        return await self._approver.open(skill, check_entry(skill.entry, limits=self._approver.limits))

    async def refreshed(self, skill: HostSkill, error: SkillwireError) -> HostSkill:
        """The skill with a new entry, after a check failed (VER-6); raises `error` if there is none."""
        return await self._loader.refreshed(skill, error)

    async def read_directory(self, skill: HostSkill, uri: SkillUri) -> Sequence[DirectoryChild]:
        """List a directory of a skill at its server, not verified."""
        return await self._inventory.places.source(skill.origin).read_directory(uri)

    def follow(self, origin: Origin, uris: Collection[SkillUri]) -> None:
        """Subscribe to changes of these skills of a server, by the URIs of their `SKILL.md`."""
        self._following.serve(origin, uris)

    def remaining_seconds(self, origin: Origin) -> float | None:
        """How long the listing of a server may still be cached; `None` for a directory, which is watched."""
        return self._inventory.places.remaining_seconds(origin)

    async def known(self) -> None:
        """Wait until something is known of every origin: its last listing, its listing, or a failure."""
        await self._inventory.known()

    async def settled(self, origin: Origin | None = None) -> None:
        """Wait until an origin, or every one, has answered or failed since the host was opened."""
        await self._inventory.settled(origin)

    def stop_waiting(self) -> None:
        """End all waiting: the host could not be opened."""
        self._inventory.stop_waiting()

    def is_unavailable(self, origin: Origin) -> bool:
        """Whether an origin is a server that cannot be reached now."""
        return self._inventory.places.is_unavailable(origin)

    def is_awaited(self, origin: Origin) -> bool:
        """Whether an origin is a server that cannot be reached now, or of which nothing is known yet."""
        return self.is_unavailable(origin) or not (origin.is_local or self._inventory.is_known(origin))

    def retry_seconds(self, origin: Origin) -> float:
        """In how many seconds a server that is unavailable is connected to again; 0 while that is tried."""
        return self._inventory.places.retry_seconds(origin)
