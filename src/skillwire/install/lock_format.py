"""The text of a lock file: TOML made for code review, sorted, without timestamps, one line per file.

`parse_lock` and `format_lock` do no I/O. Keys that this version does not know are kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import Any, Final, TypeAlias, cast

from skillwire.errors import FormatError
from skillwire.install.lock import KINDS, LOCK_NAME, UNSIGNED, Extra, Lock, LockedFile, LockedSkill, Pin
from skillwire.install.powers import Powers
from skillwire.issues import Issue, shown
from skillwire.skill.digests import Digest, parse_digest, parse_set_digest, set_digest
from skillwire.skill.names import parse_name

LOCK_VERSION: Final = 1
_HEADER: Final = (
    "# Installed skills, pinned. Made by `skillwire add`; `skillwire sync` installs exactly this.\n"
)
Table: TypeAlias = Mapping[str, Any]


def parse_lock(text: str, *, file: str = LOCK_NAME) -> Lock:
    """Read a lock file, or raise a `FormatError` that names every mistake."""
    table = _read_canonical(text)
    if table is None:
        import tomllib  # Imported here: a lock that we wrote is read without it.

        try:
            table = cast("Table", tomllib.loads(text))
        except tomllib.TOMLDecodeError as error:
            raise _mistake(file, f"not TOML: {shown(str(error), 200)}") from None
        except RecursionError:
            raise _mistake(file, "not a lock file: its values are nested too deeply") from None
    return _lock(table, file)


def _lock(table: Table, file: str) -> Lock:
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
    """What is wrong with one skill of a lock file."""


def _skill(table: Table) -> LockedSkill:
    name = parse_name(_text(table, "name"))
    rows = table.get("files")
    if not isinstance(rows, list):
        raise _Mistake("files is not a list")
    files = tuple(sorted(map(_file, cast("list[Any]", rows)), key=_PATH_OF))
    digest = parse_set_digest(_text(table, "digest"))
    # Nothing in the file is trusted: the digest must be that of the listed files.
    actual = set_digest((file.path, file.digest) for file in files)
    if digest != actual:
        raise _Mistake(f"the digest is {digest}, its files give {actual}")
    if all(file.path != "SKILL.md" for file in files):
        raise _Mistake("SKILL.md is not among its files")
    paths = {file.path for file in files}
    for path in paths:
        end = path.rfind("/")
        while end > 0:
            if path[:end] in paths:
                raise _Mistake(f"{shown(path)} is below a file")
            end = path.rfind("/", 0, end)
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
    if isinstance(row, LockedFile):
        return row  # From the fast path.
    table = _table(row, "files")
    size = table.get("size")
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise _Mistake("the size of a file is not a number")
    executable = table.get("executable", False)
    if not isinstance(executable, bool):
        raise _Mistake("executable is not true or false")
    path = _text(table, "path")
    if "\\" in path:
        raise _Mistake(f"{shown(path)} is not a plain path")
    extra = () if len(table) <= len(_FILE_KEYS) and table.keys() <= _FILE_KEYS else _extra(table, _FILE_KEYS)
    return LockedFile(path, parse_digest(_text(table, "digest")), size, executable, extra)


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


def _mistake(file: str, message: str) -> FormatError:
    return FormatError(_issue(file, message))


# The fast path: a file of hundreds of skills as `format_lock` wrote it, read line by line. Anything that is
# not exactly in that form is left to tomllib.

_PLAIN: Final = r'"([^"\\\x00-\x1f\x7f]*)"'
_PLAIN_PATH: Final = r'"([^"\\\x00-\x1f\x7f]+)"'
_DIGEST: Final = r'"(sha256:[0-9a-f]{64})"'
_FILE_LINE: Final = re.compile(
    rf"    \{{ path = {_PLAIN_PATH}, size = (0|[1-9][0-9]{{0,14}}), digest = {_DIGEST}"
    r"(, executable = true)? \},\n"
)
_FILE_LINE_LENGTH: Final = len('    { path = "", size = , digest = "" },\n')
_SKILL_LINE: Final = "\n[[skill]]\n"
_TEXT_LINE: Final = re.compile(rf"(name|source|digest|signer) = {_PLAIN}")
_LIST_LINE: Final = re.compile(rf"(allowed-tools|scripts|targets) = \[({_PLAIN}(?:, {_PLAIN})*)\]")
_PIN_LINE: Final = re.compile(rf"pin = \{{ ([a-z]+ = {_PLAIN}(?:, [a-z]+ = {_PLAIN})*) \}}")
_PAIR: Final = re.compile(rf"([a-z]+) = {_PLAIN}")
_ITEM: Final = re.compile(_PLAIN)


def _read_canonical(text: str) -> dict[str, Any] | None:
    """The same as tomllib would give, the files as `LockedFile`; `None` for another form than we write."""
    start = f"{_HEADER}version = {LOCK_VERSION}\n"
    if not text.startswith(start) or "\r" in text:
        return None
    # No text in this form holds a line break, so the lines that begin something can be searched for.
    nothing, *chunks = text[len(start) :].split(_SKILL_LINE)
    skills = [_canonical_skill(chunk) for chunk in chunks]
    if nothing or not all(skills):
        return None
    table: dict[str, Any] = {"version": LOCK_VERSION}
    return table | ({"skill": skills} if skills else {})


def _canonical_skill(chunk: str) -> dict[str, Any] | None:
    head, _, rest = chunk.partition("files = [\n")
    if not rest.endswith("]\n") or not head.endswith("\n"):
        return None
    rows = _FILE_LINE.findall(rest)
    files = [LockedFile(path, Digest(digest), int(size), bool(x)) for path, size, digest, x in rows]
    if sum([_FILE_LINE_LENGTH + sum(map(len, row)) for row in rows]) + len("]\n") != len(rest):
        return None  # There is something else between the files.
    skill: dict[str, Any] = {"files": files}
    for line in head[:-1].split("\n"):
        pair = _canonical_line(line)
        if pair is None or pair[0] in skill:
            return None
        skill[pair[0]] = pair[1]
    return skill


def _canonical_line(line: str) -> tuple[str, Any] | None:
    if match := _TEXT_LINE.fullmatch(line):
        return match[1], match[2]
    if match := _PIN_LINE.fullmatch(line):
        pairs = _PAIR.findall(match[1])
        return ("pin", dict(pairs)) if len(dict(pairs)) == len(pairs) else None
    if match := _LIST_LINE.fullmatch(line):
        return match[1], _ITEM.findall(match[2])
    return None


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
