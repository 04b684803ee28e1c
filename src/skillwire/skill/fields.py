"""The fields of a skill's frontmatter: their values, and the consequence of each mistake (FMT-2).

An error leaves the skill out: a `name` or `description` that is missing or blank, a name that breaks the
naming rules, which the extension repeats as a MUST, and a field of a type that no reader can use. A warning
is for a format problem that most hosts accept: a name that is not the directory's, a description that is too
long. Everything else is advice. Unknown fields are never an error.

`fix_skill_md` makes the unambiguous repairs of `skillwire lint --fix`:

1. Line endings become LF, and a byte order mark or blank lines before the frontmatter are removed.
2. One-line values that are not valid YAML get quotes.
3. The name becomes that of the directory, if that is a valid name. If neither is valid, the name is spelled
   with lowercase letters, digits and hyphens.
4. A block of text as the last field becomes `|-`, because parsers differ about its last newline.

With `unsafe`, what is missing is taken from what is there: the frontmatter from the directory's name and
the first heading, a description from the first heading or line of the body.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from skillwire.documents import JsonObject, JsonValue
from skillwire.errors import FormatError, Issue, Severity
from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.skill.entries import MAX_NAME_LENGTH, SKILL_FILE, Dialect, DraftDetails, name_issues
from skillwire.skill.files import SkillDocument, parse_skill_md, quote_fields, split_skill_md
from skillwire.text import shown

KNOWN_FIELDS: Final = frozenset(
    {"name", "description", "license", "compatibility", "metadata", "allowed-tools"}
)
"""The fields of the Agent Skills format."""

HOST_FIELDS: Final[Mapping[str, str]] = {
    "agent": "Claude Code",
    "argument-hint": "Claude Code",
    "arguments": "Claude Code",
    "context": "Claude Code",
    "disable-model-invocation": "Claude Code, Cursor, VS Code",
    "disallowed-tools": "Claude Code",
    "effort": "Claude Code",
    "hooks": "Claude Code",
    "model": "Claude Code",
    "paths": "Claude Code, Cursor",
    "shell": "Claude Code",
    "user-invocable": "Claude Code, VS Code",
    "when_to_use": "Claude Code",
    "when-to-use": "Claude Code",
    "tools": "agents of Claude Code and VS Code",
    "globs": "Cursor",
    "alwaysApply": "Cursor",
    "mcp": "opencode",
    "mode": "opencode",
    "requires": "OpenClaw",
    "command-dispatch": "OpenClaw",
    "command-tool": "OpenClaw",
    "homepage": "OpenClaw",
    "emoji": "OpenClaw",
    "interface": "Codex",
    "dependencies": "Codex",
    "policy": "Codex",
    # Read by catalogs and marketplaces rather than by agents.
    "author": "catalogs",
    "authors": "catalogs",
    "category": "catalogs",
    "color": "catalogs",
    "created": "catalogs",
    "date": "catalogs",
    "display_name": "catalogs",
    "domain": "catalogs",
    "icon": "catalogs",
    "keywords": "catalogs",
    "language": "catalogs",
    "maintainer": "catalogs",
    "repository": "catalogs",
    "source": "catalogs",
    "status": "catalogs",
    "tags": "catalogs",
    "title": "catalogs",
    "triggers": "catalogs",
    "type": "catalogs",
    "updated": "catalogs",
    "url": "catalogs",
    "version": "catalogs",
}
"""Fields that the format does not define but popular hosts read, with the names of those hosts."""

MAX_DESCRIPTION_LENGTH: Final = 1024
MAX_COMPATIBILITY_LENGTH: Final = 500
# Fields that change what a host does, with the type that they must have.
_SWITCHES: Final = ("disable-model-invocation", "user-invocable")
_WORDS: Final = ("argument-hint", "model", "context", "agent")


def local_fields(
    document: SkillDocument, directory: str, *, file: str
) -> tuple[JsonObject, DraftDetails | None, list[Issue]]:
    """The frontmatter of a skill in a user's own folder, completed like agents that read folders do.

    A missing or invalid name is replaced by the directory's; a missing description by the first line of the
    body. Such an entry is not valid in the extension (ENT-1), so it has `DraftDetails` with the fields that
    are really in the file; a server leaves the skill out instead.
    """
    fields = dict(document.frontmatter)
    issues: list[Issue] = []
    name, description = fields.get("name"), fields.get("description")
    if not isinstance(name, str) or name_issues(name):
        fields["name"] = directory
        issues.append(
            Issue(
                rule="name-from-directory",
                message=f"the name is taken from the directory, `{shown(directory)}`",
                fix=f"add the line name: {shown(directory)}; servers and other hosts need it",
                file=file,
                line=document.lines.get("name"),
                severity=Severity.WARNING,
            )
        )
    if not isinstance(description, str) or not description.strip():
        line = next(
            (line.strip().lstrip("#").strip() for line in document.body.split("\n") if line.strip()), ""
        )
        if line:
            fields["description"] = line[:MAX_DESCRIPTION_LENGTH]
            issues.append(
                Issue(
                    rule="description-from-body",
                    message="the description is taken from the first line of the body",
                    fix="add a description: line; servers and other hosts need it",
                    file=file,
                    line=document.lines.get("description"),
                    severity=Severity.WARNING,
                )
            )
    if not issues:
        return fields, None, []
    written = frozenset(field for field, value in fields.items() if document.frontmatter.get(field) is value)
    return fields, DraftDetails(dialect=Dialect.MANIFEST, carried=written), issues


def read_fields(
    skill_md: bytes,
    *,
    directory: str | None,
    strict: bool = False,
    local: bool = False,
    limits: Limits = DEFAULT_LIMITS,
    document: SkillDocument | None = None,
) -> tuple[JsonObject, DraftDetails | None, list[Issue]]:
    """The frontmatter of a `SKILL.md`, how it was completed, and every issue of it; or a `FormatError`.

    The one place that decides which skills are accepted: `serve`, `publish` and `add` refuse what has an
    issue of severity `ERROR` here, and `lint` reports the same. With `local`, the rules are those of a user's
    own folders. `document` is the file as `parse_skill_md` returned it with the same limits, if the caller
    has it; what was repaired in it is not `strict`.
    """
    if document is None or (strict and document.repairs):
        document = parse_skill_md(skill_md, file=SKILL_FILE, strict=strict, limits=limits)
    fields, draft = document.frontmatter, None
    issues = [*document.repairs]
    if local:
        fields, draft, filled_in = local_fields(document, directory or "", file=SKILL_FILE)
        issues += filled_in
    issues += field_issues(fields, directory=directory, file=SKILL_FILE, lines=document.lines)
    return fields, draft, issues


def field_issues(
    frontmatter: Mapping[str, JsonValue],
    *,
    directory: str | None,
    file: str,
    lines: Mapping[str, int] | None = None,
) -> list[Issue]:
    """All problems with the fields; empty if there are none.

    `directory` is the name of the skill's directory, `None` if there is none to compare with. `lines` has the
    line of each field in the file. Issues of severity `ERROR` leave the skill out, `WARNING` means that some
    hosts refuse it.
    """
    check = _Check(frontmatter, file, lines or {})
    check.name(directory)
    check.description()
    check.license()
    check.compatibility()
    check.metadata()
    check.allowed_tools()
    check.host_fields()
    return check.issues


class _Check:
    def __init__(self, frontmatter: Mapping[str, JsonValue], file: str, lines: Mapping[str, int]) -> None:
        self.issues: list[Issue] = []
        self._frontmatter = frontmatter
        self._file = file
        self._lines = lines

    def name(self, directory: str | None) -> None:
        name = self._required("name", "name: and the name of the skill's directory")
        if name is None:
            return
        for issue in name_issues(name):
            self._report("name", issue.rule, issue.message, issue.fix)
        # FMT-2: the name equals the directory's name, character by character.
        if directory is None or name == directory:
            return
        message = f"the name `{shown(name)}` is not the name of its directory, `{shown(directory)}`"
        fix = "rename one of them"
        if unicodedata.normalize("NFC", name) == unicodedata.normalize("NFC", directory):
            message += ": they look alike but are encoded in different Unicode normal forms"
            fix = "copy the name of the directory into the file"
        self._report("name", "name-not-directory", message, fix, Severity.WARNING)

    def description(self) -> None:
        description = self._required("description", "description: and what the skill does and when to use it")
        if description is None:
            return
        if not description.strip():
            self._report(
                "description",
                "description-empty",
                "the description is empty",
                "say what the skill does and when to use it",
            )
        elif len(description) > MAX_DESCRIPTION_LENGTH:
            self._report(
                "description",
                "description-too-long",
                f"the description has {len(description)} characters, {MAX_DESCRIPTION_LENGTH} are allowed",
                "move detail into the body",
                Severity.WARNING,
            )

    def license(self) -> None:
        self._optional_string("license")

    def compatibility(self) -> None:
        compatibility = self._optional_string("compatibility")
        if compatibility is not None and not 1 <= len(compatibility) <= MAX_COMPATIBILITY_LENGTH:
            self._report(
                "compatibility",
                "compatibility-length",
                f"compatibility has {len(compatibility)} characters; use 1 to {MAX_COMPATIBILITY_LENGTH}",
                "say in a sentence what the skill needs, or leave the field out",
                Severity.ADVICE,
            )

    def metadata(self) -> None:
        metadata = self._optional("metadata")
        if metadata is None:
            return
        if not isinstance(metadata, dict):
            self._wrong_type("metadata", metadata, "a mapping of strings to strings")
            return
        for key, value in metadata.items():
            if not isinstance(value, str):
                self._report(
                    "metadata",
                    "metadata-value-type",
                    f"the metadata value of `{shown(key)}` is {_kind(value)}, not a string",
                    "write it as text, for example with commas"
                    if isinstance(value, dict | list)
                    else "put it in quotes",
                    Severity.ADVICE,
                )

    def allowed_tools(self) -> None:
        tools = self._optional("allowed-tools")
        if tools is None or isinstance(tools, str):
            return
        if isinstance(tools, list) and all(isinstance(tool, str) for tool in tools):
            self._report(
                "allowed-tools",
                "allowed-tools-list",
                "allowed-tools is a list, and not every host reads one",
                "write the tools in one string, with spaces between them",
                Severity.ADVICE,
            )
            return
        self._wrong_type("allowed-tools", tools, "a string")

    def host_fields(self) -> None:
        """Report fields whose type has no effect in hosts."""
        for field in _SWITCHES:
            value = self._frontmatter.get(field)
            if field in self._frontmatter and not isinstance(value, bool):
                self._report(
                    field,
                    f"{field}-type",
                    f"{field} is {_kind(value)} and has no effect",
                    "write true or false, without quotes",
                    Severity.ADVICE,
                )
        for field in _WORDS:
            value = self._frontmatter.get(field)
            if value is not None and not isinstance(value, str):
                self._report(
                    field,
                    f"{field}-type",
                    f"{field} is {_kind(value)}, and hosts expect text",
                    f"put the value of {field} in quotes",
                    Severity.ADVICE,
                )

    def _required(self, field: str, what: str) -> str | None:
        if field not in self._frontmatter:
            self._report(
                field, f"{field}-missing", f"the frontmatter has no {field}", f"add a line with {what}"
            )
            return None
        value = self._frontmatter[field]
        if isinstance(value, str):
            return value
        self._wrong_type(field, value, "a string")
        return None

    def _optional(self, field: str) -> JsonValue:
        value = self._frontmatter.get(field)
        if value is None and field in self._frontmatter:
            self._report(
                field,
                f"{field}-blank",
                f"{field} has no value",
                "give it one or leave the line out",
                Severity.ADVICE,
            )
        return value

    def _optional_string(self, field: str) -> str | None:
        value = self._optional(field)
        if value is None or isinstance(value, str):
            return value
        self._wrong_type(field, value, "a string")
        return None

    def _wrong_type(self, field: str, value: JsonValue, wanted: str) -> None:
        fix = f"put the value of {field} in quotes"
        if isinstance(value, dict | list) or wanted != "a string":
            fix = f"write {field} as {wanted}"
        elif value is None:
            fix = f"write a value after {field}:, in quotes if it starts with #"
        self._report(field, f"{field}-type", f"{field} is {_kind(value)}, not {wanted}", fix)

    def _report(
        self, field: str, rule: str, message: str, fix: str, severity: Severity = Severity.ERROR
    ) -> None:
        line = self._lines.get(field)
        self.issues.append(
            Issue(rule=rule, message=message, fix=fix, file=self._file, line=line, severity=severity)
        )


def _kind(value: JsonValue) -> str:
    match value:
        case None:
            return "empty"
        case bool():
            return f"the boolean {str(value).lower()}"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "a list"
        case _:
            return "a mapping"


_NAME_LINE = re.compile(r"^name[ ]*:.*$", re.MULTILINE)
_BEFORE = re.compile(rb"\A(?:\xef\xbb\xbf)?(?:[ \t]*\n)*(?=---[ \t]*\n)")
LAST_BLOCK = re.compile(
    r"(?P<head>:[ ]+)(?P<sign>[|>])(?P<digit>[1-9]?)(?P<keep>\+?)(?P<after>[ \t]*(?:#.*)?)$"
)
"""Matches the end of the first line of a block that keeps its last newline."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """A repaired `SKILL.md`. `repairs` describes what was done; empty if nothing."""

    data: bytes
    repairs: tuple[str, ...]


def valid_name(text: str) -> str:
    """The valid name that a text is spelled like, such as `pdf-tools` for `PDF_Tools`; empty without one."""
    plain = unicodedata.normalize("NFC", text.strip().lower())
    name = re.sub(r"-{2,}", "-", "".join(char if char.isalnum() else "-" for char in plain)).strip("-")
    name = name[:MAX_NAME_LENGTH].rstrip("-")
    return "" if name_issues(name) else name


def fix_skill_md(data: bytes, *, directory: str, unsafe: bool = False) -> Fixed:
    """The file with all unambiguous repairs. `directory` is the directory's name.

    With `unsafe`, a missing frontmatter or description is written as well.
    """
    repairs: list[str] = []
    fixed = data
    # 1. Line endings and the start of the file, before parsing.
    if b"\r" in fixed:
        fixed = fixed.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        repairs.append("line endings")
    start = _BEFORE.match(fixed)
    if start is not None and start.end():
        fixed = fixed[start.end() :]
        repairs.append("nothing before the frontmatter")
    if unsafe and not fixed.startswith(b"---"):
        made = _frontmatter_for(fixed, directory)
        if made:
            fixed = made + fixed
            repairs.append("frontmatter from the directory and the first heading")
    try:
        block, body, _ = split_skill_md(fixed, SKILL_FILE)
    except FormatError:
        return Fixed(fixed, tuple(repairs))
    # 2. Quotes.
    changed = quote_fields(block)
    if changed != block:
        repairs.append("quotes around values")
    # 3. The name.
    named = _with_name(changed, directory)
    if named != changed:
        repairs.append("the name")
    # 4. The last block.
    ended = _with_ended_block(named)
    if ended != named:
        repairs.append("the end of the last block")
    if unsafe:
        described = _with_description(ended, body)
        if described != ended:
            repairs.append("a description from the body")
        ended = described
    if ended != block:
        head, _, rest = fixed.partition(block.encode())
        fixed = head + ended.encode() + rest
    return Fixed(fixed, tuple(repairs))


def unified_diff(before: bytes, after: bytes, *, file: str) -> str:
    """A repair as a unified diff, which contains untrusted text."""
    old, new = (data.decode("utf-8", "replace").splitlines(keepends=True) for data in (before, after))
    import difflib  # Not needed to serve.

    lines = difflib.unified_diff(old, new, f"a/{file}", f"b/{file}", n=1)
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)


def _frontmatter_for(data: bytes, directory: str) -> bytes:
    """A frontmatter for a text that has none; empty if there is no name or nothing to describe it by."""
    name = directory if not name_issues(directory) else valid_name(directory)
    try:
        description = _first_line(data.decode("utf-8"))
    except UnicodeDecodeError:
        return b""
    if not name or not description:
        return b""
    return f"---\nname: {name}\ndescription: {_quoted(description)}\n---\n\n".encode()


def _first_line(body: str) -> str:
    """The first heading of a text, or its first line with words."""
    lines = [line.strip() for line in body.split("\n")]
    headings = (line.lstrip("#").strip() for line in lines if line.startswith("#"))
    texts = (line for line in lines if any(char.isalnum() for char in line))
    found = next((line for line in headings if line), "") or next(texts, "")
    return found[:MAX_DESCRIPTION_LENGTH]


def _quoted(text: str) -> str:
    """A text as a YAML string on one line."""
    return json.dumps(text, ensure_ascii=False)


def _with_description(block: str, body: str) -> str:
    try:
        found = parse_skill_md(f"---\n{block}---\n".encode()).frontmatter
    except FormatError:
        return block
    description = _first_line(body)
    if "description" in found or not description:
        return block
    return f"{block.rstrip()}\ndescription: {_quoted(description)}\n"


def _with_name(block: str, directory: str) -> str:
    try:
        name = parse_skill_md(f"---\n{block}---\n".encode()).frontmatter.get("name")
    except FormatError:
        return block
    if name_issues(directory):
        given = name if isinstance(name, str) and name.strip() else directory
        directory = valid_name(given) if name_issues(given) else given
    if name == directory or not directory:
        return block
    if _NAME_LINE.search(block):
        named = _NAME_LINE.sub(f"name: {directory}", block, count=1)
    else:
        named = f"name: {directory}\n{block}"
    try:
        # A name over several lines is left to its author.
        is_right = parse_skill_md(f"---\n{named}---\n".encode()).frontmatter.get("name") == directory
    except FormatError:
        is_right = False
    return named if is_right else block


def _with_ended_block(block: str) -> str:
    lines = block.split("\n")
    for number in range(len(lines) - 1, -1, -1):
        line = lines[number]
        if line.strip() and not line.startswith((" ", "\t", "#")):
            lines[number] = LAST_BLOCK.sub(r"\g<head>\g<sign>\g<digit>-\g<after>", line)
            break
    return "\n".join(lines)
