"""The plan of a sandbox: grants, interpreter, mounts, environment. Pure.

A script gets the files of its skill and the programs of the system to read, a scratch folder, and nothing
else: no home, no network, no environment. Each grant adds one thing.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from skillwire.documents import JsonValue
from skillwire.errors import FormatError
from skillwire.limits import Limits
from skillwire.text import safe_line
from skillwire.words import counted

METADATA_KEY: Final = "dev.skillwire/grants"
"""The key of `metadata` in a SKILL.md under which it says what its scripts ask for."""
RUN: Final = "run"
"""The grant that a script may run in the sandbox at all."""
SCRATCH: Final = "/tmp"  # noqa: S108 - inside, it belongs to the script alone.
SHARED_MEMORY: Final = "/dev/shm"  # noqa: S108 - the same
SKILL: Final = "/skill"
PACKAGES: Final = "/run/packages"
WORK: Final = "/run/work"
"""The working folder of a run that gets files, and gives files back."""
PROGRAMS: Final = "/run/programs"
PROXY_PORT: Final = 3128
PATH: Final = ("/usr/local/bin", "/usr/bin", "/bin")
"""Where programs are, inside and for the choice of an interpreter."""
SYSTEM: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
# Without private keys and without the names of users: as root, a script could read all of /etc.
ETC: Final = tuple(
    f"/etc/{name}"
    for name in (
        "alternatives",
        "ca-certificates.conf",
        "fonts",
        "ld.so.cache",
        "ld.so.conf",
        "ld.so.conf.d",
        "localtime",
        "magic",
        "mime.types",
        "pki/ca-trust/extracted",
        "pki/tls/cert.pem",
        "pki/tls/certs",
        "ssl/certs",
        "ssl/openssl.cnf",
    )
)
ETC_FILES: Final = {
    "passwd": "script:x:1000:1000::/tmp:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n",
    "group": "script:x:1000:\nnogroup:x:65534:\n",
    "hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}

_HOST: Final = re.compile(r"(?:[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# These change which program runs, or what it loads, before the script decides anything.
_NO_VARIABLES: Final = re.compile(
    r"(LD_|DYLD_|PYTHON|NODE_OPTIONS$|BASH_ENV$|ENV$|PATH$|HOME$|.*_PROXY$)", re.IGNORECASE
)
# No part of the machine or of its devices is a folder to work in.
_NO_FOLDERS: Final = ("/boot", "/dev", "/etc", "/proc", "/run", "/sys", "/var/run", SKILL)
# What is below them may be granted.
_TEMPORARY: Final = (SCRATCH, SHARED_MEMORY, "/var/tmp")  # noqa: S108
_INTERPRETERS: Final = {
    ".py": "python3",
    ".sh": "sh",
    ".bash": "bash",
    ".js": "node",
    ".mjs": "node",
    ".cjs": "node",
    ".pl": "perl",
    ".rb": "ruby",
}
_SHEBANG: Final = re.compile(rb"#![ \t]*(\S+)(?:[ \t]+([^\r\n]*))?")


class GrantKind(StrEnum):
    """The kinds of grants."""

    READ = "read"
    """A file or folder, to read."""
    WRITE = "write"
    """A file or folder, to read and change."""
    NET = "net"
    """A host and port, by HTTP or through a CONNECT tunnel."""
    ENV = "env"
    """A variable of the environment."""
    EXEC = "exec"
    """A program that is not one of the system's."""

    @property
    def is_path(self) -> bool:
        return self in (GrantKind.READ, GrantKind.WRITE)


@dataclass(frozen=True, slots=True, order=True)
class Grant:
    """One thing that a script gets beyond its skill."""

    kind: GrantKind
    value: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.value}"


