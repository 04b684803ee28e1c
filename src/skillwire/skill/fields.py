"""The fields of a skill's frontmatter: which values a host refuses, and which it only frowns at (FMT-2).

Errors are what makes a server leave a skill out and a host refuse it: a bad `name` or `description`, and an
optional field of a type that no reader can use. Everything else is advice, because skills in the field have
it and work: an optional field left blank, `compatibility` too long, a list for `allowed-tools`, `metadata`
values that are not strings. Fields that the format does not know are never an error.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping

from skillwire.issues import Issue, Severity, shown
from skillwire.json_types import JsonValue
from skillwire.skill.names import name_issues

KNOWN_FIELDS = frozenset({"name", "description", "license", "compatibility", "metadata", "allowed-tools"})
MAX_DESCRIPTION_LENGTH = 1024
MAX_COMPATIBILITY_LENGTH = 500


def field_issues(
    frontmatter: Mapping[str, JsonValue],
    *,
    directory: str | None,
    file: str,
    lines: Mapping[str, int] | None = None,
) -> list[Issue]:
    """Everything that is wrong with the fields; empty when all are good.

    `directory` is the name of the skill's directory, `None` when there is none to compare with. `lines` gives
    the line of each field in the file. Only issues of severity `ERROR` make a host refuse the skill.
    """
    check = _Check(frontmatter, file, lines or {})
    check.name(directory)
    check.description()
    check.license()
    check.compatibility()
    check.metadata()
    check.allowed_tools()
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
            self._remark("name", issue.rule, issue.message, issue.fix)
        # FMT-2: the name equals the directory's name, character by character.
        if directory is None or name == directory:
            return
        message = f"the name `{shown(name)}` is not the name of its directory, `{shown(directory)}`"
        fix = "rename one of them"
        if unicodedata.normalize("NFC", name) == unicodedata.normalize("NFC", directory):
            message += ": they look alike but are encoded in different Unicode normal forms"
            fix = "copy the name of the directory into the file"
        self._remark("name", "name-not-directory", message, fix)

    def description(self) -> None:
        description = self._required("description", "description: and what the skill does and when to use it")
        if description is None:
            return
        if not description.strip():
            self._remark(
                "description",
                "description-empty",
                "the description is empty",
                "say what the skill does and when to use it",
            )
        elif len(description) > MAX_DESCRIPTION_LENGTH:
            self._remark(
                "description",
                "description-too-long",
                f"the description has {len(description)} characters, {MAX_DESCRIPTION_LENGTH} are allowed",
                "move detail into the body",
            )

    def license(self) -> None:
        self._optional_string("license")

    def compatibility(self) -> None:
        compatibility = self._optional_string("compatibility")
        if compatibility is not None and not 1 <= len(compatibility) <= MAX_COMPATIBILITY_LENGTH:
            self._remark(
                "compatibility",
                "compatibility-length",
                f"it has {len(compatibility)} characters; 1 to {MAX_COMPATIBILITY_LENGTH} is right",
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
                self._remark(
                    "metadata",
                    "metadata-value-type",
                    f"the metadata value of `{shown(key)}` is {_kind(value)}, not a string",
                    "put it in quotes",
                    Severity.ADVICE,
                )

    def allowed_tools(self) -> None:
        tools = self._optional("allowed-tools")
        if tools is None or isinstance(tools, str):
            return
        if isinstance(tools, list) and all(isinstance(tool, str) for tool in tools):
            self._remark(
                "allowed-tools",
                "allowed-tools-list",
                "allowed-tools is a list, and not every host reads one",
                "write the tools in one string, with spaces between them",
                Severity.ADVICE,
            )
            return
        self._wrong_type("allowed-tools", tools, "a string")

    def _required(self, field: str, what: str) -> str | None:
        if field not in self._frontmatter:
            self._remark(
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
            self._remark(
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
        self._remark(field, f"{field}-type", f"{field} is {_kind(value)}, not {wanted}", fix)

    def _remark(
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
