"""Writes `skill://index.json` in the format of D2, D3 or D4.

None of them can express a dynamic skill, which is listed without digests.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final

from skillwire.json_types import JsonObject, JsonValue
from skillwire.skill.dialects import Dialect
from skillwire.skill.entries import DYNAMIC, SkillEntry
from skillwire.skill.uris import path_below, skill_root
from skillwire.wire.index import FILE_DIGESTS

SCHEMA: Final = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"
"""What readers of D2 and D3 look for in `$schema`."""
INDEX_DIALECTS: Final = (Dialect.INDEX, Dialect.INDEX_WITH_DIGESTS, Dialect.INDEX_WITH_FRONTMATTER)


def write_index(entries: Iterable[SkillEntry], dialect: Dialect) -> bytes:
    """The index of these skills. The same skills give the same bytes."""
    if dialect not in INDEX_DIALECTS:
        raise ValueError(f"{dialect} has no index")
    index: JsonObject = {}
    if dialect is Dialect.INDEX_WITH_FRONTMATTER:
        index["skills"] = [_with_frontmatter(entry) for entry in entries]
    else:
        has_digests = dialect is Dialect.INDEX_WITH_DIGESTS
        index["$schema"] = SCHEMA
        index["skills"] = [_with_name(entry, has_digests=has_digests) for entry in entries]
    return json.dumps(index, ensure_ascii=False, separators=(",", ":")).encode("utf-8")


def _with_name(entry: SkillEntry, *, has_digests: bool) -> JsonObject:
    item: JsonObject = {
        "name": entry.name,
        "type": "skill-md",
        "description": entry.description,
        "url": entry.uri,
    }
    if has_digests and entry.resources is not DYNAMIC:
        item |= _digest(entry)
        root = skill_root(entry.uri)
        files: list[JsonValue] = [
            {"path": "/".join(path_below(file.uri, root)), "digest": file.digest} for file in entry.resources
        ]
        item["_meta"] = {FILE_DIGESTS: files}
    return item


def _with_frontmatter(entry: SkillEntry) -> JsonObject:
    return {"url": entry.uri, **_digest(entry), "frontmatter": dict(entry.frontmatter)}


def _digest(entry: SkillEntry) -> JsonObject:
    """The digest of `SKILL.md`, if there is one."""
    files = () if entry.resources is DYNAMIC else entry.resources
    digests = [file.digest for file in files if file.uri == entry.uri]
    return {"digest": digests[0]} if digests else {}