def parse_grant(text: str, folder: str) -> Grant:
    """A grant as it is written; a path is one below `folder`, unless it is absolute."""
    word, colon, value = text.partition(":")
    if not colon or word not in set(GrantKind) or not value or value != safe_line(value):
        raise _bad_grant(text, "write read:PATH, write:PATH, net:HOST[:PORT], env:NAME or exec:PROGRAM")
    kind = GrantKind(word)
    if kind.is_path:
        value = os.path.normpath(os.path.join(folder, value))
    elif kind is GrantKind.NET:
        host, port = split_host(value)
        if not _HOST.fullmatch(host) or ".." in host or port is None or not 0 <= port < 65536:
            raise _bad_grant(text, "write net:HOST or net:HOST:PORT, without a scheme, a path or a wildcard")
        value = value.lower()
    elif kind is GrantKind.ENV and (not _NAME.fullmatch(value) or _NO_VARIABLES.match(value)):
        raise _bad_grant(text, "name a variable that does not change how programs start")
    return Grant(kind, value)


def split_host(text: str) -> tuple[str, int | None]:
    """The host and the port of `HOST[:PORT]`: port 0 if there is none, `None` if it is not a number."""
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        return text, 0
    return host, int(port) if port.isascii() and port.isdigit() and len(port) < 6 else None


def forbidden_path(path: str, *, home: str, private: Iterable[str]) -> str:
    """Why a file or folder is never granted; empty if it may be. `private` are folders of Skillwire itself.

    `path` has no links in it.
    """
    if path == home or _is_below(home, path):
        return "it contains a home: name a folder in it"
    is_temporary = any(_is_below(path, one) for one in _TEMPORARY)
    if path in _TEMPORARY or (not is_temporary and any(_is_within(path, one) for one in _NO_FOLDERS)):
        return "it belongs to the system"
    if any(_is_within(path, one) or _is_below(one, path) for one in private):
        return "Skillwire keeps its own state there"
    return ""


def requested_grants(frontmatter: Mapping[str, JsonValue], script: str, folder: str) -> tuple[Grant, ...]:
    """Return the grants that a skill asks for, for one of its scripts: in `metadata`, under
    `dev.skillwire/grants`, stands `SCRIPT GRANT GRANT, SCRIPT GRANT`.
    """
    metadata = frontmatter.get("metadata")
    value = metadata.get(METADATA_KEY) if isinstance(metadata, dict) else None
    if value is None:
        return ()
    if not isinstance(value, str):
        message = f"the metadata {METADATA_KEY} of the skill is not a text"
        raise FormatError.of(rule="grant", message=message, fix="write `SCRIPT GRANT GRANT, SCRIPT GRANT`")
    by_script: dict[str, list[str]] = {}
    for words in (part.split() for part in value.split(",")):
        if words:
            by_script.setdefault(words[0], []).extend(words[1:])
    return tuple(sorted({parse_grant(text, folder) for text in by_script.get(script, ())}))


def stored(script: str, grants: Iterable[Grant]) -> frozenset[tuple[str, str]]:
    """Grants of a script as they are kept in an approval."""
    return frozenset({(script, RUN), *((script, str(grant)) for grant in grants)})


def given(script: str, kept: Collection[tuple[str, str]]) -> frozenset[Grant] | None:
    """Return the grants of a script; `None` if it may not run."""
    texts = {text for name, text in kept if name == script}
    if RUN not in texts:
        return None
    return frozenset(parse_grant(text, "/") for text in texts - {RUN})


