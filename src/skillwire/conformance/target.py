"""Target: where the server to verify is, from what a caller gave."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import httpx2

from skillwire.conformance.channels.app import App, app_of
from skillwire.errors import SourceError
from skillwire.issues import shown
from skillwire.text import redact, redact_url, secrets_in_arguments, secrets_in_urls

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
        """What must not be printed or recorded: headers, variables, and secrets in arguments and the URL."""
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
