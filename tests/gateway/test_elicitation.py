"""A caller is asked through their client, and only a clear yes to what was shown counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError

from clients import both_eras, call, refusal
from gateways import THINKING, THOUGHT, User, joined, make_gateway, text_of
from scanning import BAD, change_policy, clean_machine, example, table, write_policy
from simulator import Simulator
from skillwire.access import Caller
from skillwire.gateway import ApprovalQuestion, Gateway, GatewayOptions

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

URI = "skill://shop/refunds/SKILL.md"


def shop() -> Simulator:
    simulator = Simulator()
    simulator.skill("refunds", files={"references/a.md": b"hello"})
    return simulator


async def is_approved(gateway: Gateway) -> bool:
    async with joined(gateway) as client:
        try:
            await client.read_resource(URI)
        except MCPError:
            return False
    return True


@both_eras
@pytest.mark.parametrize("answer", ["decline", "cancel", "unticked", "error"])
async def test_no_is_a_no_and_the_error_names_the_command(tmp_path: Path, version: str, answer: str) -> None:
    user, upstream = User(answer), shop()
    async with make_gateway(tmp_path, shop=upstream) as gateway:
        async with joined(gateway, version, user=user) as client:
            error = await refusal_of(client)
        assert not await is_approved(gateway)
    assert len(user.asked) == 1
    assert upstream.read_uris() == []
    if answer != "error" or version == "2025-11-25":
        assert "Only the user can approve it" in error.message
        assert "skillwire approve" not in error.message


async def refusal_of(client: Any) -> types.ErrorData:
    with pytest.raises(MCPError) as refused:
        await client.read_resource(URI)
    return refused.value.error


@both_eras
async def test_a_client_that_answers_at_once_twice_has_asked_nobody(tmp_path: Path, version: str) -> None:
    user = User("accept", thinks=0)
    async with make_gateway(tmp_path, shop=shop()) as gateway:
        async with joined(gateway, version, user=user) as client:
            error = await refusal_of(client)
        assert not await is_approved(gateway)
    assert len(user.asked) == 2
    assert "the client answered without asking" in error.message


@both_eras
async def test_a_quick_first_answer_and_a_considered_second_one_are_a_yes(
    tmp_path: Path, version: str
) -> None:
    class Hasty(User):
        async def answer(self, context: Any, params: Any) -> Any:
            self._thinks = THOUGHT if self.asked else 0
            return await super().answer(context, params)

    user = Hasty()
    async with (
        make_gateway(tmp_path, shop=shop()) as gateway,
        joined(gateway, version, user=user) as client,
    ):
        assert "Do it" in text_of(await client.read_resource(URI))
    assert len(user.asked) == 2


@both_eras
async def test_a_change_between_question_and_answer_is_asked_about_again(
    tmp_path: Path, version: str
) -> None:
    upstream = shop()
    skill = upstream.skills["skill://refunds/SKILL.md"]
    gateway = make_gateway(tmp_path, shop=upstream)

    class Reader(User):
        async def answer(self, context: Any, params: Any) -> Any:
            if not self.asked:
                skill.change_body("Another text.\n")
                await gateway.host.refresh()
            return await super().answer(context, params)

    user = Reader()
    async with gateway, joined(gateway, version, user=user) as client:
        assert "Another text" in text_of(await client.read_resource(URI))
    first, second = (question.message for question in user.asked)
    assert first.split("Digest: ")[1] != second.split("Digest: ")[1]


@both_eras
async def test_a_skill_that_changed_after_the_yes_is_asked_about_with_what_changed(
    tmp_path: Path, version: str
) -> None:
    upstream, user = shop(), User()
    async with (
        make_gateway(tmp_path, shop=upstream) as gateway,
        joined(gateway, version, user=user) as client,
    ):
        await client.read_resource(URI)
        upstream.skills["skill://refunds/SKILL.md"].change_file("references/a.md", b"other")
        await gateway.host.refresh()
        read = await client.read_resource("skill://shop/refunds/references/a.md")
    assert text_of(read) == "other"
    assert "references/a.md was changed" in user.asked[1].message


async def test_a_stale_entry_is_refreshed_and_approved_again_before_its_bytes_are_passed_on(
    tmp_path: Path,
) -> None:
    upstream, user = shop(), User("accept", "decline")
    async with make_gateway(tmp_path, shop=upstream) as gateway, joined(gateway, user=user) as client:
        await client.read_resource(URI)
        # The server changes and tells nobody. The next read finds other bytes than the entry says.
        upstream.skills["skill://refunds/SKILL.md"].change_file("references/a.md", b"evil!")
        with pytest.raises(MCPError) as refused:
            await client.read_resource("skill://shop/refunds/references/a.md")
    assert refused.value.error.code == -32010
    assert len(user.asked) == 2


async def test_nobody_is_asked_twice_at_once_about_the_same_skill(tmp_path: Path) -> None:
    user = User()
    async with (
        make_gateway(tmp_path, shop=shop()) as gateway,
        joined(gateway, "2025-11-25", user=user) as client,
        anyio.create_task_group() as tasks,
    ):
        for _ in range(5):
            tasks.start_soon(client.read_resource, URI)
    assert len(user.asked) == 1


async def test_no_answer_in_time_is_a_no(tmp_path: Path) -> None:
    user = User(think=lambda _: anyio.sleep_forever())
    options = GatewayOptions(answer_seconds=0.1)
    async with (
        make_gateway(tmp_path, options, shop=shop()) as gateway,
        joined(gateway, "2025-11-25", user=user) as client,
    ):
        error = await refusal_of(client)
    assert "nobody answered" in error.message


async def test_an_old_answer_cannot_undo_a_revocation(tmp_path: Path) -> None:
    async with make_gateway(tmp_path, shop=shop()) as gateway, joined(gateway, user=User()) as client:
        first = await client.session.read_resource(URI, allow_input_required=True)
        assert isinstance(first, types.InputRequiredResult)
        await THINKING.pass_(THOUGHT)
        answer = types.ElicitResult(action="accept", content={"approve": True})
        given: Any = {"input_responses": {"approve": answer}, "request_state": first.request_state}
        assert "Do it" in text_of(await client.session.read_resource(URI, allow_input_required=True, **given))
        await gateway.host.decide.revoke("refunds")
        again = await client.session.read_resource(URI, allow_input_required=True, **given)
    assert isinstance(again, types.InputRequiredResult)


@pytest.mark.parametrize("forged", ["", "x", "AAAA" * 40])
async def test_a_state_that_is_not_ours_is_no_question(tmp_path: Path, forged: str) -> None:
    async with make_gateway(tmp_path, shop=shop()) as gateway, joined(gateway, user=User()) as client:
        answer = types.ElicitResult(action="accept", content={"approve": True})
        given: Any = {"input_responses": {"approve": answer}, "request_state": forged}
        first = await client.session.read_resource(URI, allow_input_required=True, **given)
        assert isinstance(first, types.InputRequiredResult)
        assert not await is_approved(gateway)


async def test_the_answer_of_one_caller_is_not_that_of_another(tmp_path: Path) -> None:
    alice, bob = Caller(name="alice"), Caller(name="bob")
    answer = types.ElicitResult(action="accept", content={"approve": True})
    async with make_gateway(tmp_path, shop=shop()) as gateway:
        async with joined(gateway, user=User(), caller=alice) as client:
            first = await client.session.read_resource(URI, allow_input_required=True)
            assert isinstance(first, types.InputRequiredResult)
        await THINKING.pass_(THOUGHT)
        given: Any = {"input_responses": {"approve": answer}, "request_state": first.request_state}
        async with joined(gateway, user=User(), caller=bob) as client:
            second = await client.session.read_resource(URI, allow_input_required=True, **given)
    assert isinstance(second, types.InputRequiredResult)


async def test_a_policy_that_forbids_questions_is_reported(tmp_path: Path) -> None:
    from skillwire.host import ServerConfig
    from skillwire.trust import ApprovalMode

    pinned = ServerConfig(instance=shop().server, approval=ApprovalMode.PINNED)
    user = User()
    async with make_gateway(tmp_path, shop=pinned) as gateway, joined(gateway, user=user) as client:
        error = await refusal(client, "resources/read", uri=URI)
    assert "not approved. The settings of shop keep it out" in error.message
    assert user.asked == []


class Page:
    """An approval page on which somebody approves at once."""

    def __init__(self) -> None:
        self.questions: list[ApprovalQuestion] = []

    def url(self, caller: Caller, question: ApprovalQuestion) -> str | None:
        self.questions.append(question)
        return "http://127.0.0.1:9000/approve/1"


@both_eras
async def test_the_approval_page_is_asked_where_the_client_only_opens_urls(
    tmp_path: Path, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = Page()
    monkeypatch.setattr("skillwire.gateway.elicitation.modes", lambda ctx: (False, True))
    gateway = make_gateway(tmp_path, GatewayOptions(page=page), shop=shop())

    class Visitor(User):
        async def answer(self, context: Any, params: Any) -> Any:
            assert params.mode == "url"
            assert params.url == "http://127.0.0.1:9000/approve/1"
            host = gateway.host
            await host.decide.approve(await host.find("refunds"))
            return types.ElicitResult(action="accept")

    async with gateway, joined(gateway, version, user=Visitor()) as client:
        assert "Do it" in text_of(await client.read_resource(URI))
        assert len((await call(client, "skills/list"))["skills"]) == 1
    assert len(page.questions) == 1


@pytest.mark.process
async def test_a_caller_reads_what_scanners_of_the_policy_found_and_a_threshold_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clean_machine(tmp_path, monkeypatch)
    write_policy(tmp_path, table(example(tmp_path)))
    upstream, user = shop(), User("decline")
    upstream.skill("refunds").change_file("references/a.md", BAD)
    async with make_gateway(tmp_path, shop=upstream) as gateway, joined(gateway, user=user) as client:
        await refusal_of(client)
        [question] = user.asked
        assert "Scanned by downloads: 1 error" in question.message
        assert '- "error: references/a.md:1: download-and-run: runs what it downloads' in question.message
        await change_policy(tmp_path, gateway.host, table(example(tmp_path), "error"))
        error = await refusal_of(client)
        assert "refused (policy acme)" in error.message
        assert "curl" not in error.message
        assert len(user.asked) == 1
