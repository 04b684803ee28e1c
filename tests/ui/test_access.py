"""Who gets to the review page, and what a request must have to change something."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from simulator import Simulator
from skillwire.access import Callers
from skillwire.consent import State
from skillwire.ui.access import LINK_SECONDS, SESSION_SECONDS, PageAccess, local_path
from ui.visitor import BASE, Visitor, visiting

pytestmark = pytest.mark.anyio
PAGES = ["/", "/skills", "/skill?on=shop&uri=skill%3A%2F%2Frefunds%2FSKILL.md", "/events"]


def shop() -> Simulator:
    sim = Simulator()
    sim.skill("refunds")
    return sim


async def state(visitor: Visitor) -> State:
    return visitor.host.decide.status(await visitor.host.find("refunds")).state


async def test_a_link_opens_the_page_once(tmp_path: Path) -> None:
    async with visiting(tmp_path, shop=shop()) as visitor:
        link = visitor.app.link("/skills?q=a&state=new")
        answer = await visitor.get(link)
        assert answer.status_code == 200
        [root] = re.findall(r'content="0;url=(/[^/]+)/skills\?q=a&amp;state=new"', answer.text)
        cookie = answer.headers["set-cookie"]
        assert {"HttpOnly", "SameSite=strict", f"Path={root}"} <= set(cookie.split("; "))
        assert len(root) > 30
        assert root not in link, "who sees the link does not learn the path"
        visitor.client.cookies.clear()
        again = await visitor.get(link)
        assert again.status_code == 403
        assert "set-cookie" not in again.headers
        assert "works once" in again.text


@pytest.mark.parametrize("path", PAGES)
async def test_without_a_cookie_nothing_is_shown(tmp_path: Path, path: str) -> None:
    async with visiting(tmp_path, shop=shop()) as visitor:
        visitor.client.cookies.clear()
        answer = await visitor.get(path)
        assert answer.status_code == 403
        assert "refunds" not in answer.text


@pytest.mark.parametrize("path", [*PAGES, "/open?token=x", "/static/app.js"])
@pytest.mark.parametrize(
    "host", ["evil.example:8765", "127.0.0.1", "127.0.0.1:80", "127.0.0.1:8765.evil.example"]
)
async def test_a_request_to_another_name_is_refused(tmp_path: Path, path: str, host: str) -> None:
    async with visiting(tmp_path, shop=shop()) as visitor:
        answer = await visitor.get(path, host=host)
        assert answer.status_code in (404, 421)
        assert "refunds" not in answer.text


@pytest.mark.parametrize("path", ["/approve", "/decline"])
@pytest.mark.parametrize(
    "origin",
    [
        None,
        "null",
        "http://evil.example",
        "http://127.0.0.1:1234",
        f"{BASE}.evil.example",
        "http://127.0.0.1",
    ],
)
async def test_a_form_of_another_site_changes_nothing(tmp_path: Path, path: str, origin: str | None) -> None:
    async with visiting(tmp_path, shop=shop()) as visitor:
        form = await visitor.form("/", about="refunds")
        answer = await visitor.post(path, form, origin=origin)
        assert answer.status_code == 403
        assert await state(visitor) is State.NOT_APPROVED


@pytest.mark.parametrize("token", ["", "wrong", None])
async def test_a_form_without_the_token_of_its_session_changes_nothing(
    tmp_path: Path, token: str | None
) -> None:
    async with visiting(tmp_path, shop=shop()) as visitor:
        form = await visitor.form("/", about="refunds")
        if token is None:
            other = Visitor(visitor.app, visitor.host)
            async with other.client:
                await other.enter()
                form["form_token"] = (await other.form("/", about="refunds"))["form_token"]
        else:
            form["form_token"] = token
        answer = await visitor.post("/approve", form)
        assert answer.status_code == 403
        assert await state(visitor) is State.NOT_APPROVED


async def test_a_form_without_a_cookie_changes_nothing(tmp_path: Path) -> None:
    async with visiting(tmp_path, shop=shop()) as visitor:
        form = await visitor.form("/", about="refunds")
        visitor.client.cookies.clear()
        assert (await visitor.post("/approve", form)).status_code == 403
        assert await state(visitor) is State.NOT_APPROVED


async def test_a_form_that_is_too_long_is_refused(tmp_path: Path) -> None:
    async with visiting(tmp_path, shop=shop()) as visitor:
        form = await visitor.form("/", about="refunds")
        answer = await visitor.post("/approve", {**form, "more": "x" * 100_000})
        assert answer.status_code == 413
        assert await state(visitor) is State.NOT_APPROVED


@pytest.mark.parametrize("path", ["/approve", "/decline", "/revoke"])
async def test_nothing_is_changed_by_following_a_link(tmp_path: Path, path: str) -> None:
    async with visiting(tmp_path, shop=shop()) as visitor:
        answer = await visitor.get(path)
        assert answer.status_code == 405


@pytest.mark.parametrize("path", [*PAGES[:3], "/open?token=x", "/nowhere"])
async def test_every_page_forbids_scripts_frames_and_other_sites(tmp_path: Path, path: str) -> None:
    async with visiting(tmp_path, shop=shop()) as visitor:
        headers = (await visitor.get(path)).headers
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'nonce-")
        assert "'unsafe" not in policy
        assert {"frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'"} <= set(policy.split("; "))
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"


async def test_no_two_pages_have_the_same_nonce(tmp_path: Path) -> None:
    async with visiting(tmp_path, shop=shop()) as visitor:
        assert len({(await visitor.get("/")).headers["content-security-policy"] for _ in range(5)}) == 5


async def test_a_token_lets_people_in_where_the_page_takes_tokens(tmp_path: Path) -> None:
    options = {"tokens": Callers.of_token("a-token-of-enough-length")}
    async with visiting(tmp_path, shop=shop(), app_options=options) as visitor:
        visitor.client.cookies.clear()
        asked = await visitor.get("/skills")
        assert asked.status_code == 403
        assert 'type="password"' in asked.text
        wrong = await visitor.post("/open", {"token": "another", "next": "/skills"})
        assert wrong.status_code == 403
        right = await visitor.post("/open", {"token": "a-token-of-enough-length", "next": "/skills"})
        assert right.status_code == 200
        [visitor.root] = re.findall(r'content="0;url=(/[^/]+)/skills"', right.text)
        assert (await visitor.get("/skills")).status_code == 200


async def test_a_token_is_no_link_and_a_link_is_no_token(tmp_path: Path) -> None:
    options = {"tokens": Callers.of_token("a-token-of-enough-length")}
    async with visiting(tmp_path, shop=shop(), app_options=options) as visitor:
        visitor.client.cookies.clear()
        assert (await visitor.get("/open?token=a-token-of-enough-length")).status_code == 403
        link = visitor.app.link().partition("token=")[2]
        assert (await visitor.post("/open", {"token": link})).status_code == 403


def test_links_and_sessions_end() -> None:
    now = 0.0
    access = PageAccess.for_server(["127.0.0.1"], 1, clock=lambda: now)
    late, used = access.new_link(), access.new_link()
    opened = access.open_session(used, is_link=True)
    assert opened is not None
    cookie, session = opened
    now = LINK_SECONDS + 1
    assert access.open_session(late, is_link=True) is None
    assert access.session(cookie, session.root) is not None
    now += SESSION_SECONDS + 1
    assert access.session(cookie, session.root) is None


async def test_a_cookie_opens_nothing_at_another_path(tmp_path: Path) -> None:
    async with visiting(tmp_path, shop=shop()) as visitor:
        form = await visitor.form("/", about="refunds")
        cookie = "; ".join(f"{name}={value}" for name, value in visitor.client.cookies.items())
        visitor.client.cookies.clear()
        other = Visitor(visitor.app, visitor.host)
        async with other.client:
            await other.enter()
        for root in ("", other.root, f"/{'x' * 32}"):
            read = await visitor.client.get(f"{root}/", headers={"cookie": cookie})
            assert (read.status_code, "refunds" in read.text) == (403, False), root
            headers = {"cookie": cookie, "origin": BASE}
            sent = await visitor.client.post(f"{root}/approve", data=form, headers=headers)
            assert sent.status_code == 403, root
        assert await state(visitor) is State.NOT_APPROVED


@pytest.mark.parametrize("path", ["/", "/skills", "/open", "/open?token=x", "/nowhere", "/static/app.js"])
async def test_nobody_without_access_learns_the_path_of_a_session(tmp_path: Path, path: str) -> None:
    options = {"tokens": Callers.of_token("a-token-of-enough-length")}
    async with visiting(tmp_path, shop=shop(), app_options=options) as visitor:
        stranger = Visitor(visitor.app, visitor.host)
        async with stranger.client:
            answer = await stranger.get(path)
        assert visitor.root not in answer.text + str(answer.headers)


@pytest.mark.parametrize(
    "given",
    [
        "//evil.example",
        "/\\evil.example",
        "https://evil.example",
        "javascript:alert(1)",
        "/open?token=x",
        "/a\r\nSet-Cookie: b",
        "",
    ],
)
def test_a_form_leads_back_to_this_page_alone(given: str) -> None:
    assert local_path("/skills?q=a") == "/skills?q=a"
    assert local_path(given) == "/"
