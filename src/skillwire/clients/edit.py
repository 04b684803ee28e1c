"""Edits of a client's file as text: the entry of the gateway is added or removed, and the rest stays.

Each function takes the text of a file. Those that add take the entry as a snippet in the file's format; those
that remove return the new text and the text of the entry. The caller parses the result and compares it.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from typing import Any, Final, NamedTuple, cast

ENTRY: Final = "skillwire"
"""What the entry is called."""
_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*"')
_COMMENT: Final = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_BLANK: Final = re.compile(r"(?:\s|//[^\n]*|/\*.*?\*/)*", re.DOTALL)


def with_json(text: str, snippet: str) -> str:
    [(key, servers)] = json.loads(snippet).items()
    entry = json.dumps(servers[ENTRY], indent=2, ensure_ascii=False).replace("\n", "\n    ")
    if not text.strip():
        return json.dumps({key: {ENTRY: servers[ENTRY]}}, indent=2, ensure_ascii=False) + "\n"
    members = _places(text, _start(text))
    if key not in members:
        return _inserted(text, _start(text), f'"{key}": {{\n    "{ENTRY}": {entry}\n  }}', indent="  ")
    start = members[key].start
    known = _places(text, start).get(ENTRY)
    if known is not None:
        return text[: known.start] + entry + text[known.end :]
    return _inserted(text, start, f'"{ENTRY}": {entry}', indent="    ")


def without_json(text: str, key: str) -> tuple[str, str]:
    """The text without the entry, and the entry."""
    brace = _places(text, _start(text))[key].start
    members = [*_members(text, brace)]
    at = next(number for number, member in enumerate(members) if member.name == ENTRY)
    member = members[at]
    start = len(text[: member.place].rstrip())
    previous = _skip(text, members[at - 1].end) if at else brace
    comments = _COMMENT.findall(text, previous + 1, start)
    comma = _skip(text, member.end)
    has_comma = text[comma : comma + 1] == ","
    end = comma + 1 if has_comma else member.end
    head, tail = text[:start], text[end:]
    if comments and comments[-1].startswith("//") and not tail.lstrip(" \t").startswith("\n"):
        head += "\n"  # The end of the line comment before it.
    if not has_comma and at > 0:
        # The comma that separated it from the previous member, perhaps with a comment after it.
        head = head[:previous] + head[previous + 1 :]
    if len(members) == 1 and head.endswith("{") and tail.lstrip().startswith("}"):
        tail = tail.lstrip()
    return head + tail, _from_line_start(text, member.place, member.end)


def _from_line_start(text: str, start: int, end: int) -> str:
    """A part of a text, with the indentation before it."""
    line = text.rfind("\n", 0, start) + 1
    return text[start if text[line:start].strip() else line : end]


def _inserted(text: str, brace: int, member: str, *, indent: str) -> str:
    """The text with a new first member in the object whose brace is at this position."""
    is_empty = not list(_members(text, brace))
    rest = text[brace + 1 :]
    tail = f"\n{indent[2:]}{rest.lstrip()}" if is_empty else f",{rest}"
    return f"{text[: brace + 1]}\n{indent}{member}{tail}"


def _start(text: str) -> int:
    place = _skip(text, 1 if text.startswith("\ufeff") else 0)
    if text[place : place + 1] != "{":
        raise ValueError("it is not a JSON object")
    return place


def _skip(text: str, place: int) -> int:
    found = _BLANK.match(text, place)
    return found.end() if found else place


class _Member(NamedTuple):
    """A member of a JSON object: where its name starts, and where its value starts and ends."""

    name: str
    place: int
    start: int
    end: int


def _places(text: str, brace: int) -> dict[str, _Member]:
    return {member.name: member for member in _members(text, brace)}


def _members(text: str, brace: int) -> Iterator[_Member]:
    """The members of the object whose brace is at this position."""
    place = _skip(text, brace + 1)
    while (name := _STRING.match(text, place)) is not None:
        colon = _skip(text, name.end())
        start = _skip(text, colon + 1)
        end = _end(text, start)
        yield _Member(json.loads(name[0]), place, start, end)
        comma = _skip(text, end)
        if text[comma : comma + 1] != ",":
            return
        place = _skip(text, comma + 1)


def _end(text: str, place: int) -> int:
    """Where the value that starts at a position ends."""
    depth = 0
    while place < len(text):
        if (string := _STRING.match(text, place)) is not None:
            place = string.end()
        elif text[place] in "{[":
            depth += 1
            place += 1
        elif text[place] in "}]":
            if depth == 0:
                return place
            depth -= 1
            place += 1
        elif depth == 0 and text[place] == ",":
            return place
        elif (after := _skip(text, place)) > place:
            if depth == 0:
                return place
            place = after
            continue
        else:
            place += 1
            if depth or text[place - 1] not in "}]":
                continue
        if depth == 0:
            return place
    return place


def with_toml(text: str, snippet: str) -> str:
    import tomlkit
    from tomlkit.items import InlineTable

    lines = text.splitlines(keepends=True)
    if (place := _toml_place(lines)) is not None:
        return "".join([*lines[: place.start], f"{snippet}\n", *lines[place.stop :]])
    document = cast("dict[str, Any]", tomlkit.parse(text))
    if isinstance(document.get("mcp_servers"), InlineTable):
        entry = cast("dict[str, Any]", tomlkit.inline_table())
        entry.update(tomllib.loads(snippet)["mcp_servers"][ENTRY])
        document["mcp_servers"][ENTRY] = entry
        return tomlkit.dumps(cast("Any", document))
    gap = "\n" if text.endswith("\n") else "\n\n" if text else ""
    return f"{text}{gap}{snippet}\n"


def without_toml(text: str, key: str) -> tuple[str, str]:
    lines = text.splitlines(keepends=True)
    place = _toml_place(lines)
    if place is None:  # An inline table, or dotted keys.
        import tomlkit

        document = cast("dict[str, Any]", tomlkit.parse(text))
        entry = document[key].pop(ENTRY)
        return tomlkit.dumps(cast("Any", document)), tomlkit.dumps(cast("Any", {ENTRY: entry}))
    head, tail = lines[: place.start], lines[place.stop :]
    # A blank line separates it from what is before.
    if head and not head[-1].strip() and (not tail or not tail[0].strip()):
        head.pop()
    return "".join([*head, *tail]), "".join(lines[place.start : place.stop])


def _toml_place(lines: list[str]) -> range | None:
    """The lines of the entry's table and of the tables in it; `None` if it has no header."""
    header = re.compile(rf"""\s*\[\s*mcp_servers\s*\.\s*["']?{ENTRY}["']?\s*[.\]]""")
    start = next((number for number, line in enumerate(lines) if header.match(line)), None)
    if start is None:
        return None
    end = start + 1
    while end < len(lines) and (not lines[end].startswith("[") or header.match(lines[end])):
        end += 1
    # Blank lines and comments at its end belong to what follows.
    while not lines[end - 1].strip() or lines[end - 1].lstrip().startswith("#"):
        end -= 1
    return range(start, end)


