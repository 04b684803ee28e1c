"""ReviewApp: the review page of a host, as an ASGI application.

    async with SkillHost.from_config() as host:
        app = ReviewApp(host, names=["127.0.0.1"], port=8765)
        print(app.link())  # opens the page once; then serve `app` on that port

What its forms do goes through the same calls as the command line.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Mapping,
    MutableMapping,
    Sequence,
)
from contextlib import asynccontextmanager, suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import parse_qsl, quote, urlsplit

import anyio
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from skillwire.errors import ApprovalRequired, SkillNotFound, SkillwireError
from skillwire.server import Asgi, Receive, Scope, Send, StoppableApp
from skillwire.trust import Grants, Reason
from skillwire.ui.access import (
    Notice,
    OneSkill,
    PageAccess,
    Visit,
    as_number,
    content_policy,
    is_form_token,
    local_path,
    root_of,
)
from skillwire.ui.installed import InstalledSkills
from skillwire.ui.items import Overview, address
from skillwire.ui.pages import Pages
from skillwire.ui.rendering import MOST_STREAMS, Layout, Live, Templates
from skillwire.words import counted

if TYPE_CHECKING:
    from skillwire.access import Callers
    from skillwire.catalog import HostSkill
    from skillwire.host import SkillHost
    from skillwire.install import InstallReport

HOW: Final = "on the review page"


class ReviewActions:
    """The decisions of a person about the skills of one host."""

    def __init__(self, host: SkillHost, overview: Overview, live: Live, installed: InstalledSkills) -> None:
        self._host = host
        self._overview = overview
        self._live = live
        self._installed = installed

    async def approve(self, visit: Visit) -> Response:
        """Approve exactly the files that the form was shown with (SEC-6)."""
        label, uri = _named(visit)
        skill = await self._host.find(uri, server=label)
        digest = visit.form.get("digest", "")
        item = self._overview.item(self._host.decide.review(skill, caller=visit.caller), visit.caller)
        if item.review_reasons and not visit.session.has_opened(digest):
            raise ApprovalRequired(
                f"{skill.handle} is not approved: open it first ({', '.join(item.review_reasons)})",
                reason=Reason.NEW,
                origin=label,
                uri=uri,
            )
        await self._host.decide.approve(
            uri,
            digest=digest,
            grants=_grants(visit),
            server=label,
            how=f"approved {HOW}",
            caller=visit.caller,
            keep_files=True,
        )
        return self._done(visit, Notice(f"{skill.handle} is approved.", undo={"on": label, "uri": uri}))

    async def decline(self, visit: Visit) -> Response:
        """Decline exactly the files that the form was shown with."""
        label, uri = _named(visit)
        skill = await self._host.find(uri, server=label)
        await self._host.decide.decline(
            uri, digest=visit.form.get("digest", ""), server=label, how=f"declined {HOW}", caller=visit.caller
        )
        return self._done(visit, Notice(f"{skill.handle} is declined.", undo={"on": label, "uri": uri}))

    async def decline_selected(self, visit: Visit) -> Response:
        """Decline every selected skill of the inbox with exactly the files that it was shown with."""
        waiting = {item.id: item for item in map(self._overview.item, self._overview.waiting())}
        declined = 0
        problems: list[str] = []
        for picked in visit.picked:
            name, _, digest = picked.partition(" ")
            item = waiting.get(name)
            if item is None:
                continue  # It was decided meanwhile.
            try:
                await self._host.decide.decline(
                    item.uri, digest=digest, server=item.label, how=f"declined {HOW}"
                )
                declined += 1
            except SkillwireError as error:
                problems.append(str(error))
        words = [f"{counted(declined, 'skill')} declined.", *problems]
        return self._done(visit, Notice(" ".join(words), is_problem=bool(problems)))

    async def revoke(self, visit: Visit) -> Response:
        """Undo a decision."""
        label, uri = _named(visit)
        skill = await self._host.find(uri, server=label)
        await self._host.decide.revoke(uri, server=label, caller=visit.caller)
        return self._done(visit, Notice(f"The decision about {skill.handle} is undone."))

    async def reconnect(self, visit: Visit) -> Response:
        """Connect to a server again, or list it again."""
        label = visit.form.get("label", "")
        await self._host.places.reconnect(label)
        return self._done(visit, Notice(f"{label} was listed again."))

    async def check(self, visit: Visit) -> Response:
        """Ask the sources of installed skills whether they have other versions."""
        outdated = await self._installed.check(visit.form.get("scope", ""))
        words = f"{counted(outdated, 'skill')} outdated." if outdated else "Everything is up to date."
        return self._done(visit, Notice(words))

    async def update(self, visit: Visit) -> Response:
        """Install the version that the form was shown with."""
        form = visit.form
        report = await self._installed.update(
            form.get("scope", ""), form.get("name", ""), form.get("digest", ""), _grants(visit)
        )
        return self._done(visit, _report_notice(report))

    async def roll_back(self, visit: Visit) -> Response:
        """Restore an earlier version of an installed skill."""
        form = visit.form
        report = await self._installed.roll_back(
            form.get("scope", ""), form.get("name", ""), form.get("to", "")
        )
        return self._done(visit, _report_notice(report))

    async def sync(self, visit: Visit) -> Response:
        """Make the folders match the lock, with what the form was shown with."""
        accepted = visit.form.get("accepted", "").split()
        report = await self._installed.sync(visit.form.get("scope", ""), accepted)
        return self._done(visit, _report_notice(report))

    def _done(self, visit: Visit, notice: Notice) -> Response:
        self._live.changed()
        visit.session.notice = notice
        return visit.redirect(visit.back)


def _named(visit: Visit) -> tuple[str, str]:
    """The skill that a form is about: its origin and its URI."""
    label, uri = visit.form.get("on", ""), visit.form.get("uri", "")
    if not label or not uri:
        raise SkillNotFound("the form names no skill: open the page again")
    return label, uri


def _grants(visit: Visit) -> Grants:
    """Return the grants of a form's boxes."""
    return Grants(
        allowed_tools=bool(visit.form.get("allow_tools")), execute_code=bool(visit.form.get("allow_code"))
    )


