"""`skillwire publish` and `skillwire registry`: versions of skills for many readers."""

from __future__ import annotations

import getpass
import os
import shlex
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skillwire.cli.commands.registry import REGISTRY_TOKEN_VARIABLE, STORE_VARIABLE
from skillwire.cli.output import counted, human_size, info, printable, write
from skillwire.cli.parser import UsageError
from skillwire.cli.screen import Screen, show_json
from skillwire.errors import SourceError
from skillwire.version import pip_command

if TYPE_CHECKING:
    from skillwire.registry.store import Store

_DAMAGED = 6
_WITHDRAWN = "withdrawn"


def store_url(given: str | None) -> str | None:
    """The store that was named with `--store` or in the environment, or `None`."""
    return given or os.environ.get(STORE_VARIABLE) or None


def open_store(given: str | None) -> Store:
    """The store that was named, by default `registry.db` in this directory."""
    for package in ("sqlalchemy", "alembic", "psycopg"):
        if find_spec(package) is None:
            raise SourceError(f"a registry needs the package {package}: {pip_command('registry')}")
    from skillwire.registry.store import DEFAULT_URL, Store

    return Store(store_url(given) or DEFAULT_URL)


def publish(
    *,
    paths: tuple[str, ...],
    to: str | None,
    store: str | None,
    namespace: str | None,
    channel: str | None,
    release: str | None,
    sign_key: Path | None,
    as_json: bool,
) -> None:
    """Publish each skill, over HTTP or into a store."""
    url = store_url(store) if to is None else store
    if (to is None) == (url is None):
        raise UsageError("say where: --to URL for a registry, or --store URL for its database")
    database = None if url is None else open_store(url)
    if database is not None and namespace is None:
        raise UsageError("a store needs --namespace NAME")
    from skillwire.registry.client import publish_over_http, publish_to_store, read_skill

    rows: list[dict[str, Any]] = []
    for path in paths:
        if sign_key is not None:
            from skillwire.sources.directory import signing

            signing.sign_folder(signing.read_folder(Path(path)), signing.load_private_key(sign_key))
        folder = read_skill(Path(path), release)
        if database is not None:
            done = publish_to_store(
                folder, database, namespace=namespace or "", channel=channel or "stable", by=_operator()
            )
        else:
            token = os.environ.get(REGISTRY_TOKEN_VARIABLE)
            done = publish_over_http(
                folder, to or "", namespace=namespace or "", channel=channel or "stable", token=token
            )
        rows.append(
            {
                "skill": f"{done.namespace}/{done.name}",
                "version": done.version,
                "set_digest": done.set_digest,
                "signer": done.signer or None,
                "is_new": done.is_new,
            }
        )
        if not as_json:
            what = ("Published ", "green") if done.is_new else "Already published: "
            Screen().line(
                what,
                f"{printable(f'{done.namespace}/{done.name} {done.version}')}  {done.set_digest}",
            )
    if as_json:
        show_json({"published": rows})


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
    as_json: bool,
) -> None:
    from skillwire.registry.access import ALL, Access, Role

    access = Access(open_store(store))
    if action in ("add", "revoke") and name is None:
        raise UsageError(f"say which token: skillwire registry tokens {action} NAME")
    if action == "add" and name is not None:
        token = access.add_token(name, channel=channel or "stable", by=_operator())
        if role is not None:
            access.grant(f"token:{name}", namespace or ALL, Role.parse(role), by=_operator())
        if as_json:
            show_json({"name": name, "token": token})
        else:
            info(f"The token of {name}. It is shown once; keep it secret:")
            write(token)
            if role is None:
                info(f"It has no permissions yet: skillwire registry grant token:{name} read")
        return
    if action == "revoke" and name is not None:
        access.revoke_token(name, by=_operator())
        if as_json:
            show_json({"revoked": name})
        else:
            Screen().line(("Revoked ", "green"), printable(name))
        return
    rows = access.list_tokens()
    if as_json:
        show_json(
            {
                "tokens": [
                    {
                        "name": row.name,
                        "channel": row.channel,
                        "created_at": _time(row.created_at),
                        "revoked_at": None if row.revoked_at is None else _time(row.revoked_at),
                        "roles": {key: value.name.lower() for key, value in row.roles.items()},
                    }
                    for row in rows
                ]
            }
        )
        return
    if not rows:
        info("No tokens yet: skillwire registry tokens add NAME --role admin")
        return
    table = [("NAME", "CHANNEL", "CREATED", "PERMISSIONS")]
    for row in rows:
        roles = ", ".join(f"{value.name.lower()} in {key}" for key, value in sorted(row.roles.items()))
        permissions = "revoked" if row.revoked_at is not None else roles or "none"
        table.append(
            (printable(row.name), printable(row.channel), _time(row.created_at), printable(permissions))
        )
    Screen().table(table)


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
    from skillwire.registry.publishing import Publishing
    from skillwire.sources.directory.signing import read_pem

    if (signer is None) != (key is None and root is None):
        raise UsageError("--signer NAME and --key FILE or --root FILE belong together")
    required = None
    if signer is not None:
        required = (signer, read_pem(key) if key else None, read_pem(root) if root else None)
    quota = None if quota_mb is None else quota_mb * 1_000_000
    Publishing(open_store(store)).set_namespace(name, quota_bytes=quota, signer=required, by=_operator())
    if as_json:
        show_json({"namespace": name})
    else:
        Screen().line(("Ready: ", "green"), printable(name))


