"""ApprovalElicitor: asks a caller about a skill that waits for approval, through the client that they use.

There are three ways, tried in this order:

1. A form, where the client declares that it shows forms: within the request on the 2025 revisions, as an
   input-required result on 2026-07-28, where the request is sent again with the answer.
2. The approval page, where one runs and the client declares that it opens URLs.
3. An error that says that the user must act. The command to run is in the log.

Only a clear yes counts, and only for the set of files that was shown. A client that says yes within 300 ms
has asked nobody: it is asked once more, and a second yes as quick counts as a no.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import logging
import secrets
import shlex
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol, TypeAlias

import anyio
import mcp_types as types
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from skillwire.access import Caller
from skillwire.consent import State, file_lines, single_file
from skillwire.documents import JsonObject
from skillwire.errors import SkillwireError
from skillwire.gateway.records import Approvals, CallerQuestion, Unapproved
from skillwire.host import Decider
from skillwire.server.handlers import Context, Handler, is_modern
from skillwire.server.results import APPROVAL_REQUIRED
from skillwire.skill import SetDigest, SkillUri, path_below, skill_root
from skillwire.text import safe_line
from skillwire.trust import (
    AdmissionRequest,
    Allowed,
    FileChange,
    requested_tools,
)

_log = logging.getLogger("skillwire.gateway")


_FILES_SHOWN: Final = 8
_FIELD: Final = "approve"
_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        _FIELD: {
            "type": "boolean",
            "title": "Approve this skill",
            "description": "Yes, it may be loaded with exactly these files.",
        }
    },
    "required": [_FIELD],
}


def refusal_text(refused: Unapproved, why: str) -> str:
    """Say what is wrong, and who must act. A model may read it, so it names no command: `approve_command` is
    for the log.
    """
    said = f"; {why}" if why else ""
    return f"{refused.uri}: {refused.status.words}{said}. {_next_step(refused)}"


def _next_step(refused: Unapproved) -> str:
    skill = refused.offer.skill
    if refused.policy:
        return f"It cannot be used: {safe_line(refused.policy, limit=500)}. Tell the user."
    if refused.question is None and refused.status.state is not State.DECLINED:
        return f"The settings of {skill.origin.label} keep it out. Only the user can change that: tell them."
    if refused.offer.digest is None:
        return "It is generated on request, so only a client that can ask its user can load it."
    return "Only the user can approve it: tell them, and try again once they have."


def approve_command(refused: Unapproved, caller: Caller) -> str:
    """The command by which a person approves a skill for a caller."""
    skill = refused.offer.skill
    who = ("--caller", caller.name) if caller.name else ()
    return shlex.join(["skillwire", "approve", skill.uri, "--on", skill.origin.label, *who])


def question_text(question: CallerQuestion) -> str:
    """The question to a person, in plain lines. Whatever a server wrote is cleaned, and is quoted as such."""
    offer = question.offer
    skill, entry = offer.skill, offer.skill.entry
    whose = "the MCP server" if not skill.origin.is_local else "the folder"
    path = single_file(entry, question.files)
    what = f"{path} of the skill {safe_line(entry.name)}" if path else f"the skill {safe_line(entry.name)}"
    lines = [
        f"May {what} of {whose} {skill.origin.label} be {'read' if path else 'loaded'}?",
        f'It says: "{safe_line(entry.description, limit=300)}"',
    ]
    if entry.is_dynamic:
        lines.append("Its server lists no digests: your answer is only for what was sent now.")
    lines += ["A yes covers exactly:", *(f"- {line}" for line in file_lines(entry, question.files))]
    for change in question.changes[:_FILES_SHOWN]:
        path = "/".join(path_below(change.uri, skill_root(entry.uri)))
        lines.append(f"Since you approved it, {safe_line(path, limit=80)} was {change.kind}.")
    if tools := requested_tools(entry.frontmatter.get("allowed-tools")):
        lines.append(f"It asks for tools, which are not granted: {safe_line(' '.join(tools), limit=200)}")
    for scan in question.scans:
        first, *found = scan.lines(_FILES_SHOWN)
        lines += [f"Scanned by {first}", *(f'- "{line}"' for line in found)]
    if question.digest is not None:
        lines.append(f"Digest: {question.digest}")
    lines.append("A skill is instructions that your agent will follow. Approve it only if you trust it.")
    return "\n".join(lines)


def elicitation(
    question: CallerQuestion, page: str | None, *, elicitation_id: str | None
) -> types.ElicitRequest:
    """The question as a form, or as the URL of a page if there is one."""
    message = question_text(question)
    if page is None:
        form = types.ElicitRequestFormParams(message=message, requested_schema=_SCHEMA)
        return types.ElicitRequest(params=form)
    url = types.ElicitRequestURLParams(message=message, url=page, elicitation_id=elicitation_id)
    return types.ElicitRequest(params=url)


def modes(ctx: Context) -> tuple[bool, bool]:
    """Whether the client shows forms, and whether it opens URLs."""
    capabilities = ctx.session.client_capabilities
    declared = capabilities.elicitation if capabilities is not None else None
    if declared is None:
        return False, False
    # Before there were two, `{}` meant forms.
    return declared.form is not None or declared.url is None, declared.url is not None


def says_yes(given: types.ElicitResult | None) -> bool:
    """Whether an answer is a clear yes: the form was accepted, with its one box ticked."""
    return given is not None and given.action == "accept" and (given.content or {}).get(_FIELD) is True


def why_not(given: types.ElicitResult | None) -> str:
    """Return why an answer does not count, for the record."""
    if given is None:
        return "nobody answered"
    if given.action == "accept":
        return "the client answered without asking" if says_yes(given) else "declined"
    return "declined" if given.action == "decline" else "the question was closed"


QUICKEST_ANSWER: Final = 0.3
"""Seconds. Nobody reads a question and answers it in less."""
_ASK: Final = "approve"
_ROUNDS: Final = 4
_PAGE_SECONDS: Final = 0.25
_STATE_SECONDS: Final = 900.0
_MOST_USED: Final = 100_000
_MOST_LOGGED: Final = 10_000

Record: TypeAlias = Callable[[str, CallerQuestion | Unapproved, str], None]
"""Called for each approval and refusal: which it was, what it was about, and how or why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalQuestion:
    """The question to a caller: may this skill be loaded with exactly the files of this digest?"""

    label: str
    """The user's name for its server."""
    uri: SkillUri
    """As its server has it."""
    name: str
    description: str
    """In the server's own words, as they came."""
    digest: SetDigest | None
    """`None` for a skill that is generated on request: a page cannot ask about that."""
    changes: tuple[FileChange, ...]


