"""The linter: all problems of one skill, and advice.

Reads no files: the caller passes the bytes of `SKILL.md` and the paths and sizes of all files. A comment in
`SKILL.md`, in the frontmatter or the body, turns off rules for one skill: `# skillwire-lint-ignore: RULE,
RULE` or `<!-- skillwire-lint-ignore: RULE -->`.

A `Profile` is what a known consumer of skills demands beyond the format, as dated data with its source.
`skillwire lint --profile NAME` and `skillwire verify --profile NAME` use the same table.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final
from urllib.parse import unquote

from skillwire.documents import JsonValue
from skillwire.errors import FormatError, Issue, Severity, SourceError
from skillwire.limits import DEFAULT_LIMITS, MIB, Limits
from skillwire.skill.entries import SKILL_FILE
from skillwire.skill.fields import HOST_FIELDS, KNOWN_FIELDS, LAST_BLOCK, MAX_DESCRIPTION_LENGTH, field_issues
from skillwire.skill.files import (
    MANIFEST_FILE_BYTES,
    TEMPLATE_SENTENCES,
    SkillDocument,
    conflict_line,
    parse_skill_md,
    salvage_skill_md,
)
from skillwire.text import shown

_KIB: Final = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A consumer and its limits; `None` where it has none.

    `supporting_files` counts the files of a skill besides its SKILL.md.
    """

    name: str
    title: str
    date: str
    source: str
    skills: int | None = None
    supporting_files: int | None = None
    skill_bytes: int | None = None
    skill_md_bytes: int | None = None
    file_bytes: int | None = None
    server_bytes: int | None = None


PROFILES: Final[Mapping[str, Profile]] = MappingProxyType(
    {
        profile.name: profile
        for profile in (
            Profile(
                name="chatgpt",
                title="ChatGPT's import of skills from a server",
                date="2026-08",
                source="MCPJam, sdk/src/openai-readiness/profile.ts",
                skills=5,
                supporting_files=10,
                skill_bytes=5 * MIB,
                skill_md_bytes=256 * _KIB,
                file_bytes=1 * MIB,
                server_bytes=8 * MIB,
            ),
            Profile(
                name="gemini",
                title="The host style gemini",
                date="2026-11",
                source="docs/styles.md of Skillwire",
                skill_md_bytes=256 * _KIB,
            ),
        )
    }
)
"""The profiles by name."""


@dataclass(frozen=True, slots=True)
class Demand:
    """A demand of a profile that a skill does not meet. `skill` is empty for the skills together."""

    rule: str
    skill: str
    message: str
    fix: str


def profile_named(name: str) -> Profile:
    """The profile of this name, or a `SourceError` that lists the names."""
    if name not in PROFILES:
        raise SourceError(f"{name} is not a profile: choose one of {', '.join(sorted(PROFILES))}")
    return PROFILES[name]


def unmet_demands(profile: Profile, skills: Mapping[str, Mapping[str, int]]) -> Iterator[Demand]:
    """The demands that the skills of one server do not meet. `skills` has the sizes of files by path, for
    each skill."""
    where = profile.title
    if profile.skills is not None and len(skills) > profile.skills:
        message = f"{len(skills)} skills; {where} takes {profile.skills}"
        yield Demand("skills", "", message, "serve fewer, or several servers with a part each")
    for name, files in skills.items():
        for rule, message, fix in _of_skill(profile, files):
            yield Demand(rule, name, f"{message}; {where} takes {_limit(profile, rule)}", fix)
    total = sum(sum(files.values()) for files in skills.values())
    if profile.server_bytes is not None and total > profile.server_bytes:
        message = f"{_size(total)} in all; {where} takes {_size(profile.server_bytes)}"
        yield Demand("server-bytes", "", message, "serve fewer or smaller files")


