"""The manifest of D1: `skill://NAME/_manifest`, the files of one skill with sizes and hashes.

The dialect identifies a skill by its name alone, so only a skill whose path is its name can have a manifest.
"""

from __future__ import annotations

import json
from dataclasses import replace

from skillwire.errors import FormatError
from skillwire.issues import shown
from skillwire.json_types import JsonObject, JsonValue, is_list, is_object
from skillwire.skill.digests import parse_digest
from skillwire.skill.entries import DYNAMIC, SkillEntry, SkillResource
from skillwire.skill.uris import SkillUri, child_uri, path_below, shown_uri, skill_name_in, skill_root


def write_manifest(entry: SkillEntry) -> bytes:
    """The manifest of a skill whose files are listed."""
    if entry.resources is DYNAMIC:
        raise ValueError(f"{entry.uri} lists no files")
    root = skill_root(entry.uri)
    files: list[JsonValue] = [
        {"path": "/".join(path_below(file.uri, root)), "size": file.size, "hash": file.digest}
        for file in entry.resources
    ]
    manifest: JsonObject = {"skill": skill_name_in(entry.uri), "files": files}
    return json.dumps(manifest, ensure_ascii=False, indent=2).encode("utf-8")


def bind_to_manifest(entry: SkillEntry, data: bytes) -> SkillEntry:
    """The entry with the files of its manifest, or a `FormatError`.

    A manifest without `SKILL.md` is incomplete, so nothing can be bound to it.
    """
    try:
        manifest = json.loads(data)
    except (ValueError, RecursionError):
        raise _refused("its manifest is not JSON") from None
    listed = manifest.get("files") if is_object(manifest) else None
    if not is_list(listed):
        raise _refused("its manifest has no list of files")
    root = skill_root(entry.uri)
    files: dict[SkillUri, SkillResource] = {}
    for item in listed:
        file = _file(root, item)
        if file.uri in files:
            raise _refused(f"its manifest lists {shown_uri(file.uri)} twice")
        files[file.uri] = file
    if entry.uri not in files:
        return replace(entry, resources=DYNAMIC)
    return replace(entry, resources=tuple(files[uri] for uri in sorted(files)))


def _file(root: SkillUri, item: object) -> SkillResource:
    path = item.get("path") if is_object(item) else None
    size = item.get("size") if is_object(item) else None
    digest = item.get("hash") if is_object(item) else None
    if not isinstance(path, str) or not isinstance(digest, str):
        raise _refused("its manifest has a file without path or hash")
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise _refused(f"its manifest gives {shown(path)} no size")
    uri = root
    for segment in path.split("/"):
        uri = child_uri(uri, segment)
    return SkillResource(uri, parse_digest(digest), size)


def _refused(message: str) -> FormatError:
    return FormatError.of(rule="manifest", message=message, fix="tell the server's operator")
