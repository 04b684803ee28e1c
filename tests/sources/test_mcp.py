"""McpSource against a peer that is a table of answers: budgets, coalescing, time to live, errors."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection, Mapping
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from skillwire.errors import FormatError, LimitExceeded, RequestRefused, SkillNotFound, SourceError
from skillwire.limits import Limits
from skillwire.skill import parse_uri
from skillwire.sources.mcp import McpSource
from skillwire.wire import Declaration

pytestmark = pytest.mark.anyio

URI = parse_uri("skill://refunds/SKILL.md")
DIGEST = "sha256:" + "0" * 64
Answer = Callable[[Mapping[str, object]], Any]


def entry(name: str = "refunds", **changes: Any) -> dict[str, Any]:
    uri = f"skill://{name}/SKILL.md"
    resources = [{"uri": uri, "digest": DIGEST, "size": 1}]
    front = {"name": name, "description": "Pays."}
    return {"uri": uri, "frontmatter": front, "resources": resources, **changes}


class TablePeer:
    """Answers from a table, and notes every request."""

    def __init__(self, answers: Mapping[str, Any], declaration: Declaration | None = Declaration()) -> None:  # noqa: B008
        self.answers = answers
        self.declaration = declaration
        self.serves_resources = False
        self.instructions = ""
        self.told: list[Collection[str | None]] = []
        self.requests: list[tuple[str, dict[str, object]]] = []

    async def settled(self) -> None:
        pass

    async def changes(self) -> AsyncGenerator[Collection[str | None]]:
        for batch in self.told:
            yield batch

    async def request(self, method: str, params: Mapping[str, object]) -> object:
        self.requests.append((method, dict(params)))
        await anyio.lowlevel.checkpoint()
        answer = self.answers[method]
        if isinstance(answer, Exception):
            raise answer
        return answer(params) if callable(answer) else answer


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.requirement("LST-1", "ENT-1")
async def test_a_listing_is_read_to_the_last_page_and_sorted() -> None:
    pages: dict[object, Any] = {
        None: {"skills": [entry("b")], "nextCursor": "2"},
        "2": {"skills": [entry("c"), entry("b")], "nextCursor": "3"},
        "3": {"skills": [entry("a")], "nextCursor": ""},
    }
    peer = TablePeer({"skills/list": lambda params: pages[params.get("cursor")]})
    source = McpSource("shop", peer)
    assert [found.name for found in await source.list_entries()] == ["a", "b", "c"]
    assert source.problems() == ()
    assert [params for _, params in peer.requests] == [{}, {"cursor": "2"}, {"cursor": "3"}]


@pytest.mark.requirement("CAP-3")
@pytest.mark.parametrize("declaration", [None, Declaration()])
async def test_a_directory_is_not_asked_for_unless_it_was_offered(declaration: Declaration | None) -> None:
    peer = TablePeer({}, declaration)
    with pytest.raises((SourceError, SkillNotFound), match=r"does not|lists nothing"):
        await McpSource("shop", peer).read_directory(parse_uri("skill://refunds"))
    assert peer.requests == []


@pytest.mark.parametrize(
    ("ttl", "kept"), [(0, 5), (None, 5), (60_000, 60), (10**9, 3600), (10**400, 3600), ("x", 5), (-1, 5)]
)
async def test_a_listing_is_kept_for_its_time_within_sane_bounds(ttl: object, kept: float) -> None:
    clock = Clock()
    peer = TablePeer({"skills/list": {"skills": [entry()], "ttlMs": ttl}})
    source = McpSource("shop", peer, clock=clock)
    first = await source.list_entries()
    clock.now += kept - 0.1
    assert await source.list_entries() is first
    assert len(peer.requests) == 1
    clock.now += 0.2
    await source.list_entries()
    assert len(peer.requests) == 2
    await source.refresh()
    await source.list_entries()
    assert len(peer.requests) == 3


async def test_questions_that_come_while_one_is_open_share_its_answer() -> None:
    peer = TablePeer({"skills/list": {"skills": [entry()]}})
    source = McpSource("shop", peer, clock=Clock())
    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(source.list_entries)
    assert len(peer.requests) == 1


async def test_a_listing_that_fails_is_asked_for_again_by_the_next_caller() -> None:
    answers: dict[str, Any] = {"skills/list": SourceError("shop went away")}
    source = McpSource("shop", TablePeer(answers), clock=Clock())
    with pytest.raises(SourceError):
        await source.list_entries()
    answers["skills/list"] = {"skills": []}
    assert await source.list_entries() == ()


async def test_what_is_listed_again_in_the_same_words_is_the_same_object_and_what_differs_is_not() -> None:
    # To Python 1 is True, to the author of a skill it is not.
    pages: dict[object, Any] = {
        None: {
            "skills": [entry("a", frontmatter={"name": "a", "level": 1})],
            "nextCursor": "2",
            "ttlMs": 9000,
        },
        "2": {"skills": [entry("b")]},
    }
    peer = TablePeer({"skills/list": lambda params: pages[params.get("cursor")]})
    source = McpSource("shop", peer, clock=Clock())
    first = await source.list_entries()
    pages[None] = {**pages[None], "nextCursor": "3", "ttlMs": 8000}
    pages["3"] = pages.pop("2")
    await source.refresh()
    again = await source.list_entries()
    assert [one is other for one, other in zip(first, again, strict=True)] == [True, True]
    assert source.listing is not None
    assert source.listing.ttl_seconds == 8
    pages[None] = {**pages[None], "skills": [entry("a", frontmatter={"name": "a", "level": True})]}
    await source.refresh()
    changed, same = await source.list_entries()
    assert changed.frontmatter["level"] is True
    assert same is again[1]


async def test_a_listing_that_cannot_be_written_as_json_is_still_read() -> None:
    peer = TablePeer({"skills/list": {"skills": [entry("a"), entry("b", resources=object())]}})
    source = McpSource("shop", peer, clock=Clock())
    assert [found.name for found in await source.list_entries()] == ["a"]


async def test_an_entry_that_is_listed_twice_with_different_content_is_taken_once_and_remarked_on() -> None:
    other = {"name": "refunds", "description": "Evil."}
    peer = TablePeer({"skills/list": {"skills": [entry(), entry(frontmatter=other), entry()]}})
    source = McpSource("shop", peer, clock=Clock())
    (found,) = await source.list_entries()
    assert found.description == "Pays."
    assert [issue.rule for problem in source.problems() for issue in problem.issues] == ["listed-twice"]


@pytest.mark.requirement("GET-1")
async def test_one_skill_is_asked_for_by_its_uri() -> None:
    peer = TablePeer({"skills/get": {"skill": entry()}})
    assert (await McpSource("shop", peer).get_entry(URI)).uri == URI
    assert peer.requests == [("skills/get", {"uri": URI})]


@pytest.mark.requirement("GET-1")
@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (RequestRefused("no", code=-32602), SkillNotFound),
        (RequestRefused("no", code=-32603), RequestRefused),
        ({}, FormatError),
        ({"resultType": "complete"}, FormatError),
        ({"skill": None}, FormatError),
        ({"skill": entry("other")}, FormatError),
        ({"skill": entry(resources=None)}, FormatError),
    ],
)
async def test_an_answer_without_the_skill_is_an_error_of_its_kind(
    answer: Any, error: type[Exception]
) -> None:
    with pytest.raises(error):
        await McpSource("shop", TablePeer({"skills/get": answer})).get_entry(URI)


@pytest.mark.requirement("SEC-9")
@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (Limits(pages=3), "more than 3 pages"),
        (Limits(entries_per_server=3), "more than 3 entries"),
        (Limits(listing_chars=600), "more than 600 characters"),
    ],
)
async def test_every_budget_of_a_listing_ends_it(limits: Limits, reason: str) -> None:
    numbers = iter(range(100))

    def page(params: Mapping[str, object]) -> Any:
        number = next(numbers)
        return {"skills": [entry(f"skill-{number}")], "nextCursor": str(number)}

    with pytest.raises(LimitExceeded, match=reason):
        await McpSource("shop", TablePeer({"skills/list": page}), limits=limits).list_entries()


@pytest.mark.requirement("SEC-9")
async def test_content_is_counted_over_all_reads() -> None:
    content = {"contents": [{"uri": URI, "text": "x" * 40}]}
    source = McpSource("shop", TablePeer({"resources/read": content}), limits=Limits(bytes_per_server=100))
    assert len((await source.read(URI)).data) == 40
    await source.read(URI)
    with pytest.raises(LimitExceeded, match="raise bytes_per_server"):
        await source.read(URI)


@pytest.mark.requirement("DIR-1")
async def test_a_directory_is_read_to_its_last_page() -> None:
    pages: dict[object, Any] = {
        None: {"resources": [{"uri": "skill://refunds/a.md"}], "nextCursor": "2"},
        "2": {"resources": [{"uri": "skill://refunds/b", "mimeType": "inode/directory"}]},
    }
    answers = {"resources/directory/read": lambda params: pages[params.get("cursor")]}
    source = McpSource("shop", TablePeer(answers, Declaration(directory_read=True)))
    children = await source.read_directory(parse_uri("skill://refunds"))
    assert [(child.uri, child.is_directory) for child in children] == [
        ("skill://refunds/a.md", False),
        ("skill://refunds/b", True),
    ]


@pytest.mark.parametrize(("code", "error"), [(-32602, SkillNotFound), (-32603, RequestRefused)])
@pytest.mark.parametrize("method", ["resources/read", "resources/directory/read"])
async def test_a_refusal_means_not_found_only_when_the_parameters_are_wrong(
    method: str, code: int, error: type[Exception]
) -> None:
    peer = TablePeer({method: RequestRefused("no", code=code)}, Declaration(directory_read=True))
    source = McpSource("shop", peer)
    with pytest.raises(error):
        await (source.read(URI) if method == "resources/read" else source.read_directory(URI))
