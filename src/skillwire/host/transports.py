"""ServerTransport: how one server is reached, and why that failed.

A server is a process that the host starts, an HTTP endpoint, or an object of this process. The transport
knows what a failed one wrote, and which secrets it was given, so every reason for a failure is worded here.
Like `connection.py`, this module imports the MCP SDK.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlsplit

import anyio.to_thread
import mcp_types as types
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from skillwire.errors import LimitExceeded, RequestRefused, SkillwireError, SourceError
from skillwire.host.config.server import ServerConfig
from skillwire.host.directories import state_paths
from skillwire.host.http_client import CappedClient, DirectRequests, FailureKind
from skillwire.host.logins import LoginStore
from skillwire.host.sdk import MessageBudget, over_lines, within_budget
from skillwire.limits import Limits
from skillwire.sources.process import ServerProcess, running, safe_directory
from skillwire.text import redact, shown

if TYPE_CHECKING:
    from skillwire.host.login_flow import LoginTokens

_CLOSED: Final = (types.CONNECTION_CLOSED, "Connection closed")  # The SDK's own words for it.
_REASON_CHARS: Final = 800
_SAID_CHARS: Final = 10_000
_OUTPUT_LINES: Final = 8


class ServerTransport:
    """The transport of one connection, from its first message until it is lost."""

    def __init__(
        self,
        config: ServerConfig,
        label: str,
        *,
        limits: Limits,
        on_lost: Callable[[SkillwireError | None], None],
    ) -> None:
        """`on_lost` is called when nothing can be sent any more, with the error if the host caused it."""
        self._config = config
        self._label = label
        self._limits = limits
        self._on_lost = on_lost
        self._budget = MessageBudget(limits)
        self._http: CappedClient | None = None
        self._login: LoginTokens | None = None
        self._process: ServerProcess | None = None

    async def open(self, stack: AsyncExitStack) -> Any:
        """Open the transport that the SDK's client connects to. It is closed with `stack`."""
        config, limit = self._config, self._limits.answer_bytes
        if config.instance is not None:
            return config.instance
        if config.url:
            self._login = await self._stored_login()
            http = CappedClient(
                config.headers,
                config.token,
                limit=limit,
                seconds=config.call_seconds,
                label=self._label,
                login=self._login,
            )
            self._http = await stack.enter_async_context(http)
            # The limit is for each event of a stream that stays open, and for any other response as a whole.
            transport = streamable_http_client(config.url, http_client=http, max_sse_event_size=limit)
            return within_budget(transport, self._budget, self._on_lost)
        self._process = await stack.enter_async_context(
            running(
                config.command,
                env=config.env,
                directory=config.directory or safe_directory(),
                line_bytes=limit,
            )
        )
        return over_lines(self._process, self._budget, self._on_lost)

    def direct_requests(
        self, *, revision: str, client_info: types.Implementation, capabilities: types.ClientCapabilities
    ) -> DirectRequests | None:
        """Requests that need no session of the SDK; `None` when the server is not reached over HTTP."""
        if self._http is None:
            return None

        def spend(message: object) -> None:
            try:
                self._budget.spend(message)
            except LimitExceeded as error:
                self._on_lost(error)
                raise

        return DirectRequests(
            self._http,
            self._config.url,
            revision=revision,
            client_info=client_info,
            capabilities=capabilities,
            event_bytes=self._limits.answer_bytes,
            on_message=spend,
        )

    async def _stored_login(self) -> LoginTokens | None:
        """The tokens of the user's login at this server, unless the configuration has a token or password."""
        config = self._config
        has_token = config.token or any(name.lower() == "authorization" for name in config.headers)
        if has_token or urlsplit(config.url).username is not None:
            return None
        store = LoginStore(state_paths().logins)
        if not await anyio.to_thread.run_sync(store.has, config.identity):
            return None
        # Imported here: the SDK's OAuth client takes long to import, and most servers need no login.
        from skillwire.host.login_flow import LoginTokens

        return LoginTokens(store, config.identity, seconds=config.call_seconds)

    # Why something failed

    def refusal(
        self, method: str, error: MCPError, fault: SkillwireError | None
    ) -> tuple[SkillwireError, bool]:
        """Return the exception of an error response, and whether the connection is lost with it.

        `fault` is why the connection was lost, if that is known.
        """
        code, said = error.error.code, error.error.message
        problem = self._http.problem_in(said) if self._http else None
        if problem is not None:
            message = f"{self._label} gave no answer to {method}: {problem.words}"
            is_limit = problem.kind is FailureKind.LIMIT
            return (LimitExceeded if is_limit else SourceError)(message), problem.kind is FailureKind.GONE
        if (code, said) == _CLOSED:
            return fault or SourceError(f"{self._label} went away during {method}"), True
        said = redact(said[:_SAID_CHARS], self._secrets)
        return RequestRefused(f"{self._label} refused {method}", code=code, said=said), False

    def reason(self, error: BaseException, fault: SkillwireError | None) -> str:
        """Why a connection failed, on one line, without the wrapping of task groups."""
        if isinstance(error, BaseExceptionGroup):
            return self.reason(cast("BaseExceptionGroup[BaseException]", error).exceptions[0], fault)
        match error:
            case SkillwireError():
                text = str(error)
            case TimeoutError():
                text = "no answer in time"
            case MCPError() if fault is not None:
                text = str(fault)
            case MCPError() if (error.error.code, error.error.message) == _CLOSED:
                text = "it exited" if self._process else "it closed the connection"
            case MCPError():
                said = error.error.message
                problem = self._http.problem_in(said) if self._http else None
                text = problem.words if problem else f'it says "{said}"'
            case ValidationError():
                text = "it does not speak MCP"
            case _:
                text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        return self.explain(text)

    def explain(self, text: str) -> str:
        """A reason with what the server wrote before it failed, without its secrets."""
        stray = self._process.stray_line if self._process else ""
        if stray:
            text += f'; it wrote "{stray}" to standard output, which is only for MCP: log to standard error'
        output = " | ".join(line for line in self.last_output if line not in text)
        text = f"{text}; last output: {output}" if output else text
        withheld = self._process.withheld if self._process else ()
        if withheld:
            text += (
                f"; {', '.join(withheld)} is set here, but a server gets only what env names: add "
                f'env = {{ {withheld[0]} = "${{{withheld[0]}}}" }}'
            )
        return shown(redact(text, self._secrets), _REASON_CHARS)

    @property
    def last_output(self) -> tuple[str, ...]:
        """The last lines that a started server wrote to standard error, without its secrets."""
        lines = self._process.last_lines[-_OUTPUT_LINES:] if self._process else ()
        return tuple(redact(line, self._secrets) for line in lines)

    @property
    def _secrets(self) -> tuple[str, ...]:
        """Return the values given to the server that nobody else may see."""
        return (*self._config.secrets, *(self._login.secrets if self._login is not None else ()))
