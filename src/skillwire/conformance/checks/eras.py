"""CAP-4: the same server, seen on both eras."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from skillwire.conformance.observations import Observations
from skillwire.conformance.session import Era
from skillwire.conformance.violations import Violation
from skillwire.json_types import is_object
from skillwire.skill.uris import shown_uri

_COMPARED = ("uri", "frontmatter", "resources")


def check_eras(surveys: Sequence[Observations], silent: Mapping[Era, str]) -> Iterator[Violation]:
    """`silent` are the eras that were tried and that the server does not speak, each with the reason."""
    for era, reason in silent.items():
        yield Violation("CAP-4/one-era", f"{era} is not spoken: {reason}")
    declared = [survey for survey in surveys if survey.settings is not None]
    if declared:
        for survey in surveys:
            if survey.settings is None:
                yield Violation("CAP-4/one-era", f"no declaration on {survey.era}")
    if len(declared) != 2:
        return
    one, other = declared
    if one.settings != other.settings:
        yield Violation("CAP-4/declaration", "other settings on each era")
    if all(_is_whole(survey) for survey in declared):
        yield from _entries(one, other)


def _is_whole(survey: Observations) -> bool:
    """Whether the listing is there, all of it, and the same when asked again."""
    pages, again = survey.listing.pages, survey.relisting
    if again is None or survey.listing.endless or not all(page.result is not None for page in pages):
        return False
    return survey.listing.items("skills") == again.items("skills")


def _entries(one: Observations, other: Observations) -> Iterator[Violation]:
    mine, theirs = _by_uri(one), _by_uri(other)
    for uri in sorted(mine.keys() | theirs.keys()):
        if uri not in mine or uri not in theirs:
            era = other.era if uri not in theirs else one.era
            yield Violation("CAP-4/entries", f"not listed on {era}", shown_uri(uri))
        elif mine[uri] != theirs[uri]:
            yield Violation("CAP-4/entries", "another entry on each era", shown_uri(uri))


def _by_uri(survey: Observations) -> dict[str, list[object]]:
    return {
        entry.asked: [entry.raw.get(key) for key in _COMPARED]
        for entry in survey.entries
        if entry.asked and is_object(entry.raw)
    }