class ApprovalPage(Protocol):
    """A page on which a caller approves skills. It keeps approvals in the store that the gateway reads."""

    def url(self, caller: Caller, question: ApprovalQuestion) -> str | None:
        """Where this question is asked; `None` if the page does not run."""
        ...


@dataclass(frozen=True, slots=True)
class _Asked:
    """A question that is being asked."""

    subject: tuple[str, str, str]
    round: int
    at: float
    by_page: bool = False


@dataclass(slots=True, eq=False)
class ApprovalElicitor:
    """Asks the callers of one gateway.

    `page` is for clients that open URLs. A client or a person has `answer_seconds` to answer.
    """

    approvals: Approvals
    page: ApprovalPage | None = None
    answer_seconds: float = 300.0
    now: Callable[[], float] = time.monotonic
    _key: bytes = field(default_factory=lambda: secrets.token_bytes(32), init=False, repr=False)
    _used: dict[str, None] = field(default_factory=dict[str, None], init=False)
    _logged: dict[tuple[object, ...], None] = field(
        default_factory=dict[tuple[object, ...], None], init=False
    )
    _turns: dict[tuple[str, ...], anyio.Lock] = field(
        default_factory=dict[tuple[str, ...], anyio.Lock], init=False
    )

    def log_refusal(self, refused: Unapproved, caller: Caller) -> None:
        """Say in the log how a person approves a skill, once for each version and caller. No client reads
        that."""
        subject = (caller.name, refused.uri, refused.offer.digest)
        if refused.question is None or refused.offer.digest is None or subject in self._logged:
            return
        if len(self._logged) >= _MOST_LOGGED:
            self._logged.clear()
        self._logged[subject] = None
        _log.warning("%s is not approved: %s", refused.uri, approve_command(refused, caller))

    def guard(self, handler: Handler, caller: Caller, record: Record) -> Handler:
        """The handler, with a question to the caller in place of `Unapproved`."""

        async def guarded(ctx: Context, params: Any) -> Any:
            request = _Request(self, ctx, params, caller, record)
            answer = request.answer_in_request() if is_modern(ctx) else None
            for _ in range(_ROUNDS):
                try:
                    if answer is not None:
                        asked, given = answer
                        answer = None
                        return await request.take_answer(asked, given, handler)
                    return await handler(ctx, params)
                except Unapproved as refused:
                    if refused.question is None:
                        return request.refuse(refused, "")
                    result = await request.ask(refused, refused.question)
                    if result is not None:
                        return result
            raise MCPError(APPROVAL_REQUIRED, "The skill changes faster than it can be approved")

        return guarded

    # The state of a question on 2026-07-28: signed, for one caller, for one answer.

    def seal(self, caller: Caller, asked: _Asked) -> str:
        """A question as text that only this gateway can create, and that comes back with the answer."""
        body = json.dumps(
            [caller.name, *asked.subject, asked.round, asked.at, asked.by_page, secrets.token_hex(8)]
        ).encode()
        mark = hmac.new(self._key, body, hashlib.sha256).digest()
        return base64.urlsafe_b64encode(mark + body).decode("ascii")

    def unseal(self, caller: Caller, text: str) -> _Asked | None:
        """The question that an answer is for; `None` if it is not this caller's, is old, or was answered."""
        try:
            data = base64.b64decode(text, altchars=b"-_", validate=True)
            mark, body = data[:32], data[32:]
            if not hmac.compare_digest(mark, hmac.new(self._key, body, hashlib.sha256).digest()):
                return None
            name, label, uri, digest, number, at, by_page, nonce = json.loads(body)
        except (ValueError, TypeError):
            return None
        if name != caller.name or nonce in self._used or self.now() - at > _STATE_SECONDS:
            return None
        # An answer counts once, so that an old yes cannot undo a later revocation.
        self._used[nonce] = None
        if len(self._used) > _MOST_USED:
            del self._used[next(iter(self._used))]
        return _Asked((label, uri, digest), number, at, by_page)

    @asynccontextmanager
    async def turn(self, caller: Caller, question: CallerQuestion) -> AsyncGenerator[None]:
        """Hold this while a caller is asked, so that nobody is asked twice at once about the same thing."""
        key = (caller.name, *question.subject)
        lock = self._turns.setdefault(key, anyio.Lock())
        try:
            async with lock:
                yield
        finally:
            if not lock.locked() and not lock.statistics().tasks_waiting:
                self._turns.pop(key, None)

    def page_url(self, caller: Caller, question: CallerQuestion) -> str | None:
        if self.page is None or question.digest is None:
            return None
        skill = question.offer.skill
        asked = ApprovalQuestion(
            label=skill.origin.label,
            uri=skill.uri,
            name=skill.entry.name,
            description=skill.entry.description,
            digest=question.digest,
            changes=question.changes,
        )
        return self.page.url(caller, asked)


