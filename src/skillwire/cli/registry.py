"""`skillwire registry`: versions of skills for many readers, in a database."""

from __future__ import annotations

import getpass
import os
import re
import shlex
import time
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skillwire.cli.commands.registry import REGISTRY_TOKEN_VARIABLE, STORE_VARIABLE
from skillwire.cli.output import Screen, counted, human_size, info, printable, show_json, write
from skillwire.errors import SourceError, UsageError
from skillwire.version import pip_command

if TYPE_CHECKING:
    from skillwire.registry import Store

_DAMAGED = 6
_REPORT_SECONDS = 5.0
_WITHDRAWN = "withdrawn"
_POSITION = re.compile(r"sha256:[0-9a-f]{64}|version:[0-9]{1,18}")


def store_url(given: str | None) -> str | None:
    """The store that was named with `--store` or in the environment, or `None`."""
    return given or os.environ.get(STORE_VARIABLE) or None


def open_store(given: str | None) -> Store:
    """The store that was named, by default `registry.db` in this directory."""
    for package in ("sqlalchemy", "alembic", "psycopg"):
        if find_spec(package) is None:
            raise SourceError(f"a registry needs the package {package}: {pip_command('registry')}")
    from skillwire.registry import DEFAULT_URL, Store

    return Store(store_url(given) or DEFAULT_URL)


def init(*, store: str | None, as_json: bool) -> None:
    database = open_store(store)
    database.create()
    if as_json:
        show_json({"store": database.place})
        return
    Screen().line(("Ready: ", "green"), printable(database.place))
    place = "" if store is None else f" --store {shlex.quote(database.place)}"
    info(f"Next: skillwire registry tokens add NAME --role admin{place}")


def tokens(
    *,
    action: str | None,
    name: str | None,
    role: str | None,
    namespace: str | None,
    channel: str | None,
    store: str | None,
    to: str | None,
    as_json: bool,
) -> None:
    if action in ("add", "revoke") and name is None:
        raise UsageError(f"say which token: skillwire registry tokens {action} NAME")
    given = {"name": name, "role": role, "namespace": namespace, "channel": channel}
    answer = _run("tokens" if action in (None, "list") else f"tokens-{action}", given, store, to)
    if as_json:
        show_json(answer)
    elif action == "add":
        info(f"The token of {name}. It is shown once; keep it secret:")
        write(printable(str(answer["token"])))
        if role is None:
            info(f"It has no permissions yet: skillwire registry grants add token:{name} read")
    elif action == "revoke":
        Screen().line(("Revoked ", "green"), printable(name or ""))
    elif not answer["tokens"]:
        info("No tokens yet: skillwire registry tokens add NAME --role admin")
    else:
        table = [_cells("NAME", "CHANNEL", "CREATED", "PERMISSIONS")]
        for row in answer["tokens"]:
            roles = ", ".join(f"{granted} in {where}" for where, granted in row["roles"].items())
            permissions = "revoked" if row["revoked_at"] is not None else roles or "none"
            table.append(_cells(row["name"], row["channel"], row["created_at"], permissions))
        Screen().table(table)


def list_(*, what: str | None, revoked: bool, store: str | None, to: str | None, as_json: bool) -> None:
    if revoked:
        if what is not None:
            raise UsageError("--revoked lists what is revoked for all: leave out NAMESPACE[/NAME]")
        _list_revoked(_run("revocations", {}, store, to), as_json=as_json)
    elif what is not None and "/" in what:
        _list_versions(what, _run("versions", _skill(what), store, to), as_json=as_json)
    else:
        _list_names(what, _run("list", {"namespace": what}, store, to), as_json=as_json)


