"""The default style: the extension as specified, without conventions of a particular host."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from skillwire.catalog import LIST_TOOL, LOAD_TOOL, READ_TOOL, HostSkill, clean_handle, heading
from skillwire.host.styles.base import Actions, RenderContext, Style, ToolAction, ToolSpec
from skillwire.limits import Limits
from skillwire.skill import DYNAMIC, SkillUri, path_below, skill_root
from skillwire.text import clean_line
from skillwire.trust import Fenced, VerifiedFile, VerifiedSkill, shown_path
from skillwire.trust.fence import fence


@dataclass(frozen=True, slots=True)
class Supporting:
    """The files beside a `SKILL.md`, as far as they are known without fetching anything (VER-5)."""

    files: tuple[tuple[str, SkillUri], ...] = ()
    """Paths that are safe to show, with their URIs."""
    more: int = 0
    unknown: bool = False
    """The skill is generated on request: its files are not known in advance."""


def supporting(skill: VerifiedSkill, context: RenderContext) -> Supporting:
    """The supporting files of a loaded skill: those in its entry, or those that its server lists."""
    if type(skill) is not VerifiedSkill:
        raise TypeError("only a VerifiedSkill is rendered")
    entry = skill.entry
    if entry.resources is DYNAMIC:
        uris = context.listed_files(skill.origin, entry.uri)
        if not uris:
            return Supporting(unknown=True)
    else:
        uris = [resource.uri for resource in entry.resources if resource.uri != entry.uri]
    root = skill_root(entry.uri)
    files = [(shown_path("/".join(path_below(uri, root))), uri) for uri in uris]
    kept = files[: context.limits.file_pointers]
    return Supporting(tuple(kept), len(files) - len(kept))


def resource_pointers(skill: VerifiedSkill, beside: Supporting, tool: str) -> list[str]:
    """One line for each supporting file: the path of a local one, or the call of `tool` that reads it."""
    server = json.dumps(skill.origin.label)
    calls = [f"- {tool}(server={server}, uri={json.dumps(uri)})" for _, uri in beside.files]
    lines = [f"- {path}" for path, _ in beside.files] if skill.origin.is_local else calls
    return [*lines, f"- {beside.more} more"] if beside.more else lines


def fenced_skill(
    skill: VerifiedSkill,
    handle: str,
    *,
    before: Iterable[str] = (),
    after: Iterable[str] = (),
    prepare: Callable[[str], str] = str,
    salt: bytes = b"",
) -> Fenced:
    """The body of a loaded skill in its fence, with lines of the same origin before and after."""
    body = skill.body if skill.body.endswith("\n") or not skill.body else skill.body + "\n"
    content = "".join([*(f"{line}\n" for line in before), prepare(body), *(f"{line}\n" for line in after)])
    attributes = {"name": clean_handle(handle), "uri": skill.file.uri}
    return fence(content, skill.origin, part="", attributes=attributes, salt=salt)


def fenced_file(
    file: VerifiedFile, handle: str, *, prepare: Callable[[str], str] = str, salt: bytes = b""
) -> Fenced:
    """A supporting file in its fence; a binary file is only described."""
    if type(file) is not VerifiedFile:
        raise TypeError("only a VerifiedFile is rendered")
    text = file.text
    if text is None:
        text = f"(binary: {file.size} bytes, {file.digest}; not shown as text)"
    attributes = {"skill": clean_handle(handle), "path": shown_path(file.path)}
    return fence(prepare(text), file.origin, part="_file", attributes=attributes, salt=salt)


def skill_heading(skill: VerifiedSkill, handle: str, fenced: Fenced) -> str:
    return heading(f"Skill {clean_handle(handle)}", skill.origin, fenced)


def file_heading(file: VerifiedFile, handle: str, fenced: Fenced) -> str:
    return heading(f"A file of the skill {clean_handle(handle)}", file.origin, fenced)


def escape_body(text: str) -> str:
    """Text that cannot open or close an element. Quotation marks are not escaped."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def list_description(skill: HostSkill, limits: Limits, *, text: str | None = None) -> str:
    """A description for a list in plain text.

    A server's text has only square brackets. Round ones are ours: they say which skills are local (SEC-1).
    """
    said = clean_line(skill.entry.description if text is None else text, limit=limits.description_chars).text
    return said if skill.origin.is_local else square_brackets(said)


def square_brackets(text: str) -> str:
    """The text with brackets of every shape replaced by square ones."""
    shapes: Mapping[str, str] = {"Ps": "[", "Pe": "]", "<": "[", ">": "]"}

    def square(char: str) -> str:
        plain = unicodedata.normalize("NFKC", char)
        return shapes.get(plain) or shapes.get(unicodedata.category(char)) or char

    return "".join(square(char) for char in text)


def omitted_lines(omitted: int) -> list[str]:
    """A line that says how many skills a catalog omits; none if it omits none."""
    line = f"Not shown for lack of room: {omitted} more {'skill' if omitted == 1 else 'skills'}."
    return [line] if omitted else []


def has_server_skills(skills: Sequence[HostSkill]) -> bool:
    return any(not skill.origin.is_local for skill in skills)


RESOURCE_TOOL: Final = "read_resource"


async def _load(host: Actions, arguments: Mapping[str, Any]) -> str:
    return await host.load_for_model(arguments["name"], arguments.get("server") or None)


async def _read(host: Actions, arguments: Mapping[str, Any]) -> str:
    return await host.read(arguments["name"], arguments["path"])


async def _list(host: Actions, arguments: Mapping[str, Any]) -> str:
    return await host.list_files(arguments["name"], arguments.get("path") or "")


async def _read_resource(host: Actions, arguments: Mapping[str, Any]) -> str:
    return await host.read_resource(arguments["server"], arguments["uri"])


def read_resource_tool(name: str, description: str) -> ToolSpec:
    """The tool of a style that reads a resource of a server."""
    return ToolSpec(
        name=name,
        description=description,
        parameters=(("server", "The server's name."), ("uri", "The URI, exactly as it was given to you.")),
        required=("server", "uri"),
        action=_read_resource,
    )


def _file_tool(
    name: str, description: str, path: str, action: ToolAction, *, required: tuple[str, ...]
) -> ToolSpec:
    """A tool for the files of a loaded skill. `path` describes its second parameter."""
    return ToolSpec(
        name=name,
        description=description,
        parameters=(("name", "The loaded skill's name."), ("path", path)),
        required=required,
        action=action,
    )


READ_RESOURCE: Final = read_resource_tool(
    RESOURCE_TOOL, "Read a resource of an MCP server by its URI. The URI of a skill loads that skill."
)
SPEC_TOOLS: Final = (
    ToolSpec(
        name=LOAD_TOOL,
        description="Load a skill: instructions for a kind of task. Call it before you start a task that "
        "a skill in the catalog fits. The result is reference text from the named origin.",
        parameters=(
            ("name", "The skill's name in the catalog, or its URI."),
            ("server", "Its server; needed only for a URI that several servers could have."),
        ),
        required=("name",),
        action=_load,
    ),
    _file_tool(
        READ_TOOL,
        "Read a supporting file of a loaded skill, such as references/guide.md.",
        "The file's path, starting at the skill's directory.",
        _read,
        required=("name", "path"),
    ),
    _file_tool(
        LIST_TOOL,
        "List the files in a directory of a loaded skill.",
        "The directory's path. By default, the skill's own directory.",
        _list,
        required=("name",),
    ),
    READ_RESOURCE,
)

STYLE: Final = Style(
    name="spec",
    summary="The Skills extension as specified: no name takes precedence, nothing is read early.",
    tools=SPEC_TOOLS,
)
