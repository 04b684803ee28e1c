"""PolicyFile: what one policy file says. An unknown key or a bad value is a mistake, never ignored."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from skillwire.documents import DocumentError, read_toml
from skillwire.errors import FormatError, Issue, SkillwireError
from skillwire.host.config.server import ConfigTable, did_you_mean
from skillwire.limits import DEFAULT_LIMITS
from skillwire.text import safe_line, shown
from skillwire.trust import Patterns, Publisher
from skillwire.trust.policy import USER, LayerKind, Permission, PolicyLayer, PolicyPublisher
from skillwire.trust.scans import LEVELS, FindingLevel, Scanner

FORMAT: Final = 1
OWN_REGISTRY: Final = "local"
"""The registry that runs on the machine, for what is published to it: `registry:local/NAMESPACE/NAME`."""
_SCHEMES: Final = (
    "registry:",
    "https://",
    "http://",
    "git+",
    "folder:",
    "command:",
    "package:",
    "file:",
    "*",
)
_PERMISSIONS: Final = {one.name.lower().replace("_", "-"): one for one in Permission}
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_OWN_FOLDERS: Final = ("/dev", "/proc", "/run", "/skill", "/sys")
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_GRACE_DAYS: Final = 7
_LONGEST: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyFile:
    """One file: the layer, and where more of it is fetched from."""

    layer: PolicyLayer
    address: str = ""
    """Where the organization's signed policy is (`from`)."""
    keys: tuple[str, ...] = ()
    """The public keys of its signers, in PEM."""
    serial: int | None = None
    """The number of this version. In the machine's file: the lowest that counts of the organization's."""
    expires: datetime | None = None
    grace: timedelta = timedelta(days=_GRACE_DAYS)
    """How long after `expires` the last valid version still counts."""
    revoked_feed: str = ""
    revoked_by: tuple[str, ...] = ()
    """The keys whose signatures of that feed count, in PEM."""
    approvals_feed: str = ""


def parse_policy(text: str, *, kind: LayerKind, place: str) -> PolicyFile:
    """Read a policy, or raise a `FormatError` with every mistake in it."""
    issues: list[Issue] = []
    try:
        values = read_toml(text, what=place)
    except DocumentError as error:
        raise FormatError.of(
            rule="policy", file=place, message=str(error), fix="use the keys of docs/policy.md"
        ) from None
    top = ConfigTable(values, file=place, issues=issues)
    head, sources, approvals = top.table("policy"), top.table("sources"), top.table("approvals")
    if head.integer("format") != FORMAT:
        head.blame("format", f"is not {FORMAT}", f"write format = {FORMAT}, or use a version that knows it")
    publishers = {name: _publisher(name, below) for name, below in top.tables("publishers").items()}
    scanners = tuple(_scanner(name, below, kind) for name, below in top.tables("scanners").items())
    registries = top.string_map("registries")
    if OWN_REGISTRY in registries:
        top.blame(f"registries.{OWN_REGISTRY}", "is the registry of this machine", "choose another name")
    for name, address in registries.items():
        if not address.startswith(("https://", "http://")):
            top.blame(f"registries.{name}", "is not an http:// or https:// URL", "give its address")
    allow = sources.strings("allow")
    deny = sources.strings("deny") or ()
    _check_patterns(sources, {"allow": allow or (), "deny": deny}, registries)
    for name, publisher in publishers.items():
        known = ConfigTable({}, file=place, issues=issues, key=f"publishers.{name}")
        _check_patterns(known, {"require": publisher.require.texts}, registries)
    by = approvals.strings("by")
    if by == ():
        approvals.blame("by", "is empty, so nobody could approve", 'write by = ["user"]')
    for name in by or ():
        if name != USER and name not in publishers:
            fix = did_you_mean(name, [USER, *publishers]) or f"add it as [publishers.{shown(name)}]"
            approvals.blame("by", f"names {shown(name)}, which is not a publisher here", fix)
    if USER in publishers:
        top.blame(f"publishers.{USER}", "has the name of the person at the machine", "choose another name")
    permissions = top.table("permissions")
    revoked = dict(top.string_map("revoked"))
    revoked_feed, revoked_by = revoked.pop("feed", ""), revoked.pop("by", "")
    for digest in revoked:
        if not _DIGEST.fullmatch(digest):
            top.blame(f"revoked.{shown(digest, 80)}", "is not a digest", 'write "sha256:..." = "the reason"')
    if revoked_feed and revoked_by not in publishers:
        top.blame("revoked.by", "does not name a publisher here, and the feed needs one", "add its signer")
    layer = PolicyLayer(
        kind=kind,
        place=place,
        name=safe_line(head.string("name"), limit=_LONGEST),
        contact=safe_line(head.string("contact"), limit=_LONGEST),
        reports_only=head.choice("mode", ["enforce", "report"]) == "report",
        registries=tuple(sorted(registries.items())),
        allow=None if allow is None else Patterns(allow),
        # What differs from a denied name in case alone is denied.
        deny=Patterns(deny, ignore_case=True),
        publishers=tuple(publishers.values()),
        tools=_permissions(permissions, "tools"),
        scripts=_permissions(permissions, "scripts"),
        scanners=scanners,
        by=by or (),
        revoked={digest: safe_line(reason, limit=_LONGEST) for digest, reason in revoked.items()},
    )
    grace = head.integer("grace_days", most=365)
    file = PolicyFile(
        layer=layer,
        address=_address(head, "from"),
        keys=_keys(head, "policy"),
        serial=head.integer("serial"),
        expires=head.time("expires"),
        grace=timedelta(days=grace or _GRACE_DAYS),
        revoked_feed=revoked_feed,
        revoked_by=publishers[revoked_by].pems if revoked_by in publishers else (),
        approvals_feed=_address(approvals, "feed"),
    )
    if not layer.name:
        head.blame("name", "is missing", "write the name that refusals show")
    if bool(file.address) != bool(file.keys):
        head.blame("from", "and keys belong together", "give both, or neither")
    if file.address and kind is not LayerKind.MACHINE:
        head.blame("from", "counts in the policy of the machine alone", "leave it out")
    if kind is LayerKind.ORGANIZATION and (file.serial is None or file.expires is None):
        head.blame("", "has no serial or no expires", "an organization's policy needs both")
    for table in (head, sources, approvals, permissions, top):
        table.finish()
    if issues:
        raise FormatError(issues)
    return file


