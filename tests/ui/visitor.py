"""Somebody who uses the review page without a browser: requests and forms, in this process."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from html import unescape
from pathlib import Path
from typing import Any

import anyio
import httpx2

from simulator import opened
from skillwire.host import SkillHost
from skillwire.ui import ReviewApp

BASE = "http://127.0.0.1:8765"
PATIENCE = 120
_FORM = re.compile(r"<form\b[^>]*>.*?</form>", re.DOTALL)
_FIELD = re.compile(r'<input type="hidden" name="([^"]+)" value="([^"]*)">')


def form_fields(page: str, *, about: str = "", action: str = "/approve") -> dict[str, str]:
    """The hidden fields of the first form of a page that has `about` in it."""
    for form in _FORM.findall(page):
        if about in form and re.search(f'action="[^"]*{action}"', form):
            return {name: unescape(value) for name, value in _FIELD.findall(form)}
    raise AssertionError(f"no form for {action} about {about}")


def revision(page: str) -> int:
    """The number of the last change that a page is sure to show."""
    [number] = re.findall(r'data-revision="(\d+)"', page)
    return int(number)


class Visitor:
    """A browser's part: it keeps its cookie and sends the origin with a form."""

    def __init__(self, app: ReviewApp, host: SkillHost) -> None:
        self.app = app
        self.host = host
        self.root = ""
        self.client = httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url=BASE)

    async def enter(self, link: str = "") -> None:
        answer = await self.client.get(link or self.app.link())
        assert answer.status_code == 200
        [self.root] = re.findall(r'content="0;url=(/[^/"]+)/', answer.text)

    def at(self, path: str) -> str:
        """Where a page of this session is. What is outside of every session stays as it is."""
        return path if path.startswith(("http", "/open", "/static")) else self.root + path

    async def get(self, path: str, **headers: str) -> httpx2.Response:
        return await self.client.get(self.at(path), headers=headers)

    async def page(self, path: str) -> str:
        answer = await self.get(path)
        assert answer.status_code == 200, answer.text
        return answer.text

    async def form(self, path: str, *, about: str = "", action: str = "/approve") -> dict[str, str]:
        """The hidden fields of the first form of a page that has `about` in it, when there is one.

        The inbox offers a decision when the texts of a skill were checked.
        """
        with anyio.fail_after(PATIENCE):
            while True:
                page = await self.page(path)
                try:
                    return form_fields(page, about=about, action=action)
                except AssertionError:
                    await self.first_event(page)

    async def first_event(self, page: str) -> bytes:
        """The first thing that the event stream of this page says: a change, or that it still listens."""
        cookies = "; ".join(f"{name}={value}" for name, value in self.client.cookies.items())
        scope = {
            "type": "http",
            "method": "GET",
            "path": self.at("/events"),
            "query_string": f"after={revision(page)}".encode(),
            "headers": [(b"host", BASE.removeprefix("http://").encode()), (b"cookie", cookies.encode())],
        }
        heard, parts = anyio.Event(), list[bytes]()

        async def receive() -> Any:
            await anyio.sleep_forever()

        async def send(message: Any) -> None:
            part = message.get("body", b"")
            if part and not part.startswith(b"retry"):
                parts.append(part)
                heard.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.app, scope, receive, send)
            with anyio.fail_after(PATIENCE):
                await heard.wait()
            tasks.cancel_scope.cancel()
        return parts[0]

    async def post(self, path: str, form: dict[str, str], *, origin: str | None = BASE) -> httpx2.Response:
        headers = {} if origin is None else {"origin": origin}
        return await self.client.post(self.at(path), data=form, headers=headers)


@asynccontextmanager
async def visiting(
    folder: Path, *, app_options: dict[str, Any] | None = None, **servers: Any
) -> AsyncGenerator[Visitor]:
    """A visitor who was let in, of a host with these servers."""
    async with opened(folder, **servers) as host:
        app = ReviewApp(host, names=["127.0.0.1", "localhost"], port=8765, **(app_options or {}))
        visitor = Visitor(app, host)
        async with visitor.client, app.running():
            await visitor.enter()
            yield visitor
