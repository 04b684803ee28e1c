"""The linter: everything that is wrong with one skill, and everything that could be better.

Errors are what makes a host refuse a skill; advice is for its author. Nothing is read here: the caller brings
the bytes of `SKILL.md` and the paths and sizes of all files.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from skillwire.errors import FormatError
from skillwire.issues import Issue, Severity, shown
from skillwire.json_types import JsonValue
from skillwire.limits import DEFAULT_LIMITS, MIB, Limits
from skillwire.skill.fields import KNOWN_FIELDS, MAX_DESCRIPTION_LENGTH, field_issues
from skillwire.skill.frontmatter import SkillDocument, parse_skill_md
from skillwire.skill.references import Reference, find_references, resolve
from skillwire.skill.uris import SKILL_FILE

RESERVED_METADATA = "io.modelcontextprotocol/"

SHORT_DESCRIPTION = 40
LONG_DESCRIPTION = 700
MAX_BODY_LINES = 500
MAX_BODY_TOKENS = 5_000
CHARACTERS_PER_TOKEN = 4

_WHEN = re.compile(
    r"\b(?:when|whenever|while|before|after|during|if|trigger\w*|asks?|asked|needs? to|wants? to"
    r"|use (?:this|it|for|to|as|in|on|with)|used (?:for|to|in|by|with)|useful (?:for|to|in))\b",
    re.IGNORECASE,
)


def lint_skill(
    skill_md: bytes | None,
    *,
    directory: str,
    files: Mapping[str, int],
    file: str = SKILL_FILE,
    limits: Limits = DEFAULT_LIMITS,
) -> list[Issue]:
    """Every issue of a skill, errors and advice, in the order of the file.

    `skill_md` is `None` when the directory has no `SKILL.md`. `files` holds the size of every file of the
    skill by its path below the directory, with forward slashes. `file` is how issues name the `SKILL.md`.
    """
    issues = _size_issues(files, file, limits)
    if skill_md is None:
        return [_no_skill_file(files, file), *issues]
    try:
        document = parse_skill_md(skill_md, file=file, limits=limits)
    except FormatError as error:
        return [*error.issues, *issues]
    linter = _Linter(document, file, files)
    issues += field_issues(document.frontmatter, directory=directory, file=file, lines=document.lines)
    issues += linter.advice()
    return sorted(issues, key=lambda issue: issue.line or 0)


def _no_skill_file(files: Mapping[str, int], file: str) -> Issue:
    # FMT-1: the name is SKILL.md, letter by letter.
    misspelt = next((path for path in sorted(files) if path.lower() == SKILL_FILE.lower()), None)
    if misspelt is None:
        fix = f"add a {SKILL_FILE} with name: and description:"
    else:
        fix = f"rename {misspelt} to {SKILL_FILE}"
    return Issue(rule="skill-file-missing", message=f"the directory has no {SKILL_FILE}", fix=fix, file=file)


def _size_issues(files: Mapping[str, int], file: str, limits: Limits) -> list[Issue]:
    """ENT-6: what a host may decline from the entry alone."""
    issues: list[Issue] = []
    if len(files) > limits.files_per_skill:
        issues.append(
            Issue(
                rule="too-many-files",
                message=f"the skill has {len(files)} files; hosts may refuse over {limits.files_per_skill}",
                fix="leave out what is not needed, or pack it into fewer files",
                file=file,
            )
        )
    total = sum(files.values())
    if total > limits.bytes_per_skill:
        issues.append(
            Issue(
                rule="too-many-bytes",
                message=f"the skill has {total / MIB:.1f} MiB; "
                f"hosts may refuse over {limits.bytes_per_skill / MIB:g} MiB",
                fix="leave out large files, or fetch them when needed",
                file=file,
            )
        )
    return issues


class _Linter:
    def __init__(self, document: SkillDocument, file: str, files: Mapping[str, int]) -> None:
        self._document = document
        self._file = file
        self._files = files
        self._directories = {path[:end] for path in files for end, char in enumerate(path) if char == "/"} | {
            ""
        }
        self._issues: list[Issue] = []

    def advice(self) -> list[Issue]:
        description = self._document.frontmatter.get("description")
        if isinstance(description, str) and 0 < len(description.strip()) <= MAX_DESCRIPTION_LENGTH:
            self._description(description.strip())
        self._unknown_fields()
        self._reserved_metadata(self._document.frontmatter.get("metadata"))
        self._body()
        for reference in find_references(self._document.body, self._document.body_line):
            self._reference(reference)
        return self._issues

    def _description(self, description: str) -> None:
        line = self._document.lines["description"]
        if len(description) < SHORT_DESCRIPTION:
            self._advise(
                "description-short",
                f"the description has only {len(description)} characters",
                "say what the skill does and when to use it",
                line,
            )
        elif len(description) > LONG_DESCRIPTION:
            self._advise(
                "description-long",
                f"the description has {len(description)} characters, and every one is read for every task",
                f"keep it below {LONG_DESCRIPTION} and move detail into the body",
                line,
            )
        # The cue is looked for in English only; other scripts are left in peace.
        if description.isascii() and not _WHEN.search(description):
            self._advise(
                "description-when",
                "the description does not say when to use the skill",
                'add a sentence such as "Use when ..."',
                line,
            )

    def _unknown_fields(self) -> None:
        for field in self._document.frontmatter:
            if field not in KNOWN_FIELDS:
                self._advise(
                    "unknown-field",
                    f"the field `{shown(field)}` is not part of the format, and most hosts ignore it",
                    "keep it if your host reads it, else move it under metadata:",
                    self._document.lines[field],
                )

    def _reserved_metadata(self, metadata: JsonValue) -> None:
        for key in metadata if isinstance(metadata, dict) else ():
            if key.startswith(RESERVED_METADATA):
                # ENT-7: unknown reserved keys are ignored, and as yet none is known.
                self._advise(
                    "metadata-reserved",
                    f"the metadata key `{shown(key)}` is reserved and hosts ignore it",
                    "use a prefix of your own",
                    self._document.lines["metadata"],
                )

    def _body(self) -> None:
        body, line = self._document.body, self._document.body_line
        if not body.strip():
            self._advise(
                "body-empty", "nothing follows the frontmatter", "write the instructions there", line
            )
            return
        lines = body.count("\n") + (not body.endswith("\n"))
        tokens = len(body) // CHARACTERS_PER_TOKEN
        fix = "move detail into files under references/ and link to them"
        if lines > MAX_BODY_LINES:
            message = f"the body has {lines} lines; more than {MAX_BODY_LINES} crowd out the task"
            self._advise("body-lines", message, fix, line)
        elif tokens > MAX_BODY_TOKENS:
            message = (
                f"the body is about {tokens} tokens long; more than {MAX_BODY_TOKENS} crowd out the task"
            )
            self._advise("body-tokens", message, fix, line)

    def _reference(self, reference: Reference) -> None:
        path = resolve(reference.target)
        target = shown(reference.target)
        if path is None:
            self._advise(
                "reference-outside",
                f"`{target}` leads out of the skill, where no host can follow",
                "copy the file into the skill",
                reference.line,
            )
        elif path not in self._files and path not in self._directories:
            alike = next((name for name in sorted(self._files) if name.lower() == path.lower()), None)
            fix = "add the file or mend the path; it starts at the directory of SKILL.md"
            if alike is not None:
                fix = f"the file is spelt {shown(alike)}"
            message = f"`{target}` is not a file of the skill"
            self._advise("reference-missing", message, fix, reference.line)

    def _advise(self, rule: str, message: str, fix: str, line: int) -> None:
        self._issues.append(
            Issue(
                rule=rule,
                message=message,
                fix=fix,
                file=self._file,
                line=line,
                severity=Severity.ADVICE,
            )
        )