def with_yaml(text: str, snippet: str) -> str:
    head, *entry = snippet.splitlines()
    lines = text.splitlines()
    at = next(
        (n for n, line in enumerate(lines) if re.fullmatch(r"extensions:\s*(\{\s*\})?\s*(#.*)?", line)), None
    )
    if at is None:
        return "\n".join([*lines, head, *entry, ""])
    lines[at] = re.sub(r"\{\s*\}\s*", "", lines[at]).rstrip()
    first = next((line for line in lines[at + 1 :] if line.strip() and not line.lstrip().startswith("#")), "")
    own = len(first) - len(first.lstrip()) if first.startswith(" ") else 2
    entry = [" " * (own - 2) + line if own > 2 else line[2 - own :] for line in entry]
    start = next((n for n, line in enumerate(lines) if n > at and line.strip() == f"{ENTRY}:"), None)
    if start is None:
        return "\n".join([*lines[: at + 1], *entry, *lines[at + 1 :], ""])
    end = start + 1
    while end < len(lines) and (not lines[end].strip() or lines[end].startswith(" " * (own + 1))):
        end += 1
    return "\n".join([*lines[:start], *entry, *lines[end:], ""])


def without_yaml(text: str, key: str) -> tuple[str, str]:
    lines = text.splitlines(keepends=True)
    at = next(number for number, line in enumerate(lines) if re.match(rf"{key}:", line))
    start = next((n for n in range(at + 1, len(lines)) if re.fullmatch(rf"\s+{ENTRY}:\s*", lines[n])), None)
    if start is None:
        raise ValueError(f"{ENTRY} is not a block of lines")
    indent = len(lines[start]) - len(lines[start].lstrip())
    end = start + 1
    while end < len(lines) and (not lines[end].strip() or lines[end].startswith(" " * (indent + 1))):
        end += 1
    while not lines[end - 1].strip():
        end -= 1
    rest = lines[at + 1 : start] + lines[end:]
    first = next((line for line in rest if line.strip() and not line.lstrip().startswith("#")), "")
    if not first.startswith((" ", "-")):
        lines[at] = lines[at].replace(f"{key}:", f"{key}: {{}}", 1)
    return "".join([*lines[:start], *lines[end:]]), "".join(lines[start:end])
