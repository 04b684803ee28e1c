"""Where the skills of upstream servers are served: `skill://<label>/<path...>/<name>/SKILL.md`.

The label comes first, so two servers never share a URI, and the path stays as it is, so the name comes last
and digests and relative references keep their meaning. The mapping can be undone, so two skills of one server
never share a URI either: a URI of another scheme, or one whose first segment starts with `~`, gets a segment
`~<scheme>` before it, which no other URI can have.
"""

from __future__ import annotations

from typing import Final

from skillwire.errors import FormatError
from skillwire.skill.uris import SCHEME, SkillUri, is_plain, make_uri, parse_uri, split_uri

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
