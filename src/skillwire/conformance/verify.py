"""verify: judge a skill server, over HTTP, over stdio or inside this process."""

from __future__ import annotations

import shlex
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TypeAlias

import anyio
import httpx2

from skillwire.conformance.asgi import App, AppChannel, app_of, lifespan
from skillwire.conformance.channels import Channel, open_process
from skillwire.conformance.evaluate import judge
from skillwire.conformance.http_channel import HttpChannel
from skillwire.conformance.observations import Observations
from skillwire.conformance.probe import Prober, Progress
from skillwire.conformance.report import Report
from skillwire.conformance.rules import BY_ID, RULES
from skillwire.conformance.session import ERAS, Era, EraNotSpoken, Session
from skillwire.errors import SourceError
from skillwire.issues import shown
from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.text import redact_url


@dataclass(frozen=True, slots=True)
class Target:
    """Where the server is: exactly one of `url`, `command` and `app`. Secrets are never shown."""

    url: str = ""
    command: tuple[str, ...] = ()
    app: App | None = None
    path: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    @property
    def place(self) -> str:
        """The server by name, without what could be secret: no query, no user name, no argument."""
        if self.command:
            return shown(self.command[0])
        if self.app is not None:
            return "in this process"
        return shown(redact_url(self.url), 200)


async def verify(
    target: str | Sequence[str] | object,
    *,
    eras: Sequence[Era] = ERAS,
    max_skills: int | None = None,
    max_bytes: int | None = None,
    headers: Mapping[str, str] | None = None,
    token: str = "",
    env: Mapping[str, str] | None = None,
    path: str = "/mcp",
    ignore: Collection[str] = (),
    limits: Limits = DEFAULT_LIMITS,
    progress: Progress | None = None,
) -> Report:
    """Check every rule of the Skills extension that can be seen from outside.

    `target` is a URL, a command as a string or as a list of words, a server object with `http_app` or
    `streamable_http_app`, or an ASGI application that answers at `path`. `env` is added to the few variables
    that a started server inherits. `max_skills` and `max_bytes` bound how much is read on each era. `ignore`
    names rules that are not to be reported.

    Raises `SourceError` when the server cannot be spoken to at all.
    """
    unknown = [
        name for name in ignore if name not in BY_ID and all(name != rule.requirement for rule in RULES)
    ]
    if unknown:
        raise SourceError(f"{shown(unknown[0])} is no rule; skillwire verify --rules lists them")
    if not eras:
        raise SourceError("no era to verify")
    where = parse_target(target, headers=headers or {}, token=token, env=env or {}, path=path)
    surveys: list[Observations] = []
    silent: dict[Era, str] = {}
    with anyio.move_on_after(limits.judge_seconds) as deadline:
        async with _opened(where, limits) as open_channel:
            for era in eras:
                seen = await _survey(
                    open_channel,
                    era,
                    limits,
                    max_skills=limits.judged_skills if max_skills is None else max_skills,
                    max_bytes=limits.bytes_per_server if max_bytes is None else max_bytes,
                    progress=progress or _no_progress,
                )
                if isinstance(seen, Observations):
                    surveys.append(seen)
                else:
                    silent[era] = seen
    if deadline.cancelled_caught:
        raise SourceError(f"{where.place} was not checked to the end within {limits.judge_seconds:g} s")
    if not surveys:
        era, reason = next(iter(silent.items()))
        raise SourceError(f"{where.place} cannot be verified on {era}: {reason}")
    return judge(where.place, surveys, silent, ignore=ignore)


def parse_target(
    target: object, *, headers: Mapping[str, str], token: str, env: Mapping[str, str], path: str
) -> Target:
    """A target from what a caller gave, or a `SourceError`."""
    sent = {**headers, **({"Authorization": f"Bearer {token}"} if token else {})}
    if isinstance(target, str) and "://" in target.partition(" ")[0]:
        if not _is_http(target):
            # Only the scheme and the host are shown: the rest may hold a secret.
            raise SourceError(f"{Target(url=target).place} is not an http:// or https:// URL")
        return Target(url=target, headers=sent)
    if isinstance(target, str | list | tuple):
        try:
            words = shlex.split(target) if isinstance(target, str) else [str(word) for word in target]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        except ValueError as error:
            raise SourceError(f"{shown(str(target))} is not a command line: {error}") from None  # pyright: ignore[reportUnknownArgumentType]
        if not words:
            raise SourceError("the command of the server is empty")
        return Target(command=tuple(words), env=env)
    app = app_of(target)
    if app is None:
        raise SourceError(f"a {type(target).__name__} is no server, application, URL or command")
    return Target(app=app, path=path, headers=sent)


def _is_http(text: str) -> bool:
    try:
        url = httpx2.URL(text)
    except httpx2.InvalidURL:
        return False
    return url.scheme in ("http", "https") and bool(url.host) and (url.port or 0) < 65536


Opener: TypeAlias = Callable[[], AbstractAsyncContextManager[Channel]]
"""Makes a channel for an era: a process of its own, or one client for all."""


@asynccontextmanager
async def _opened(target: Target, limits: Limits) -> AsyncGenerator[Opener]:
    size = limits.answer_bytes
    if target.command:
        yield lambda: open_process(target.command, env=target.env, answer_bytes=size)
    elif target.app is not None:
        channel = AppChannel(target.app, target.path, target.headers, answer_bytes=size)
        async with lifespan(target.app):
            yield lambda: nullcontext(channel)
    else:
        async with _client(target, limits) as client:
            yield lambda: nullcontext(HttpChannel(client, target.url, answer_bytes=size))


def _client(target: Target, limits: Limits) -> httpx2.AsyncClient:
    try:
        return httpx2.AsyncClient(
            headers={**target.headers, "Accept-Encoding": "identity"},
            # An answer may come in pieces over a long time; the deadline of the call ends it.
            timeout=httpx2.Timeout(limits.call_seconds, read=None, pool=None),
            limits=httpx2.Limits(max_connections=64),
        )
    except (ValueError, UnicodeError):
        raise SourceError("a header has characters that cannot be sent") from None


async def _survey(
    open_channel: Opener, era: Era, limits: Limits, *, max_skills: int, max_bytes: int, progress: Progress
) -> Observations | str:
    """What was seen on an era, or why it is not spoken."""
    async with open_channel() as channel:
        speaker = Session(channel, era, limits, max_bytes)
        try:
            opening = await speaker.open()
        except EraNotSpoken as error:
            return str(error)

        def told(step: str, done: int, total: int) -> None:
            progress(f"{era}: {step}", done, total)

        survey = await Prober(speaker, opening, max_skills=max_skills, progress=told).run()
        await speaker.close()
        return survey


def _no_progress(step: str, done: int, total: int) -> None:
    pass