def _report_notice(report: InstallReport) -> Notice:
    """Return what happened to installed skills, in one line."""
    parts = [
        f"{words}: {', '.join(names)}."
        for words, names in (
            ("Installed", report.installed),
            ("Updated", report.updated),
            ("Removed", report.removed),
            ("As pinned", report.current if not (report.installed or report.updated) else ()),
        )
        if names
    ]
    parts += [f"{step.name}: {step.act.words}, left unchanged." for step in report.stopped]
    parts += [f"Not installed: {failure.error}" for failure in (*report.refused, *report.failures)]
    if report.unrecorded:
        parts.append(f"Hosts will ask again: the approval cannot be stored ({report.unrecorded}).")
    return Notice(" ".join(parts) or "There was nothing to do.", is_problem=not report.is_whole)


Handler: TypeAlias = Callable[[Visit], Awaitable[Response]]

_MOST_FORM_BYTES: Final = 64 * 1024
_STATIC: Final = {
    "style.css": "text/css; charset=utf-8",
    "app.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
_FOLDER: Final = Path(__file__).parent / "static"
_HEADERS: Final = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # Not `no-referrer`: a form would then be sent without its origin.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


class ReviewApp:
    """The pages on which a person sees the skills of a host and decides about them."""

    def __init__(
        self,
        host: SkillHost,
        *,
        names: Iterable[str],
        port: int,
        tokens: Callers | None = None,
        installers: Mapping[str, Callable[[], Any]] | None = None,
        audit_log: Path | None = None,
        base_url: str = "",
        hidden: Callable[[], Sequence[str]] = tuple[str, ...],
        figures: Callable[[SkillHost, HostSkill], Awaitable[object | None]] | None = None,
    ) -> None:
        """`host` is open for as long as this is served, at these host names and this port.

        `tokens` give access without a link, for a page that can be reached from other machines.
        `installers` make the installer of each scope, `project` and `user`. `audit_log` is a file of JSON
        lines that a gateway writes. `base_url` is where browsers reach the page, if a proxy is in front of
        it. `hidden` says which rules of the configuration hide skills, a sentence for each: it is shown if no
        skill is left. `figures` gives what search finds for the labels of a skill, before it is approved.
        """
        self._names = tuple(names)
        self._base = base_url.rstrip("/") or f"http://{self._names[0]}:{port}"
        self._access = PageAccess.for_server(self._names, port, clock=time.monotonic, tokens=tokens)
        if base_url:
            self._access.hosts |= {urlsplit(base_url).netloc.lower()}
        self._cookie = f"skillwire-{port}"
        self._live = Live(host)
        self._overview = Overview(host)
        self._templates = Templates(asset_version=_asset_version())
        self._installed = installed = InstalledSkills(installers or {})
        layout = Layout(self._templates, self._overview, has_audit=audit_log is not None, hidden=hidden)
        pages = Pages(host, self._overview, installed, layout, figures=figures, audit_log=audit_log)
        actions = ReviewActions(host, self._overview, self._live, installed)
        shown: dict[str, Handler] = {
            "/": pages.inbox,
            "/skills": pages.skills,
            "/skill": pages.skill,
            "/diff": pages.diff,
            "/servers": pages.servers,
            "/installed": pages.installed,
            "/installed/update": pages.update,
            "/audit": pages.audit,
        }
        done: dict[str, Handler] = {
            "/approve": actions.approve,
            "/decline": actions.decline,
            "/decline-selected": actions.decline_selected,
            "/revoke": actions.revoke,
            "/servers/reconnect": actions.reconnect,
            "/installed/check": actions.check,
            "/installed/update": actions.update,
            "/installed/rollback": actions.roll_back,
            "/installed/sync": actions.sync,
        }
        self._starlette = Starlette(
            routes=[
                Route("/static/{name}", self._static),
                Route("/open", self._open, methods=["GET", "POST"]),
                Route("/events", self._for_session(self._events)),
                *(Route(path, self._for_session(page)) for path, page in shown.items()),
                *(Route(path, self._for_session(act), methods=["POST"]) for path, act in done.items()),
            ],
            lifespan=lambda _: self.running(),
            exception_handlers={HTTPException: self._on_http_error},
        )

    def link(self, path: str = "/") -> str:
        """A URL that opens a page once, within ten minutes. After that a cookie keeps it open."""
        return self._link(path, None)

    def ask(self, caller: str, label: str, uri: str) -> str:
        """A URL at which one caller of a gateway decides about one skill, and sees nothing else.

        The skill is marked in the inbox as requested. An empty `caller` is the user.
        """
        self._overview.ask(label, uri, caller)
        self._live.changed()
        return self._link(address("/skill", {"on": label, "uri": uri}), OneSkill(caller, label, uri))

    def _link(self, path: str, only: OneSkill | None) -> str:
        link = f"{self._base}/open?token={self._access.new_link(only)}"
        return link + (f"&next={quote(path)}" if path != "/" else "")

    def prepare(self) -> None:
        """Compute the approval status of every skill now, so that the first page is fast."""
        self._overview.reviews()

    def end_streams(self) -> None:
        """End the event streams that pages keep open."""
        self._live.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close"})
            return
        if scope["type"] == "http" and (root := root_of(scope["path"])):
            scope = {**scope, "root_path": root}
        await self._starlette(scope, receive, send)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """The ASGI lifespan: follows the changes of the host."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._live.run)
            tasks.start_soon(self._check_signatures)
            tasks.start_soon(self._check_texts)
            tasks.start_soon(self._scan)
            yield
            tasks.cancel_scope.cancel()

    async def _check_signatures(self) -> None:
        """Check signatures before the page is opened, and again after every change."""
        while True:
            checked = self._overview.checked
            with suppress(SkillwireError):
                await self._overview.check_signatures()
            if self._overview.checked != checked:
                self._live.changed()
            await self._live.next_change()

    async def _check_texts(self) -> None:
        """Look for hidden characters in the skills that the inbox shows."""
        while True:
            await self._overview.text_requested.wait()
            if await self._overview.check_texts():
                self._live.changed()

    async def _scan(self) -> None:
        """Scan the skills that are opened, as the policy asks for."""
        while True:
            await self._overview.scans.requested.wait()
            await self._overview.scans.run()
            self._live.changed()

    # Access

    def _for_session(self, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        """The handler, after all checks; an error becomes a page."""

        async def checked(request: Request) -> Response:
            nonce = secrets.token_urlsafe(16)
            refusal = self._refusal(request, nonce)
            if refusal is not None:
                return refusal
            root = root_of(request.url.path)
            session = self._access.session(request.cookies.get(self._cookie, ""), root)
            if session is None:
                return self._ask_for_link(request, nonce)
            form: dict[str, str] = {}
            fields: list[tuple[str, str]] = []
            if request.method == "POST":
                fields = await _read_form(request)
                form = dict(fields)
                if not is_form_token(session, form.get("form_token", "")):
                    return self._message(
                        nonce,
                        403,
                        "Not done",
                        "This form is out of date: open the page again.",
                        link=f"{session.root}/",
                    )
            picked = tuple(value for name, value in fields if name == "pick")
            visit = Visit(
                request=request,
                session=session,
                nonce=nonce,
                revision=self._live.revision,
                form=form,
                picked=picked,
            )
            if not visit.is_allowed:
                text = "Your link is for one skill, and this is another page."
                return self._message(nonce, 403, "No access", text)
            try:
                return _secured(await handler(visit), nonce)
            except SkillwireError as error:
                return self._failed(visit, error)

        return checked

    def _refusal(self, request: Request, nonce: str) -> Response | None:
        hosts = request.headers.getlist("host")
        if not self._access.is_addressed(hosts):
            return self._message(nonce, 421, "Wrong address", "This page is not served under this name.")
        if request.method == "POST" and not self._access.is_own_origin(
            request.headers.getlist("origin"), hosts[0]
        ):
            return self._message(nonce, 403, "Not done", "This request did not come from this page.")
        return None

    def _ask_for_link(self, request: Request, nonce: str) -> Response:
        path = request.url.path.removeprefix(root_of(request.url.path)) or "/"
        is_page = request.method == "GET" and path != "/events"
        here = path + (f"?{request.url.query}" if request.url.query else "")
        return self._message(
            nonce,
            403,
            "Open the page with its link",
            "Each browser needs a link of its own, which works once. The command that serves this page "
            "printed one; to get another, press Enter where it runs, or run it again.",
            code="skillwire ui",
            form=self._access.takes_tokens and is_page,
            next=local_path(here),
        )

    async def _open(self, request: Request) -> Response:
        """Exchange the token of a link for a cookie."""
        nonce = secrets.token_urlsafe(16)
        refusal = self._refusal(request, nonce)
        if refusal is not None:
            return refusal
        given = dict(await _read_form(request) if request.method == "POST" else request.query_params.items())
        token, target = given.get("token", ""), local_path(given.get("next", "/"))
        is_link = request.method == "GET"
        opened = self._access.open_session(token, is_link=is_link)
        if opened is None:
            title = "This link was used already" if is_link else "That is not the token"
            text = "A link works once, within ten minutes."
            return self._message(
                nonce, 403, title, text, code="skillwire ui", form=self._access.takes_tokens, next=target
            )
        cookie, session = opened
        target = session.root + target
        # Not a redirect: a strict cookie is not sent along one that began on another site.
        response = self._message(
            nonce, 200, "Opening", "The page opens now.", refresh=target, link=target, link_words="Open it"
        )
        # The path is the session's own: the cookie reaches no server on another port of this machine.
        response.set_cookie(self._cookie, cookie, httponly=True, samesite="strict", path=session.root)
        return response

    # What is served

    async def _static(self, request: Request) -> Response:
        name = request.path_params["name"]
        if not self._access.is_addressed(request.headers.getlist("host")) or name not in _STATIC:
            raise HTTPException(404)
        headers = {**_HEADERS, "content-security-policy": "default-src 'none'; frame-ancestors 'none'"}
        headers["cache-control"] = "private, max-age=31536000, immutable" if request.url.query else "no-cache"
        return Response(_asset(name), media_type=_STATIC[name], headers=headers)

    async def _events(self, visit: Visit) -> Response:
        if self._live.streams >= MOST_STREAMS:
            raise HTTPException(503)
        after = visit.request.headers.get("last-event-id") or visit.query("after")
        stream = self._live.stream(as_number(after, 0))
        return StreamingResponse(
            stream, media_type="text/event-stream", headers={"cache-control": "no-store"}
        )

    async def _on_http_error(self, request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        words = {
            404: ("There is no such page", "Nothing is served at this address."),
            405: ("Not done", "This address requires another HTTP method."),
        }
        title, text = words.get(status, ("Not done", "The page cannot be shown now."))
        link = f"{root_of(request.url.path)}/"
        return self._message(secrets.token_urlsafe(16), status, title, text, link=link)

    def _failed(self, visit: Visit, error: SkillwireError) -> Response:
        if visit.request.method == "POST":
            visit.session.notice = Notice(str(error), is_problem=True)
            return visit.redirect(local_path(visit.form.get("back", "/")))
        status = (
            404 if isinstance(error, SkillNotFound) else 409 if isinstance(error, ApprovalRequired) else 502
        )
        return self._message(
            visit.nonce, status, "This cannot be shown", str(error), link=f"{visit.session.root}/"
        )

    def _message(self, nonce: str, status: int, title: str, text: str, **more: Any) -> Response:
        values = {
            "refresh": "",
            "code": "",
            "form": False,
            "next": "/",
            "link": "",
            "link_words": "Back to the inbox",
        }
        body = self._templates.render(
            "message.html", nonce=nonce, title=title, text=text, **{**values, **more}
        )
        return _secured(Response(body, status, media_type="text/html"), nonce)


class CombinedApp(StoppableApp):
    """Two applications at one address: `app` serves the given paths, and `page` all others."""

    def __init__(self, app: Asgi, page: ReviewApp, paths: Collection[str]) -> None:
        super().__init__()
        self._app = app
        self._page = page
        self._paths = frozenset(paths)

    def end_streams(self) -> None:
        self._page.end_streams()
        if isinstance(self._app, StoppableApp):
            self._app.end_streams()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            if isinstance(self._app, StoppableApp):
                self._app.connections = self.connections
            async with self._page.running():
                await self._app(scope, receive, self._preparing(send))
        elif scope["type"] != "http" or scope["path"] in self._paths:
            await self._app(scope, receive, send)
        else:
            await self._page(scope, receive, send)

    def _preparing(self, send: Send) -> Send:
        """`send` that prepares the page once the host is open, before the first request."""

        async def prepare_and_send(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "lifespan.startup.complete":
                self._page.prepare()
            await send(message)

        return prepare_and_send


async def _read_form(request: Request) -> list[tuple[str, str]]:
    """The fields of a form. One that is too long is refused while it arrives."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > _MOST_FORM_BYTES:
            raise HTTPException(413)
    return parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=100)


def _secured(response: Response, nonce: str) -> Response:
    for name, value in _HEADERS.items():
        response.headers[name] = value
    response.headers["content-security-policy"] = content_policy(nonce)
    response.headers.setdefault("cache-control", "no-store")
    return response


@cache
def _asset(name: str) -> bytes:
    return (_FOLDER / name).read_bytes()


@cache
def _asset_version() -> str:
    return sha256(b"".join(_asset(name) for name in _STATIC)).hexdigest()[:12]
