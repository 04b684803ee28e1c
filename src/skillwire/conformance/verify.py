"""verify: check a skill server over HTTP, over stdio or inside this process."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import time
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias
from urllib.parse import quote
from urllib.request import getproxies

import anyio
import httpx2

from skillwire.conformance.channels import Channel, Trace, no_trace, open_process
from skillwire.conformance.channels.http import App, AppChannel, HttpChannel, app_of, lifespan
from skillwire.conformance.checks import evaluate
from skillwire.conformance.entries import EntryView
from skillwire.conformance.messages import Answer, RequestFailure
from skillwire.conformance.observations import Observations
from skillwire.conformance.probe import Prober, Progress, look, second_skill
from skillwire.conformance.reports import Baseline, Report
from skillwire.conformance.rules import check_names
from skillwire.conformance.session import REVISIONS, NotSupported, Revision, Session
from skillwire.errors import SourceError
from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.skill.lint import profile_named
from skillwire.text import redact, redact_url, secrets_in_arguments, secrets_in_urls, shown
from skillwire.wire import METHOD_LIST

_HOST: Final = re.compile(
    r"(?:localhost|\[[0-9a-fA-F:]+\]|[\w-]+(?:\.[\w-]+)+)(?::\d+)?(?:/\S*)?|[\w.-]+:\d+(?:/\S*)?"
)
_NAME_SHOWN: Final = 200
_COMMAND_SHOWN: Final = 100


@dataclass(frozen=True, slots=True)
class Target:
    """Where the server is: exactly one of `url`, `command` and `app`. Secrets are never shown."""

    url: str = field(default="", repr=False)
    command: tuple[str, ...] = field(default=(), repr=False)
    app: App | None = None
    path: str = ""
    directory: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    @property
    def name(self) -> str:
        """The URL or the command line, without what may be secret."""
        if self.command:
            line = shlex.join(self.command)
            return shown(redact(line, self.secrets), _COMMAND_SHOWN)
        if self.app is not None:
            return "in this process"
        return shown(redact_url(self.url), _NAME_SHOWN)

    @property
    def secrets(self) -> tuple[str, ...]:
        """Values never printed or recorded: headers, variables, secrets in arguments and the URL."""
        headers = [word for value in self.headers.values() for word in (value, value.rpartition(" ")[2])]
        found = [
            *headers,
            *self.env.values(),
            *secrets_in_arguments(self.command),
            *secrets_in_urls(self.url),
        ]
        return tuple(dict.fromkeys(secret for secret in found if secret))


def parse_target(
    target: object,
    *,
    headers: Mapping[str, str],
    token: str = "",
    env: Mapping[str, str],
    path: str = "/mcp",
    directory: str = "",
) -> Target:
    """A target from what a caller gave, or a `SourceError` that says what to give instead."""
    sent = {**headers, **({"Authorization": f"Bearer {token}"} if token else {})}
    if isinstance(target, str) and "://" in target.partition(" ")[0]:
        if not _is_http(target):
            # Only the scheme and the host are shown: the rest may hold a secret.
            raise SourceError(f"{Target(url=target).name} is not an http:// or https:// URL")
        return Target(url=target, headers=sent)
    if isinstance(target, str | list | tuple):
        words = _words(target)  # pyright: ignore[reportUnknownArgumentType]
        if len(words) == 1 and _HOST.fullmatch(words[0]) and shutil.which(words[0]) is None:
            word = shown(words[0], _NAME_SHOWN)
            is_local = words[0].startswith(("localhost", "127.", "["))
            scheme = "http" if is_local else "https"
            raise SourceError(
                f"{word} is not a command; for a server at this address write {scheme}://{word}"
            )
        return Target(command=tuple(words), env=env, directory=directory)
    app = app_of(target)
    if app is None:
        raise SourceError(
            f"a value of type {type(target).__name__} is not a server; give a URL, a command, a server or an "
            "ASGI application"
        )
    return Target(app=app, path=path, headers=sent)


def _words(target: str | Sequence[object]) -> list[str]:
    try:
        words = shlex.split(target) if isinstance(target, str) else [str(word) for word in target]
    except ValueError as error:
        raise SourceError(f"{shown(str(target))} is not a command line: {error}") from None
    if not words or not words[0]:
        raise SourceError("the command of the server is empty; give a URL or a command")
    return words


def _is_http(text: str) -> bool:
    try:
        url = httpx2.URL(text)
    except httpx2.InvalidURL:
        return False
    return url.scheme in ("http", "https") and bool(url.host) and (url.port or 0) < 65536


_LONGEST: Final = 256 * 1024


class TraceFile:
    """Writes to `path` until it is closed. `secrets` never reach the file, wherever they occur."""

    def __init__(self, path: Path, secrets: Iterable[str] = ()) -> None:
        kept = set(secrets)
        self._secrets = kept | {quote(secret, safe="") for secret in kept}
        self._secrets |= {json.dumps(secret)[1:-1] for secret in kept}
        self._start = time.monotonic()
        self._connection = 0
        self._revision = ""
        self._path = path
        self._problem: OSError | None = None
        try:
            self._file = path.open("w", encoding="utf-8")
        except OSError as error:
            raise self._cannot_write(error) from None

    def connection(self, revision: str) -> None:
        """Count a new connection, on which this protocol revision is used."""
        self._connection += 1
        self._revision = revision

    def __call__(self, kind: str, text: bytes) -> None:
        line: dict[str, object] = {
            "seconds": round(time.monotonic() - self._start, 6),
            "connection": self._connection,
            "revision": self._revision,
            "kind": kind,
        }
        line["text"] = redact(text[:_LONGEST].decode("utf-8", "replace"), self._secrets)
        if len(text) > _LONGEST:
            line["bytes"] = len(text)
        # Only ASCII: what a server wrote cannot control the terminal that shows the file.
        try:
            self._file.write(json.dumps(line) + "\n")
        except OSError as error:
            self._problem = error

    def close(self) -> None:
        try:
            self._file.close()
        except OSError as error:
            self._problem = error

    def check(self) -> None:
        """Raise a `SourceError` if something could not be written. Call it after `close`."""
        if self._problem is not None:
            raise self._cannot_write(self._problem)

    def _cannot_write(self, error: OSError) -> SourceError:
        return SourceError(f"cannot write the trace {self._path}: {error.strerror}")


async def verify(
    target: str | Sequence[str] | object,
    *,
    revisions: Sequence[Revision] = REVISIONS,
    max_skills: int | None = None,
    max_bytes: int | None = None,
    headers: Mapping[str, str] | None = None,
    token: str = "",
    env: Mapping[str, str] | None = None,
    directory: str = "",
    path: str = "/mcp",
    ignore: Collection[str] = (),
    only: Collection[str] = (),
    baseline: Baseline | None = None,
    profile: str = "",
    quick: bool = False,
    trace: Path | None = None,
    limits: Limits = DEFAULT_LIMITS,
    progress: Progress | None = None,
) -> Report:
    """Check every rule of the Skills extension that can be seen from outside.

    `target` is a URL, a command as a string or as a list of words, a server object with `http_app` or
    `streamable_http_app`, or an ASGI application that answers at `path`. `env` is added to the few variables
    that a started server inherits, and `directory` is where it is started. `max_skills` and `max_bytes` bound
    how much is read on each protocol revision. `ignore` and `only` name rules or requirements to leave out or
    to report alone. Findings of the `baseline` do not count as failures. `profile` names one of `PROFILES`,
    whose demands are checked as well. With `quick`, only the newest revision that the server supports is
    checked, and nothing is asked twice. `trace` is a file for the raw messages, without secrets.

    Raises `SourceError` when the server cannot be verified: it cannot be reached, or does not answer.
    """
    if not revisions:
        raise SourceError("give at least one protocol revision to verify")
    ignored, chosen = check_names(ignore), check_names(only)
    demands = profile_named(profile) if profile else None
    where = parse_target(
        target, headers=headers or {}, token=token, env=env or {}, path=path, directory=directory
    )
    with closing(TraceFile(trace, where.secrets)) if trace is not None else nullcontext() as tracer:
        run = _Run(
            where,
            limits,
            max_skills=limits.verified_skills if max_skills is None else max_skills,
            max_bytes=limits.bytes_per_server if max_bytes is None else max_bytes,
            progress=progress or _no_progress,
            tracer=tracer,
            quick=quick,
        )
        all_seen, unsupported = await run.observe(revisions)
    if tracer is not None:
        tracer.check()
    return evaluate(
        where.name,
        all_seen,
        unsupported,
        ignore=ignored,
        only=chosen,
        baseline=baseline,
        profile=demands,
        secrets=where.secrets,
        is_quick=quick,
    )


Opener: TypeAlias = Callable[[], AbstractAsyncContextManager[Channel]]
"""Makes a channel for one connection: a process of its own, or one client for all."""


@dataclass(eq=False)
class _Run:
    """The conversations of one run."""

    target: Target
    limits: Limits
    max_skills: int
    max_bytes: int
    progress: Progress
    tracer: TraceFile | None
    quick: bool = False

    async def observe(self, revisions: Sequence[Revision]) -> tuple[list[Observations], dict[Revision, str]]:
        """Return the observations on each supported revision, and why the others are not supported."""
        seen: dict[Revision, Observations] = {}
        unsupported: dict[Revision, str] = {}
        name, seconds = self.target.name, self.limits.verify_seconds
        failed: SourceError | None = None
        # Newest first: a quick check ends there, and a started server has its connection state in the older.
        order = sorted(revisions, reverse=True) if self.quick or self.target.command else revisions
        with anyio.move_on_after(seconds) as deadline:
            async with self._opened() as open_channel:
                for revision in order:
                    outcome = await self._survey(open_channel, revision, self._known(seen))
                    if isinstance(outcome, Observations):
                        seen[revision] = outcome
                        if self.quick:
                            break
                    elif isinstance(outcome, NotSupported):
                        unsupported[revision] = redact(str(outcome), self.target.secrets)
                    else:
                        # Silence or a broken connection is a failure to verify, never a pass.
                        failed = self._failed(revision, str(outcome))
                        break
                if failed is None and not self.quick:
                    await self._look_again(open_channel, list(seen.values()))
        if failed is not None:
            raise failed
        if deadline.cancelled_caught:
            raise SourceError(
                f"{name} was not checked to the end within {seconds:g} s; check less with --max-skills"
            )
        if not seen:
            revision, reason = next(iter(unsupported.items()))
            raise self._failed(revision, reason)
        if self.quick:
            unsupported.clear()
        return [seen[revision] for revision in revisions if revision in seen], unsupported

    def _known(self, seen: Mapping[Revision, Observations]) -> EntryView | None:
        """A skill that an earlier process listed. Each process is a new connection: what is asked there first
        is asked before anything is listed."""
        if not self.target.command or self.quick:
            return None
        return next((skill for one in seen.values() if (skill := second_skill(one)) is not None), None)

    def _failed(self, revision: Revision, reason: str) -> SourceError:
        reason = redact(reason, self.target.secrets)
        return SourceError(f"{self.target.name} cannot be verified (protocol {revision}): {reason}")

    async def _survey(
        self, open_channel: Opener, revision: Revision, known: EntryView | None
    ) -> Observations | SourceError:
        """Everything seen on one revision; or why there is nothing to see.

        A process that ends is started once more: what ended it has to end it again. A listing that changed
        while it was checked is checked once more: it has to change again. An error is returned, not raised:
        on the way through task groups it would become a group of errors.
        """
        first = await self._survey_once(open_channel, revision, known)
        if not isinstance(first, Observations):
            return first
        ended = [one for one in first.failures if one.may_be_transient] if self.target.command else []
        if not ended and not first.listing_changed:
            return first
        again = await self._survey_once(open_channel, revision, known)
        if not isinstance(again, Observations) or (first.listing_changed and not again.has_steady_listing):
            return first
        failures = {(one.method, one.about) for one in again.failures}
        again.passing += tuple(one for one in ended if (one.method, one.about) not in failures)
        if first.listing_changed:
            again.passing += (Answer(method=METHOD_LIST, reason="the listing changed while it was checked"),)
        return again

    async def _survey_once(
        self, open_channel: Opener, revision: Revision, known: EntryView | None
    ) -> Observations | SourceError:
        def progress(step: str, done: int, total: int) -> None:
            self.progress(f"{revision}: {step}", done, total)

        self._trace_connection(revision)
        async with open_channel() as channel:
            session = Session(channel, revision, self.limits, self.max_bytes)
            try:
                opening = await session.open()
            except SourceError as error:
                return error
            prober = Prober(
                session=session,
                seen=Observations(revision=revision, opening=opening),
                max_skills=self.max_skills,
                progress=progress,
                known=known,
                quick=self.quick,
            )
            seen = await prober.run()
            await session.close()
        return seen

    async def _look_again(self, open_channel: Opener, all_seen: Sequence[Observations]) -> None:
        """Ask for one skill on a second connection, on each revision. A process that was started for one
        revision has been asked already, at its start, and a third is not started."""
        if self.target.command and any(seen.second is not None for seen in all_seen):
            return
        for seen in all_seen[:1] if self.target.command else all_seen:
            skill = second_skill(seen)
            if skill is None or seen.skipped:
                continue
            self.progress(f"{seen.revision}: asking on a second connection", 0, 1)
            reason = ""
            for _ in range(2):
                reason = await self._look(open_channel, seen, skill)
                if not reason:
                    break
            if reason:
                failed = Answer(method="connect", failure=RequestFailure.CONNECTION, reason=reason)
                seen.failures = (*seen.failures, failed)

    async def _look(self, open_channel: Opener, seen: Observations, skill: EntryView) -> str:
        """Why there is no second connection; empty if there was one."""
        self._trace_connection(seen.revision)
        async with open_channel() as channel:
            session = Session(channel, seen.revision, self.limits, self.max_bytes)
            try:
                await session.open()
            except SourceError as error:
                return f"a second connection failed: {redact(str(error), self.target.secrets)}"
            seen.second = await look(session, skill, reads_directories=seen.reads_directories)
            seen.failures = (*seen.failures, *session.failures)
            seen.passing = (*seen.passing, *session.passing)
            await session.close()
        return ""

    def _trace_connection(self, revision: Revision) -> None:
        if self.tracer is not None:
            self.tracer.connection(revision)

    @asynccontextmanager
    async def _opened(self) -> AsyncGenerator[Opener]:
        target, size = self.target, self.limits.answer_bytes
        trace: Trace = self.tracer or no_trace
        if target.command:
            yield lambda: open_process(
                target.command,
                env=target.env,
                directory=target.directory,
                answer_bytes=size,
                trace=trace,
            )
        elif target.app is not None:
            app = target.app
            async with lifespan(app):
                yield lambda: nullcontext(
                    AppChannel(app, target.path, target.headers, answer_bytes=size, trace=trace)
                )
        else:
            async with self._client() as client:
                yield lambda: nullcontext(
                    HttpChannel(client, target.url, answer_bytes=size, make_client=self._client, trace=trace)
                )

    def _client(self) -> httpx2.AsyncClient:
        try:
            return httpx2.AsyncClient(
                # Loading certificates takes longer than the check of a small server.
                verify=self.target.url.lower().startswith("https:") or bool(getproxies()),
                headers={**self.target.headers, "Accept-Encoding": "identity"},
                # An answer may come in pieces over a long time; the deadline of the call ends it.
                timeout=httpx2.Timeout(self.limits.call_seconds, read=None, pool=None),
                limits=httpx2.Limits(max_connections=64),
            )
        except (ValueError, UnicodeError):
            raise SourceError("a header has characters that cannot be sent") from None


def _no_progress(step: str, done: int, total: int) -> None:
    pass
