"""Lock: the installed skills and what they are pinned to, and the text of `skillwire.lock`.

The text is TOML made for code review: sorted, without timestamps, one line per file. Keys that this version
does not know are kept. Nothing here does I/O.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, TypeAlias, cast

from skillwire.documents import DocumentError, JsonValue, read_toml
from skillwire.errors import FormatError, Issue, SkillNotFound
from skillwire.skill import (
    Digest,
    SetDigest,
    SkillName,
    is_size,
    parse_digest,
    parse_name,
    parse_set_digest,
    set_digest,
)
from skillwire.text import shown
from skillwire.trust import manifest_issues

if TYPE_CHECKING:
    from skillwire.trust import Grants

_FOLDERS: Final = frozenset({"scripts", "bin", "hooks"})
_SUFFIX: Final = re.compile(
    r"\.(?:bash|bat|bin|cgi|cjs|cmd|com|cts|dll|dylib|exe|fish|go|jar|jsx?|lua|mjs|msi|mts|php|pl|psm?1|"
    r"py[cz]?|r|rb|rs|sh|so|swift|tsx?|vbs|wasm|whl|zsh)",
    re.IGNORECASE,
)
_DATA: Final = re.compile(
    r"\.(?:avif|bib|bmp|conf|cfg|css|csv|dtd|gif|ico|ini|jpe?g|json[5cl]?|lock|log|md|mdx|ods|odt|otf|pdf|png|"
    r"pptx|docx|xlsx|rng|rst|schema|sha256|svg|tiff?|toml|tsv|ttf|txt|webp|woff2?|xml|xsd|ya?ml)",
    re.IGNORECASE,
)
"""Data that programs beside them read. Whatever else is in a folder of programs counts as one of them."""
_MAGIC: Final = (b"#!", b"\x7fELF", b"MZ", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe", b"\0asm")


@dataclass(frozen=True, slots=True)
class Powers:
    """The permissions that a skill asks for: patterns of tools, and files that can be run."""

    allowed_tools: tuple[str, ...] = ()
    scripts: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.allowed_tools or self.scripts)

    def missing(self, grants: Grants) -> Powers:
        """The permissions that are asked for and not granted."""
        return Powers(
            () if grants.allowed_tools else self.allowed_tools, () if grants.execute_code else self.scripts
        )

    def grants_after(self, before: Powers | None, given: Grants | None = None) -> Grants:
        """The grants of this version: those given now, and those that the previous version had.

        An earlier grant covers the same tools and scripts again, and nothing more.
        """
        from skillwire.trust import NO_GRANTS, Grants

        now = given or NO_GRANTS
        new = self.beyond(before) if before is not None else self
        return Grants(
            allowed_tools=now.allowed_tools or (before is not None and not new.allowed_tools),
            execute_code=now.execute_code or (before is not None and not new.scripts),
        )

    def beyond(self, other: Powers) -> Powers:
        """The permissions that this asks for and the other did not."""
        return Powers(
            tuple(tool for tool in self.allowed_tools if tool not in other.allowed_tools),
            tuple(path for path in self.scripts if path not in other.scripts),
        )


def requested_powers(
    frontmatter: Mapping[str, JsonValue], files: Iterable[tuple[str, bytes, bool]]
) -> Powers:
    """Return the requests of a skill: of its frontmatter and files, each a path, content and mode bit."""
    # Imported here: a pinned skill has its powers in the lock.
    from skillwire.trust import requested_tools

    tools = dict.fromkeys(requested_tools(frontmatter.get("allowed-tools")))
    scripts = sorted(path for path, data, executable in files if is_script(path, data, executable))
    return Powers(tuple(sorted(tools)), tuple(scripts))


def is_script(path: str, data: bytes, executable: bool = False) -> bool:
    """Whether a file is a program: by its mode, its name or its first bytes, or because it is in a folder of
    programs and is not known to be data."""
    plain = PurePosixPath(path)
    return (
        executable
        or _SUFFIX.fullmatch(plain.suffix) is not None
        or (
            any(part.lower() in _FOLDERS for part in plain.parts[:-1])
            and _DATA.fullmatch(plain.suffix) is None
        )
        or data.startswith(_MAGIC)
    )


def starts_with_interpreter(data: bytes) -> bool:
    """Whether a file begins with `#!`. From a source without file modes, it is installed as executable."""
    return data.startswith(b"#!")


LOCK_NAME: Final = "skillwire.lock"
UNSIGNED: Final = "unsigned"

Extra: TypeAlias = tuple[tuple[str, Any], ...]
Table: TypeAlias = Mapping[str, Any]


class LockedFile(NamedTuple):
    """One file of a pinned skill."""

    path: str
    digest: Digest
    size: int
    executable: bool = False
    extra: Extra = ()


@dataclass(frozen=True, slots=True)
class Pin:
    """Where a skill came from, as precisely as its kind of source allows.

    `mcp`: `server`, `uri`, `url` for a server that has one, and `digests = "computed"` for a skill of a draft
    whose server lists files without digests: they were computed from what it sent. `git`:
    `repository`, `commit`, `path`. `site`: `index`, `artifact` (a URL), `digest` (of the
    artifact). `folder` and `archive`: `path`. `package`: `package`, `version`.
    """

    kind: str
    details: tuple[tuple[str, str], ...] = ()
    extra: Extra = ()

    @classmethod
    def make(cls, kind: str, **details: str) -> Self:
        return cls(kind, tuple((key, value) for key, value in sorted(details.items()) if value))

    def get(self, key: str) -> str:
        return dict(self.details).get(key, "")

    def with_unknown_keys(self, other: Pin) -> Pin:
        """This pin with the keys of another one that this version does not know."""
        known = dict(self.details)
        more = {key: value for key, value in other.details if key not in _DETAILS and key not in known}
        return replace(self, details=tuple(sorted({**known, **more}.items())), extra=other.extra)

    @property
    def identity(self) -> tuple[str, ...]:
        """The key that stays the same when the source publishes another version."""
        keys = {
            "mcp": ("server", "uri"),
            "git": ("repository", "path"),
            "site": ("index",),
            "package": ("package",),
        }.get(self.kind, ("path",))
        return (self.kind, *(self.get(key) for key in keys))


_DETAILS: Final = frozenset(
    "artifact commit digest digests index package path repository server uri url version".split()  # noqa: SIM905
)
KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    "mcp": ("server", "uri"),
    "git": ("repository", "commit"),
    "site": ("index", "artifact", "digest"),
    "folder": ("path",),
    "archive": ("path",),
    "package": ("package",),
}
"""The kinds of source, each with the details that its pin must have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedSkill:
    """One pinned skill: its name, where it came from, and the digest of every file."""

    name: SkillName
    source: str
    """As the user wrote it."""
    pin: Pin
    digest: SetDigest
    files: tuple[LockedFile, ...]
    powers: Powers = field(default_factory=Powers)
    signer: str = UNSIGNED
    targets: tuple[str, ...] = ()
    """The agents that have links or copies of their own, beside the canonical folder."""
    extra: Extra = ()

    def with_unknown_keys(self, other: LockedSkill) -> LockedSkill:
        """This skill with the keys of another version of it that this version of Skillwire does not know."""
        extras = {(file.path, file.digest): file.extra for file in other.files if file.extra}
        files = self.files
        if extras:
            files = tuple(
                file._replace(extra=extras.get((file.path, file.digest), file.extra)) for file in files
            )
        return replace(self, extra=other.extra, pin=self.pin.with_unknown_keys(other.pin), files=files)

    @property
    def source_words(self) -> str:
        """Where it comes from, for a person: what was given, and what it resolved to."""
        pin = self.pin
        more = {
            "mcp": pin.get("url") or "an MCP server",
            "git": f"commit {pin.get('commit')[:12]}",
            "site": pin.get("artifact"),
            "package": f"{pin.get('package')} {pin.get('version')}",
        }.get(pin.kind, pin.get("path"))
        return self.source if not more or more == self.source else f"{self.source} ({more})"

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)