def grant(*, subject: str, role: str, namespace: str | None, store: str | None, as_json: bool) -> None:
    from skillwire.registry.access import ALL, Access, Role

    where = namespace or ALL
    given = None if role == "none" else Role.parse(role)
    Access(open_store(store)).grant(subject, where, given, by=_operator())
    if as_json:
        show_json({"subject": subject, "namespace": where, "role": role})
    else:
        place = "every namespace" if where == ALL else where
        Screen().line(("Granted ", "green"), f"{role} in {printable(place)} to {printable(subject)}")


def versions(*, skill: str, store: str | None, as_json: bool) -> None:
    from skillwire.registry.publishing import Publishing

    rows = Publishing(open_store(store)).versions(*_skill(skill))
    if as_json:
        show_json(
            {
                "versions": [
                    {
                        "version": row.version,
                        "set_digest": row.set_digest,
                        "size": row.size,
                        "signer": row.signer or None,
                        "published_by": row.published_by,
                        "published_at": _time(row.published_at),
                        "yanked": row.yanked,
                        "channels": list(row.channels),
                    }
                    for row in rows
                ]
            }
        )
        return
    table: list[tuple[str, ...]] = [("VERSION", "PUBLISHED", "SIZE", "BY", "STATUS")]
    for row in rows:
        status = ", ".join(row.channels)
        if row.yanked is not None:
            status = _WITHDRAWN if row.yanked == _WITHDRAWN else f"{_WITHDRAWN}: {row.yanked}"
        shown = (row.version, _time(row.published_at), human_size(row.size), row.published_by, status)
        table.append(tuple(map(printable, shown)))
    Screen().table(table)


def promote(*, skill: str, release: str, channel: str | None, store: str | None, as_json: bool) -> None:
    from skillwire.registry.publishing import STABLE, Publishing

    target = channel or STABLE
    Publishing(open_store(store)).promote(*_skill(skill), release, target, by=_operator())
    if as_json:
        show_json({"skill": skill, "version": release, "channel": target})
    else:
        Screen().line(
            ("Promoted ", "green"), f"{printable(skill)} {printable(release)} to {printable(target)}"
        )


def yank(*, skill: str, release: str, reason: str | None, store: str | None, as_json: bool) -> None:
    from skillwire.registry.publishing import Publishing

    publishing = Publishing(open_store(store))
    left = publishing.yank(*_skill(skill), release, reason or _WITHDRAWN, by=_operator())
    if as_json:
        show_json({"skill": skill, "version": release, "channels": list(left)})
        return
    Screen().line(("Withdrew ", "green"), f"{printable(skill)} {printable(release)}")
    if left:
        info(
            f"{', '.join(left)} no longer has {skill}: promote another version "
            "with skillwire registry promote"
        )


