"""Lock files of other tools, `skills-lock.json` and `toolhive.lock.yaml`, read to migrate from them.

Neither lists a skill's files, so what they name is fetched, shown and pinned again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Final, cast

from skillwire.documents import DocumentError, read_json, read_yaml
from skillwire.errors import FormatError, Issue
from skillwire.skill import SetDigest, name_issues, parse_set_digest
from skillwire.sources import parse_reference
from skillwire.text import shown

SKILLS_LOCK: Final = "skills-lock.json"
TOOLHIVE_LOCK: Final = "toolhive.lock.yaml"
_SHORTHAND: Final = re.compile(r"[\w.-]+/[\w.-]+")
_TOOLHIVE_GIT: Final = re.compile(r"git://([^@#]+)(?:@([^#]+))?(?:#(.+))?")
_COMMIT: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class ForeignSkill:
    """A skill of another tool's lock file: the source to get it from, or why that is not possible."""

    name: str
    source: str = ""
    digest: SetDigest | None = None
    """The digest of the set of its files, where that lock file has it."""
    problem: str = ""


def is_foreign_lock(path: PurePath) -> bool:
    """Whether a file has the name of one of them."""
    return path.name in (SKILLS_LOCK, ".skill-lock.json", TOOLHIVE_LOCK)


def parse_foreign_lock(text: str, name: str) -> tuple[ForeignSkill, ...]:
    """The skills of another tool's lock file, by the name of the file; `FormatError` when it is not one."""
    try:
        read = read_yaml if name.endswith((".yaml", ".yml")) else read_json
        loaded: object = read(text, what=name)
    except DocumentError as error:
        raise _refused(name, str(error)) from None
    table = _table(loaded, name)
    if name.endswith((".yaml", ".yml")):
        if table.get("version", "1") != "1":
            raise _unknown_version(name, table.get("version"))
        rows: object = [] if table.get("skills") == "" else table.get("skills")
        if not isinstance(rows, list):
            raise _refused(name, "it has no list of skills")
        return tuple(_toolhive(_table(row, name)) for row in cast("list[object]", rows))
    if table.get("version") not in (1, 3):
        raise _unknown_version(name, table.get("version"))
    skills = _table(table.get("skills"), name)
    return tuple(_npm(key, _table(row, name)) for key, row in sorted(skills.items()))


def _npm(name: str, row: Mapping[str, Any]) -> ForeignSkill:
    kind, source, url = (_text(row, key) for key in ("sourceType", "source", "sourceUrl"))
    ref, path = _text(row, "ref"), _text(row, "skillPath")
    folder = path.removesuffix("SKILL.md").strip("/")
    match kind:
        case "github" if _SHORTHAND.fullmatch(source):
            return _made(name, _git(f"https://github.com/{source.removesuffix('.git')}", ref, folder))
        case "gitlab" if _SHORTHAND.fullmatch(source) and not url:
            return _made(name, _git(f"https://gitlab.com/{source.removesuffix('.git')}", ref, folder))
        case "github" | "gitlab" | "git" if (url or source).startswith(("https://", "ssh://", "file://")):
            return _made(name, _git(url or source, ref, folder))
        case "well-known":
            base = (_text(row, "sourceBaseUrl") or url or source).partition("/.well-known/")[0]
            if not base.startswith(("https://", "http://")):
                base = f"https://{base}"
            return _made(name, f"{base}#{name}")
        case "local" if source:
            local = source if source.startswith((".", "/", "~")) else f"./{source}"
            return _made(name, f"{local}/{folder}" if folder and not local.endswith(folder) else local)
        case _:
            return ForeignSkill(
                name, problem=f"its source {shown(kind or 'unknown')} {shown(source)} is not known"
            )


def _toolhive(row: Mapping[str, Any]) -> ForeignSkill:
    name = _text(row, "name")
    given = _text(row, "resolvedReference") or _text(row, "source")
    digest = _text(row, "contentDigest")
    pinned = parse_set_digest(digest) if digest else None
    match = _TOOLHIVE_GIT.fullmatch(given)
    if match is None:
        return ForeignSkill(
            name, digest=pinned, problem=f"{shown(given)} is in an OCI registry, which is not read"
        )
    commit = _text(row, "digest")
    ref = commit if _COMMIT.fullmatch(commit) else match[2] or ""
    made = _made(name, _git(f"https://{match[1]}", ref, (match[3] or "").strip("/")))
    return ForeignSkill(name, made.source, pinned, made.problem)


def _git(url: str, ref: str, folder: str) -> str:
    fragment = f"#{ref}:{folder}" if folder else f"#{ref}" if ref else ""
    return f"git+{url}{fragment}"


def _made(name: str, source: str) -> ForeignSkill:
    try:
        parse_reference(source)
    except FormatError as error:
        return ForeignSkill(name, problem=error.issues[0].message)
    if issues := name_issues(name):
        return ForeignSkill(name, problem=_words(issues))
    return ForeignSkill(name, source)


def _words(issues: Iterable[Issue]) -> str:
    return "; ".join(issue.message for issue in issues)


def _text(row: Mapping[str, Any], key: str) -> str:
    value = row.get(key)
    return value.strip() if isinstance(value, str) else ""


def _table(value: object, name: str) -> Mapping[str, Any]:
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in cast("dict[Any, Any]", value)):
        raise _refused(name, "it is not a table of skills")
    return cast("Mapping[str, Any]", value)


def _unknown_version(name: str, version: object) -> FormatError:
    # A list may have aliases of itself: written out, it could be of any size.
    known = shown(str(version)) if isinstance(version, str | int | float) else "with no number"
    return _refused(name, f"version {known} is not supported")


def _refused(name: str, message: str) -> FormatError:
    return FormatError.of(rule="foreign-lock", message=message, fix="check the file", file=name)