@dataclass(frozen=True, slots=True)
class Lock:
    """Every installed skill of a project or a user, by name."""

    skills: tuple[LockedSkill, ...] = ()
    extra: Extra = ()

    def get(self, name: str) -> LockedSkill | None:
        return next((skill for skill in self.skills if skill.name == name), None)

    def require(self, name: str, *, option: str = "") -> LockedSkill:
        """The skill of this name, or `SkillNotFound`; its hint has the option of the lock's workspace."""
        skill = self.get(name)
        if skill is None:
            raise SkillNotFound(
                f"{LOCK_NAME} has no skill called {shown(name)}: "
                f"`skillwire list --installed{option}` shows those it has"
            )
        return skill

    def put(self, *skills: LockedSkill) -> Lock:
        """The lock with these skills in place of those of the same names."""
        kept = {skill.name: skill for skill in self.skills} | {skill.name: skill for skill in skills}
        return replace(self, skills=tuple(kept[name] for name in sorted(kept)))

    def without(self, names: Iterable[str]) -> Lock:
        dropped = set(names)
        return replace(self, skills=tuple(skill for skill in self.skills if skill.name not in dropped))


# The text

LOCK_VERSION: Final = 1
_HEADER: Final = (
    "# Installed skills, pinned. Made by `skillwire add`; `skillwire sync` installs exactly this.\n"
)


