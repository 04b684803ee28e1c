"""LINT, SIG and TEXT: what the files say. Advice for authors, and places that a person should look at."""

from __future__ import annotations

from collections.abc import Iterator

from skillwire.conformance.entries import EntryView
from skillwire.conformance.observations import Observations
from skillwire.conformance.rules import BY_ID, Violation
from skillwire.issues import Severity
from skillwire.skill.digests import Digest
from skillwire.skill.lint import lint_skill
from skillwire.skill.uris import child_uri, path_below, shown_uri, skill_name_in
from skillwire.trust.hidden_text import find_hidden_text
from skillwire.trust.oms import SIGNATURE_FILE, InvalidSignatureFile
from skillwire.trust.signatures import claimed_differences

# Reported already, as a rule of the extension.
_REPORTED = {
    "large-file",
    "metadata-reserved",
    "name-not-directory",
    "description-too-long",
    "yaml-special",
    "yaml-unquoted-colon",
}


def check_content(seen: Observations) -> Iterator[Violation]:
    for entry in seen.checked:
        yield from _lint(seen, entry)
        yield from _signature(seen, entry)
    for uri, file in seen.files.items():
        if any(violation.rule == "RD-2/lossy" for violation in file.violations):
            continue  # This is not the text of the file.
        for place in file.hidden:
            yield Violation(f"TEXT/{place.hiding}", f"line {place.line}: {place.what}", shown_uri(uri))
    for place in find_hidden_text(seen.opening.instructions, markdown=True):
        yield Violation(
            f"TEXT/{place.hiding}", f"line {place.line}: {place.what}", "instructions of the server"
        )


def _signature(seen: Observations, entry: EntryView) -> Iterator[Violation]:
    """Whether a signature lists the files that the entry lists. Telling whose it is takes a publisher's
    key."""
    root = entry.root
    file = seen.files.get(child_uri(root, SIGNATURE_FILE)) if root is not None else None
    if file is None or root is None or not entry.has_manifest or not file.digest or seen.changes(file.uri):
        return
    listed = {"/".join(path_below(uri, root)): Digest(one.digest or "") for uri, one in entry.files.items()}
    try:
        differing = claimed_differences(listed, file.data if file.data is not None else b"")
    except InvalidSignatureFile as error:
        too_long = f"{SIGNATURE_FILE} is too long"
        yield Violation("SIG/invalid", str(error) if file.data is not None else too_long, shown_uri(file.uri))
        return
    if differing:
        names = ", ".join(differing[:5]) + (f" and {len(differing) - 5} more" if len(differing) > 5 else "")
        yield Violation("SIG/differs", f"not as signed: {names}", shown_uri(file.uri))


def _lint(seen: Observations, entry: EntryView) -> Iterator[Violation]:
    file = seen.files.get(entry.uri) if entry.uri else None
    if file is None or file.data is None or entry.uri is None or entry.root is None:
        return
    if seen.changes(entry.uri):
        return
    files = {"/".join(path_below(uri, entry.root)): one.size or 0 for uri, one in entry.files.items()}
    for issue in lint_skill(file.data, directory=skill_name_in(entry.uri), files=files):
        if issue.severity is Severity.ERROR or issue.rule in _REPORTED:
            continue
        # Without a manifest it is unknown which files there are.
        if not entry.has_manifest and issue.rule == "reference-missing":
            continue
        rule = f"LINT/{issue.rule}" if f"LINT/{issue.rule}" in BY_ID else "LINT/other"
        line = f"line {issue.line}: " if issue.line else ""
        yield Violation(rule, f"{line}{issue.message}", entry.place, fix=issue.fix)
