"""FileSeen: what one read of a file returned. Only a SKILL.md and a signature keep their bytes."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from skillwire.conformance.entries import ListedFile
from skillwire.conformance.messages import Answer, describe_field
from skillwire.conformance.rules import Violation
from skillwire.errors import FormatError
from skillwire.json_types import is_list, is_object
from skillwire.skill.digests import digest_of
from skillwire.skill.uris import SKILL_FILE, SkillUri, parse_uri, shown_uri
from skillwire.trust.hidden_text import HiddenText, find_hidden_text
from skillwire.trust.oms import MAX_BUNDLE_BYTES, SIGNATURE_FILE

_BOM: Final = b"\xef\xbb\xbf"
_REPLACED: Final = "\ufffd"
_MARKDOWN: Final = (".md", ".markdown")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSeen:
    """A file as it was read. `digest` is empty if no bytes arrived."""

    uri: SkillUri
    violations: tuple[Violation, ...] = ()
    digest: str = ""
    size: int = 0
    fields: Mapping[str, object] | None = None
    """The content without its bytes."""
    is_text: bool = False
    data: bytes | None = None
    hidden: tuple[HiddenText, ...] = ()
    listed: ListedFile | None = None
    """What it was compared with."""
    envelope: Answer | None = None
    """The answer without its contents."""

    @property
    def mime(self) -> str | None:
        mime = (self.fields or {}).get("mimeType")
        return mime if isinstance(mime, str) else None


def see_file(
    answer: Answer,
    uri: SkillUri,
    listed: ListedFile | None,
    *,
    others: Mapping[SkillUri, ListedFile | None] | None = None,
    read_text: bool = True,
) -> FileSeen:
    """Check an answer to `resources/read`. `listed` is what the entry says about the file.

    A result may have several contents: each one is checked, against `others` if it is another file. Hidden
    text is searched for only with `read_text`: once is enough.
    """
    place = shown_uri(uri)
    if answer.failure is not None:
        return FileSeen(uri=uri)  # A failure has a finding of its own.
    if answer.error is not None:
        return FileSeen(uri=uri, violations=(Violation("RD-1/listed", str(answer.error), place),))
    contents = (answer.result or {}).get("contents")
    if not is_list(contents) or not contents or not all(is_object(content) for content in contents):
        seen = f"{len(contents)} contents" if is_list(contents) else "no array of contents"
        return FileSeen(uri=uri, violations=(Violation("RD-1/shape", seen, place),))
    found = [content for content in contents if is_object(content)]
    own = [content for content in found if _uri_of(content) == uri]
    violations: list[Violation] = []
    for content in found:
        other = _uri_of(content)
        if other is not None and other != uri and others and other in others:
            violations.extend(_see(content, other, others[other], shown_uri(other))[0])
    if not own:
        violations.append(Violation("RD-1/uri", describe_field(found[0], "uri"), place))
        own = found[:1]
    seen_file = FileSeen(uri=uri)
    for content in reversed(own):
        problems, data = _see(content, uri, listed, place)
        violations.extend(problems)
        fields = {key: value for key, value in content.items() if key not in ("text", "blob")}
        seen_file = FileSeen(
            uri=uri,
            digest=digest_of(data) if data is not None else "",
            size=len(data or b""),
            fields=fields,
            is_text=isinstance(content.get("text"), str),
            data=data if _is_kept(uri, data) else None,
            hidden=_hidden(uri, data) if read_text and data is not None else (),
            listed=listed if data is not None else None,
        )
    envelope = replace(answer, result={**(answer.result or {}), "contents": None})
    return replace(seen_file, violations=tuple(dict.fromkeys(violations)), envelope=envelope)


def _is_kept(uri: SkillUri, data: bytes | None) -> bool:
    """Whether the bytes are needed again: of a `SKILL.md`, and of a signature that is not too long."""
    is_signature = uri.endswith(f"/{SIGNATURE_FILE}") and len(data or b"") <= MAX_BUNDLE_BYTES
    return uri.endswith(f"/{SKILL_FILE}") or is_signature


def content_digests(answer: Answer) -> set[str]:
    """The digests of all contents of an answer whose bytes can be decoded."""
    contents = (answer.result or {}).get("contents")
    found: set[str] = set()
    for content in contents if is_list(contents) else ():
        data = _bytes(content, "", []) if is_object(content) else None
        if data is not None:
            found.add(digest_of(data))
    return found


def content_uris(answer: Answer) -> list[SkillUri | None]:
    """The URIs of all contents of an answer, `None` for one that cannot be parsed."""
    contents = (answer.result or {}).get("contents")
    return (
        [_uri_of(content) if is_object(content) else None for content in contents]
        if is_list(contents)
        else []
    )


def _uri_of(content: Mapping[str, object]) -> SkillUri | None:
    given = content.get("uri")
    try:
        return parse_uri(given) if isinstance(given, str) else None
    except FormatError:
        return None


def _see(
    content: Mapping[str, object], uri: SkillUri, listed: ListedFile | None, place: str
) -> tuple[list[Violation], bytes | None]:
    violations: list[Violation] = []
    data = _bytes(content, place, violations)
    if data is not None and listed is not None:
        violations.extend(_compare(data, content.get("text"), listed, place))
    return violations, data


def _bytes(content: Mapping[str, object], place: str, violations: list[Violation]) -> bytes | None:
    text, blob = content.get("text"), content.get("blob")
    if isinstance(text, str) == isinstance(blob, str):
        seen = "text and blob" if isinstance(text, str) else "neither text nor blob"
        violations.append(Violation("RD-1/shape", seen, place))
        return None
    if isinstance(text, str):
        try:
            return text.encode("utf-8")
        except UnicodeEncodeError:
            violations.append(Violation("RD-2/lossy", "text with half a surrogate pair", place))
            return None
    try:
        data = base64.b64decode(str(blob), validate=True)
    except (binascii.Error, ValueError) as error:
        violations.append(Violation("RD-2/base64", str(error), place))
        return None
    if base64.b64encode(data).decode("ascii") != blob:
        # RFC 4648: the bits after the last byte are zero; otherwise two texts stand for the same bytes.
        violations.append(Violation("RD-2/base64", "unused bits that are not zero", place))
        return None
    return data


def _compare(data: bytes, text: object, listed: ListedFile, place: str) -> list[Violation]:
    """VER-1, from the server's side. A lost byte order mark or line ending is named as such."""
    digest = digest_of(data)
    if listed.digest is not None and digest != listed.digest:
        if isinstance(text, str) and (loss := _loss(data, text, listed.digest)):
            return [Violation("RD-2/lossy", loss, place)]
        expected = f"{digest}, the digest of the {len(data)} bytes read"
        return [Violation("ENT-3/digest", f"{listed.digest} in the entry", place, expected)]
    if listed.size is not None and listed.size != len(data):
        expected = f"{len(data)} bytes, the number that was read"
        return [Violation("ENT-3/size", f"{listed.size} bytes in the entry", place, expected)]
    return []


def _loss(data: bytes, text: str, digest: str) -> str:
    if digest_of(_BOM + data) == digest:
        return "text without the byte order mark of the file"
    lines = data.replace(b"\r\n", b"\n")
    if digest in (digest_of(lines.replace(b"\n", b"\r\n")), digest_of(data.replace(b"\n", b"\r"))):
        return "text with different line endings than the file"
    if digest == digest_of(_BOM + lines.replace(b"\n", b"\r\n")):
        return "text without the byte order mark and line endings of the file"
    if digest in (digest_of(data + b"\n"), digest_of(data.removesuffix(b"\n"))):
        return "text with a different last line ending than the file"
    return "text with replacement characters for bytes that are not UTF-8" if _REPLACED in text else ""


def _hidden(uri: SkillUri, data: bytes) -> tuple[HiddenText, ...]:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return ()
    return find_hidden_text(text, markdown=uri.lower().endswith(_MARKDOWN))
