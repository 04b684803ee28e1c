"""Where `skillwire.toml` is, what the files say together, and reading them again when one of them changes.

A `PolicyFile` is what one policy file says. An unknown key or a bad value there is a mistake, never ignored.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final, TypeAlias

from skillwire.documents import DocumentError, read_toml
from skillwire.errors import FormatError, Issue, SkillwireError, SourceError
from skillwire.files import read_regular
from skillwire.host.config.config import HostConfig, combine
from skillwire.host.config.server import (
    ConfigTable,
    SeenFile,
    TrustedFiles,
    UntrustedServer,
    did_you_mean,
    seen_digest,
)
from skillwire.host.config.text import ConfigText, parse_config, read_servers
from skillwire.host.directories import LocalDirectory, state_paths
from skillwire.limits import DEFAULT_LIMITS
from skillwire.sources.reference import DEFAULT_HOST
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


CONFIG_NAME: Final = "skillwire.toml"


def load_config(
    directory: Path | None = None,
    *,
    file: Path | None = None,
    profile: str | None = None,
    environment: Mapping[str, str] | None = None,
    fill: bool = True,
    unsafe_trust_project: bool = False,
) -> HostConfig:
    """The user's configuration and that of a directory, the working one by default, put together.

    With `file`, that file alone. No parent directory is searched: its files may belong to anyone. Without
    `fill`, no variable is filled in and `servers` is empty: enough to show what is configured.

    Servers of the directory's file are left out, as `untrusted`, unless the user trusts it as it is now. With
    `unsafe_trust_project` the user is not asked: the commands in that file are started.
    """
    if file is not None:
        user, project = read_config(file), None
        if user is None:
            raise SourceError(f"there is no {file}: check the path")
    else:
        user = read_config(state_paths().config)
        project = read_config(project_file(directory))
    known = os.environ if environment is None else environment
    return combine(
        user,
        project,
        profile=profile,
        environment=known if fill else None,
        trusted=unsafe_trust_project or (project is not None and is_trusted(project)),
        named=file is not None,
    )


def load_settings(table: ConfigTable, file: Path, issues: list[Issue]) -> HostConfig:
    """The servers, directories and style in a file that the user named and that has other keys too.

    Its commands are started in its directory. Mistakes are added to the issues; then there are no settings.
    """
    text = ConfigText(
        file=file,
        servers=read_servers(table, file, issues),
        directories=table.strings("directories") or (),
        style=table.string("style"),
    )
    return HostConfig() if issues else combine(text, environment=os.environ, named=True)


def config_above(directory: Path | None = None) -> Path | None:
    """The nearest `skillwire.toml` above a directory, which is not read: its files may belong to anyone."""
    for folder in (directory or Path.cwd()).resolve().parents:
        if (folder / CONFIG_NAME).is_file():
            return folder / CONFIG_NAME
    return None


def agents_may_install() -> bool:
    """Whether the user lets agents install skills. Their own file says so: no project, and no other file."""
    user = read_config(state_paths().config)
    return user is not None and user.agents_may_install is True


def chat_model() -> str:
    """The model that the user's own file names for `skillwire chat`; empty if it names none."""
    user = read_config(state_paths().config)
    return user.model if user is not None else ""


def repository_host() -> str:
    """Where the repository `OWNER/NAME` is, by the user's own file or by default."""
    user = read_config(state_paths().config)
    return (user.repository_host if user is not None else "") or DEFAULT_HOST


def site_tokens(environment: Mapping[str, str] | None = None) -> list[tuple[str, str]]:
    """Patterns of sites, each with the token that the user's own file has for them, where it is set."""
    user = read_config(state_paths().config)
    known = os.environ if environment is None else environment
    if user is None:
        return []
    return [(name, known[one.token_env]) for name, one in user.sources.items() if known.get(one.token_env)]


def load_approvers() -> list[Publisher]:
    """The publishers whose signed approvals the user takes over unread, by the user's own file."""
    from skillwire.host.config.config import load_publishers

    user = read_config(state_paths().config)
    if user is None or not user.approvers:
        return []
    publishers = combine(user, environment=None).publishers
    return load_publishers(one for one in publishers if one.name in user.approvers)