def _address(table: ConfigTable, key: str) -> str:
    address = table.string(key)
    if address and not address.startswith(("https://", "http://")):
        table.blame(key, "is not an http:// or https:// URL", "give the address of the signed file")
    return address


def _keys(table: ConfigTable, name: str) -> tuple[str, ...]:
    keys = table.strings("keys") or ()
    for pem in keys:
        try:
            Publisher.from_pem(name, key=pem.encode())
        except SkillwireError:
            table.blame("keys", "has one that is not a public key in PEM", "give what `sign --new-key` wrote")
    return keys


def _publisher(name: str, table: ConfigTable) -> PolicyPublisher:
    pems = _keys(table, name)
    if not pems:
        table.blame("keys", "is missing", "give the public keys in PEM, as texts")
    signers: set[str] = set()
    for pem in pems:
        try:
            signers |= {f"key:{hint}" for hint in Publisher.from_pem(name, key=pem.encode()).keys}
        except SkillwireError:
            continue  # It is blamed above.
    require = Patterns(table.strings("require") or ())
    table.finish()
    return PolicyPublisher(name=name, pems=pems, signers=frozenset(signers), require=require)


def _scanner(name: str, table: ConfigTable, kind: LayerKind) -> Scanner:
    command, reads = table.strings("command") or (), table.strings("reads") or ()
    if not _NAME.fullmatch(name):
        table.blame("", "has a name that is not of letters, digits, _, . and -", "choose another name")
    if not command:
        table.blame("command", "is missing", 'write command = ["/usr/bin/PROGRAM", "/skill"]')
    elif not _is_path(command[0]):
        table.blame("command", "does not begin with the absolute path of a program", "write the whole path")
    if any("\0" in argument for argument in command):
        table.blame("command", "has a NUL character", "leave it out")
    if not all(map(_is_path, reads)):
        table.blame("reads", "has one that is not an absolute path", "write the whole path, without ..")
    elif any(map(_is_reserved, reads)):
        table.blame("reads", "has one that cannot be in a sandbox", "name a folder or file of the scanner")
    if reads and kind is LayerKind.PROJECT:
        # A repository of strangers would choose what of the machine its scanner reads, and prints.
        table.blame("reads", "does not count in the policy of a project", "leave it out")
    refuse = [level.word for level in FindingLevel if level]
    scanner = Scanner(
        name=name,
        command=command,
        reads=reads,
        seconds=table.seconds("timeout") or DEFAULT_LIMITS.scan_seconds,
        refuse=LEVELS.get(table.choice("refuse", refuse)),
    )
    table.finish()
    return scanner


def _is_path(text: str) -> bool:
    return posixpath.isabs(text) and posixpath.normpath(text) == text and "\0" not in text


def _is_reserved(path: str) -> bool:
    """Whether a path is where the sandbox has something of its own."""
    return path in ("/", "/tmp") or f"/{path.split('/')[1]}" in _OWN_FOLDERS  # noqa: S108 - a name


def _check_patterns(
    table: ConfigTable, patterns: Mapping[str, Iterable[str]], registries: Mapping[str, str]
) -> None:
    for key, texts in patterns.items():
        for text in texts:
            if not text.startswith(_SCHEMES):
                kinds = ", ".join(_SCHEMES[:-1])
                table.blame(key, f"has {shown(text)!r}, which names no source", f"begin it with {kinds} or *")
            elif len(text) > DEFAULT_LIMITS.uri_bytes:
                table.blame(key, "has a pattern that is too long", "shorten it")
            name = text.removeprefix("registry:").partition("/")[0]
            if text.startswith("registry:") and name not in (*registries, OWN_REGISTRY):
                table.blame(key, f"names the registry {shown(name)}", "add its address to [registries]")


def _permissions(table: ConfigTable, key: str) -> tuple[tuple[Patterns, Permission], ...]:
    rules: list[tuple[Patterns, Permission]] = []
    for pattern, word in table.string_map(key).items():
        if word not in _PERMISSIONS:
            table.blame(f"{key}.{pattern}", f"is {shown(word)!r}", f"write one of {', '.join(_PERMISSIONS)}")
            continue
        rules.append((Patterns([pattern], ignore_case=True), _PERMISSIONS[word]))
    return tuple(rules)
