"""verify: check a skill server over HTTP, over stdio or inside this process."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import anyio
import httpx2

from skillwire.conformance.channels import Channel, Trace, no_trace
from skillwire.conformance.channels.app import AppChannel, lifespan
from skillwire.conformance.channels.http import HttpChannel
from skillwire.conformance.channels.process import open_process
from skillwire.conformance.evaluate import evaluate
from skillwire.conformance.messages import Answer, Failure
from skillwire.conformance.observations import Observations
from skillwire.conformance.probe import Prober, Progress, second_look
from skillwire.conformance.reports import Baseline, Report
from skillwire.conformance.rules import check_names
from skillwire.conformance.session import REVISIONS, NotSupported, Revision, Session
from skillwire.conformance.target import Target, parse_target
from skillwire.conformance.trace import TraceFile
from skillwire.errors import SourceError
from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.text import redact


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
    trace: Path | None = None,
    limits: Limits = DEFAULT_LIMITS,
    progress: Progress | None = None,
) -> Report:
    """Check every rule of the Skills extension that can be seen from outside.

    `target` is a URL, a command as a string or as a list of words, a server object with `http_app` or
    `streamable_http_app`, or an ASGI application that answers at `path`. `env` is added to the few variables
    that a started server inherits, and `directory` is where it is started. `max_skills` and `max_bytes` bound
    how much is read on each protocol revision. `ignore` and `only` name rules or requirements to leave out or
    to report alone. Findings of the `baseline` do not count as failures. `trace` is a file for the raw
    messages, without secrets.

    Raises `SourceError` when the server cannot be verified: it cannot be reached, or does not answer.
    """
    if not revisions:
        raise SourceError("give at least one protocol revision to verify")
    ignored, chosen = check_names(ignore), check_names(only)
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
        )
        all_seen, unsupported = await run.observe(revisions)
    if tracer is not None:
        tracer.check()
    return evaluate(where.name, all_seen, unsupported, ignore=ignored, only=chosen, baseline=baseline)


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

    async def observe(self, revisions: Sequence[Revision]) -> tuple[list[Observations], dict[Revision, str]]:
        """What was seen on each supported revision, and why the others are not supported."""
        all_seen: list[Observations] = []
        unsupported: dict[Revision, str] = {}
        name, seconds = self.target.name, self.limits.verify_seconds
        failed: SourceError | None = None
        with anyio.move_on_after(seconds) as deadline:
            async with self._opened() as open_channel:
                for revision in revisions:
                    outcome = await self._survey(open_channel, revision)
                    if isinstance(outcome, Observations):
                        all_seen.append(outcome)
                    elif isinstance(outcome, NotSupported):
                        unsupported[revision] = redact(str(outcome), self.target.secrets)
                    else:
                        # Silence or a broken connection is a failure to verify, never a pass.
                        failed = self._failed(revision, str(outcome))
                        break
        if failed is not None:
            raise failed
        if deadline.cancelled_caught:
            raise SourceError(
                f"{name} was not checked to the end within {seconds:g} s; check less with --max-skills"
            )
        if not all_seen:
            revision, reason = next(iter(unsupported.items()))
            raise self._failed(revision, reason)
        return all_seen, unsupported

    def _failed(self, revision: Revision, reason: str) -> SourceError:
        reason = redact(reason, self.target.secrets)
        return SourceError(f"{self.target.name} cannot be verified (protocol {revision}): {reason}")

    async def _survey(self, open_channel: Opener, revision: Revision) -> Observations | SourceError:
        """Everything seen on one revision, over two connections; or why there is nothing to see.

        An error is returned, not raised: on the way through task groups it would become a group of errors.
        """

        def progress(step: str, done: int, total: int) -> None:
            self.progress(f"{revision}: {step}", done, total)

        self._trace_connection(revision)
        async with open_channel() as channel:
            session = Session(channel, revision, self.limits, self.max_bytes)
            try:
                opening = await session.open()
            except SourceError as error:
                return error
            prober = Prober(session, opening, max_skills=self.max_skills, progress=progress)
            seen = await prober.run()
            await session.close()
        skill = prober.second_skill()
        if skill is None or seen.skipped:
            return seen
        progress("asking on a second connection", 0, 1)
        self._trace_connection(revision)
        async with open_channel() as channel:
            session = Session(channel, revision, self.limits, self.max_bytes)
            try:
                seen.second = await second_look(session, skill, reads_directories=seen.reads_directories)
            except SourceError as error:
                reason = f"a second connection failed: {redact(str(error), self.target.secrets)}"
                failed = Answer(method="connect", failure=Failure.CONNECTION, reason=reason)
                seen.failures = (*seen.failures, failed)
            seen.failures = (*seen.failures, *session.failures)
            await session.close()
        return seen

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
                yield lambda: nullcontext(HttpChannel(client, target.url, answer_bytes=size, trace=trace))

    def _client(self) -> httpx2.AsyncClient:
        try:
            return httpx2.AsyncClient(
                headers={**self.target.headers, "Accept-Encoding": "identity"},
                # An answer may come in pieces over a long time; the deadline of the call ends it.
                timeout=httpx2.Timeout(self.limits.call_seconds, read=None, pool=None),
                limits=httpx2.Limits(max_connections=64),
            )
        except (ValueError, UnicodeError):
            raise SourceError("a header has characters that cannot be sent") from None


def _no_progress(step: str, done: int, total: int) -> None:
    pass
