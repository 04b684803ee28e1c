"""A scanned skill as one line of an index, and back: text, checked by a sum, and never code.

A line is the skill's URI, a sum over the line, and a JSON array, with tabs between them. What is not exactly
as it was written is no skill. What a line says of paths, sizes and times is compared with the disk before it
is used, so that a wrong one costs another look and nothing else. Digests and frontmatter rest on the sum, and
every read hashes what it returns.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Sequence
from sys import intern
from typing import Any, Final

from skillwire.skill.digests import Digest
from skillwire.skill.entries import JsonValue, SkillEntry, SkillResource
from skillwire.skill.uris import SKILL_FILE, SkillUri
from skillwire.sources.directory.files import STAMP_BYTES, UNSETTLED
from skillwire.sources.directory.roots import Root
from skillwire.sources.directory.snapshot import NO_LINKS, ScannedSkill

_DIGEST_PREFIX: Final = "sha256:"
_DIGEST_DIGITS: Final = 64
_STAMP_DIGITS: Final = 2 * STAMP_BYTES
_TYPES: Final = [int, str, list, list, str, str, list, dict, dict]
_DIGITS: Final = re.compile(r"[0-9a-f]*+")
# Without spaces, in ASCII, and with nothing that JSON itself does not know.
_decode: Final = json.JSONDecoder().raw_decode
_encode: Final = json.JSONEncoder(separators=(",", ":"), allow_nan=False, check_circular=False).encode


def sealed(key: str, values: Sequence[object]) -> bytes:
    """A line with its sum; a `ValueError` when JSON cannot hold the values exactly."""
    head, body = key.encode(), _encode(values).encode()
    return b"%b\t%08x\t%b\n" % (head, _sum(head, body), body)


def unsealed(key: str, line: bytes) -> list[Any] | None:
    """The values of a line about this key that is as it was written, else `None`."""
    head, _, rest = line.removesuffix(b"\n").partition(b"\t")
    total, _, body = rest.partition(b"\t")
    if head != key.encode() or total != b"%08x" % _sum(head, body):
        return None
    try:
        text = body.decode()
        values, end = _decode(text)
        return [*values] if end == len(text) else None
    except (ValueError, TypeError, RecursionError):
        return None


def key_of(line: bytes) -> bytes:
    """What a line is about, by its own word."""
    return line[: line.find(b"\t")]


def is_keepable(skill: ScannedSkill) -> bool:
    """Whether the times of all its files can be trusted next time."""
    return UNSETTLED not in skill.stamps


def line_of(skill: ScannedSkill, roots: Sequence[Root]) -> bytes:
    """A keepable skill as a line; a `ValueError` when JSON cannot hold it exactly."""
    start = len(skill.entry.uri) - len(SKILL_FILE)
    resources = skill.resources
    return sealed(
        skill.entry.uri,
        (
            roots.index(skill.root),
            skill.directory[len(str(skill.root.path)) :],
            [file.uri[start:] for file in resources],
            [file.size for file in resources],
            "".join([file.digest[len(_DIGEST_PREFIX) :] for file in resources]),
            skill.stamps.hex(),
            skill.empty_directories,
            dict(skill.links),
            skill.entry.frontmatter,
        ),
    )


def skill_of(uri: SkillUri, line: bytes, roots: Sequence[Root]) -> ScannedSkill | None:
    """The skill at this URI that a line is, or `None`."""
    values = unsealed(uri, line)
    if values is None or [*map(type, values)] != _TYPES:
        return None
    number, below, names, sizes, digests, stamps, empty, links, frontmatter = values
    count = len(names)
    if (
        number not in range(len(roots))
        or (len(sizes), len(digests), len(stamps)) != (count, count * _DIGEST_DIGITS, count * _STAMP_DIGITS)
        or not _all_are(int, sizes)
        or not _all_are(str, [*names, *empty, *links.values()])
        or not _DIGITS.fullmatch(digests)
        or not _DIGITS.fullmatch(stamps)
    ):
        return None
    root = roots[int(number)]
    start = uri.removesuffix(SKILL_FILE)
    resources = [
        SkillResource(
            # One object for both: there are many.
            uri if name == SKILL_FILE else SkillUri(start + name),
            Digest(_DIGEST_PREFIX + digests[at * _DIGEST_DIGITS : (at + 1) * _DIGEST_DIGITS]),
            sizes[at],
        )
        for at, name in enumerate(names)
    ]
    return ScannedSkill(
        SkillEntry(uri, _with_shared_keys(frontmatter), tuple(resources)),
        root,
        f"{root.path}{below}",
        bytes.fromhex(stamps),
        tuple(empty),
        links or NO_LINKS,
    )


def _sum(head: bytes, body: bytes) -> int:
    return zlib.crc32(body, zlib.crc32(head))


def _all_are(kind: type, values: list[Any]) -> bool:
    return {*map(type, values)} <= {kind}  # no subclass: a boolean is no number here


def _with_shared_keys(mapping: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """The same, where a key that occurs in ten thousand skills is one object."""
    return {
        intern(key): _with_shared_keys(value) if isinstance(value, dict) else value
        for key, value in mapping.items()
    }
