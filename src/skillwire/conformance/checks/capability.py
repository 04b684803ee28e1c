"""CAP: how a server says that it has skills, and whether it keeps that promise."""

from __future__ import annotations

from collections.abc import Iterator

from skillwire.conformance.observations import Observations
from skillwire.conformance.responses import METHOD_NOT_FOUND, Answer
from skillwire.conformance.violations import Violation
from skillwire.json_types import is_object
from skillwire.wire.v1 import DIRECTORY_READ_SETTING, EXTENSION_ID, METHOD_GET, METHOD_LIST

_ENVELOPE = ("config", "specVersion", "stability", "id")


def check_capability(survey: Observations) -> Iterator[Violation]:
    if survey.settings is None:
        yield Violation("CAP-1/declared", "no declaration")
        return
    yield from _shape(survey)
    # CAP-2: files are read by resources/read, which only a server with resources has.
    if not is_object(survey.capabilities.get("resources")):
        yield Violation("CAP-2/resources", "no resources among the capabilities")
    first = survey.listing.first
    if first is not None and first.error is not None:
        yield Violation("CAP-2/list", f"{METHOD_LIST}: {first.error}")
    if lacks_get(survey):
        yield Violation("CAP-2/get", f"{METHOD_GET}: error {METHOD_NOT_FOUND}")
    if lacks_directories(survey):
        yield Violation("CAP-1/directory-read", f"error {METHOD_NOT_FOUND}")


def _shape(survey: Observations) -> Iterator[Violation]:
    extensions = survey.capabilities.get("extensions")
    if not is_object(extensions) or EXTENSION_ID not in extensions:
        # CAP-5: understood by lenient hosts, and wrong all the same.
        yield Violation("CAP-1/experimental", "declared under experimental")
        experimental = survey.capabilities.get("experimental")
        declared = experimental[EXTENSION_ID] if is_object(experimental) else None
    else:
        declared = extensions[EXTENSION_ID]
    if not is_object(declared):
        kind = (
            "an array" if isinstance(declared, list) else "nothing" if declared is None else "a plain value"
        )
        yield Violation("CAP-1/object", kind)
        return
    around = [key for key in _ENVELOPE if key in declared]
    if around:
        yield Violation("CAP-1/inline", f"settings inside {around[0]}")
    settings = survey.settings or {}
    flag = settings.get(DIRECTORY_READ_SETTING)
    if DIRECTORY_READ_SETTING in settings and not isinstance(flag, bool):
        yield Violation("CAP-1/flag", f"directoryRead is {type(flag).__name__} {flag!r:.20}")


def lacks_get(survey: Observations) -> bool:
    """Whether the method is not there at all: then no answer of it says anything else."""
    return _all_lack([*survey.gets.values(), *(answer for _, answer in _probed(survey, METHOD_GET))])


def lacks_directories(survey: Observations) -> bool:
    """Whether resources/directory/read is not there at all."""
    answers = [page for directory in survey.directories.values() for page in directory.paged.pages]
    return _all_lack(answers)


def _probed(survey: Observations, method: str) -> Iterator[tuple[object, Answer]]:
    return ((probe, answer) for probe, answer in survey.probes.items() if answer.method == method)


def _all_lack(answers: list[Answer]) -> bool:
    kept = [answer for answer in answers if answer.failure is None]
    return bool(kept) and all(
        answer.error is not None and answer.error.code == METHOD_NOT_FOUND for answer in kept
    )
