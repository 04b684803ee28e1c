"""SkillDocuments: entries and the bytes of their `SKILL.md` as documents of a search index."""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Final, Generic, TypeVar
from urllib.parse import unquote

from skillwire.catalog.naming import MAX_HANDLE_LENGTH
from skillwire.catalog.search import Document
from skillwire.limits import Limits
from skillwire.skill import DYNAMIC, SKILL_FILE, Digest, SkillEntry, digest_of
from skillwire.text import clean_line, clean_text

K = TypeVar("K", bound=Hashable)

_FRONTMATTER: Final = re.compile(r"\A\ufeff?---[ \t]*\r?\n.*?\n---[ \t]*(?:\r?\n|\Z)", re.DOTALL)


class SkillDocuments(Generic[K]):
    """Creates documents, with at most `limits.search_text_bytes` of text in all of them together.

    `described` are the skills that have a document without text, and `cut` those among them whose text is
    left out because of that limit.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._room = limits.search_text_bytes
        self._sizes: dict[K, int] = {}
        self.described: set[K] = set()
        self.cut: set[K] = set()

    def forget(self, key: K) -> None:
        """Make room for another document of this skill, or for other skills."""
        self._room += self._sizes.pop(key, 0)
        self.described.discard(key)
        self.cut.discard(key)

    def wanted(self, key: K, entry: SkillEntry) -> Digest | None:
        """The digest of the `SKILL.md` whose text can be searched; `None` if none is listed, or if it is too
        long (SEC-9).
        """
        listed = _skill_md(entry)
        if listed is None:
            return None
        digest, size = listed
        if size > self._room:
            self.cut.add(key)
            return None
        return digest

    def make(self, key: K, entry: SkillEntry, data: bytes | None, *, label: str = "") -> Document[K]:
        """The document of a skill. `data` is its `SKILL.md`, if that is at hand."""
        listed = _skill_md(entry)
        body = self._body(key, entry, data)
        if not body:
            self.described.add(key)
        # Every handle consists of these words, so a collision, which changes handles, needs no new document.
        path = entry.uri.partition("://")[2].removesuffix(f"/{SKILL_FILE}")
        return Document(
            key=key,
            name=clean_line(entry.name, limit=MAX_HANDLE_LENGTH).text,
            place=clean_line(f"{label} {unquote(path)}".strip()).text,
            description=clean_line(entry.description, limit=self._limits.description_chars).text,
            body=body,
            digest="" if listed is None else listed[0],
        )

    def _body(self, key: K, entry: SkillEntry, data: bytes | None) -> str:
        if data is None:
            return ""
        # Older dialects do not list sizes, so the bytes are counted too.
        if len(data) > self._room:
            self.cut.add(key)
            return ""
        listed = _skill_md(entry)
        if listed is None or digest_of(data) != listed[0]:
            return ""  # VER-1: only the listed version is searched.
        text = searched_text(data)
        self._sizes[key] = len(data)
        self._room -= len(data)
        return text


def searched_text(data: bytes) -> str:
    """The text of a `SKILL.md` without its frontmatter, cleaned; empty if it is not UTF-8."""
    try:
        body = _FRONTMATTER.sub("", data.decode("utf-8"), count=1)
    except UnicodeDecodeError:
        return ""
    return clean_text(body).text


def _skill_md(entry: SkillEntry) -> tuple[Digest, int] | None:
    if entry.resources is DYNAMIC:
        return None
    return next(((file.digest, file.size) for file in entry.resources if file.uri == entry.uri), None)
