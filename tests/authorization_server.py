"""A small authorization server on loopback, with a skill server behind it that requires its tokens.

It does what the standards ask for and no more: metadata (RFC 8414, RFC 9728), dynamic registration
(RFC 7591), codes with PKCE (RFC 7636), refresh tokens that are good for one use, revocation (RFC 7009),
resource indicators (RFC 8707) and the issuer in the redirect (RFC 9207). Every login is granted at once,
unless `denies` is set.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode

import httpx2
import uvicorn

from skillwire import SkillServer

PATIENCE = 120


@dataclass
class AuthorizationServer:
    """The server and what it remembers. Tests change its fields while it runs."""

    skills: Path
    port: int = 0
    expires_in: int | None = 3600
    refreshes: bool = True
    denies: bool = False
    registers: bool = True
    revokes: bool = True
    challenge_methods: list[str] | None = field(default_factory=lambda: ["S256"])
    """The methods of PKCE in the metadata; `None` for none at all."""
    padding: int = 0
    """Bytes of white space that follow the metadata."""
    asks: bool = True
    """Whether the skill server wants a token at all."""
    clients: dict[str, dict[str, Any]] = field(default_factory=dict)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    access: set[str] = field(default_factory=set)
    refresh: dict[str, str] = field(default_factory=dict)
    """Refresh tokens that are good, and the client of each."""
    used: set[str] = field(default_factory=set)
    calls: list[str] = field(default_factory=list)

    @property
    def issuer(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"{self.issuer}/mcp"

    def count(self, call: str) -> int:
        return self.calls.count(call)

    def forget_tokens(self) -> None:
        """Every access token expires now."""
        self.access.clear()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path, method = scope["path"], scope["method"]
        headers = {name.decode().lower(): value.decode() for name, value in scope["headers"]}
        if path == "/mcp":
            token = headers.get("authorization", "").removeprefix("Bearer ")
            if self.asks and token not in self.access:
                metadata = f"{self.issuer}/.well-known/oauth-protected-resource/mcp"
                challenge = f'Bearer error="invalid_token", resource_metadata="{metadata}"'
                await _reply(send, 401, {"error": "invalid_token"}, **{"www-authenticate": challenge})
                return
            await self._app(scope, receive, send)
            return
        body = await _body(receive)
        self.calls.append(f"{method} {path}")
        query = {name: given[0] for name, given in parse_qs(scope["query_string"].decode()).items()}
        form = {name: given[0] for name, given in parse_qs(body.decode()).items()}
        match (method, path):
            case ("GET", "/.well-known/oauth-protected-resource/mcp"):
                await _reply(send, 200, {"resource": self.url, "authorization_servers": [self.issuer]})
            case ("GET", "/.well-known/oauth-authorization-server"):
                await _reply(send, 200, {**self._metadata(), "padding": " " * self.padding})
            case ("POST", "/register") if self.registers:
                await _reply(send, 201, self._register(json.loads(body)))
            case ("GET", "/authorize"):
                await self._authorize(send, query)
            case ("POST", "/token"):
                status, answer = self._token(form)
                await _reply(send, status, answer)
            case ("POST", "/revoke") if self.revokes:
                self.access.discard(form.get("token", ""))
                self.refresh.pop(form.get("token", ""), None)
                await _reply(send, 200, {})
            case _:
                await _reply(send, 404, {"error": "not_found"})

    def _metadata(self) -> dict[str, Any]:
        names = ["authorize", "token", *(["register"] if self.registers else [])]
        names += ["revoke"] if self.revokes else []
        keys = {"authorize": "authorization", "register": "registration", "revoke": "revocation"}
        return {
            "issuer": self.issuer,
            **{f"{keys.get(name, name)}_endpoint": f"{self.issuer}/{name}" for name in names},
            "response_types_supported": ["code"],
            **(
                {}
                if self.challenge_methods is None
                else {"code_challenge_methods_supported": self.challenge_methods}
            ),
            "authorization_response_iss_parameter_supported": True,
        }

    def _register(self, wanted: dict[str, Any]) -> dict[str, Any]:
        client = f"client-{len(self.clients) + 1}"
        self.clients[client] = wanted
        return {**wanted, "client_id": client, "token_endpoint_auth_method": "none"}

    async def _authorize(self, send: Any, query: dict[str, str]) -> None:
        client = self.clients.get(query.get("client_id", ""))
        address = query.get("redirect_uri", "")
        if client is None or address not in client["redirect_uris"]:
            await _reply(send, 400, {"error": "invalid_client"})
            return
        assert query["response_type"] == "code"
        assert query["code_challenge_method"] == "S256"
        assert query["resource"] == self.url
        answer = {"state": query["state"], "iss": self.issuer}
        if self.denies:
            answer |= {"error": "access_denied", "error_description": "You said no."}
        else:
            code = secrets.token_urlsafe(16)
            self.codes[code] = query
            answer["code"] = code
        await _reply(send, 302, {}, location=f"{address}?{urlencode(answer)}")

    def _token(self, form: dict[str, str]) -> tuple[int, dict[str, Any]]:
        if form["grant_type"] == "refresh_token":
            token = form["refresh_token"]
            if token in self.used:  # Used twice: somebody else has it, so nobody may go on.
                self.refresh.clear()
                self.access.clear()
            client = self.refresh.pop(token, None)
            if client is None or client != form["client_id"]:
                return 400, {"error": "invalid_grant"}
            self.used.add(token)
            return 200, self._issue(client)
        asked = self.codes.pop(form.get("code", ""), None)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest())
        if (
            asked is None
            or asked["code_challenge"] != challenge.decode().rstrip("=")
            or asked["redirect_uri"] != form["redirect_uri"]
            or asked["client_id"] != form["client_id"]
            or form["resource"] != self.url
        ):
            return 400, {"error": "invalid_grant"}
        return 200, self._issue(form["client_id"])

    def _issue(self, client: str) -> dict[str, Any]:
        access = f"access-{secrets.token_hex(8)}"
        self.access.add(access)
        answer: dict[str, Any] = {"access_token": access, "token_type": "Bearer"}
        if self.expires_in is not None:
            answer["expires_in"] = self.expires_in
        if self.refreshes:
            answer["refresh_token"] = f"refresh-{secrets.token_hex(8)}"
            self.refresh[answer["refresh_token"]] = client
        return answer

    def __post_init__(self) -> None:
        self._app = SkillServer(self.skills).http_app()


def browse(url: str) -> int:
    """Open an address as a browser does, with all its redirects; the last status."""
    with httpx2.Client(follow_redirects=True, timeout=PATIENCE) as browser:
        return browser.get(url).status_code


def end_of(url: str) -> str:
    """The address that a browser would be sent to, for a person who copies it."""
    with httpx2.Client(timeout=PATIENCE) as browser:
        return browser.get(url).headers["location"]


@contextmanager
def authorization_server(skills: Path) -> Generator[AuthorizationServer]:
    """Run the server in a thread of its own."""
    server = AuthorizationServer(skills)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server.port = listening.getsockname()[1]
        running = uvicorn.Server(uvicorn.Config(server, log_level="critical", ws="none"))
        thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            running.should_exit = True
            thread.join(PATIENCE)


async def _body(receive: Any) -> bytes:
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            return body


async def _reply(send: Any, status: int, value: object, **headers: str) -> None:
    body = json.dumps(value).encode()
    named = {"content-type": "application/json", "content-length": str(len(body)), **headers}
    await send(
        {
            "type": "http.response.start",
            "status": status,
            "headers": [(name.encode(), text.encode()) for name, text in named.items()],
        }
    )
    await send({"type": "http.response.body", "body": body})