def interpreter_for(script: str, data: bytes, chosen: str = "") -> tuple[str, ...]:
    """The program that runs a script, and its arguments: as chosen, or by the shebang, or by the ending."""
    if chosen:
        return (chosen,)
    ending = os.path.splitext(script)[1].lower()
    if match := _SHEBANG.match(data[:512]):
        words = [match[1].decode("utf-8", "replace"), *(match[2] or b"").decode("utf-8", "replace").split()]
        if os.path.basename(words[0]) == "env":
            words = [word for word in words[1:] if word != "-S"]
        if words and "=" not in words[0] and not words[0].startswith("-"):
            name, *arguments = os.path.basename(words[0]), *words[1:]
            if name == "uv":  # `uv run --script`: its packages are those of the script's own list.
                return ("python3",)
            return ("python3" if name.startswith("python") else name, *arguments)
    if ending in _INTERPRETERS:
        return (_INTERPRETERS[ending],)
    raise FormatError.of(
        rule="script",
        message=f"{safe_line(script, limit=200)} has no known ending and no first line that names a program",
        fix="name its interpreter with --interpreter",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxPlan:
    """One run: everything that the sandbox is made of."""

    script: str
    """The path of the script in its skill; empty for a program of the system."""
    interpreter: tuple[str, ...]
    """The program, by an absolute path, and its arguments."""
    arguments: tuple[str, ...] = ()
    grants: tuple[Grant, ...] = ()
    folder: str = SCRATCH
    """Where it runs: in its scratch folder, if nothing of this one is granted."""
    system: tuple[tuple[str, str], ...] = ()
    """Folders and files of the system, each with its target if it is a link."""
    trees: tuple[str, ...] = ()
    """More folders with programs, such as the Python that Skillwire runs with."""
    packages: str = ""
    """The folder of installed packages."""
    work: str = ""
    """A private folder that is the script's working folder, with the files that it was given."""
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    """The values of granted variables."""
    limits: Limits

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts that it may reach, with a port or without."""
        return tuple(grant.value for grant in self.grants if grant.kind is GrantKind.NET)

    @property
    def paths(self) -> tuple[Grant, ...]:
        """The mounts of grants; a folder comes before what is inside it, and reading before writing."""
        return tuple(
            sorted((one for one in self.grants if one.kind.is_path), key=lambda one: (one.value, one.kind))
        )

    @property
    def programs(self) -> tuple[str, ...]:
        return tuple(grant.value for grant in self.grants if grant.kind is GrantKind.EXEC)

    @property
    def workdir(self) -> str:
        """Where it runs."""
        if self.work:
            return WORK
        paths = [one.value for one in self.paths]
        is_there = any(_is_within(self.folder, one) or _is_below(one, self.folder) for one in paths)
        return self.folder if is_there else SCRATCH

    def environment(self) -> dict[str, str]:
        """Every variable that the script sees."""
        found = {
            "PATH": ":".join([PROGRAMS, *PATH] if self.programs else PATH),
            "HOME": SCRATCH,
            "TMPDIR": SCRATCH,
            "LANG": "C.UTF-8",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        if self.packages:
            found["PYTHONPATH"] = PACKAGES
        if self.hosts:
            proxy = f"http://127.0.0.1:{PROXY_PORT}"
            for name in ("http_proxy", "https_proxy", "all_proxy"):
                found |= {name: proxy, name.upper(): proxy}
            found["NODE_USE_ENV_PROXY"] = "1"
        return found | dict(self.variables)

    def options(self, stage: str, mounts: Mapping[Grant, int]) -> list[str]:
        """The options of `bwrap` for everything that is not an open file of the caller.

        `stage` is the private folder with the files of the skill. `mounts` has an open descriptor for each
        granted path: what was checked is what is mounted, whatever its name leads to by then.
        """
        limit = str(self.limits.script_disk_bytes)
        options = [
            *("--unshare-all", "--unshare-user", "--disable-userns", "--uid", "1000", "--gid", "1000"),
            *("--hostname", "sandbox", "--die-with-parent", "--new-session"),
            *("--cap-drop", "ALL", "--clearenv"),
            # As root, /proc/sys would be writable: there the kernel looks at the user, not at capabilities.
            *("--proc", "/proc", "--remount-ro", "/proc", "--dev", "/dev"),
            *("--size", limit, "--tmpfs", SHARED_MEMORY, "--remount-ro", "/dev"),
            *("--size", limit, "--perms", "1777", "--tmpfs", SCRATCH),
        ]
        for path, target in self.system:
            options += ["--symlink", target, path] if target else ["--ro-bind", path, path]
        for name in ETC_FILES:
            options += ["--ro-bind", f"{stage}/etc/{name}", f"/etc/{name}"]
        for path in self.trees:
            options += ["--ro-bind", path, path]
        for grant in self.paths:
            how = "--bind-fd" if grant.kind is GrantKind.WRITE else "--ro-bind-fd"
            options += [how, str(mounts[grant]), grant.value]
        for path in self.programs:
            options += ["--ro-bind", path, f"{PROGRAMS}/{os.path.basename(path)}"]
        if self.packages:
            options += ["--ro-bind", self.packages, PACKAGES]
        if self.work:
            options += ["--bind", self.work, WORK]
        # Last, so that nothing is mounted over it.
        options += ["--ro-bind", f"{stage}/skill", SKILL, "--remount-ro", "/", "--chdir", self.workdir]
        for name, value in sorted(self.environment().items()):
            options += ["--setenv", name, value]
        return options

    def command(self) -> list[str]:
        """The command that runs inside."""
        return [*self.interpreter, *([f"{SKILL}/{self.script}"] if self.script else []), *self.arguments]

    def explanation(self) -> list[tuple[str, str]]:
        """The permissions of the script, with reasons, for a person to read."""
        limits = self.limits
        reads = [
            f"{SKILL}, the files of its skill as they were approved",
            "the programs and libraries of the system",
        ]
        reads += [f"{one}, the interpreter" for one in self.trees]
        rows = [("runs", safe_line(" ".join(self.command()), limit=500)), ("in", self.workdir)]
        rows += [("reads", one) for one in reads]
        rows += [("installed", f"its list of packages, at {PACKAGES}")] if self.packages else []
        words = {
            GrantKind.READ: "reads",
            GrantKind.WRITE: "changes",
            GrantKind.NET: "reaches",
            GrantKind.ENV: "knows",
            GrantKind.EXEC: "starts",
        }
        rows += [(words[one.kind], f"{safe_line(one.value)} (granted)") for one in self.grants]
        rows += [("reaches", "no network")] if not self.hosts else []
        rows.append(
            (
                "at most",
                f"{limits.script_seconds:g} s, {_mib(limits.script_memory_bytes)} of memory, "
                f"{limits.script_processes:,} processes, {_mib(limits.script_disk_bytes)} and "
                f"{counted(limits.script_files, 'file')} written, {_mib(limits.script_output_bytes)} printed",
            )
        )
        return rows


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """How a run ended. The texts are the script's own: they are cleaned of escapes, and untrusted."""

    exit_code: int
    stdout: str
    stderr: str
    ended: str
    """The limit that ended it, in a sentence; empty if it ended by itself."""
    seconds: float
    output_bytes: int
    network_bytes: int = 0
    refused_hosts: tuple[str, ...] = ()
    """The hosts that it tried to reach without a grant."""
    command: tuple[str, ...] = ()
    """The command that started the sandbox."""


def newly_requested(
    requested: Iterable[Grant], before: Collection[tuple[str, str]], script: str
) -> tuple[Grant, ...]:
    """Return the grants that a script asks for and did not have before."""
    return tuple(grant for grant in requested if (script, str(grant)) not in before)


def program_path(name: str, found: str, grants: Sequence[Grant]) -> str:
    """The path of an interpreter inside: one that is granted, or `found`, one of the system."""
    for grant in grants:
        if grant.kind is GrantKind.EXEC and os.path.basename(grant.value) == os.path.basename(name):
            return f"{PROGRAMS}/{os.path.basename(grant.value)}"
    return found


def _mib(count: int) -> str:
    return f"{count / (1024 * 1024):g} MiB"


def _is_below(path: str, folder: str) -> bool:
    return path.startswith(folder if folder.endswith("/") else f"{folder}/")


def _is_within(path: str, folder: str) -> bool:
    return path == folder or _is_below(path, folder)


def _bad_grant(text: str, fix: str) -> FormatError:
    return FormatError.of(rule="grant", message=f"{safe_line(text, limit=200)!r} is not a grant", fix=fix)