def parse_lock(text: str, *, file: str = LOCK_NAME) -> Lock:
    """Read a lock file, or raise a `FormatError` that names every mistake."""
    try:
        table = read_toml(text, what=file)
    except DocumentError as error:
        raise FormatError(_issue(file, f"not a lock file: {shown(str(error), 200)}")) from None
    version: object = table.get("version")
    if version is True or version != LOCK_VERSION:
        raise FormatError.of(
            rule="lock-version",
            message="it has no version"
            if version is None
            else f"the version is {shown(repr(version))}, this Skillwire reads {LOCK_VERSION}",
            fix="take the file from version control again"
            if version is None
            else "use the Skillwire that wrote it, or a newer one",
            file=file,
        )
    issues: list[Issue] = []
    skills: dict[str, LockedSkill] = {}
    rows: object = table.get("skill", [])
    for number, row in enumerate(cast("list[object]", rows) if isinstance(rows, list) else [rows], 1):
        try:
            skill = _skill(_table(row, "skill"))
        except (_Mistake, FormatError) as error:
            known = cast("Table", row).get("name") if isinstance(row, dict) else None
            place = shown(known) if isinstance(known, str) else f"number {number}"
            issues.append(_issue(file, f"skill {place}: {error}"))
            continue
        if skill.name in skills:
            issues.append(_issue(file, f"skill {skill.name} is there twice"))
        skills[skill.name] = skill
    if issues:
        raise FormatError(issues)
    return Lock(
        tuple(skills[name] for name in sorted(skills)), _extra(table, frozenset({"version", "skill"}))
    )


def format_lock(lock: Lock) -> str:
    """The lock as text: the same lock is the same text, always."""
    lines = [_HEADER, f"version = {LOCK_VERSION}\n", *_extra_lines(lock.extra)]
    for skill in sorted(lock.skills, key=lambda skill: skill.name):
        pin = [("kind", skill.pin.kind), *skill.pin.details, *skill.pin.extra]
        lines += [
            "\n[[skill]]\n",
            f"name = {_string(skill.name)}\n",
            f"source = {_string(skill.source)}\n",
            f"pin = {_inline(pin)}\n",
            f"digest = {_string(skill.digest)}\n",
            f"signer = {_string(skill.signer)}\n",
        ]
        if skill.powers.allowed_tools:
            lines.append(f"allowed-tools = {_strings(skill.powers.allowed_tools)}\n")
        if skill.powers.scripts:
            lines.append(f"scripts = {_strings(skill.powers.scripts)}\n")
        if skill.targets:
            lines.append(f"targets = {_strings(sorted(skill.targets))}\n")
        lines += _extra_lines(skill.extra)
        lines.append("files = [\n")
        for one in sorted(skill.files, key=lambda file: file.path):
            row: list[tuple[str, Any]] = [("path", one.path), ("size", one.size), ("digest", one.digest)]
            if one.executable:
                row.append(("executable", True))
            lines.append(f"    {_inline([*row, *one.extra])},\n")
        lines.append("]\n")
    return "".join(lines)


# Reading

_SKILL_KEYS: Final = frozenset(
    {"name", "source", "pin", "digest", "signer", "allowed-tools", "scripts", "targets", "files"}
)
_FILE_KEYS: Final = frozenset({"path", "size", "digest", "executable"})
_PATH_OF: Final = attrgetter("path")


class _Mistake(Exception):
    """A mistake in one skill of a lock file."""


