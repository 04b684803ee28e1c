"""Where and how the skills of upstream servers are served: `skill://<label>/<path...>/<name>/SKILL.md`.

The label comes first, so two servers never share a URI, and the path stays as it is, so the name comes last
and digests and relative references keep their meaning. The mapping is reversible, so two skills of one server
never share a URI either: a URI of another scheme, or one whose first segment starts with `~`, gets a segment
`~<scheme>` before it, which no other URI can have.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from skillwire.errors import FormatError
from skillwire.issues import Issue
from skillwire.limits import Limits
from skillwire.skill.entries import DYNAMIC, NO_SIZE, Dynamic, SkillEntry, SkillResource
from skillwire.skill.uris import SCHEME, SkillUri, is_plain, make_uri, parse_uri, skill_root, split_uri
from skillwire.trust.approval import shown_digest
from skillwire.trust.origin import Origin
from skillwire.trust.verify import check_entry

_MARK: Final = "~"


def label_segment(label: str) -> str:
    """The first segment of every URI of an origin: its label in lower case."""
    return label.casefold()


def downstream_root(label: str, root: SkillUri) -> SkillUri:
    """The directory under which the gateway serves what an origin has in the directory `root`."""
    segment = label_segment(label)
    if is_plain(root) and not root.startswith(f"{SCHEME}://{_MARK}") and is_plain(f"{SCHEME}://{segment}"):
        return SkillUri(f"{SCHEME}://{segment}{root[len(SCHEME) + 2 :]}")
    parts = split_uri(root)
    path = (parts.authority, *parts.segments)
    if parts.scheme != SCHEME or parts.authority.startswith(_MARK):
        path = (f"{_MARK}{parts.scheme}", *path)
    return make_uri((segment, *path))


def moved(uri: SkillUri, old: SkillUri, new: SkillUri) -> SkillUri:
    """A URI at or below the directory `old`, at the same path below `new`."""
    if uri != old and not uri.startswith(f"{old}/"):
        raise ValueError(f"{uri} is not below {old}")
    return SkillUri(new + uri[len(old) :])


def upstream_uri(uri: SkillUri) -> tuple[str, SkillUri] | None:
    """The label in a downstream URI, and the URI that its origin knows; `None` if there can be none."""
    parts = split_uri(uri)
    path = parts.segments
    if parts.scheme != SCHEME or not path or parts.authority != label_segment(parts.authority):
        return None
    if not path[0].startswith(_MARK):
        return parts.authority, make_uri(path)
    scheme, rest = path[0].removeprefix(_MARK), path[1:]
    if not rest:
        return None
    try:
        # The authority of another scheme is written as it stands; all other segments are encoded.
        below = make_uri(("x", *rest[1:])).removeprefix(f"{SCHEME}://x")
        found = make_uri(rest) if scheme == SCHEME else parse_uri(f"{scheme}://{rest[0]}{below}")
    except FormatError:
        return None
    # There is one spelling of each: what would be served elsewhere is not served here.
    return (parts.authority, found) if downstream_root(parts.authority, found) == uri else None


@dataclass(frozen=True, slots=True)
class ServedEntry:
    """How an entry is served, and in which directory."""

    original: SkillEntry
    root: SkillUri
    entry: SkillEntry


def served_entry(origin: Origin, original: SkillEntry, limits: Limits) -> ServedEntry:
    """How an entry is served; a `FormatError` or `LimitExceeded` if it cannot be."""
    entry = check_entry(original, limits=limits)
    if not entry.name or not entry.description.strip():
        # An older dialect may leave them out. They are never made up.
        raise FormatError(
            Issue(
                rule="frontmatter",
                message="its server gives no name or description",
                fix="serve it with the final extension",
            )
        )
    if entry.resources is not DYNAMIC and any("%" in file.uri for file in entry.resources):
        shown_digest(original)  # A `FormatError` for names that no set of files can have.
    old = skill_root(entry.uri)
    root = downstream_root(origin.label, old)
    uri = moved(entry.uri, old, root)
    resources: tuple[SkillResource, ...] | Literal[Dynamic.DYNAMIC] = DYNAMIC
    # The final extension has sizes. What a draft left out is not guessed; its digests are checked here.
    if entry.resources is not DYNAMIC and all(file.size != NO_SIZE for file in entry.resources):
        # `check_entry` made sure that they are below the directory.
        cut = len(old)
        resources = tuple(
            [
                SkillResource(
                    uri if file.uri == entry.uri else SkillUri(root + file.uri[cut:]), file.digest, file.size
                )
                for file in entry.resources
            ]
        )
    return ServedEntry(original, root, SkillEntry(uri, entry.frontmatter, resources, entry.meta))
