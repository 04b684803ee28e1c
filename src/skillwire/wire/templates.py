"""SkillTemplate: an index entry for many skills, one for each value of its arguments (D2).

`skill://docs/{product}/SKILL.md` is a skill for every product. Its URI is expanded by RFC 6570 (simple and
reserved expansion of single names).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from skillwire.errors import FormatError
from skillwire.issues import shown
from skillwire.json_types import is_list, is_object
from skillwire.skill.uris import SKILL_FILE, SkillUri, parse_uri

_EXPRESSION: Final = re.compile(r"\{(\+?)([A-Za-z_][A-Za-z0-9_.]*)\}")
_MOST_ARGUMENTS: Final = 8
_MOST_CHARS: Final = 2048
_MOST_VALUES: Final = 100


@dataclass(frozen=True, slots=True)
class SkillTemplate:
    """A template with its description."""

    template: str
    """A URI with arguments in braces, such as `skill://docs/{product}/SKILL.md`; `{+path}` stands for
    several segments."""
    description: str
    arguments: tuple[str, ...]
    """The names of the arguments, in the order of the URI."""

    def expand(self, values: Mapping[str, str]) -> SkillUri:
        """The URI of the skill for these values, or a `FormatError` for missing, unknown or invalid ones."""
        missing = [name for name in self.arguments if not values.get(name)]
        unknown = [name for name in values if name not in self.arguments]
        if missing or unknown:
            wrong = f"needs {', '.join(missing)}" if missing else f"has no argument {shown(unknown[0])}"
            raise _refused(f"{shown(self.template)} {wrong}", f"give {', '.join(self.arguments)}")

        def fill(match: re.Match[str]) -> str:
            value = values[match[2]]
            return (
                "/".join(quote(part, safe="") for part in value.split("/"))
                if match[1]
                else quote(value, safe="")
            )

        return parse_uri(_EXPRESSION.sub(fill, self.template))


def parse_template(template: object, description: object) -> SkillTemplate:
    """A template of an index, or a `FormatError`."""
    if not isinstance(template, str) or len(template) > _MOST_CHARS:
        raise _refused("it has no url", "tell the server's operator")
    arguments = [match[2] for match in _EXPRESSION.finditer(template)]
    rest = _EXPRESSION.sub("", template)
    if not arguments or "{" in rest or "}" in rest or len(arguments) > _MOST_ARGUMENTS:
        raise _refused(
            f"its template {shown(template)!r} cannot be filled in",
            "write skill://PATH/{argument}/SKILL.md with each argument in braces",
        )
    if not template.endswith(f"/{SKILL_FILE}"):
        raise _refused(f"its template {shown(template)!r} does not end in /{SKILL_FILE}", "end it so")
    if len(set(arguments)) != len(arguments):
        raise _refused(f"its template {shown(template)!r} has an argument twice", "name each once")
    made = SkillTemplate(template, description if isinstance(description, str) else "", tuple(arguments))
    made.expand(dict.fromkeys(arguments, "x"))  # A template that never gives a valid URI is refused here.
    return made


def completed_values(answer: object) -> tuple[str, ...]:
    """The values in a response to `completion/complete`; values that are not text are skipped."""
    completion = answer.get("completion") if is_object(answer) else None
    values = completion.get("values") if is_object(completion) else None
    return (
        tuple(value for value in values if isinstance(value, str))[:_MOST_VALUES] if is_list(values) else ()
    )


def _refused(message: str, fix: str) -> FormatError:
    return FormatError.of(rule="template", message=message, fix=fix)