def _skill(table: Table) -> LockedSkill:
    name = parse_name(_text(table, "name"))
    rows = table.get("files")
    if not isinstance(rows, list):
        raise _Mistake("files is not a list")
    files = tuple(sorted(map(_file, cast("list[Any]", rows)), key=_PATH_OF))
    if issues := manifest_issues(file.path for file in files):
        raise FormatError(issues)
    digest = parse_set_digest(_text(table, "digest"))
    # Nothing in the file is trusted: the digest must be that of the listed files.
    actual = set_digest((file.path, file.digest) for file in files)
    if digest != actual:
        raise _Mistake(f"the digest is {digest}, its files give {actual}")
    return LockedSkill(
        name=name,
        source=_text(table, "source"),
        pin=_pin(_table(table.get("pin"), "pin")),
        digest=digest,
        files=files,
        powers=Powers(_texts(table, "allowed-tools"), _texts(table, "scripts")),
        signer=_text(table, "signer", UNSIGNED),
        targets=_texts(table, "targets"),
        extra=_extra(table, _SKILL_KEYS),
    )


def _file(row: object) -> LockedFile:
    table = _table(row, "files")
    size = table.get("size")
    if not is_size(size):
        raise _Mistake("the size of a file is not a number")
    executable = table.get("executable", False)
    if not isinstance(executable, bool):
        raise _Mistake("executable is not true or false")
    extra = () if len(table) <= len(_FILE_KEYS) and table.keys() <= _FILE_KEYS else _extra(table, _FILE_KEYS)
    return LockedFile(_text(table, "path"), parse_digest(_text(table, "digest")), size, executable, extra)


def _pin(table: Table) -> Pin:
    kind = _text(table, "kind")
    if kind not in KINDS:
        raise _Mistake(f"the kind of source {shown(kind)} is not known here; a newer Skillwire may know it")
    for key in KINDS[kind]:
        _text(table, key)
    details = tuple(
        (key, value) for key, value in sorted(table.items()) if key != "kind" and isinstance(value, str)
    )
    extra = tuple((key, value) for key, value in sorted(table.items()) if not isinstance(value, str))
    return Pin(kind, details, extra)


def _table(value: object, what: str) -> Table:
    if not isinstance(value, dict):
        raise _Mistake(f"{what} is not a table")
    return cast("Table", value)


def _text(table: Table, key: str, default: str | None = None) -> str:
    value = table.get(key, default)
    if not isinstance(value, str) or not value:
        raise _Mistake(f"{key} is not text")
    return value


def _texts(table: Table, key: str) -> tuple[str, ...]:
    value = table.get(key, [])
    if not isinstance(value, list) or not all(isinstance(one, str) for one in cast("list[Any]", value)):
        raise _Mistake(f"{key} is not a list of texts")
    return tuple(sorted(cast("list[str]", value)))


def _extra(table: Table, known: frozenset[str]) -> Extra:
    return tuple((key, table[key]) for key in sorted(table) if key not in known)


def _issue(file: str, message: str) -> Issue:
    return Issue(
        rule="lock-format", message=message, fix="take the file from version control again", file=file
    )


# Writing

_ESCAPED: Final = re.compile(r'["\\\x00-\x1f\x7f]')
_ESCAPES: Final = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")


def _string(text: str) -> str:
    # Invisible characters are escaped as well, so that a reviewer sees them.
    safe = _ESCAPED.sub(lambda match: _ESCAPES.get(match[0]) or f"\\u{ord(match[0]):04x}", text)
    if safe.isprintable():
        return f'"{safe}"'
    return '"' + "".join(char if char.isprintable() else _unicode_escape(char) for char in safe) + '"'


def _unicode_escape(char: str) -> str:
    point = ord(char)
    return f"\\u{point:04x}" if point <= 0xFFFF else f"\\U{point:08x}"


def _strings(texts: Iterable[str]) -> str:
    return f"[{', '.join(_string(text) for text in texts)}]"


def _inline(pairs: Iterable[tuple[str, Any]]) -> str:
    return "{ " + ", ".join(f"{_key(key)} = {_value(value)}" for key, value in pairs) + " }"


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _string(key)


def _value(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case str():
            return _string(value)
        case list():
            return f"[{', '.join(_value(item) for item in cast('list[Any]', value))}]"
        case dict():
            return _inline(cast("dict[str, Any]", value).items()) if value else "{}"
        case float():
            return repr(value) if value == value and abs(value) != float("inf") else f"{value}"
        case _:
            return str(value.isoformat())  # Dates and times are all that TOML has besides.


def _extra_lines(extra: Extra) -> list[str]:
    return [f"{_key(key)} = {_value(value)}\n" for key, value in extra]