def _list_names(namespace: str | None, answer: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        show_json(answer)
        return
    if namespace is None:
        table = [_cells("NAMESPACE", "SKILLS", "VERSIONS", "SIZE", "QUOTA", "SIGNER")]
        for row in answer["namespaces"]:
            quota = "" if row["quota_bytes"] is None else human_size(row["quota_bytes"])
            size, signer = human_size(row["bytes"]), row["signer"] or ""
            count = _with_revoked(row["versions"], row["revoked"])
            table.append(_cells(row["name"], row["skills"], count, size, quota, signer))
        nothing = "No namespaces yet: skillwire registry namespace NAME"
    else:
        table = [_cells("SKILL", "VERSIONS", "CHANNELS")]
        for row in answer["skills"]:
            pointing = ", ".join(
                f"{name}: {version}{' (revoked)' if version in row['revoked'] else ''}"
                for name, version in sorted(row["channels"].items())
            )
            table.append(_cells(row["name"], _with_revoked(row["versions"], len(row["revoked"])), pointing))
        nothing = printable(f"No skills in {namespace} yet: skillwire publish PATH --namespace {namespace}")
    if len(table) > 1:
        Screen().table(table)
    else:
        info(nothing)


def _with_revoked(count: int, revoked: int) -> str:
    return f"{count} ({revoked} revoked)" if revoked else str(count)


def _list_revoked(answer: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        show_json({key: value for key, value in answer.items() if key not in ("document", "signature")})
        return
    table = [_cells("DIGEST", "SKILLS", "REASON", "BY", "SINCE")]
    for row in answer["revoked"]:
        table.append(_cells(row["digest"], row["what"], row["reason"], row["revoked_by"], row["revoked_at"]))
    if len(table) > 1:
        Screen().table(table)
    else:
        info("Nothing is revoked")
    if answer["serial"]:
        info(
            printable(
                f"Hosts get list {answer['serial']}, signed by {answer['signer']}, until {answer['expires']}"
            )
        )
        from skillwire.registry import signed_digests

        if signed_digests(answer) != {row["digest"]: row["reason"] for row in answer["revoked"]}:
            info("It differs from the above: skillwire registry revoke --sign KEY")
    else:
        info("Hosts are told nothing yet: skillwire registry revoke --sign KEY")


def revoke(
    *,
    target: str | None,
    reason: str | None,
    undo: bool,
    sign: Path | None,
    password_env: str | None,
    days: int,
    store: str | None,
    to: str | None,
    as_json: bool,
) -> None:
    if target is None and sign is None:
        raise UsageError("say what: NAMESPACE/NAME@VERSION or sha256:DIGEST, or --sign KEY to sign the list")
    if (reason is None) == (target is not None and not undo):
        raise UsageError("--reason TEXT belongs to what is revoked: whoever is refused sees it")
    if password_env is not None and sign is None:
        raise UsageError("--password-env needs --sign, the private key that it unlocks")
    from skillwire.cli.host_options import password
    from skillwire.registry import next_list
    from skillwire.sources import load_private_key

    # Before anything changes: a key that cannot be used would leave half of it done.
    key = None if sign is None else load_private_key(sign, password(password_env))
    answer: dict[str, Any] = {}
    if target is not None:
        command = "revoke-undo" if undo else "revoke"
        answer = _run(command, {"target": target, "reason": reason}, store, to)
    if key is not None:
        removed = None if undo and target is None else answer.get("digests", ()) if undo else ()
        listed = _run("revocations", {}, store, to)
        arguments, added, gone = next_list(listed, key, days=days, removed=removed)
        signed = _run("revocations-sign", arguments, store, to)
        answer["signed"] = {**signed, "added": added, "removed": gone}
    if as_json:
        show_json(answer)
        return
    screen = Screen()
    if target is not None:
        done = "Took back the revocation of " if undo else "Revoked "
        screen.line((done, "green"), printable(target))
        for name in answer["versions"]:
            screen.line(f"  {printable(name)}")
        if not answer["versions"]:
            info("No version of this registry has it")
    if key is None:
        info("Hosts are not told of it yet: skillwire registry revoke --sign KEY")
        return
    made = answer["signed"]
    screen.line(("Signed ", "green"), printable(f"list {made['serial']}, valid until {made['expires']}"))
    for mark, digests in (("+", made["added"]), ("-", made["removed"])):
        for digest in digests:
            screen.line(f"  {mark} {printable(digest)}")


def uploads(
    *,
    action: str | None,
    namespace: str | None,
    sender: str | None,
    store: str | None,
    to: str | None,
    as_json: bool,
) -> None:
    if action == "drop":
        if namespace is None or sender is None:
            raise UsageError("say which: skillwire registry uploads drop --namespace NAME --sender WHO")
        answer = _run("uploads-drop", {"namespace": namespace, "sent_by": sender}, store, to)
        if as_json:
            show_json(answer)
        else:
            Screen().line(("Dropped ", "green"), counted(int(answer["files"]), "file"))
        return
    answer = _run("uploads", {}, store, to)
    if as_json:
        show_json(answer)
        return
    table = [_cells("NAMESPACE", "SENDER", "FILES", "SIZE", "SINCE")]
    for row in answer["uploads"]:
        table.append(
            _cells(row["namespace"], row["sent_by"], row["files"], human_size(row["size"]), row["at"])
        )
    if len(table) > 1:
        Screen().table(table)
    else:
        info("Nothing was sent without being published")


def namespace(
    *,
    name: str,
    quota_mb: int | None,
    signer: str | None,
    key: Path | None,
    root: Path | None,
    store: str | None,
    as_json: bool,
) -> None:
    from skillwire.registry import Publishing, RequiredSigner
    from skillwire.sources import read_pem

    if (signer is None) != (key is None and root is None):
        raise UsageError("--signer NAME and --key FILE or --root FILE belong together")
    required = None
    if signer is not None:
        required = RequiredSigner(signer, read_pem(key) if key else None, read_pem(root) if root else None)
    quota = None if quota_mb is None else quota_mb * 1_000_000
    Publishing(open_store(store)).set_namespace(name, quota_bytes=quota, signer=required, by=operator())
    if as_json:
        show_json({"namespace": name})
    else:
        Screen().line(("Ready: ", "green"), printable(name))


def grants(
    *,
    action: str | None,
    subject: str | None,
    role: str | None,
    namespace: str | None,
    store: str | None,
    to: str | None,
    as_json: bool,
) -> None:
    if action in (None, "list"):
        if subject is not None or namespace is not None:
            raise UsageError("all grants are listed: leave out SUBJECT and --namespace")
        _list_grants(_run("grants", {}, store, to), as_json=as_json)
        return
    if action == "add" and (subject is None or role is None):
        raise UsageError("say who and what: skillwire registry grants add SUBJECT ROLE")
    if subject is None:
        raise UsageError("say whose: skillwire registry grants revoke SUBJECT")
    if action == "revoke" and role is not None:
        raise UsageError("revoke takes no ROLE: a subject has one role in a namespace")
    answer = _run("grant", {"subject": subject, "role": role or "none", "namespace": namespace}, store, to)
    if as_json:
        show_json(answer)
        return
    who = printable(subject)
    place = "every namespace" if answer["namespace"] == "*" else printable(str(answer["namespace"]))
    if role is None:
        Screen().line(("Revoked ", "green"), f"the role of {who} in {place}")
    else:
        Screen().line(("Granted ", "green"), f"{role} in {place} to {who}")


def _list_grants(answer: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        show_json(answer)
        return
    table = [_cells("SUBJECT", "NAMESPACE", "ROLE")]
    table += [_cells(row["subject"], row["namespace"], row["role"]) for row in answer["grants"]]
    if len(table) > 1:
        Screen().table(table)
    else:
        info("Nobody was granted anything yet: skillwire registry grants add SUBJECT ROLE")


def _list_versions(skill: str, answer: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        show_json({"skill": skill, **answer})
        return
    table = [_cells("VERSION", "PUBLISHED", "SIZE", "BY", "STATUS")]
    for row in answer["versions"]:
        status = ", ".join(row["channels"])
        if row["yanked"] is not None:
            status = _WITHDRAWN if row["yanked"] == _WITHDRAWN else f"{_WITHDRAWN}: {row['yanked']}"
        if row["revoked"] is not None:
            status = f"revoked: {row['revoked']}"
        size = human_size(row["size"])
        table.append(_cells(row["version"], row["published_at"], size, row["published_by"], status))
    Screen().table(table)


def promote(
    *, skill: str, release: str, channel: str | None, store: str | None, to: str | None, as_json: bool
) -> None:
    answer = _run("promote", {**_skill(skill), "version": release, "channel": channel}, store, to)
    if as_json:
        show_json(answer)
    else:
        target = printable(str(answer["channel"]))
        Screen().line(("Promoted ", "green"), f"{printable(skill)} {printable(release)} to {target}")


def yank(
    *, skill: str, release: str, reason: str | None, store: str | None, to: str | None, as_json: bool
) -> None:
    answer = _run("yank", {**_skill(skill), "version": release, "reason": reason}, store, to)
    if as_json:
        show_json(answer)
        return
    Screen().line(("Withdrew ", "green"), f"{printable(skill)} {printable(release)}")
    before = answer["version_before"]
    for channel in answer["channels"]:
        way = f"skillwire registry promote {skill} {before or 'VERSION'} --channel {channel}"
        info(printable(f"{channel} no longer has {skill}: {way}"))


def prune(*, keep: int, store: str | None, to: str | None, as_json: bool) -> None:
    deleted = removed = 0
    while True:
        answer = _run("prune", {"keep": keep}, store, to)
        deleted, removed = deleted + int(answer["versions"]), removed + int(answer["files"])
        if answer["finished"]:
            break
        info(f"Deleted {counted(deleted, 'version')} and {counted(removed, 'file')} so far")
    if as_json:
        show_json({"versions": deleted, "files": removed})
    else:
        Screen().line(("Deleted ", "green"), f"{counted(deleted, 'version')} and {counted(removed, 'file')}")


def audit(*, verify: bool, gateways: bool, after: int, store: str | None, as_json: bool) -> int:
    from skillwire.registry import first_broken, last_numbers, read_audit, read_gateways, time_text

    database = open_store(store)
    if verify:
        broken, last = first_broken(database), last_numbers(database)
        if as_json:
            found = None if broken is None else {"writer": broken[0], "number": broken[1]}
            show_json({"lines": last, "first_broken": found})
        elif broken is None:
            count = f"{counted(sum(last.values()), 'line')} of {counted(len(last), 'writer')}"
            Screen().line(("Intact: ", "green"), count)
        else:
            where = printable(f"line {broken[1]} of {broken[0]}")
            Screen().line(("Broken: ", "red"), f"{where} was changed, or a line before it was removed")
        return 0 if broken is None else _DAMAGED
    lines = read_gateways(database) if gateways else read_audit(database, after=after)
    if as_json:
        show_json(
            {
                "lines": [
                    {
                        "writer": line.writer,
                        "number": line.number,
                        "at": time_text(line.at),
                        "who": line.who,
                        "action": line.action,
                        "what": line.what,
                        "details": line.details,
                    }
                    for line in lines
                ]
            }
        )
        return 0
    for line in lines:
        who, what = printable(line.who), printable(line.what)
        write(
            f"{line.number:>6}  {time_text(line.at)}  {who:<20} {line.action:<12} {what}  "
            f"{printable(line.details)}"
        )
    return 0


def backup(*, file: Path, store: str | None, as_json: bool) -> None:
    from skillwire.registry.upkeep import backup as write_backup
    from skillwire.registry.upkeep import part_of

    part = part_of(file)
    if part.exists() and not file.exists():
        info(printable(f"Continuing with what is in {part}"))
    try:
        rows = write_backup(open_store(store), file, progress=_progress("rows", "written"))
    except BaseException:
        if part.exists():
            info(printable(f"{part} has what was written so far: the same command continues with it"))
        raise
    if as_json:
        show_json({"file": str(file), "rows": rows})
    else:
        Screen().line(("Wrote ", "green"), f"{printable(str(file))}, {counted(rows, 'row')}")


def restore(*, file: Path, store: str | None, as_json: bool) -> None:
    from skillwire.registry.upkeep import restore as read_backup

    if not file.is_file():
        raise SourceError(f"{printable(str(file))} cannot be read: there is no such file")
    database = open_store(store)
    database.create()
    rows = read_backup(database, file, progress=_progress("rows", "restored"))
    if as_json:
        show_json({"store": database.place, "rows": rows})
    else:
        Screen().line(("Restored ", "green"), f"{counted(rows, 'row')} into {printable(database.place)}")


def check(*, after: str | None, store: str | None, as_json: bool) -> int:
    from skillwire.registry.upkeep import damage

    if after is not None and not _POSITION.fullmatch(after):
        raise UsageError("--after is not a position: write one that an interrupted check printed")
    database = open_store(store)
    position = after or ""
    say = _progress("files and versions", "checked")

    def report(count: int, at: str) -> None:
        nonlocal position
        position = at
        say(count)

    found: list[str] = []
    try:
        for line in damage(database, after=after or "", progress=report):
            found.append(line)
            if not as_json:
                Screen().line(("Damaged: ", "red"), printable(line))
    except BaseException:
        if position:
            info(f"Continue with: skillwire registry check --after {position}")
        raise
    if as_json:
        show_json({"store": database.place, "damaged": found})
    elif not found:
        Screen().line(("Intact: ", "green"), printable(database.place))
    return _DAMAGED if found else 0


def _progress(what: str, done: str) -> Callable[[int], None]:
    """Says every few seconds how far a long command is."""
    last = time.monotonic()

    def report(count: int) -> None:
        nonlocal last
        if time.monotonic() - last > _REPORT_SECONDS:
            last = time.monotonic()
            info(f"{count:,} {what} {done} so far")

    return report


def _run(command: str, given: Mapping[str, object], store: str | None, to: str | None) -> dict[str, Any]:
    """Run a command of operators on a registry's URL or on its database."""
    if to is not None:
        if store is not None:
            raise UsageError("--to and --store exclude each other: name the registry or its database")
        from skillwire.registry import administrate

        return administrate(to, command, given, token=os.environ.get(REGISTRY_TOKEN_VARIABLE))
    from skillwire.registry import Administration
    from skillwire.registry import operator as with_database

    return Administration(open_store(store)).run(command, given, caller=with_database(operator()))


def _cells(*values: object) -> tuple[str, ...]:
    return tuple(printable(str(value)) for value in values)


def _skill(text: str) -> dict[str, str]:
    namespace, slash, name = text.partition("/")
    if not slash or not namespace or not name or "/" in name:
        raise UsageError(f"{printable(text)} is not a skill of a registry: write NAMESPACE/NAME")
    return {"namespace": namespace, "name": name}


def operator() -> str:
    """The operator of the store, as the audit log names them."""
    try:
        return f"operator:{getpass.getuser()}"
    except (OSError, KeyError, ImportError):
        return "operator"