def is_trusted(project: ConfigText) -> bool:
    """Whether the user trusts the servers of a project's file as it was read."""
    return TrustedFiles(state_paths().trusted).trusts(SeenFile(project.file, project.digest))


def is_trusted_now(path: Path) -> bool:
    """Whether the user trusts a project's file with the bytes that it has now, whatever they mean."""
    digest = seen_digest(path)
    return digest is not None and TrustedFiles(state_paths().trusted).trusts(SeenFile(path, digest))


def project_file(directory: Path | None = None) -> Path:
    """The file of a project, there or not."""
    # One name for one place, for trust goes by it. The file itself may be a link: its own path counts, or a
    # link to a trusted file would be trusted elsewhere.
    return (directory or Path.cwd()).resolve() / CONFIG_NAME


def read_config(file: Path) -> ConfigText | None:
    """One file, or `None` when there is none."""
    try:
        data = read_regular(file, DEFAULT_LIMITS.document_bytes + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise SourceError(f"{file} cannot be read: {error.strerror}") from None
    if len(data) > DEFAULT_LIMITS.document_bytes:
        raise SourceError(
            f"{file} has more than {DEFAULT_LIMITS.document_bytes:,} bytes: that is not a configuration"
        )
    try:
        return parse_config(data.decode("utf-8"), file)
    except UnicodeDecodeError:
        raise SourceError(f"{file} is not UTF-8 text: save it as UTF-8") from None


Stamp: TypeAlias = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigWatch:
    """Where the configuration of a host comes from. Its methods use files: call them in a thread."""

    loaded: HostConfig
    """The configuration when the host was made, at `loaded_stamp`."""
    loaded_stamp: Stamp
    load: Callable[[], HostConfig]
    """Everything that the files say now; a `SkillwireError` when they cannot be read."""
    files: tuple[Path, ...]
    """The files that it depends on, there or not."""
    project: Path | None = None
    """The project's file, which has to be trusted as it is; `None` when there is none, or no need."""
    directories: tuple[str | Path | LocalDirectory, ...] = field(default=())
    """Directories that were given beside the files."""
    default_directories: bool = True
    """Whether those where agents keep skills are used, unless a file says not to."""

    def stamp(self) -> Stamp:
        """Return a stamp that differs for each state of the files, without reading them."""
        return _stamp(self.files)

    def without_project(self, before: HostConfig) -> HostConfig | None:
        """Return what stays of an earlier configuration when the files cannot be read: nothing of a project
        whose file is not the trusted one any more. `None` when everything stays.
        """
        if self.project is None or is_trusted_now(self.project):
            return None
        of_project = {server.label for server in before.configured if server.of_project}
        if not of_project and not before.project_directories:
            return None
        closed = [label for label in before.servers if label in of_project]
        return replace(
            before,
            servers={label: server for label, server in before.servers.items() if label not in of_project},
            untrusted=tuple(UntrustedServer(label=label, file=self.project) for label in closed),
            project_directories=(),
        )


def watch_config(
    directory: Path | None = None,
    *,
    file: Path | None = None,
    profile: str | None = None,
    unsafe_trust_project: bool = False,
) -> ConfigWatch:
    """Return the configuration that `load_config` gives with the same arguments, now and later. The record of
    the user's trust is among the files.
    """

    def load() -> HostConfig:
        return load_config(directory, file=file, profile=profile, unsafe_trust_project=unsafe_trust_project)

    if file is not None:
        files, project = (file,), None
    else:
        project = project_file(directory)
        files = (state_paths().config, project, TrustedFiles(state_paths().trusted).record(project))
    stamp = _stamp(files)  # Before the files are read: a later change is noticed.
    return ConfigWatch(
        loaded=load(),
        loaded_stamp=stamp,
        load=load,
        files=files,
        project=None if unsafe_trust_project else project,
    )


def _stamp(files: Iterable[Path]) -> Stamp:
    return tuple(map(_file_stamp, files))


def _file_stamp(path: Path) -> tuple[int, ...]:
    try:
        found = path.stat()
    except (OSError, SkillwireError):
        return ()
    return found.st_mtime_ns, found.st_size, found.st_ino
