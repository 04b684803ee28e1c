"""Reference: a mention of another file of the skill in its Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import unquote

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
class Reference:
    """A relative path as written, and its line."""

    target: str
    line: int


def find_references(body: str, first_line: int) -> list[Reference]:
    """All relative references of a Markdown text, each target once.

    Links, images and link definitions count, and so do paths in `code` under scripts/, references/ and
    assets/. URLs, anchors, absolute paths, placeholders, examples in code and fenced code do not.
    """
    found: dict[str, Reference] = {}
    for number, line in _prose(body, first_line):
        for target in _targets(line):
            found.setdefault(target, Reference(target, number))
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
