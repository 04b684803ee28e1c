"""`skillwire approve`, `revoke` and `approvals`: which skills the user approved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from skillwire.cli.host_options import HostOptions, with_host
from skillwire.errors import ApprovalRequired, FormatError, SourceError, UsageError, VerificationError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

    from skillwire.catalog import HostSkill
    from skillwire.consent import ApprovalRequest, ConsentStore, Key, Record
    from skillwire.host import SkillHost
    from skillwire.trust import Approval, VerifiedFile


def approve(
    *,
    names: tuple[str, ...],
    everything: bool,
    allow_tools: bool,
    allow_code: bool,
    on: str | None,
    caller: str | None,
    sign: Path | None,
    password_env: str | None,
    output: Path | None,
    options: HostOptions,
    as_json: bool,
) -> None:
    """Approve skills with exactly the files that a person was shown on their terminal (SEC-6)."""
    from skillwire.cli.host_options import ask_person, ask_set, person_screen, person_terminal
    from skillwire.cli.output import show_json
    from skillwire.cli.skill_view import SkillRow, skill_json
    from skillwire.consent import NO_TERMINAL, ApprovalRequest, exported, require_person
    from skillwire.trust import Grants

    require_person("approving a skill")
    _check_names("approve", names, everything, on)
    if (sign is None) != (output is None):
        raise UsageError(
            "--sign and --output belong together: the key, and the file for the signed approvals"
        )
    signing_key = _signing_key(sign, password_env)
    grants = Grants(allowed_tools=allow_tools, execute_code=allow_code)
    if person_terminal() is None:
        raise _refused(f"nothing was approved: {NO_TERMINAL}")

    async def action(host: SkillHost) -> None:
        skills = await _selected(host, names, on, dynamic=True)
        for skill in skills:
            if skill.origin.is_own and grants == Grants():
                raise SourceError(f"{skill.handle} is one of your own files: it needs no approval")
        requests = [await _request(host, skill) for skill in skills]
        rows: list[SkillRow] = []
        signed: list[dict[str, object]] = []
        while requests:
            if len(requests) == 1:
                agreed = await ask_person(requests[0], question="Approve it?") is True
            else:
                agreed = await ask_set(requests)
            if not agreed:
                first = requests[0].skill
                what = f"{first.handle} was" if len(requests) == 1 else f"the {len(requests)} skills were"
                raise _refused(f"{what} not approved", first)
            asked, requests = requests, list[ApprovalRequest]()
            for request in asked:
                try:
                    approval = await host.decide.approve(
                        request.skill,
                        digest=request.digest,
                        grants=grants,
                        how="approved on a terminal",
                        keep_files=True,
                        caller=caller or "",
                    )
                except (ApprovalRequired, VerificationError):
                    if (changed := await _changed(host, request)) is None:
                        raise
                    words = f"{request.skill.handle} changed while you were asked, and was not approved."
                    person_screen().line((words, "yellow"))
                    requests.append(changed)
                    continue
                skill = request.skill
                rows.append(SkillRow(skill, host.decide.status(skill)))
                key = host.consent.key(skill.origin, skill.uri, caller or "")
                sources = list(host.rules.names(skill.origin))
                signed.append({**exported(host.consent.record(key)), "sources": sources})
                if not as_json:
                    _show_approved(request.skill, approval, caller=caller, allow_tools=allow_tools)
        if output is not None:
            _write_document(output, _export_document(signed, signing_key))
        if as_json:
            documents = [skill_json(row) for row in rows]
            show_json(documents[0] if len(documents) == 1 and not everything else {"approved": documents})

    with_host(options, action, name=_single(names), on=on)


async def _changed(host: SkillHost, request: ApprovalRequest) -> ApprovalRequest | None:
    """Return the question of a new listing; `None` if the files are those that were shown."""
    skill = request.skill
    await host.refresh(skill.origin.label)
    again = await _request(host, await host.find(skill.uri, server=skill.origin.label))
    return again if again.digest != request.digest else None


def _show_approved(skill: HostSkill, approval: Approval, *, caller: str | None, allow_tools: bool) -> None:
    from skillwire.cli.output import Screen, counted, origin_words, printable
    from skillwire.trust import requested_tools

    screen = Screen()
    files = counted(len(approval.resources), "file")
    whom = f" for {printable(caller)}" if caller else ""
    what = f"{skill.handle} from {origin_words(skill.origin)} as it is now, {files}{whom}."
    screen.line(("Approved ", "green"), what)
    asked = requested_tools(skill.entry.frontmatter.get("allowed-tools"))
    if asked and not allow_tools:
        tools = printable(" ".join(asked))
        screen.wrapped(f"It asks for tools, which are not granted: {tools} (--allow-tools grants them)")


def decline(
    *,
    names: tuple[str, ...],
    everything: bool,
    on: str | None,
    caller: str | None,
    options: HostOptions,
    as_json: bool,
) -> None:
    """Decline skills with exactly the files that they have now."""
    from skillwire.cli.output import Screen, origin_words, show_json
    from skillwire.cli.skill_view import SkillRow, skill_json

    _check_names("approvals decline", names, everything, on)

    async def action(host: SkillHost) -> None:
        rows: list[SkillRow] = []
        for skill in await _selected(host, names, on):
            if skill.origin.is_own:
                raise SourceError(f"{skill.handle} is one of your own files: remove it, or disable it")
            await host.decide.decline(skill, how="declined on the command line", caller=caller or "")
            rows.append(SkillRow(skill, host.decide.status(skill)))
            if not as_json:
                words = f"{skill.handle} from {origin_words(skill.origin)} as it is now."
                Screen().line(("Declined ", "red"), words)
        if as_json:
            documents = [skill_json(row) for row in rows]
            show_json(documents[0] if len(documents) == 1 and not everything else {"declined": documents})

    with_host(options, action, name=_single(names), on=on)


def _check_names(command: str, names: tuple[str, ...], everything: bool, on: str | None) -> None:
    if everything and (names or on is None):
        raise UsageError("--all: name the server with --on SERVER, and no skills")
    if not everything and not names:
        raise UsageError(f"NAME is missing: write skillwire {command} [OPTIONS] NAME")


def _refused(message: str, skill: HostSkill | None = None) -> ApprovalRequired:
    origin, uri = (skill.origin.label, skill.uri) if skill else ("", "")
    return ApprovalRequired(message, reason="denied", origin=origin, uri=uri)


def _single(names: tuple[str, ...]) -> str:
    """The one skill that a command is about; empty if it is about several."""
    return names[0] if len(names) == 1 and not _is_pattern(names[0]) else ""


def _is_pattern(name: str) -> bool:
    return any(char in name for char in "*?[")


async def _selected(
    host: SkillHost, names: tuple[str, ...], on: str | None, *, dynamic: bool = False
) -> list[HostSkill]:
    """The skills that are meant, each once: by name, by pattern, or all of a server that are not approved."""
    from fnmatch import fnmatchcase

    from skillwire.errors import SkillNotFound

    selected: dict[object, HostSkill] = {}
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
    if names:
        await host.signatures.check_all(selected.values())
        return list(selected.values())
    of_server = [skill for skill in host.skills() if skill.origin.label == on]
    # Whether a skill may be approved at all can depend on who signed it.
    await host.signatures.check_all(of_server)
    # Of a skill without digests, the current files are shown; there is no set of files to decline.
    waiting = [
        skill
        for skill in of_server
        if host.decide.status(skill).waits and (dynamic or not skill.entry.is_dynamic)
    ]
    if not waiting:
        raise SkillNotFound(f"{on} has no skill that needs approval: `skillwire list` shows all")
    return waiting


async def _request(host: SkillHost, skill: HostSkill) -> ApprovalRequest:
    """Return the question about a skill, with the digest of exactly the files that are shown (SEC-6)."""
    from skillwire.consent import ApprovalRequest, covered_files
    from skillwire.skill import SkillResource
    from skillwire.trust import Reason, requested_tools, shown_digest

    digest = shown_digest(skill.entry)
    review = None
    if digest is None:
        # Its server lists no digests: they are computed from its current files.
        review = await host.files.fetch_files(skill.uri, server=skill.origin.label)
        digest = review.digest
    status = host.decide.status(skill)
    files = review.files if review else ()
    in_hand = {name: file for file in files for name in (file.path, file.uri)}
    shown = [SkillResource(file.uri, file.digest, len(file.data)) for file in files]

    async def preview(path: str) -> VerifiedFile:
        return in_hand.get(path) or await host.files.preview(skill.uri, path, server=skill.origin.label)

    return ApprovalRequest(
        skill=skill,
        files=covered_files(skill.entry, shown),
        reason=Reason.CHANGED if status.changes else Reason.NEW,
        changes=status.changes,
        nested=status.nested,
        requested_tools=requested_tools(skill.entry.frontmatter.get("allowed-tools")),
        signature=await host.signatures.check(skill),
        signer_change=status.signer_change,
        scans=await host.decide.scan(skill),
        digest=digest,
        preview=preview,
        approved=lambda uri: host.files.approved_text(skill, uri),
    )


def revoke(
    *, names: tuple[str, ...], everything: bool, on: str | None, caller: str | None, as_json: bool
) -> None:
    """Revoke approvals, or take declines back. No server is contacted."""
    import asyncio

    from skillwire.cli.output import Screen, printable, show_json
    from skillwire.errors import SkillNotFound

    _check_names("revoke", names, everything, on)
    store = _store()
    approved: dict[Key, Record] = {}
    declined: dict[Key, Record] = {}
    for name in names or ("*",):
        found = _approved_as(store, name, on, caller or "")
        taken_back = [] if found and names else _declined_as(store, name, on, caller or "")
        if not found and not taken_back:
            where = f" on {printable(on)}" if on else ""
            what = f"no skill called {printable(name)}{where}" if names else f"nothing{where}"
            raise SkillNotFound(f"{what} is approved or declined: `skillwire list` shows which are")
        approved |= {record.key: record for record in found}
        declined |= {record.key: record for record in taken_back}
    for key in (*approved, *declined):
        asyncio.run(store.revoke(key))
    if as_json:
        documents = [{"server": record.label, "uri": key.uri} for key, record in approved.items()]
        show_json({"revoked": [*documents, *({"uri": key.uri} for key in declined)]})
        return
    screen = Screen()
    for uri, origins in _copies(approved.values()):
        screen.line(f"{printable(uri)} from {' and '.join(origins)} is no longer approved.")
    for key in declined:
        screen.line(f"{printable(key.uri)} is no longer declined.")


def _copies(records: Iterable[Record]) -> Iterable[tuple[str, list[str]]]:
    """Each skill once, with every place that it comes from: copies of the same files are one skill."""
    from skillwire.cli.output import origin_words

    skills: dict[object, tuple[str, list[str]]] = {}
    for record in records:
        approval = record.approval()
        if approval is not None:
            known = skills.setdefault(_content(record), (approval.uri, []))
            known[1].append(origin_words(approval.origin))
    return skills.values()


def _content(record: Record) -> object:
    """Return what two approvals of the same skill share: its name and its files, wherever it comes from."""
    from skillwire.skill import path_below, skill_root

    approval, entry = record.approval(), record.shown
    if approval is None or entry is None:
        return record.key
    root = skill_root(approval.uri)
    files = frozenset(("/".join(path_below(uri, root)), digest) for uri, digest in approval.resources)
    return entry.name, files


def _approved_as(store: ConsentStore, name: str, on: str | None, caller: str) -> list[Record]:
    """The approvals of a name or pattern. One name means one skill: its installed copy belongs to it."""
    from fnmatch import fnmatchcase

    from skillwire.catalog import SPEC_NAMING, SkillKey
    from skillwire.cli.output import printable
    from skillwire.errors import AmbiguousName

    found: list[tuple[str, Record]] = []
    servers = 0
    for record in store.approved(caller=caller):
        approval, entry = record.approval(), record.shown
        if approval is None or entry is None or on not in (None, approval.origin.label):
            continue
        key = SkillKey(approval.origin, approval.uri)
        handles = SPEC_NAMING.handles(key, entry)
        fits = any(fnmatchcase(handle, name) for handle in handles) if _is_pattern(name) else name in handles
        if fits or name == key.uri:
            found.append((handles[1], record))
            servers += not approval.origin.is_local
    # The same files from a server and in a folder are one skill that was installed; from two servers, two.
    if not _is_pattern(name) and (servers > 1 or len({_content(record) for _, record in found}) > 1):
        raise AmbiguousName(printable(name), sorted(handle for handle, _ in found))
    return [record for _, record in found]


def _declined_as(store: ConsentStore, name: str, on: str | None, caller: str) -> list[Record]:
    """The declines of a name or pattern. No entry is stored of them: they are found by URI or path."""
    from fnmatch import fnmatchcase

    from skillwire.host import load_config
    from skillwire.skill import SkillUri, skill_path

    server = load_config().servers.get(on) if on is not None else None

    def fits(key: Key) -> bool:
        path = skill_path(SkillUri(key.uri))
        spellings = (key.uri, "/".join(path), path[-1])
        if on is not None and (server is None or key.server != server.identity):
            return False
        return any(fnmatchcase(one, name) if _is_pattern(name) else one == name for one in spellings)

    return [record for record in store.declined(caller=caller) if fits(record.key)]


def list_approvals(*, on: str | None, as_json: bool) -> None:
    """List the approvals: from which server, by whom, when and how."""
    from skillwire.cli.output import Screen, printable, show_json
    from skillwire.consent import exported

    documents = [exported(record) for record in _store().approved(caller=None)]
    if on is not None:
        documents = [one for one in documents if one["label"] == on]
    if as_json:
        show_json({"approvals": documents})
        return
    screen = Screen()
    for one in documents:
        screen.line((printable(str(one["uri"])), "bold"), f"  {printable(str(one['label']))}")
        grants = [name for name in ("allowed_tools", "execute_code") if one[name]]
        grants += [printable(" ".join(pair)) for pair in cast("list[tuple[str, str]]", one["scripts"])]
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
    if not documents:
        screen.line("Nothing is approved." if on is None else f"Nothing of {printable(on)} is approved.")


def export_approvals(*, sign: Path | None, password_env: str | None) -> None:
    """Every approval as one JSON document, for `approvals import` elsewhere; with a key, signed."""
    from skillwire.cli.output import show_json
    from skillwire.consent import DIRECTORY, exported
    from skillwire.host import load_config

    if password_env is not None and sign is None:
        raise UsageError("--password-env needs --sign, the private key that it unlocks")
    servers = {one.identity: one.source_names(label) for label, one in load_config().servers.items()}

    def sources(server: str) -> list[str]:
        """Where the skills of a server or folder come from, if it is still known."""
        if server.startswith(DIRECTORY):
            return ["folder:project", f"folder:{server.removeprefix(DIRECTORY)}"]
        return list(servers.get(server, ()))

    records = _store().approved(caller=None)
    approvals = [{**exported(record), "sources": sources(record.key.server)} for record in records]
    show_json(_export_document(approvals, _signing_key(sign, password_env)))


def _signing_key(path: Path | None, password_env: str | None) -> EllipticCurvePrivateKey | None:
    from skillwire.cli.host_options import password
    from skillwire.sources import load_private_key

    return None if path is None else load_private_key(path, password(password_env))


def _export_document(
    approvals: list[dict[str, object]], key: EllipticCurvePrivateKey | None
) -> dict[str, object]:
    from skillwire.consent import sign_approvals

    document: dict[str, object] = {"skillwire_approvals": 1, "approvals": approvals}
    return document if key is None else {**document, "signature": sign_approvals(approvals, key)}


def _write_document(path: Path, document: Mapping[str, object]) -> None:
    import json

    from skillwire.files import write_atomic

    try:
        write_atomic(path, json.dumps(document, indent=2).encode(), mode=0o644)
    except OSError as error:
        raise SourceError(f"{path} cannot be written: {error.strerror}") from None


def request_approval(
    *, name: str, on: str | None, output: Path | None, options: HostOptions, as_json: bool
) -> None:
    """Write a request for whoever approves skills by the policy: what, from where, with which files."""
    import getpass
    from datetime import UTC, datetime

    from skillwire.cli.output import Screen, show_json
    from skillwire.skill import DYNAMIC
    from skillwire.trust import requested_tools, shown_digest

    async def action(host: SkillHost) -> None:
        skill = await host.find(name, server=on)
        entry = skill.entry
        if entry.resources is DYNAMIC:
            raise SourceError(f"{skill.handle} lists no digests: a team cannot approve it")
        document: dict[str, object] = {
            "skillwire_request": 1,
            "skill": skill.handle,
            "uri": skill.uri,
            "sources": list(host.rules.names(skill.origin)),
            "digest": shown_digest(entry),
            "files": sorted((file.uri, file.digest) for file in entry.resources),
            "requested_tools": list(requested_tools(entry.frontmatter.get("allowed-tools"))),
            "state": host.decide.status(skill).words,
            "requested_by": getpass.getuser(),
            "requested_at": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        if output is None or as_json:
            show_json(document)
        if output is not None:
            _write_document(output, document)
            if not as_json:
                Screen().line(("Written ", "green"), f"{output}: send it to whoever approves skills.")

    with_host(options, action, name=name, on=on)


def import_approvals(*, file: str, as_json: bool) -> None:
    """Import exported approvals: a person agrees on their terminal, or a configured key signed them."""
    import asyncio

    from skillwire.cli.host_options import answer, person_screen, person_terminal
    from skillwire.cli.output import Screen, counted, printable, show_json
    from skillwire.consent import NO_TERMINAL, imported, require_person

    require_person("importing approvals")
    document = _read_export(Path(file))
    if team := _team_of(document):
        from skillwire.host import store_signed_approvals

        store_signed_approvals(Path(file).read_bytes())
        count = len(document["approvals"])
        if as_json:
            show_json({"imported": count, "signed_by": team})
        else:
            words = f"{counted(count, 'approval')}, signed by {printable(team)} of the policy."
            Screen().line(("Imported ", "green"), words)
        return
    try:
        rows = [imported(one) for one in document["approvals"]]
    except (ValueError, TypeError, LookupError, RecursionError, FormatError):
        raise _not_an_export(file) from None
    signer = _approver_of(document)
    if not signer:
        screen = person_screen()
        for row in rows:
            screen.line((printable(row.key.uri), "bold"), f"  {printable(row.label)}")
            screen.pairs([("grants", row.last.grants), ("approved", printable(row.last.decided_how))])
        if person_terminal() is None:
            raise _refused(
                f"nothing was imported: {printable(file)} is not signed by a publisher that `approvers` of "
                f"your own skillwire.toml names, and {NO_TERMINAL}"
            )
        if asyncio.run(answer(screen, "Approve all of these?", "[y/N]")) not in ("y", "yes"):
            raise _refused("nothing was imported")
    asyncio.run(_store().import_records(rows))
    if as_json:
        show_json({"imported": len(rows), "signed_by": signer or None})
    else:
        by = f", signed by {printable(signer)}" if signer else ""
        Screen().line(("Imported ", "green"), f"{counted(len(rows), 'approval')}{by}.")


def _read_export(file: Path) -> dict[str, Any]:
    from skillwire.cli.output import printable
    from skillwire.documents import read_json
    from skillwire.files import read_regular
    from skillwire.limits import DEFAULT_LIMITS

    try:
        data = read_regular(file, DEFAULT_LIMITS.document_bytes + 1)
        document = read_json(data, what=printable(str(file)))
    except OSError as error:
        raise SourceError(
            f"{file} cannot be read: {error.strerror}; give a file that `approvals export` wrote"
        ) from None
    except ValueError:
        raise _not_an_export(str(file)) from None
    if not isinstance(document, dict):
        raise _not_an_export(str(file))
    return cast("dict[str, Any]", document)


def _not_an_export(file: str) -> SourceError:
    return SourceError(f"{file} was not written by `skillwire approvals export`: export it again")


def _approver_of(document: Mapping[str, object]) -> str:
    """The configured publisher who signed exactly these approvals and may approve for this user, or nothing.

    Only the user's own file says who may.
    """
    from skillwire.consent import approvals_signature
    from skillwire.host import load_approvers

    verdict = approvals_signature(document, load_approvers())
    return verdict.publisher if verdict.is_signed else ""


def _team_of(document: Mapping[str, Any]) -> str:
    """The publisher of a policy who signed exactly these approvals, or nothing. What it signed is verified
    again at every load, so nobody has to be asked."""
    from skillwire.consent import approvals_signature
    from skillwire.host import PolicyFiles

    verdict = approvals_signature(document, PolicyFiles().current().publishers)
    return verdict.publisher if verdict.is_signed else ""


def _store() -> ConsentStore:
    import asyncio

    from skillwire.consent import ConsentStore
    from skillwire.host import state_paths

    store = ConsentStore(state_paths().approvals)
    asyncio.run(store.open())
    return store