def _of_skill(profile: Profile, files: Mapping[str, int]) -> Iterator[tuple[str, str, str]]:
    supporting = len(files) - (SKILL_FILE in files)
    if profile.supporting_files is not None and supporting > profile.supporting_files:
        yield "files", f"{supporting} files besides {SKILL_FILE}", "merge or leave out supporting files"
    total = sum(files.values())
    if profile.skill_bytes is not None and total > profile.skill_bytes:
        yield "skill-bytes", f"{_size(total)} in all", "leave out large files, or link to them"
    size = files.get(SKILL_FILE, 0)
    if profile.skill_md_bytes is not None and size > profile.skill_md_bytes:
        yield "skill-md-bytes", f"a {SKILL_FILE} of {_size(size)}", "move detail into supporting files"
    if profile.file_bytes is not None:
        large = [path for path, size in files.items() if size > profile.file_bytes and path != SKILL_FILE]
        for path in sorted(large):
            yield "file-bytes", f"{path} has {_size(files[path])}", "split the file, or leave it out"


def _limit(profile: Profile, rule: str) -> str:
    if rule == "files":
        return f"{profile.supporting_files}"
    limits = {
        "skill-bytes": profile.skill_bytes,
        "skill-md-bytes": profile.skill_md_bytes,
        "file-bytes": profile.file_bytes,
    }
    return _size(limits[rule] or 0)


def _size(number: int) -> str:
    return f"{number / MIB:.1f} MiB" if number >= MIB else f"{number / _KIB:.0f} KiB"


