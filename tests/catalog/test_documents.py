"""Documents of a search index: verified text within a limit, and descriptions otherwise."""

from __future__ import annotations

import pytest

from skillwire.catalog.search import SkillDocuments, searched_text
from skillwire.limits import Limits
from skillwire.skill import DYNAMIC, SkillEntry, SkillResource, digest_of, parse_uri

URI = parse_uri("skill://acme/caf%C3%A9/refunds/SKILL.md")
TEXT = b"---\nname: refunds\ndescription: Pays.\n---\nSend the money back.\n"


def entry(data: bytes = TEXT, *, listed: bool = True, size: int | None = None) -> SkillEntry:
    file = SkillResource(URI, digest_of(data), len(data) if size is None else size)
    fields = {"name": "refunds", "description": "Pays."}
    return SkillEntry(URI, fields, (file,) if listed else DYNAMIC)


def test_a_document_has_the_name_the_place_and_the_text_without_frontmatter() -> None:
    documents = SkillDocuments[str](Limits())
    made = documents.make("a", entry(), TEXT, label="shop")
    assert (made.name, made.place, made.description) == ("refunds", "shop acme/café/refunds", "Pays.")
    assert made.body == "Send the money back.\n"
    assert made.digest == digest_of(TEXT)
    assert documents.described == documents.cut == set()


@pytest.mark.requirement("VER-1")
@pytest.mark.parametrize(
    ("given", "data"),
    [(entry(), None), (entry(), b"other text"), (entry(listed=False), TEXT), (entry(b"\xff"), b"\xff")],
)
def test_a_text_that_is_not_the_listed_one_is_not_searched(given: SkillEntry, data: bytes | None) -> None:
    documents = SkillDocuments[str](Limits())
    assert documents.make("a", given, data).body == ""
    assert documents.described == {"a"}


@pytest.mark.requirement("SEC-9")
def test_texts_are_searched_within_a_limit_and_forgetting_one_makes_room() -> None:
    documents = SkillDocuments[str](Limits(search_text_bytes=len(TEXT)))
    assert documents.wanted("a", entry()) == digest_of(TEXT)
    assert documents.make("a", entry(), TEXT).body
    assert documents.wanted("b", entry()) is None
    assert not documents.make("b", entry(size=0), TEXT).body
    assert (documents.described, documents.cut) == ({"b"}, {"b"})
    documents.forget("a")
    documents.forget("b")
    assert documents.make("b", entry(), TEXT).body
    assert (documents.described, documents.cut) == (set(), set())
    assert documents.wanted("c", entry(listed=False)) is None


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"no frontmatter", "no frontmatter"),
        (b"\xef\xbb\xbf---\r\nname: x\r\n---\r\nbody", "body"),
        (b"---\nname: x\n---", ""),
        (b"\xff\xfe", ""),
        (b"a\x1b[2Jb", "ab"),
    ],
)
def test_the_searched_text_is_the_body_as_clean_text(data: bytes, text: str) -> None:
    assert searched_text(data) == text