def prune(*, keep: int, store: str | None, as_json: bool) -> None:
    from skillwire.registry.publishing import Publishing

    old, removed = Publishing(open_store(store)).prune(keep=keep, by=_operator())
    if as_json:
        show_json({"versions": old, "files": removed})
    else:
        Screen().line(("Deleted ", "green"), f"{counted(old, 'version')} and {counted(removed, 'file')}")


def audit(*, verify: bool, after: int, store: str | None, as_json: bool) -> int:
    from skillwire.registry.audit import first_broken, read_audit

    database = open_store(store)
    if verify:
        broken = first_broken(database)
        last = max((line.number for line in read_audit(database)), default=0)
        if as_json:
            show_json({"lines": last, "first_broken": broken})
        elif broken is None:
            Screen().line(("Intact: ", "green"), counted(last, "line"))
        else:
            Screen().line(("Broken: ", "red"), f"line {broken} was changed, or a line before it was removed")
        return 0 if broken is None else _DAMAGED
    lines = list(read_audit(database, after=after))
    if as_json:
        show_json(
            {
                "lines": [
                    {
                        "number": line.number,
                        "at": _time(line.at),
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
            f"{line.number:>6}  {_time(line.at)}  {who:<20} {line.action:<12} {what}  "
            f"{printable(line.details)}"
        )
    return 0


def backup(*, file: Path, store: str | None, as_json: bool) -> None:
    from skillwire.registry.backup import backup as write_backup

    rows = write_backup(open_store(store), file)
    if as_json:
        show_json({"file": str(file), "rows": rows})
    else:
        Screen().line(("Wrote ", "green"), f"{printable(str(file))}, {counted(rows, 'row')}")


def restore(*, file: Path, store: str | None, as_json: bool) -> None:
    from skillwire.registry.backup import restore as read_backup

    if not file.is_file():
        raise SourceError(f"{printable(str(file))} cannot be read: there is no such file")
    database = open_store(store)
    database.create()
    rows = read_backup(database, file)
    if as_json:
        show_json({"store": database.place, "rows": rows})
    else:
        Screen().line(("Restored ", "green"), f"{counted(rows, 'row')} into {printable(database.place)}")


def check(*, store: str | None, as_json: bool) -> int:
    from skillwire.registry.backup import damage

    database = open_store(store)
    found = list(damage(database))
    if as_json:
        show_json({"store": database.place, "damaged": found})
    elif not found:
        Screen().line(("Intact: ", "green"), printable(database.place))
    else:
        for line in found:
            Screen().line(("Damaged: ", "red"), printable(line))
    return _DAMAGED if found else 0


def push_oci(*, skill: str, release: str, reference: str, store: str | None, as_json: bool) -> None:
    from skillwire.registry.catalog import StoreCatalog, View
    from skillwire.registry.oci import artifact_of, push
    from skillwire.registry.places import Place
    from skillwire.skill.uris import SKILL_FILE, child_uri

    catalog = StoreCatalog(open_store(store), View())
    name = _skill(skill)[1]
    place = Place(*_skill(skill), release, "")
    entry = catalog.entry(child_uri(place.root, SKILL_FILE))
    user, password = os.environ.get("OCI_USERNAME"), os.environ.get("OCI_PASSWORD")
    credentials = (user, password) if user and password else None
    digest = push(
        artifact_of(name, release, entry.frontmatter, catalog.contents(place)),
        reference,
        credentials=credentials,
    )
    if as_json:
        show_json({"reference": reference, "digest": digest})
    else:
        Screen().line(("Pushed ", "green"), f"{printable(reference)}  {digest}")


def _skill(text: str) -> tuple[str, str]:
    namespace, slash, name = text.partition("/")
    if not slash or not namespace or not name or "/" in name:
        raise UsageError(f"{printable(text)} is not a skill of a registry: write NAMESPACE/NAME")
    return namespace, name


def _operator() -> str:
    """The operator of the store, as the audit log names them."""
    try:
        return f"operator:{getpass.getuser()}"
    except (OSError, KeyError, ImportError):
        return "operator"


def _time(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