@dataclass(eq=False)
class _Request:
    """One request that may need an approval."""

    elicitor: ApprovalElicitor
    ctx: Context
    params: Any
    caller: Caller
    record: Record
    asked: _Asked | None = None
    """The question that the request is an answer to."""

    def answer_in_request(self) -> tuple[_Asked, types.ElicitResult | None] | None:
        """The answer that came with a request of 2026-07-28, and the question that it is for."""
        state = getattr(self.params, "request_state", None)
        asked = self.elicitor.unseal(self.caller, state) if isinstance(state, str) else None
        if asked is None:
            return None
        responses: types.InputResponses | None = getattr(self.params, "input_responses", None)
        given = (responses or {}).get(_ASK)
        return asked, given if isinstance(given, types.ElicitResult) else None

    async def take_answer(self, asked: _Asked, given: types.ElicitResult | None, handler: Handler) -> Any:
        """Serve the request that an answer came with, if the answer was a yes to what is there now."""
        self.asked = asked
        try:
            return await handler(self.ctx, self.params)
        except Unapproved as refused:
            question = refused.question
            if question is None or question.subject != asked.subject:
                self.asked = None
                raise  # Something else is there by now: that is another question.
            if asked.by_page:
                if given is None or given.action != "accept" or not await self._approved_on_page(question):
                    return self.refuse(refused, why_not(given))
            else:
                verdict = self._verdict(asked, given)
                if verdict == "no":
                    return self.refuse(refused, why_not(given))
                if verdict == "again":
                    raise
                await self._keep(question)
            self.asked = None
            return await handler(self.ctx, self.params)

    async def ask(self, refused: Unapproved, question: CallerQuestion) -> Any:
        """Ask. `None` means yes, and the request can be tried again; else this is the response."""
        form, url = modes(self.ctx)
        page = self.elicitor.page_url(self.caller, question) if url else None
        if is_modern(self.ctx):
            if form or page:
                return self._ask_later(question, None if form else page)
            return self.refuse(refused, "this client cannot ask")
        if not self.ctx.session.can_send_request or not (form or page):
            return self.refuse(refused, "this client cannot ask")
        async with self.elicitor.turn(self.caller, question):
            if self._is_approved(question):
                return None  # By the answer to the same question, which was open already.
            return await self._ask_now(refused, question, None if form else page)

    def refuse(self, refused: Unapproved, why: str) -> Any:
        """The response to a request for a skill that is not approved: what to do about it."""
        self.record("refuse", refused, why or refused.policy or refused.status.words)
        self.elicitor.log_refusal(refused, self.caller)
        text = refusal_text(refused, why)
        if self.ctx.method == "tools/call":
            result: JsonObject = {"content": [{"type": "text", "text": text}], "isError": True}
            return result | {"resultType": "complete"} if is_modern(self.ctx) else result
        raise MCPError(APPROVAL_REQUIRED, text, {"uri": refused.uri, "approval": refused.status.words})

    def _ask_later(self, question: CallerQuestion, page: str | None) -> types.InputRequiredResult:
        """On 2026-07-28: the client asks, and sends the request again with the answer."""
        number = 1 if self.asked is None else self.asked.round + 1
        asked = _Asked(question.subject, number, self.elicitor.now(), page is not None)
        request = elicitation(question, page, elicitation_id=None)
        return types.InputRequiredResult(
            input_requests={_ASK: request}, request_state=self.elicitor.seal(self.caller, asked)
        )

    async def _ask_now(self, refused: Unapproved, question: CallerQuestion, page: str | None) -> Any:
        """On the 2025 revisions: the client asks while the request waits."""
        given: types.ElicitResult | None = None
        for number in (1, 2):
            asked = _Asked(question.subject, number, self.elicitor.now(), page is not None)
            request = elicitation(question, page, elicitation_id=secrets.token_hex(8))
            given = await self._send(request)
            if page is not None:
                accepted = given is not None and given.action == "accept"
                if accepted and await self._approved_on_page(question):
                    return None
                break
            verdict = self._verdict(asked, given)
            if verdict == "yes":
                await self._keep(question)
                return None
            if verdict == "no":
                break
        return self.refuse(refused, why_not(given))

    async def _send(self, request: types.ElicitRequest) -> types.ElicitResult | None:
        from mcp.shared.message import ServerMessageMetadata

        metadata = ServerMessageMetadata(related_request_id=self.ctx.request_id)
        with anyio.move_on_after(self.elicitor.answer_seconds):
            try:
                return await self.ctx.session.send_request(request, types.ElicitResult, metadata=metadata)
            except (MCPError, ValidationError):
                return None  # A client that cannot ask after all, or whose answer cannot be used.
        return None

    def _verdict(self, asked: _Asked, given: types.ElicitResult | None) -> Literal["yes", "no", "again"]:
        """Return what an answer means. One that came too soon is asked for once more."""
        if not says_yes(given):
            return "no"
        if self.elicitor.now() - asked.at >= QUICKEST_ANSWER:
            return "yes"
        return "again" if asked.round < 2 else "no"

    async def _keep(self, question: CallerQuestion) -> None:
        try:
            await self._decider(question).keep(
                question.offer.skill, seen=question.seen, how="asked through the gateway"
            )
        except SkillwireError as error:
            # An approval counts only if it was stored.
            raise MCPError(types.INTERNAL_ERROR, f"The approval could not be stored: {error}") from None
        self.record("approve", question, "form")

    async def _approved_on_page(self, question: CallerQuestion) -> bool:
        """Wait until the caller has decided on the page, for as long as an answer may take."""
        with anyio.move_on_after(self.elicitor.answer_seconds):
            while True:
                await self.elicitor.approvals.refresh()
                if self._is_approved(question):
                    self.record("approve", question, "page")
                    return True
                if self._request(question).declined:
                    return False
                await anyio.sleep(_PAGE_SECONDS)
        return False

    def _is_approved(self, question: CallerQuestion) -> bool:
        decide = self._decider(question)
        return isinstance(decide.decision_on(self._request(question)), Allowed)

    def _request(self, question: CallerQuestion) -> AdmissionRequest:
        return self._decider(question).request(question.offer.skill, seen=question.seen)

    def _decider(self, question: CallerQuestion) -> Decider:
        decide = question.offer.upstream.host.decide
        return decide.of(self.caller.name, consent=self.elicitor.approvals.store)
