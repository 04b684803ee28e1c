"""Skills of an index: they are approved ahead, cached by content, completed, followed and bounded."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import ResourceUpdated

from simulator import Simulator, agree, call, opened, unreachable
from skillwire.consent import Answer, ApprovalRequest, Once, State
from skillwire.errors import (
    AmbiguousName,
    ApprovalRequired,
    FormatError,
    FrontmatterMismatch,
    LimitExceeded,
    SkillNotFound,
    SourceError,
)
from skillwire.host import EventKind, SkillHost
from skillwire.host.styles import all_styles
from skillwire.limits import Limits
from waiting import pass_time

pytestmark = pytest.mark.anyio

INDEX = "skill://index.json"
REFUNDS = "skill://refunds/SKILL.md"
TEXT = b"---\nname: refunds\ndescription: Pays.\n---\nBody.\n"
TEMPLATE = "skill://docs/{product}/SKILL.md"


def index(*skills: object) -> bytes:
    return json.dumps({"skills": list(skills)}).encode()


def indexed(name: str = "refunds", url: str = "") -> dict[str, str]:
    where = url or f"skill://{name}/SKILL.md"
    return {"type": "skill-md", "name": name, "description": "Pays.", "url": where}


def april(*skills: object) -> Simulator:
    """A server of the April draft: it declares the extension and knows none of its methods."""
    sim = Simulator()
    for method in ("skills/list", "skills/get", "resources/directory/read"):
        sim.refuse(method, "Method not found", types.METHOD_NOT_FOUND)
    sim.resources = {INDEX: index(*(skills or (indexed(),))), REFUNDS: TEXT}
    return sim


def reads(sim: Simulator) -> int:
    return sim.read_uris().count(REFUNDS)


async def never(request: object) -> bool:
    raise AssertionError("nobody should be asked")


# Approval and cache


@pytest.mark.requirement("SEC-6", "SEC-8")
async def test_an_index_skill_is_approved_ahead_and_loads_without_a_question(tmp_path: Path) -> None:
    sim = april()
    sim.resources["skill://refunds/forms/a.md"] = b"Form A."
    async with opened(tmp_path, shop=sim) as host:
        skill = await host.find("refunds")
        assert host.decide.status(skill).state is State.NOT_APPROVED
        review = await host.files.fetch_files("refunds")
        assert [file.path for file in review.files] == ["SKILL.md", "forms/a.md"]
        assert host.active() == ()
        await host.decide.approve("refunds", digest=review.digest)
        assert host.decide.status(skill).state is State.APPROVED
    async with opened(tmp_path, shop=sim, host_options={"ask": never}) as host:
        assert "Body." in (await host.load("refunds")).text
        assert "Form A." in await host.read("refunds", "forms/a.md")


@pytest.mark.requirement("SEC-6")
async def test_other_text_than_was_approved_is_asked_about_again(tmp_path: Path) -> None:
    sim = april()
    async with opened(tmp_path, shop=sim) as host:
        await host.decide.approve("refunds", digest=(await host.files.fetch_files("refunds")).digest)
    sim.resources[REFUNDS] = TEXT.replace(b"Body.", b"Other.")
    async with opened(tmp_path, shop=sim) as host:
        with pytest.raises(ApprovalRequired, match="only what was seen can be approved"):
            await host.load("refunds")
        assert host.active() == ()
    # The old text is approved still: whoever serves it again is not asked about it.
    sim.resources[REFUNDS] = TEXT
    async with opened(tmp_path, shop=sim, host_options={"ask": never}) as host:
        await host.load("refunds")


@pytest.mark.requirement("SEC-6")
async def test_text_that_changes_between_review_and_approval_is_not_approved(tmp_path: Path) -> None:
    sim = april()
    async with opened(tmp_path, shop=sim) as host:
        review = await host.files.fetch_files("refunds")
        sim.resources[REFUNDS] = TEXT + b"More.\n"
        with pytest.raises(ApprovalRequired, match="is not what was shown"):
            await host.decide.approve("refunds", digest=review.digest)
        assert host.consent.approved() == []


@pytest.mark.requirement("SEC-6")
async def test_a_file_that_was_not_reviewed_needs_a_yes_of_its_own(tmp_path: Path) -> None:
    sim = april()
    async with opened(tmp_path, shop=sim) as host:
        await host.decide.approve("refunds", digest=(await host.files.fetch_files("refunds")).digest)
        sim.resources["skill://refunds/late.md"] = b"Late."
        await host.load("refunds")
        with pytest.raises(ApprovalRequired):
            await host.read("refunds", "late.md")


@dataclass
class Person:
    """Someone who is asked: what each question covers, and the text of every file that it covers."""

    says: Answer = True
    questions: list[dict[str, str]] = field(default_factory=list[dict[str, str]])

    async def __call__(self, request: ApprovalRequest) -> Answer:
        shown: dict[str, str] = {}
        for covered in request.files:
            file = await request.preview(covered.uri)
            assert (file.digest, len(file.data)) == (covered.digest, covered.size)
            shown[file.path] = file.text or ""
        self.questions.append(shown)
        return self.says


@pytest.mark.requirement("SEC-6")
async def test_the_listed_files_of_an_index_skill_are_read_before_the_question_which_names_each(
    tmp_path: Path,
) -> None:
    sim, person = april(), Person()
    sim.resources["skill://refunds/references/GUIDE.md"] = b"How to."
    async with opened(tmp_path, shop=sim, host_options={"ask": person}) as host:
        await host.load("refunds")
        assert person.questions == [{"SKILL.md": TEXT.decode(), "references/GUIDE.md": "How to."}]
        assert "How to." in await host.read("refunds", "references/GUIDE.md")
        (record,) = host.consent.approved()
        approval = record.approval()
        assert approval is not None
        assert {uri for uri, _ in approval.resources} == {REFUNDS, "skill://refunds/references/GUIDE.md"}
    assert len(person.questions) == 1
    # What was shown was kept: nothing was read twice.
    assert sim.read_uris().count("skill://refunds/references/GUIDE.md") == 1


@pytest.mark.requirement("SEC-6")
async def test_a_file_that_was_not_listed_is_a_question_of_its_own_and_shows_that_file(
    tmp_path: Path,
) -> None:
    sim, person = april(), Person()
    async with opened(tmp_path, shop=sim, host_options={"ask": person}) as host:
        await host.load("refunds")
        sim.resources["skill://refunds/references/GUIDE.md"] = b"How to."
        sim.resources["skill://refunds/late.md"] = b"Late."
        await host.read("refunds", "references/GUIDE.md")
        person.says = False
        with pytest.raises(ApprovalRequired):
            await host.read("refunds", "late.md")
        sim.resources["skill://refunds/references/GUIDE.md"] = b"Something else."
        host.release("refunds")
        await host.refresh()
        await host.load("refunds")
        with pytest.raises(ApprovalRequired):
            await host.read("refunds", "references/GUIDE.md")
    assert person.questions == [
        {"SKILL.md": TEXT.decode()},
        {"references/GUIDE.md": "How to."},
        {"late.md": "Late."},
        {"references/GUIDE.md": "Something else."},
    ]


@pytest.mark.requirement("SEC-6")
async def test_a_yes_for_one_load_covers_the_files_that_were_shown_with_it(tmp_path: Path) -> None:
    sim, person = april(), Person(says=Once())
    sim.resources["skill://refunds/forms/a.md"] = b"Form A."
    async with opened(tmp_path, shop=sim, host_options={"ask": person}) as host:
        await host.load("refunds")
        await host.read("refunds", "forms/a.md")
        sim.resources["skill://refunds/forms/b.md"] = b"Form B."
        await host.read("refunds", "forms/b.md")
        await host.read("refunds", "forms/b.md")
        assert [list(shown) for shown in person.questions] == [["SKILL.md", "forms/a.md"], ["forms/b.md"]]
        assert host.consent.approved() == []
        await host.load("refunds")
    assert len(person.questions) == 3


@pytest.mark.requirement("SEC-6")
async def test_a_yes_to_a_supporting_file_alone_does_not_approve_the_skill(tmp_path: Path) -> None:
    sim, person = april(), Person(says=Once())
    async with opened(tmp_path, shop=sim, host_options={"ask": person}) as host:
        await host.load("refunds")
        sim.resources["skill://refunds/late.md"] = b"Late."
        person.says = True
        await host.read("refunds", "late.md")
        assert host.decide.status(await host.find("refunds")).state is State.NOT_APPROVED
        await host.load("refunds")
    assert [list(shown) for shown in person.questions] == [["SKILL.md"], ["late.md"], ["SKILL.md"]]


@pytest.mark.requirement("ENT-6", "SEC-6", "SEC-9")
@pytest.mark.parametrize(
    ("limits", "covered", "read"),
    [
        (Limits(files_per_skill=3), ["SKILL.md"], 0),
        (Limits(bytes_per_skill=500), ["SKILL.md", "0.md"], 2),
    ],
    ids=["too many files", "too many bytes"],
)
async def test_what_does_not_fit_the_limits_is_not_covered_by_the_question(
    tmp_path: Path, limits: Limits, covered: list[str], read: int
) -> None:
    sim, person = april(), Person()
    for number in range(3):
        sim.resources[f"skill://refunds/{number}.md"] = b"x" * 400
    async with opened(tmp_path, shop=sim, host_options={"ask": person, "limits": limits}) as host:
        await host.load("refunds")
    assert [list(shown) for shown in person.questions] == [covered]
    assert len([uri for uri in sim.read_uris() if uri not in (INDEX, REFUNDS)]) == read


@pytest.mark.requirement("SEC-6")
async def test_a_listed_file_that_cannot_be_read_is_not_covered(tmp_path: Path) -> None:
    sim, person = april(), Person()
    sim.resources["skill://refunds/a.md"] = b"A."
    async with opened(tmp_path, shop=sim, host_options={"ask": person}) as host:
        del sim.resources["skill://refunds/a.md"]
        await host.load("refunds")
    assert [list(shown) for shown in person.questions] == [["SKILL.md"]]


async def test_nothing_is_read_for_a_question_that_nobody_can_be_asked(tmp_path: Path) -> None:
    sim = april()
    sim.resources["skill://refunds/a.md"] = b"A."
    async with opened(tmp_path, shop=sim) as host:
        with pytest.raises(ApprovalRequired):
            await host.load("refunds")
    assert "skill://refunds/a.md" not in sim.read_uris()


@pytest.mark.requirement("SEC-6", "VER-5")
async def test_an_approved_index_skill_is_read_once_until_its_server_tells_of_a_change(
    tmp_path: Path,
) -> None:
    sim = april()
    async with opened(tmp_path, shop=sim, host_options={"ask": agree}) as host:
        for _ in range(3):
            await host.load("refunds")
            host.release("refunds")
        assert reads(sim) == 1
        sim.resources[REFUNDS] = TEXT.replace(b"Body.", b"New body.")
        await host.refresh()
        assert "New body." in (await host.load("refunds")).text
        assert reads(sim) == 2
    # In the next session the server is asked first, and a kept yes counts.
    async with opened(tmp_path, shop=sim, host_options={"ask": never}) as host:
        await host.load("refunds")
    assert reads(sim) == 3


@pytest.mark.process
@pytest.mark.requirement("SEC-8")
async def test_while_its_server_is_unreachable_the_approved_text_comes_from_the_cache(tmp_path: Path) -> None:
    sim = april()
    sim.resources["skill://refunds/forms/a.md"] = b"Form A."
    async with opened(tmp_path, shop=sim) as host:
        await host.decide.approve("refunds", digest=(await host.files.fetch_files("refunds")).digest)
    async with opened(tmp_path, shop=unreachable()) as host:
        assert "Body." in (await host.load("refunds")).text
        assert "Form A." in await host.read("refunds", "forms/a.md")
        with pytest.raises(SourceError):
            await host.read("refunds", "forms/b.md")


@pytest.mark.requirement("SEC-6")
async def test_a_dynamic_skill_of_the_final_extension_is_approved_ahead_and_read_every_time(
    tmp_path: Path,
) -> None:
    sim = Simulator()
    skill = sim.skill("weather", dynamic=True, body="Rain.\n")
    async with opened(tmp_path, shop=sim) as host:
        await host.decide.approve("weather", digest=(await host.files.fetch_files("weather")).digest)
    async with opened(tmp_path, shop=sim, host_options={"ask": never}) as host:
        await host.load("weather")
        host.release("weather")
        await host.load("weather")
        assert sim.read_uris().count(skill.uri) == 4
    skill.change_body("Sun.\n")
    async with opened(tmp_path, shop=sim) as host:
        with pytest.raises(ApprovalRequired):
            await host.load("weather")


async def test_the_files_of_a_review_have_the_limits_of_a_skill(tmp_path: Path) -> None:
    sim = april()
    for number in range(3):
        sim.resources[f"skill://refunds/{number}.md"] = b"x" * 400
    for limits in (Limits(files_per_skill=3), Limits(bytes_per_skill=1000)):
        async with opened(tmp_path, shop=sim, host_options={"limits": limits}) as host:
            with pytest.raises(LimitExceeded):
                await host.files.fetch_files("refunds")


# Supporting files, several contents, the index itself


@pytest.mark.parametrize("style", all_styles(), ids=lambda style: style.name)
async def test_the_supporting_files_that_a_server_lists_are_in_the_loaded_text(
    tmp_path: Path, style: Any
) -> None:
    sim = april()
    sim.resources["skill://refunds/references/limits.md"] = b"No more than 500."
    sim.resources["skill://refunds-old/notes.md"] = b"Of another one."
    async with opened(tmp_path, shop=sim, host_options={"style": style, "ask": agree}) as host:
        (skill,) = [one for one in host.skills() if one.entry.name == "refunds"]
        text = (await host.load(skill.handle)).text
        assert "references/limits.md" in text
        assert "notes.md" not in text
        assert host.files.paths(skill) == ("references/limits.md",)
        assert "No more than 500." in await host.read(skill.handle, "references/limits.md")


async def test_of_several_contents_the_first_counts_and_an_event_says_so_once(tmp_path: Path) -> None:
    sim = april()

    async def several(params: Any) -> Any:
        uri = params["uri"]
        texts = [sim.resources[uri].decode(), "Second."] if uri in sim.resources else ["?"]
        contents = [{"uri": uri, "text": text} for text in texts]
        return {"contents": contents, "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}

    sim._answers["resources/read"] = several  # pyright: ignore[reportPrivateUsage]
    async with opened(tmp_path, shop=sim, host_options={"ask": agree}) as host:
        await host.load("refunds")
        await host.refresh()
        text = (await host.load("refunds")).text
        assert "Body." in text
        assert "Second." not in text
        said = [event.message for event in host.log.events_so_far() if "contents" in event.message]
        assert said == [
            f"shop answered with 2 contents for {INDEX}: the first is used",
            f"shop answered with 2 contents for {REFUNDS}: the first is used",
        ]


@pytest.mark.parametrize("era", ["legacy", "auto"])
async def test_a_change_of_the_index_is_noticed_by_subscription(tmp_path: Path, era: str) -> None:
    sim = april()
    bus = InMemorySubscriptionBus()
    subscribed = anyio.Event()
    sessions: list[Any] = []
    listen = ListenHandler(bus)

    async def listening(ctx: Any, params: Any) -> Any:
        if INDEX in (params.notifications.resource_subscriptions or []):
            subscribed.set()
        return await listen(ctx, params)

    async def subscribe(ctx: Any, params: Any) -> Any:
        sessions.append(ctx.session)
        if str(params.uri) == INDEX:
            subscribed.set()
        return types.EmptyResult()

    async def declare(ctx: Any, call_next: Any) -> Any:
        result = await call_next(ctx)
        if ctx.method in ("server/discover", "initialize"):
            result["capabilities"].setdefault("resources", {})["subscribe"] = True
        return result

    sim.server.add_request_handler("subscriptions/listen", types.SubscriptionsListenRequestParams, listening)
    sim.server.add_request_handler("resources/subscribe", types.SubscribeRequestParams, subscribe)
    sim.server.middleware.insert(0, declare)
    options = {"limits": Limits(min_ttl_seconds=0.05)}
    async with opened(tmp_path, config={"era": era}, host_options=options, shop=sim) as host:
        with anyio.fail_after(30):
            await subscribed.wait()
            await anyio.wait_all_tasks_blocked()
        sim.resources[INDEX] = index(indexed(), indexed("payouts"))
        if era == "legacy":
            await sessions[-1].send_resource_updated(INDEX)
        else:
            await bus.publish(ResourceUpdated(INDEX))
        # That the host looked again after subscribing does not put off the first news.
        with anyio.fail_after(30):
            async for event in host.log.events():
                if event.kind is EventKind.ADDED and event.handle == "payouts":
                    break
        assert {skill.handle for skill in host.skills()} == {"refunds", "payouts"}


# Templates


def with_template(sim: Simulator, *products: str) -> Simulator:
    template = {"type": "mcp-resource-template", "description": "How a product works.", "url": TEMPLATE}
    sim.resources[INDEX] = index(indexed(), template)
    for product in products:
        text = f"---\nname: {product}\ndescription: About it.\n---\nAll about {product}.\n"
        sim.resources[f"skill://docs/{product}/SKILL.md"] = text.encode()

    async def complete(ctx: Any, params: Any) -> types.CompleteResult:
        fitting = [product for product in products if product.startswith(params.argument.value)]
        return types.CompleteResult(completion=types.Completion(values=fitting))

    sim.server.add_request_handler("completion/complete", types.CompleteRequestParams, complete)
    return sim


@pytest.mark.requirement("LST-3")
async def test_a_template_is_listed_with_its_arguments_completed_and_loaded(tmp_path: Path) -> None:
    sim = with_template(april(), "widget", "gadget")
    async with opened(tmp_path, shop=sim, host_options={"ask": agree}) as host:
        (template,) = host.places.templates()
        assert (template.name, template.arguments) == ("docs/{product}", ("product",))
        assert (template.origin.label, template.description) == ("shop", "How a product works.")
        assert await host.places.complete("docs/{product}", "product") == ("widget", "gadget")
        assert await host.places.complete(TEMPLATE, "product", "ga", server="shop") == ("gadget",)
        loaded = await host.load("docs/{product}", values={"product": "widget"})
        assert "All about widget." in loaded.text
        assert loaded.skill.uri == "skill://docs/widget/SKILL.md"
        assert not loaded.skill.listed
        with pytest.raises(SkillNotFound, match=r"needs a value for product; product can be widget, gadget"):
            await host.load("docs/{product}")
        with pytest.raises(
            SkillNotFound, match=r"docs/\{product\} has no skill for these values: shop has no"
        ):
            await host.load("docs/{product}", values={"product": "nothing"})
        with pytest.raises(FormatError, match="has no argument other"):
            await host.find("docs/{product}", values={"product": "widget", "other": "x"})
        with pytest.raises(SkillNotFound, match="no template is called"):
            await host.find("manuals/{product}", values={"product": "widget"})
        with pytest.raises(SkillNotFound, match="is a skill, not a template"):
            await host.find("refunds", values={"product": "widget"})
        with pytest.raises(SkillNotFound, match="has no argument price; known: product"):
            await host.places.complete("docs/{product}", "price")


@pytest.mark.requirement("FMT-9", "SEC-3")
@pytest.mark.parametrize("value", ["../refunds", "..", "a/b", "a%2Fb", "a\\b", "\x00"])
async def test_a_value_stays_within_its_place_in_the_uri(tmp_path: Path, value: str) -> None:
    sim = with_template(april(), "widget")
    async with opened(tmp_path, shop=sim, host_options={"ask": agree}) as host:
        with pytest.raises((FormatError, SkillNotFound)):
            await host.load("docs/{product}", values={"product": value})
    asked = set(sim.read_uris()) - {INDEX}
    assert all(uri.startswith("skill://docs/") and uri.count("/") == 4 for uri in asked)


async def test_the_same_template_on_two_servers_needs_the_name_of_one(tmp_path: Path) -> None:
    one, two = with_template(april(), "widget"), with_template(april(), "gadget")
    async with opened(tmp_path, one=one, two=two, host_options={"ask": agree}) as host:
        with pytest.raises(AmbiguousName, match="fits several servers: say which one of one, two"):
            await host.find("docs/{product}", values={"product": "gadget"})
        found = await host.find("docs/{product}", server="two", values={"product": "gadget"})
        assert found.origin.label == "two"


async def test_without_completion_a_server_only_lacks_suggestions(tmp_path: Path) -> None:
    sim = with_template(april(), "widget")

    async def refuse(ctx: Any, params: Any) -> Any:
        raise MCPError(types.METHOD_NOT_FOUND, "no completion here")

    sim.server.add_request_handler("completion/complete", types.CompleteRequestParams, refuse)
    async with opened(tmp_path, shop=sim, host_options={"ask": agree}) as host:
        assert await host.places.complete("docs/{product}", "product") == ()
        assert "widget" in (await host.load("docs/{product}", values={"product": "widget"})).text


@pytest.mark.parametrize("style", all_styles(), ids=lambda style: style.name)
async def test_a_model_is_told_of_templates_and_opens_one_by_its_uri(tmp_path: Path, style: Any) -> None:
    sim = with_template(april(), "widget")
    async with opened(tmp_path, shop=sim, host_options={"style": style, "ask": agree}) as host:
        assert TEMPLATE in host.catalog()
        tool = host.style.resource_tool
        arguments = {"server": "shop", "uri": "skill://docs/widget/SKILL.md"}
        assert "All about widget." in (await call(host, tool, **arguments)).text


# Bad input: it costs only itself, with one line that names the server and the entry


def lines_of(host: SkillHost) -> list[str]:
    return [str(one.message) for one in (*host.log.failures(), *host.log.left_out())]


@pytest.mark.requirement("SEC-9")
@pytest.mark.parametrize(
    ("data", "handles", "words"),
    [
        (b"{skills: [}", [], ["shop", INDEX, "it is not JSON"]),
        (b"[" * 100_000, [], ["shop", INDEX, "nested too deeply"]),
        (b'{"skills": 7}', [], ["shop", INDEX, "it has no list of skills"]),
        (
            index(indexed(), indexed("evil", "file:///etc/passwd")),
            ["refunds"],
            ["shop", "skills[1]", "a file: URI never names a skill"],
        ),
        (
            index(indexed(), indexed("web", "https://web.example/web/SKILL.md")),
            ["refunds", "web"],
            [],
        ),
        (
            index(indexed(), indexed("refunds", "skill://other/refunds/SKILL.md")),
            ["shop:other/refunds", "shop:refunds"],
            [],
        ),
        (index(indexed(), indexed()), ["refunds"], ["shop", "skills[1]", "is listed twice"]),
        (
            index(indexed(), {"type": "mcp-resource-template", "url": "skill://{a}{b"}),
            ["refunds"],
            ["shop", "skills[1]", "cannot be filled in"],
        ),
        (
            index(indexed(), {"type": "mcp-resource-template", "url": "skill://{a}/../SKILL.md"}),
            ["refunds"],
            ["shop", "skills[1]", "'..'"],
        ),
    ],
    ids=[
        "not JSON",
        "deep JSON",
        "no list",
        "a file",
        "another scheme",
        "two of one name",
        "one URI twice",
        "template with an open brace",
        "template that climbs",
    ],
)
async def test_a_bad_index_or_entry_affects_only_itself(
    tmp_path: Path, data: bytes, handles: list[str], words: list[str]
) -> None:
    sim, other = april(), Simulator()
    sim.resources[INDEX] = data
    other.skill("healthy")
    async with opened(tmp_path, shop=sim, other=other) as host:
        listed = sorted(skill.handle for skill in host.skills() if skill.origin.label == "shop")
        if handles:
            assert listed == handles
        assert "healthy" in {skill.handle for skill in host.skills()}
        if words:
            assert [line for line in lines_of(host) if all(word in line for word in words)] != []


@pytest.mark.slow
@pytest.mark.requirement("SEC-9")
async def test_of_sixty_thousand_entries_the_first_are_used_and_the_rest_is_counted(
    tmp_path: Path,
) -> None:
    sim = april(*(indexed(f"s{number}") for number in range(60_000)))
    async with opened(tmp_path, shop=sim) as host:
        assert len(host.skills()) == 20_000
        (line,) = [line for line in lines_of(host) if "passed over" in line]
        assert "shop" in line
        assert "skills[20000]: 40,000 more entries" in line


async def test_a_template_whose_skill_never_arrives_only_times_out(tmp_path: Path) -> None:
    sim = with_template(april(), "widget")
    config = {"call_seconds": 0.2}
    async with opened(tmp_path, config=config, shop=sim, host_options={"ask": agree}) as host:
        sim.never_answer("resources/read")
        with pytest.raises(SourceError, match=r"shop did not answer resources/read within 0\.2 s"):
            await host.load("docs/{product}", values={"product": "widget"})
        sim.behave("resources/read")
        assert "Body." in (await host.load("refunds")).text


@pytest.mark.requirement("VER-2")
async def test_the_text_of_a_templates_skill_is_compared_like_any_other(tmp_path: Path) -> None:
    sim = with_template(april(), "widget")
    async with opened(tmp_path, shop=sim, host_options={"ask": agree}) as host:
        skill = await host.find("docs/{product}", values={"product": "widget"})
        text = sim.resources["skill://docs/widget/SKILL.md"]
        sim.resources["skill://docs/widget/SKILL.md"] = text.replace(b"name: widget", b"name: evil")
        with pytest.raises((FrontmatterMismatch, FormatError, SkillNotFound)):
            await host.load(skill.uri, server="shop")


async def test_an_index_url_that_can_never_be_loaded_is_left_out_with_the_reason(tmp_path: Path) -> None:
    sim = april(indexed(), indexed("guide", "skill://docs/guide.md"), indexed("other", "skill://docs/other"))
    async with opened(tmp_path, shop=sim) as host:
        assert [skill.handle for skill in host.skills()] == ["other", "refunds"]
        [left] = [one.message for one in host.log.left_out()]
        assert "is neither a SKILL.md nor the directory of a skill called guide" in left


@pytest.mark.requirement("SEC-9")
async def test_a_style_that_refuses_a_uri_does_not_read_it(tmp_path: Path) -> None:
    long = f"skill://{'a' * 2100}/long/SKILL.md"
    sim = april(indexed(), indexed("long", long))
    sim.resources[long] = TEXT.replace(b"refunds", b"long")
    async with opened(tmp_path, shop=sim, host_options={"style": "codex"}) as host:
        assert [skill.handle for skill in host.skills()] == ["refunds"]
        assert long not in sim.read_uris()


async def test_one_skill_that_does_not_arrive_hides_no_other(tmp_path: Path) -> None:
    from skillwire.sources.mcp import with_peeks
    from skillwire.wire.legacy import parse_index

    bare = {"type": "skill-md", "name": "bare", "url": "skill://bare/SKILL.md"}

    late: list[str] = []

    async def read(uri: str) -> bytes:
        if uri != REFUNDS:
            late.append(uri)
            await anyio.sleep_forever()
        return TEXT

    listing = parse_index(index(indexed(), indexed("slow"), bare))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: pass_time(60, once=lambda: late))
        found = await with_peeks(listing, read, wanted=lambda entry: True, limits=Limits(peek_seconds=60))
        assert {entry.name: entry.frontmatter.get("description") for entry in found.entries} == {
            "refunds": "Pays.",
            "slow": "Pays.",
        }
        assert [issue.message for issue in found.issues] == ["its SKILL.md did not arrive in time"]
