"""FileSeen: what one read of a file gave, reduced to what can be judged. Only SKILL.md keeps its bytes."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from skillwire.conformance.entry_view import ListedFile
from skillwire.conformance.responses import Answer
from skillwire.conformance.violations import Violation
from skillwire.errors import FormatError
from skillwire.json_types import is_list, is_object
from skillwire.skill.digests import digest_of
from skillwire.skill.uris import SKILL_FILE, SkillUri, parse_uri, shown_uri
from skillwire.trust.hidden_text import HiddenText, find_hidden_text

_BOM: Final = b"\xef\xbb\xbf"
_REPLACED: Final = "\ufffd"
_MARKDOWN: Final = (".md", ".markdown")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSeen:
    """`digest` is empty when no bytes came."""

    uri: SkillUri
    faults: tuple[Violation, ...] = ()
    digest: str = ""
    size: int = 0
    mime: str | None = None
    is_text: bool = False
    data: bytes | None = None
    hidden: tuple[HiddenText, ...] = ()
    listed: ListedFile | None = None
    """What it was compared with."""
    envelope: Answer | None = None
    """The answer without its contents."""


def see_file(answer: Answer, uri: SkillUri, listed: ListedFile | None, *, read_text: bool = True) -> FileSeen:
    """Look at an answer to `resources/read`; `listed` is what the entry says about the file.

    Hidden text is looked for with `read_text` alone: once is enough.
    """
    place = shown_uri(uri)
    if answer.failure is not None:
        return FileSeen(uri=uri)  # A failure has a finding of its own.
    if answer.error is not None:
        return FileSeen(uri=uri, faults=(Violation("RD-1/listed", str(answer.error), place),))
    contents = (answer.result or {}).get("contents")
    if not is_list(contents) or len(contents) != 1 or not is_object(contents[0]):
        seen = f"{len(contents)} contents" if is_list(contents) else "no array of contents"
        return FileSeen(uri=uri, faults=(Violation("RD-1/shape", seen, place),))
    content = contents[0]
    faults: list[Violation] = []
    if not _same(content.get("uri"), uri):
        faults.append(Violation("RD-1/uri", shown_uri(str(content.get("uri"))), place))
    data = _bytes(content, place, faults)
    mime = content.get("mimeType")
    mime = mime if isinstance(mime, str) else None
    if data is None:
        return FileSeen(uri=uri, faults=tuple(faults), mime=mime)
    text = content.get("text")
    digest = digest_of(data)
    if listed is not None:
        faults.extend(_compare(data, digest, text, listed, place))
    return FileSeen(
        uri=uri,
        faults=tuple(faults),
        digest=digest,
        size=len(data),
        mime=mime,
        is_text=isinstance(text, str),
        data=data if uri.endswith(f"/{SKILL_FILE}") else None,
        hidden=_hidden(uri, data) if read_text else (),
        listed=listed,
        envelope=replace(answer, result={**(answer.result or {}), "contents": None}),
    )


def _same(given: object, uri: SkillUri) -> bool:
    try:
        return isinstance(given, str) and parse_uri(given) == uri
    except FormatError:
        return False


def _bytes(content: Mapping[str, object], place: str, faults: list[Violation]) -> bytes | None:
    text, blob = content.get("text"), content.get("blob")
    if isinstance(text, str) == isinstance(blob, str):
        seen = "text and blob" if isinstance(text, str) else "neither text nor blob"
        faults.append(Violation("RD-1/shape", seen, place))
        return None
    if isinstance(text, str):
        try:
            return text.encode("utf-8")
        except UnicodeEncodeError:
            faults.append(Violation("RD-2/lossy", "text with half a surrogate pair", place))
            return None
    try:
        return base64.b64decode(str(blob), validate=True)
    except (binascii.Error, ValueError) as error:
        faults.append(Violation("RD-2/base64", str(error), place))
        return None


def _compare(data: bytes, digest: str, text: object, listed: ListedFile, place: str) -> list[Violation]:
    """VER-1, from the server's side. A lost byte order mark or line end is named as such."""
    if listed.digest is not None and digest != listed.digest:
        if isinstance(text, str) and (loss := _loss(data, text, listed.digest)):
            return [Violation("RD-2/lossy", loss, place)]
        seen = f"{len(data)} bytes with {digest}"
        expected = f"{listed.digest}" + ("" if listed.size is None else f", {listed.size} bytes")
        return [Violation("ENT-3/digest", seen, place, expected)]
    if listed.size is not None and listed.size != len(data):
        return [Violation("ENT-3/size", f"{len(data)} bytes", place, f"{listed.size} bytes")]
    return []


def _loss(data: bytes, text: str, digest: str) -> str:
    if digest_of(_BOM + data) == digest:
        return "text without the byte order mark of the file"
    lines = data.replace(b"\r\n", b"\n")
    if digest in (digest_of(lines.replace(b"\n", b"\r\n")), digest_of(data.replace(b"\n", b"\r"))):
        return "text with other line ends than the file"
    if digest == digest_of(_BOM + lines.replace(b"\n", b"\r\n")):
        return "text without the byte order mark and line ends of the file"
    if digest in (digest_of(data + b"\n"), digest_of(data.removesuffix(b"\n"))):
        return "text with another last line end than the file"
    return "text with replacement characters, of bytes that are not UTF-8" if _REPLACED in text else ""


def _hidden(uri: SkillUri, data: bytes) -> tuple[HiddenText, ...]:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return ()
    return find_hidden_text(text, markdown=uri.lower().endswith(_MARKDOWN))
