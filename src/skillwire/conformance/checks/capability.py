"""CAP: how a server declares skills, whether it does what it declares, and whether revisions agree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from skillwire.conformance.messages import METHOD_NOT_FOUND, Answer, describe, same_json
from skillwire.conformance.observations import Observations
from skillwire.conformance.rules import Violation
from skillwire.conformance.session import Revision
from skillwire.json_types import is_object
from skillwire.skill.uris import shown_uri
from skillwire.wire.v1 import DIRECTORY_READ_SETTING, EXTENSION_ID, METHOD_GET, METHOD_LIST

_ENVELOPE: Final = ("config", "specVersion", "stability", "id")
_COMPARED: Final = ("uri", "frontmatter", "resources")


def check_capability(seen: Observations) -> Iterator[Violation]:
    if seen.settings is None:
        yield Violation("CAP-1/declared", "no declaration")
        return
    yield from _shape(seen)
    # CAP-2: files are read with resources/read, which only a server with resources has.
    if not is_object(seen.capabilities.get("resources")):
        yield Violation("CAP-2/resources", "no resources among the capabilities")
    first = seen.listing.first
    if first is not None and first.error is not None:
        yield Violation("CAP-2/list", f"{METHOD_LIST}: {first.error}")
    if lacks_get(seen):
        yield Violation("CAP-2/get", f"{METHOD_GET}: error {METHOD_NOT_FOUND}")
    if lacks_directories(seen):
        yield Violation("CAP-1/directory-read", f"error {METHOD_NOT_FOUND}")


def _shape(seen: Observations) -> Iterator[Violation]:
    extensions = seen.capabilities.get("extensions")
    if not is_object(extensions) or EXTENSION_ID not in extensions:
        # CAP-5: lenient hosts understand it, but it is still wrong.
        yield Violation("CAP-1/experimental", "declared under experimental")
        experimental = seen.capabilities.get("experimental")
        declared = experimental[EXTENSION_ID] if is_object(experimental) else None
    else:
        declared = extensions[EXTENSION_ID]
    if not is_object(declared):
        yield Violation("CAP-1/object", describe(declared))
        return
    around = [key for key in _ENVELOPE if key in declared]
    if around:
        yield Violation("CAP-1/inline", f"settings inside {around[0]}")
    settings = seen.settings or {}
    flag = settings.get(DIRECTORY_READ_SETTING)
    if DIRECTORY_READ_SETTING in settings and not isinstance(flag, bool):
        yield Violation("CAP-1/flag", f"directoryRead is {describe(flag)}")


def lacks_get(seen: Observations) -> bool:
    """Whether the method is missing altogether, so that its answers say nothing else."""
    probed = [answer for answer in seen.probes.values() if answer.method == METHOD_GET]
    return _all_lack([*seen.gets.values(), *probed])


def lacks_directories(seen: Observations) -> bool:
    """Whether resources/directory/read is missing altogether."""
    return _all_lack(page for directory in seen.directories.values() for page in directory.paged.pages)


def _all_lack(answers: Iterable[Answer]) -> bool:
    kept = [answer for answer in answers if answer.failure is None]
    return bool(kept) and all(
        answer.error is not None and answer.error.code == METHOD_NOT_FOUND for answer in kept
    )


def check_revisions(
    all_seen: Sequence[Observations], unsupported: Mapping[Revision, str]
) -> Iterator[Violation]:
    """CAP-4: the same server on both revisions. `unsupported` has those it refused, with the reason."""
    for revision, reason in unsupported.items():
        yield Violation("CAP-4/one-revision", f"{revision} is not supported: {reason}")
    declared = [seen for seen in all_seen if seen.settings is not None]
    if declared:
        for seen in all_seen:
            if seen.settings is None:
                yield Violation("CAP-4/one-revision", f"no declaration on {seen.revision}")
    if len(declared) != 2:
        return
    one, other = declared
    if not same_json(one.settings, other.settings):
        yield Violation("CAP-4/declaration", "different settings on each revision")
    if all(_is_whole(seen) for seen in declared):
        yield from _entries(one, other)


def _is_whole(seen: Observations) -> bool:
    """Whether the listing is complete, and the same when asked again."""
    pages, again = seen.listing.pages, seen.relisting
    if (
        again is None
        or seen.listing.endless
        or seen.listing.left_out
        or not all(page.result is not None for page in pages)
    ):
        return False
    return same_json(seen.listing.items("skills"), again.items("skills"))


def _entries(one: Observations, other: Observations) -> Iterator[Violation]:
    mine, theirs = _by_uri(one), _by_uri(other)
    for uri in sorted(mine.keys() | theirs.keys()):
        if uri not in mine or uri not in theirs:
            revision = other.revision if uri not in theirs else one.revision
            yield Violation("CAP-4/entries", f"not listed on {revision}", shown_uri(uri))
        elif not same_json(mine[uri], theirs[uri]):
            yield Violation("CAP-4/entries", "a different entry on each revision", shown_uri(uri))


def _by_uri(seen: Observations) -> dict[str, list[object]]:
    return {
        entry.asked: [entry.raw.get(key) for key in _COMPARED]
        for entry in seen.entries
        if entry.asked and is_object(entry.raw)
    }
