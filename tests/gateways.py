"""Gateways for tests: in this process, over simulated servers, with clients that answer questions."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2 as httpx
import mcp_types as types
from mcp import Client
from mcp.client import ClientRequestContext
from mcp.client.extension import advertise
from mcp.client.streamable_http import streamable_http_client

from clients import ERAS
from folder_server import in_task
from simulator import Simulator
from skillwire.access import Caller, new_token
from skillwire.access.callers import with_caller
from skillwire.gateway import Gateway, GatewayOptions
from skillwire.host import HostSettings, ServerConfig
from skillwire.server import ServerOptions
from skillwire.wire import EXTENSION_ID
from waiting import PATIENCE

THOUGHT = 0.32
"""Seconds. An answer that comes sooner was given by nobody."""


class _Thinking:
    """The clock of all gateways in this process: time passes on it only while a user thinks."""

    def __init__(self) -> None:
        self._now = 0.0

    def __call__(self) -> float:
        return self._now

    async def pass_(self, seconds: float) -> None:
        self._now += seconds


THINKING = _Thinking()


def make_gateway(
    folder: Path,
    options: GatewayOptions | None = None,
    server_options: ServerOptions | None = None,
    host_options: dict[str, Any] | None = None,
    **servers: Any,
) -> Gateway:
    """A gateway that keeps its files below `folder`."""
    made = {
        label: ServerConfig(instance=given.server) if isinstance(given, Simulator) else given
        for label, given in servers.items()
    }
    return Gateway(
        HostSettings(
            **{
                "servers": made,
                "cache_directory": folder / "cache",
                "approvals_file": folder / "approvals.sqlite",
                **(host_options or {}),
            }
        ),
        server_options or ServerOptions(),
        options=replace(options or GatewayOptions(), clock=THINKING),
    )


class User:
    """A person at a client, who is asked questions and answers them. `asked` are the questions.

    They think on the clock of `make_gateway`; for a gateway in another process, `think` is a real sleep.
    """

    def __init__(
        self,
        *answers: str,
        thinks: float = THOUGHT,
        before: Callable[[], None] = lambda: None,
        think: Callable[[float], Awaitable[None]] = THINKING.pass_,
    ) -> None:
        self.asked: list[types.ElicitRequestParams] = []
        self._answers = answers or ("accept",)
        self._thinks = thinks
        self._before = before
        self._think = think

    async def answer(
        self, context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult | types.ErrorData:
        action: Any = self._answers[min(len(self.asked), len(self._answers) - 1)]
        self.asked.append(params)
        self._before()
        await self._think(self._thinks)
        content: dict[str, Any] | None = {"approve": True} if action == "accept" else None
        if action == "unticked":
            action, content = "accept", {"approve": False}
        if action == "error":
            return types.ErrorData(code=types.INTERNAL_ERROR, message="no")
        return types.ElicitResult(action=action, content=content)


@asynccontextmanager
async def joined(
    gateway: Gateway,
    version: str = "2026-07-28",
    *,
    user: User | None = None,
    caller: Caller | None = None,
    knows_skills: bool = True,
) -> AsyncGenerator[Client]:
    """A client of the SDK at a gateway that runs, for one caller."""
    mode: Any = ERAS[version]
    extensions = [advertise(EXTENSION_ID)] if knows_skills else []
    answer = user.answer if user is not None else None
    server = gateway.server(caller)
    async with Client(
        server.low_level, mode=mode, extensions=extensions, elicitation_callback=answer
    ) as client:
        assert client.protocol_version == version
        yield client


def text_of(result: Any) -> str:
    """The text of a tool's result or of a resource."""
    parts = getattr(result, "content", None) or result.contents
    return parts[0].text


@asynccontextmanager
async def serving(gateway: Gateway) -> AsyncGenerator[str]:
    """The URL of a gateway that is served over HTTP in this process."""
    async with in_task(gateway.http_app()) as http:
        yield http.url


def write_callers(path: Path, **callers: dict[str, Any]) -> dict[str, str]:
    """Write a file of callers, each with these permissions; their tokens."""
    tokens: dict[str, str] = {}
    text = path.read_text() if path.exists() else ""
    for name, given in callers.items():
        tokens[name] = new_token()
        text = with_caller(text, name, tokens[name], **given)
    path.write_text(text)
    return tokens


@asynccontextmanager
async def connected_to(
    url: str, token: str, version: str = "2026-07-28", *, user: User | None = None, **headers: str
) -> AsyncGenerator[Client]:
    """A client of the SDK at a gateway over HTTP."""
    mode: Any = ERAS[version]
    sent = {"Authorization": f"Bearer {token}", **headers} if token else headers
    answer = user.answer if user is not None else None
    async with (
        httpx.AsyncClient(headers=sent, timeout=PATIENCE) as http,
        Client(
            streamable_http_client(url, http_client=http),
            mode=mode,
            extensions=[advertise(EXTENSION_ID)],
            elicitation_callback=answer,
        ) as client,
    ):
        yield client