_FENCE = re.compile(r"[ \t>]*(`{3,}|~{3,})(.*)")
_CODE_SPAN = re.compile(r"`+([^`\n]+)`+")
# Links and images are found by their middle, so that a line full of brackets takes linear time.
_LINK = re.compile(r"\]\([ \t]*(?:<([^<>\n]*)>(?=[ \t)])|([^\s()<>]*(?:\([^\s()<>]*\)[^\s()<>]*)*))")
_DEFINITION = re.compile(r"[ ]{0,3}\[(?!\^)[^\]\n]+\]:[ \t]+(?:<([^<>\n]*)>|(\S+))")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_PATH_IN_CODE = re.compile(r"(?:\./)?(?:scripts|references|assets)/[^\s`]*[^\s`/.]\.[A-Za-z0-9]+")
_PLACEHOLDER = re.compile(r"[{}<>*$|]|\.\.\.|…")
# Placeholders in code.
_EXAMPLE = re.compile(
    r"(?:^|[/_-])(?:examples?|samples?|your|my|foo|bar|baz|some|path|file|filename|name|xxx|placeholder|new)"
    r"(?:[-_.]|$)",
    re.IGNORECASE,
)
_FOR_EXAMPLE = re.compile(r"\be\.g\.|\bfor example\b|\bsuch as\b|\bfor instance\b|\blike `", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class FileReference:
    """A relative path as written, and its line."""

    target: str
    line: int


def find_references(body: str, first_line: int) -> list[FileReference]:
    """All relative references of a Markdown text, each target once.

    Links, images and link definitions count, and so do paths in `code` under scripts/, references/ and
    assets/. URLs, anchors, absolute paths, placeholders, examples in code and fenced code do not.
    """
    found: dict[str, FileReference] = {}
    for number, line in _prose(body, first_line):
        for target in _targets(line):
            found.setdefault(target, FileReference(target, number))
    return list(found.values())


def resolve(target: str) -> str | None:
    """The path below the skill's directory that a reference means (FMT-10); `None` if it leaves the skill.

    A reference in `SKILL.md` is relative to its directory. The directory itself is `""`.
    """
    segments: list[str] = []
    for segment in unquote(target).split("/"):
        if segment == "..":
            if not segments:
                return None
            segments.pop()
        elif segment not in ("", "."):
            segments.append(segment)
    return "/".join(segments)


def _prose(body: str, first_line: int) -> Iterator[tuple[int, str]]:
    fence = ""
    for number, line in enumerate(body.split("\n"), first_line):
        match = _FENCE.match(line)
        if match is None:
            if not fence:
                yield number, line
        elif not fence:
            fence = match[1]
        elif match[1].startswith(fence) and not match[2].strip():
            fence = ""


def _targets(line: str) -> Iterator[str]:
    is_example = _FOR_EXAMPLE.search(line) is not None
    for span in _CODE_SPAN.finditer(line):
        path = span[1].strip()
        if _PATH_IN_CODE.fullmatch(path) and not (
            is_example or _PLACEHOLDER.search(path) or _EXAMPLE.search(path)
        ):
            yield path
    prose = _CODE_SPAN.sub("", line)
    definition = _DEFINITION.match(prose)
    for match in (*_LINK.finditer(prose), *((definition,) if definition else ())):
        target = (match[1] or match[2] or "").partition("#")[0].partition("?")[0]
        if _is_relative_path(target):
            yield target


def _is_relative_path(target: str) -> bool:
    # A single word in brackets is often prose or code, not a file.
    return (
        ("." in target or "/" in target)
        and target[0] not in "/\\"
        and _SCHEME.match(target) is None
        and _PLACEHOLDER.search(target) is None
    )


RESERVED_METADATA: Final = "io.modelcontextprotocol/"

SHORT_DESCRIPTION: Final = 40
"""Characters: a shorter description hardly says when to use a skill."""
LONG_DESCRIPTION: Final = 700
"""Characters: every session pays for descriptions, because the catalog has those of all skills, used or
not."""
MAX_BODY_LINES: Final = 500
MAX_BODY_TOKENS: Final = 5_000
"""A session pays for the body once the skill is loaded; what is longer goes into supporting files."""
CHARACTERS_PER_TOKEN: Final = 4
"""How tokens are estimated: no tokenizer is needed for that, and each model has another."""

_WHEN: Final = re.compile(
    r"\b(?:when|whenever|while|before|after|during|if|trigger\w*|asks?|asked|needs? to|wants? to"
    r"|proactively|use (?:this|it|for|to|as|in|on|with|\w+ly)|used? (?:for|to|in|by|with)"
    r"|useful (?:for|to|in)|for use)\b",
    re.IGNORECASE,
)
_IGNORE: Final = re.compile(r"skillwire-lint-ignore:[ \t]*([a-z0-9, \t-]+)")


@dataclass(frozen=True, slots=True)
class Tokens:
    """An estimate of the tokens of a skill, at four characters per token."""

    description: int = 0
    body: int = 0


NO_TOKENS: Final = Tokens()


def estimate_tokens(skill_md: bytes, document: SkillDocument | None = None) -> Tokens:
    """The tokens of a description, which is always in context, and of a body, which is loaded on demand.

    `document` is the file as `parse_skill_md` returned it, if the caller has it.
    """
    if document is None:
        document, _ = salvage_skill_md(skill_md)
    if document is None:
        return NO_TOKENS
    description = document.frontmatter.get("description")
    length = len(description) if isinstance(description, str) else 0
    return Tokens(-(-length // CHARACTERS_PER_TOKEN), -(-len(document.body) // CHARACTERS_PER_TOKEN))


def lint_skill(
    skill_md: bytes | None,
    *,
    directory: str,
    files: Mapping[str, int],
    file: str = SKILL_FILE,
    limits: Limits = DEFAULT_LIMITS,
    document: SkillDocument | None = None,
) -> list[Issue]:
    """Every issue of a skill, of every severity, in the order of the file.

    `skill_md` is `None` if the directory has no `SKILL.md`. `files` has the size of every file by its path
    below the directory, with forward slashes. `file` is the name of `SKILL.md` in issues. `document` is the
    file as `parse_skill_md` returned it with the same name and limits, if the caller has it.
    """
    issues = _size_issues(files, file, limits)
    if skill_md is None:
        return [_no_skill_file(files, file), *issues]
    try:
        document = document or parse_skill_md(skill_md, file=file, limits=limits)
        issues += document.repairs
    except FormatError:
        # Whatever can be read is linted, so that one mistake does not hide others.
        document, mistakes = salvage_skill_md(skill_md, file=file, limits=limits)
        issues += mistakes
        if document is None:
            return issues
        issues += _fields_that_are_there(document, skill_md, directory, file)
    else:
        issues += field_issues(document.frontmatter, directory=directory, file=file, lines=document.lines)
    issues += _Linter(document, file, files).advice()
    issues += _text_issues(skill_md, file)
    ignored = ignored_rules(skill_md)
    kept = [issue for issue in issues if issue.rule not in ignored]
    return sorted(kept, key=lambda issue: issue.line or 0)


def _fields_that_are_there(
    document: SkillDocument, skill_md: bytes, directory: str, file: str
) -> list[Issue]:
    """Issues of the readable fields. An unreadable field is not reported as missing."""
    text = skill_md.decode("utf-8", "replace")
    return [
        issue
        for issue in field_issues(document.frontmatter, directory=directory, file=file, lines=document.lines)
        if not (
            issue.rule.endswith("-missing")
            and re.search(rf"^{issue.rule.removesuffix('-missing')}[ ]*:", text, re.MULTILINE)
        )
    ]


def _text_issues(skill_md: bytes, file: str) -> list[Issue]:
    """Issues of the file as text: line endings, conflict markers, and the end of the frontmatter."""
    issues: list[Issue] = []
    text = skill_md.decode("utf-8", "replace")
    if "\r" in text:
        issues.append(
            Issue(
                rule="line-endings",
                message="the file has Windows line endings, so its digest differs between checkouts",
                fix="save it with LF line endings, or run skillwire lint --fix",
                file=file,
                severity=Severity.ADVICE,
            )
        )
        text = text.replace("\r\n", "\n")
    conflict = conflict_line(text)
    if conflict is not None:
        issues.append(
            Issue(
                rule="merge-conflict",
                message="the file has merge conflict markers",
                fix="choose one side and remove the lines that start with <<<<<<<, ======= and >>>>>>>",
                file=file,
                line=conflict + 1,
                severity=Severity.WARNING,
            )
        )
    lines = text.split("\n")
    closing = next((number for number, line in enumerate(lines[1:], 1) if line.rstrip() == "---"), 0)
    for number in range(closing - 1, 0, -1):
        line = lines[number]
        if line.strip() and not line.startswith((" ", "\t", "#")):
            if LAST_BLOCK.search(line):
                key = shown(line.partition(":")[0])
                issues.append(
                    Issue(
                        rule="yaml-last-block",
                        message=f"`{key}` is the last field and a block of text: parsers differ about "
                        "the newline at its end",
                        fix="write |- or >- instead of | or >, or put another field after it",
                        file=file,
                        line=number + 1,
                        severity=Severity.WARNING,
                    )
                )
            break
    return issues


def ignored_rules(skill_md: bytes) -> frozenset[str]:
    """The rules that comments in a `SKILL.md` turn off for its skill."""
    found = _IGNORE.findall(skill_md.decode("utf-8", "replace"))
    return frozenset(rule for text in found for rule in re.split(r"[,\s]+", text.strip(" -\t")) if rule)


def _no_skill_file(files: Mapping[str, int], file: str) -> Issue:
    # FMT-1: the name is exactly SKILL.md.
    misspelled = next((path for path in sorted(files) if path.lower() == SKILL_FILE.lower()), None)
    if misspelled is None:
        fix = f"add a {SKILL_FILE} with name: and description:"
    else:
        fix = f"rename {misspelled} to {SKILL_FILE}"
    return Issue(rule="skill-file-missing", message=f"the directory has no {SKILL_FILE}", fix=fix, file=file)


def _size_issues(files: Mapping[str, int], file: str, limits: Limits) -> list[Issue]:
    """ENT-6: sizes for which a host may refuse the skill."""
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
    for path, size in sorted(files.items()):
        if size > MANIFEST_FILE_BYTES:
            issues.append(
                Issue(
                    rule="large-file",
                    message=f"{path} has {size / 1_000_000:.1f} MB; hosts that read skills by their manifest "
                    f"take {MANIFEST_FILE_BYTES / 1_000_000:g} MB a file",
                    fix="make it smaller, or have it fetched when it is needed",
                    file=file,
                    severity=Severity.ADVICE,
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
        self._template()
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
        # Only English text is checked for this.
        if description.isascii() and not _WHEN.search(description):
            self._advise(
                "description-when",
                "the description does not say when to use the skill",
                'add a sentence such as "Use when ..."',
                line,
            )

    def _unknown_fields(self) -> None:
        for field in self._document.frontmatter:
            if field in KNOWN_FIELDS or field in HOST_FIELDS:
                continue
            meant = _meant(field)
            if meant is not None:
                self._advise(
                    "field-misspelled",
                    f"the field `{shown(field)}` is not read by hosts; did you mean `{meant}`?",
                    f"write {meant}:",
                    self._document.lines[field],
                )
            else:
                self._advise(
                    "unknown-field",
                    f"the field `{shown(field)}` is not part of the format, and most hosts ignore it",
                    "keep it if your host reads it, else move it under metadata:",
                    self._document.lines[field],
                )

    def _reserved_metadata(self, metadata: JsonValue) -> None:
        for key in metadata if isinstance(metadata, dict) else ():
            if key.startswith(RESERVED_METADATA):
                # ENT-7: unknown reserved keys are ignored, and none is known so far.
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

    def _template(self) -> None:
        """Find what `skillwire new` wrote and nobody has replaced yet."""
        fix = "write your own instructions in its place"
        description = str(self._document.frontmatter.get("description", ""))
        if TEMPLATE_SENTENCES[0] in description:
            message = "the description is still that of the template"
            self._advise(
                "template", message, "say what the skill does and when", self._document.lines["description"]
            )
        for number, line in enumerate(self._document.body.split("\n")):
            if any(sentence in line for sentence in TEMPLATE_SENTENCES):
                message = f"this line is still that of the template: {line.strip()}"
                self._advise("template", message, fix, self._document.body_line + number)

    def _reference(self, reference: FileReference) -> None:
        path = resolve(reference.target)
        target = shown(reference.target)
        if path is None:
            self._advise(
                "reference-outside",
                f"`{target}` leads out of the skill, where hosts cannot read it",
                "copy the file into the skill",
                reference.line,
            )
        elif path not in self._files and path not in self._directories:
            alike = next((name for name in sorted(self._files) if name.lower() == path.lower()), None)
            fix = "add the file or fix the path; it starts at the directory of SKILL.md"
            if alike is not None:
                fix = f"the file is spelled {shown(alike)}"
            message = f"`{target}` is not a file of the skill"
            self._advise("reference-missing", message, fix, reference.line)

    def _advise(self, rule: str, message: str, fix: str, line: int) -> None:
        self._issues.append(
            Issue(rule=rule, message=message, fix=fix, file=self._file, line=line, severity=Severity.ADVICE)
        )


def _meant(field: str) -> str | None:
    """The known field that a name is most likely a misspelling of."""
    plain = {re.sub("[-_]", "", known).lower(): known for known in sorted({*HOST_FIELDS} | KNOWN_FIELDS)}
    low = re.sub("[-_ ]", "", field).lower()
    if low in plain:
        return plain[low]
    close = difflib.get_close_matches(low, [re.sub("-", "", known) for known in KNOWN_FIELDS], 1, 0.85)
    return plain[close[0]] if close else None
