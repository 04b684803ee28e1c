"""LINT and TEXT: what the files say. Advice for authors, and places for a person to look at."""

from __future__ import annotations

from collections.abc import Iterator

from skillwire.conformance.entry_view import EntryView
from skillwire.conformance.observations import Observations
from skillwire.conformance.rules import BY_ID
from skillwire.conformance.violations import Violation
from skillwire.issues import Severity
from skillwire.skill.lint import lint_skill
from skillwire.skill.uris import path_below, shown_uri, skill_name_in
from skillwire.trust.hidden_text import find_hidden_text

# Said already, as a rule of the extension.
_SAID = {"metadata-reserved"}


def check_content(survey: Observations) -> Iterator[Violation]:
    for entry in survey.checked:
        yield from _lint(survey, entry)
    for uri, seen in survey.files.items():
        if any(fault.rule == "RD-2/lossy" for fault in seen.faults):
            continue  # This is not the text of the file.
        for place in seen.hidden:
            yield Violation(f"TEXT/{place.hiding}", f"line {place.line}: {place.what}", shown_uri(uri))
    for place in find_hidden_text(survey.opening.instructions, markdown=True):
        yield Violation(
            f"TEXT/{place.hiding}", f"line {place.line}: {place.what}", "instructions of the server"
        )


def _lint(survey: Observations, entry: EntryView) -> Iterator[Violation]:
    seen = survey.files.get(entry.uri) if entry.uri else None
    if (
        seen is None
        or seen.data is None
        or entry.uri is None
        or entry.root is None
        or survey.changes(entry.uri)
    ):
        return
    files = {"/".join(path_below(uri, entry.root)): file.size or 0 for uri, file in entry.files.items()}
    for issue in lint_skill(seen.data, directory=skill_name_in(entry.uri), files=files):
        if issue.severity is Severity.ERROR or issue.rule in _SAID:
            continue
        # Without a manifest nobody knows which files there are.
        if not entry.has_manifest and issue.rule == "reference-missing":
            continue
        rule = f"LINT/{issue.rule}" if f"LINT/{issue.rule}" in BY_ID else "LINT/other"
        line = f"line {issue.line}: " if issue.line else ""
        yield Violation(rule, f"{line}{issue.message}", entry.place, fix=issue.fix)
