"""SkillFields: what a skill's frontmatter asks for, as typed values. Requests, never grants (SEC-4)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from skillwire.json_types import JsonValue
from skillwire.text import clean_line
from skillwire.trust.guards import requested_tools

ALL_FIELDS: Final = frozenset(
    {
        "name",
        "description",
        "allowed-tools",
        "model",
        "effort",
        "when-to-use",
        "paths",
        "argument-hint",
        "disable-model-invocation",
        "user-invocable",
    }
)
INVOCATION: Final = frozenset({"disable-model-invocation", "user-invocable", "argument-hint"})
"""Who may invoke a skill, and with what. They apply in every style, because they only restrict."""
_LINE: Final = 1024
_WORD: Final = 100
_GLOBS: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillFields:
    """The fields that a style supports. All others are empty, whatever the skill says."""

    name: str = ""
    """The name in the frontmatter; the handle, once the skill is loaded."""
    description: str = ""
    allowed_tools: tuple[str, ...] = ()
    model: str = ""
    effort: str = ""
    when_to_use: str = ""
    paths: tuple[str, ...] = ()
    argument_hint: str = ""
    """What a user can type after its slash command."""
    disable_model_invocation: bool = False
    """Whether only users may load it: the model does not see it."""
    user_invocable: bool = True
    """Whether it is a slash command for users."""


def typed_fields(frontmatter: Mapping[str, JsonValue], honored: Collection[str] = ALL_FIELDS) -> SkillFields:
    """The fields of a frontmatter. A field of an unexpected type is ignored."""

    def get(key: str) -> JsonValue:
        counts = key in honored or key in INVOCATION
        return frontmatter.get(key, frontmatter.get(key.replace("-", "_"))) if counts else None

    return SkillFields(
        name=_line(get("name"), _WORD),
        description=_line(get("description"), _LINE),
        allowed_tools=requested_tools(get("allowed-tools")),
        model=_line(get("model"), _WORD),
        effort=_line(get("effort"), _WORD),
        when_to_use=_line(get("when-to-use"), _LINE),
        paths=_globs(get("paths")),
        argument_hint=_line(get("argument-hint"), _LINE),
        disable_model_invocation=get("disable-model-invocation") is True,
        user_invocable=get("user-invocable") is not False,
    )


def is_visible(paths: Collection[str], working: Collection[str]) -> bool:
    """Whether a skill with these globs is in the catalog: if it has none, or one matches a working path."""
    return not paths or any(glob_matches(glob, path) for glob in paths for path in working)


def glob_matches(glob: str, path: str) -> bool:
    """Whether a glob matches a path: `*` and `?` stay within a segment, `**` matches any number of them.

    A glob without a slash matches a file of that name in any directory. As the glob may come from a hostile
    server, the time is bounded by the product of both lengths.
    """
    pattern = glob.replace("\\", "/").strip("/").split("/")
    segments = path.replace("\\", "/").strip("/").split("/")
    if len(pattern) == 1 and pattern != ["**"]:
        return _segment_matches(pattern[0], segments[-1])
    # reached[n]: whether the pattern so far matches the first n segments.
    reached = [True] + [False] * len(segments)
    for part in pattern:
        if part == "**":
            for at in range(1, len(reached)):
                reached[at] = reached[at] or reached[at - 1]
        else:
            fits = [_segment_matches(part, segment) for segment in segments]
            reached = [False] + [before and fit for before, fit in zip(reached, fits, strict=False)]
    return reached[-1]


def _segment_matches(pattern: str, text: str) -> bool:
    at = mark = 0
    star = -1
    place = 0
    while place < len(text):
        if at < len(pattern) and pattern[at] == "*":
            star, mark, at = at, place, at + 1
        elif at < len(pattern) and pattern[at] in ("?", text[place]):
            at, place = at + 1, place + 1
        elif star >= 0:
            mark += 1
            at, place = star + 1, mark
        else:
            return False
    return not pattern[at:].strip("*")


def _line(value: JsonValue, limit: int) -> str:
    return clean_line(value, limit=limit).text if isinstance(value, str) else ""


def _globs(value: JsonValue) -> tuple[str, ...]:
    if isinstance(value, str):
        value = list(value.split(","))
    if not isinstance(value, list):
        return ()
    lines = (_line(item, _WORD) for item in value[:_GLOBS])
    return tuple(line for line in lines if line)
