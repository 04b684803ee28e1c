"""`skillwire approve`, `revoke` and `approvals`: which skills the user approved."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from skillwire.cli.host_options import HostOptions, with_host
from skillwire.cli.parser import UsageError
from skillwire.errors import FormatError, SourceError

if TYPE_CHECKING:
    from skillwire.catalog.registry import RegisteredSkill
    from skillwire.host.approvals.stored import StoredApproval
    from skillwire.host.host import SkillHost
    from skillwire.skill.digests import SetDigest
    from skillwire.trust.verify import VerifiedFile

_EXPORT_BYTES: Final = 64 * 1024 * 1024


def approve(
    *,
    names: tuple[str, ...],
    digest: tuple[str, ...],
    everything: bool,
    allow_tools: bool,
    allow_code: bool,
    on: str | None,
    caller: str | None,
    options: HostOptions,
    as_json: bool,
) -> None:
    """Approve skills with exactly the files that are shown, or that a digest names."""
    from skillwire.cli.output import counted, printable
    from skillwire.cli.screen import Screen, origin_words, show_json
    from skillwire.cli.skill_view import SkillRow, skill_json
    from skillwire.skill.digests import parse_set_digest
    from skillwire.trust.approval import Grants
    from skillwire.trust.guards import requested_tools

    if everything and (names or on is None):
        raise UsageError("--all: name the server with --on SERVER, and no skills")
    if not everything and not names:
        raise UsageError("NAME is missing: write skillwire approve [OPTIONS] NAME")
    shown = frozenset(parse_set_digest(text) for text in digest)
    grants = Grants(allowed_tools=allow_tools, execute_code=allow_code)

    async def action(host: SkillHost) -> None:
        rows: list[SkillRow] = []
        screen = Screen()
        for skill in await _selected(host, names, on):
            if skill.origin.is_own and grants == Grants():
                raise SourceError(f"{skill.handle} is one of your own files: it needs no approval")
            agreed = await _shown(host, skill, shown, options)
            how = "approved by digest" if shown else "approved on a terminal"
            approval = await host.admin.approve(
                skill, digest=agreed, grants=grants, how=how, keep_files=True, caller=caller or ""
            )
            rows.append(SkillRow(skill, host.admin.status(skill)))
            if as_json:
                continue
            files = counted(len(approval.resources), "file")
            whom = f" for {printable(caller)}" if caller else ""
            what = f"{skill.handle} from {origin_words(skill.origin)} as it is now, {files}{whom}."
            screen.line(("Approved ", "green"), what)
            asked = requested_tools(skill.entry.frontmatter.get("allowed-tools"))
            if asked and not allow_tools:
                tools = printable(" ".join(asked))
                screen.wrapped(
                    f"It asks for tools, which are not granted: {tools} (--allow-tools grants them)"
                )
        if as_json:
            documents = [skill_json(row) for row in rows]
            show_json(documents[0] if len(documents) == 1 and not everything else {"approved": documents})

    single = names[0] if len(names) == 1 and not _is_pattern(names[0]) else ""
    with_host(options, action, name=single, on=on)


async def _selected(host: SkillHost, names: tuple[str, ...], on: str | None) -> list[RegisteredSkill]:
    """The skills that are meant, each once: by name, by pattern, or all of a server that are not approved."""
    from fnmatch import fnmatchcase

    from skillwire.errors import SkillNotFound
    from skillwire.host.approvals.status import State
    from skillwire.host.review import WAITING

    selected: dict[object, RegisteredSkill] = {}
    for name in names:
        if not _is_pattern(name):
            skill = await host.find(name, server=on)
            selected[skill.key] = skill
            continue
        matches = [
            skill
            for skill in host.skills()
            if on in (None, skill.origin.label)
            and not skill.origin.is_own
            and (
                fnmatchcase(skill.handle, name)
                or fnmatchcase(f"{skill.origin.label}/{skill.entry.name}", name)
            )
        ]
        if not matches:
            raise SkillNotFound(f"no skill matches {name}: `skillwire list` shows their names")
        selected |= {skill.key: skill for skill in matches}
    if not names:
        waiting = (*WAITING, State.DYNAMIC)
        of_server = [skill for skill in host.skills() if skill.origin.label == on]
        selected = {skill.key: skill for skill in of_server if host.admin.status(skill).state in waiting}
        if not selected:
            raise SkillNotFound(f"{on} has no skill that needs approval: `skillwire list` shows all")
    return list(selected.values())


async def _shown(
    host: SkillHost, skill: RegisteredSkill, digests: frozenset[SetDigest], options: HostOptions
) -> SetDigest:
    """The digest of the files, once the user has seen exactly these and approves them (SEC-6)."""
    from skillwire.cli.ask import ask_person, terminal_callback
    from skillwire.errors import ApprovalRequired
    from skillwire.host.approvals.asking import ApprovalRequest
    from skillwire.trust.approval import Reason, shown_digest
    from skillwire.trust.guards import requested_tools

    digest = shown_digest(skill.entry)
    review = None
    if digest is None:
        # Its server lists no digests: they are computed from its current files.
        review = await host.admin.fetch_files(skill.uri, server=skill.origin.label)
        digest = review.digest
    if digest in digests:
        return digest

    def refused(message: str) -> ApprovalRequired:
        return ApprovalRequired(message, reason="denied", origin=skill.origin.label, uri=skill.uri)

    look = f"`skillwire show {skill.handle} --text{options.style_words}`"
    if digests:
        raise refused(
            f"{skill.handle} has files that do not match the digest: nothing is approved; "
            f"read it with {look} and approve {digest}"
        )
    if terminal_callback() is None:
        raise refused(
            f"{skill.handle} is not approved, because this is not a terminal: "
            f"read it with {look}, then add --digest {digest}"
        )
    await host.admin.check_signatures([skill])
    status = host.admin.status(skill)
    in_hand = {file.path: file for file in review.files} if review else {}

    async def preview(path: str) -> VerifiedFile:
        return in_hand.get(path) or await host.admin.preview(skill.uri, path, server=skill.origin.label)

    request = ApprovalRequest(
        skill=skill,
        reason=Reason.CHANGED if status.changes else Reason.NEW,
        changes=status.changes,
        nested=status.nested,
        requested_tools=requested_tools(skill.entry.frontmatter.get("allowed-tools")),
        signature=await host.admin.signature(skill),
        signer_change=status.signer_change,
        digest=digest,
        preview=preview,
        approved=lambda uri: host.admin.approved_text(skill, uri),
    )
    if await ask_person(request, question="Approve it?") is not True:
        raise refused(f"{skill.handle} was not approved")
    return digest


def decline(*, name: str, digest: str | None, on: str | None, options: HostOptions, as_json: bool) -> None:
    """Decline a skill with exactly the files that it has now, or that a digest names."""
    from skillwire.cli.screen import Screen, origin_words, show_json
    from skillwire.cli.skill_view import SkillRow, skill_json
    from skillwire.skill.digests import parse_set_digest

    if digest is not None:
        parse_set_digest(digest)

    async def action(host: SkillHost) -> None:
        skill = await host.find(name, server=on)
        if skill.origin.is_own:
            raise SourceError(f"{skill.handle} is one of your own files: remove it, or disable it")
        await host.admin.decline(skill, digest=digest, how="declined on the command line")
        if as_json:
            show_json(skill_json(SkillRow(skill, host.admin.status(skill))))
            return
        words = f"{skill.handle} from {origin_words(skill.origin)} as it is now."
        Screen().line(("Declined ", "red"), words)

    with_host(options, action, name=name, on=on)


def _is_pattern(name: str) -> bool:
    return any(char in name for char in "*?[")


def revoke(
    *,
    name: str,
    caller: str | None,
    as_json: bool,
) -> None:
    """Revoke an approval, or take a decline back. No server is contacted."""
    import asyncio

    from skillwire.catalog.naming import SPEC_NAMING, SkillKey, skill_path
    from skillwire.cli.output import printable
    from skillwire.cli.screen import Screen, origin_words, show_json
    from skillwire.errors import AmbiguousName, SkillNotFound
    from skillwire.host.approvals.store import ApprovalStore
    from skillwire.host.directories import state_places
    from skillwire.skill.uris import SkillUri

    store = ApprovalStore(state_places().approvals)
    asyncio.run(store.open())
    found = {
        (SkillKey(stored.approval.origin, stored.approval.uri), stored.row.server): stored
        for stored in store.all(caller=caller or "")
        if name == stored.approval.uri
        or name in SPEC_NAMING.handles(SkillKey(stored.approval.origin, stored.approval.uri), stored.entry)
    }
    if not found:
        # Of what was declined, no entry is stored: it is found by its URI or path.
        declined = [
            one
            for one in store.declines(caller=caller or "")
            if name in (one.uri, "/".join(path := skill_path(SkillUri(one.uri))), path[-1])
        ]
        if not declined:
            raise SkillNotFound(
                f"no skill called {printable(name)} is approved or declined: `skillwire list` shows which are"
            )
        for one in declined:
            asyncio.run(store.remove_declined(one))
        if as_json:
            show_json({"revoked": [{"uri": one.uri} for one in declined]})
            return
        for one in declined:
            Screen().line(f"{printable(one.uri)} is no longer declined.")
        return
    if len(found) > 1:
        raise AmbiguousName(
            printable(name), sorted(SPEC_NAMING.handles(key, one.entry)[1] for (key, _), one in found.items())
        )
    [((key, _), stored)] = found.items()
    asyncio.run(store.remove_stored(stored))
    if as_json:
        show_json({"revoked": {"server": key.origin.label, "uri": key.uri}})
        return
    Screen().line(f"{printable(key.uri)} from {origin_words(key.origin)} is no longer approved.")


def list_approvals(*, as_json: bool) -> None:
    """What is approved: from which server, by whom, when and how."""
    from skillwire.cli.output import printable
    from skillwire.cli.screen import Screen, show_json

    exported = [_exported(stored) for stored in _stored()]
    if as_json:
        show_json({"approvals": exported})
        return
    screen = Screen()
    for one in exported:
        screen.line((printable(str(one["uri"])), "bold"), f"  {printable(str(one['label']))}")
        grants = [name for name in ("allowed_tools", "execute_code") if one[name]]
        screen.pairs(
            [
                ("caller", printable(str(one.get("caller", "")))),
                ("digest", str(one["digest"])),
                ("grants", ", ".join(grants)),
                (
                    "approved",
                    printable(f"{one['approved_at']} {one['approved_by']} {one['approved_how']}".strip()),
                ),
            ]
        )
    if not exported:
        screen.line("Nothing is approved.")


def export_approvals() -> None:
    """Every approval as one JSON document, for `approvals import` elsewhere."""
    from skillwire.cli.screen import show_json

    show_json({"skillwire_approvals": 1, "approvals": [_exported(stored) for stored in _stored()]})


def import_approvals(*, file: str, yes: bool, as_json: bool) -> None:
    """Import exported approvals after the user has reviewed them."""
    import asyncio
    import json
    import sys

    from skillwire.cli.ask import drop_typed_ahead
    from skillwire.cli.output import counted, printable
    from skillwire.cli.screen import Screen, show_json
    from skillwire.errors import ApprovalRequired
    from skillwire.files import read_regular
    from skillwire.host.approvals.store import ApprovalStore
    from skillwire.host.approvals.stored import row_from_exported
    from skillwire.host.directories import state_places

    try:
        document = json.loads(read_regular(Path(file), _EXPORT_BYTES))
        rows = [row_from_exported(one) for one in document["approvals"]]
    except OSError as error:
        raise SourceError(
            f"{file} cannot be read: {error.strerror}; give a file that `approvals export` wrote"
        ) from None
    except (ValueError, TypeError, LookupError, RecursionError, FormatError):
        raise SourceError(
            f"{file} was not written by `skillwire approvals export`: export it again"
        ) from None
    screen = Screen(errors=True)
    if not yes:
        for row in rows:
            grants = ", ".join(
                name for name, given in (("tools", row.allowed_tools), ("code", row.execute_code)) if given
            )
            screen.line((printable(row.uri), "bold"), f"  {printable(row.label)}")
            screen.pairs(
                [("grants", grants), ("approved", printable(f"{row.approved_at} {row.approved_by}"))]
            )
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise ApprovalRequired(
                "nothing was imported, because this is not a terminal: read the file, then add --yes",
                reason="denied",
                origin="",
                uri="",
            )
        drop_typed_ahead()
        screen.line(("Approve all of these? ", "bold"), "[y/N]")
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise ApprovalRequired("nothing was imported", reason="denied", origin="", uri="")
    asyncio.run(ApprovalStore(state_places().approvals).import_rows(rows))
    if as_json:
        show_json({"imported": len(rows)})
    else:
        Screen().line(("Imported ", "green"), f"{counted(len(rows), 'approval')}.")


def _stored() -> list[StoredApproval]:
    import asyncio

    from skillwire.host.approvals.store import ApprovalStore
    from skillwire.host.directories import state_places

    store = ApprovalStore(state_places().approvals)
    asyncio.run(store.open())
    return store.all(caller=None)


def _exported(stored: StoredApproval) -> dict[str, object]:
    import json

    from skillwire.trust.approval import seen_digest, shown_digest

    row = stored.row
    return {
        "server": row.server,
        "label": row.label,
        "uri": row.uri,
        "digest": shown_digest(stored.entry) or seen_digest(stored.entry, stored.approval.resources),
        # Which files were seen of a skill whose entry lists none.
        "files": sorted(stored.approval.resources) if stored.entry.is_dynamic else None,
        "allowed_tools": row.allowed_tools == 1,
        "execute_code": row.execute_code == 1,
        "approved_at": row.approved_at,
        "approved_by": row.approved_by,
        "approved_how": row.approved_how,
        **({"caller": row.caller} if row.caller else {}),
        "entry": json.loads(row.entry),
    }
