"""Secrets of a configuration: variables, `${NAME}`, and what is written in clear text instead."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from skillwire.host.config.text import ServerAddress
from skillwire.issues import Issue
from skillwire.text import is_secret_name, secrets_in_arguments, shown

_VARIABLE: Final = re.compile(r"\$(\$)?\{([^{}]*)\}")


def names_in(text: str) -> list[str]:
    """The variables that a text asks for."""
    return [match[2] for match in _VARIABLE.finditer(text) if not match[1]]


class Variables:
    """Fills in variables, and keeps an issue for each that is not set. No value is ever quoted."""

    def __init__(self, environment: Mapping[str, str], *, file: str, issues: list[Issue]) -> None:
        self._environment = environment
        self._file = file
        self._issues = issues

    def fill(self, text: str, key: str) -> str:
        """The text with every `${NAME}` filled in. `$${NAME}` stays as `${NAME}`."""

        def value(match: re.Match[str]) -> str:
            return f"${{{match[2]}}}" if match[1] else self.get(match[2], key)

        return _VARIABLE.sub(value, text)

    def fill_map(self, values: Mapping[str, str], key: str) -> dict[str, str]:
        return {name: self.fill(value, f"{key}.{name}") for name, value in values.items()}

    def get(self, name: str, key: str) -> str:
        """The value of a variable; empty, with an issue, when it is not set."""
        value = self._environment.get(name) if name else None
        if value is None:
            self._issues.append(
                Issue(
                    rule="config",
                    file=self._file,
                    message=f"{shown(key, 100)} needs the variable {shown(name)!r}, which is not set",
                    fix="set it in the environment",
                )
            )
        return value or ""


_NO_NAME: Final = re.compile(r"[^A-Z0-9]+")
_SCHEME: Final = re.compile(r"(\w+)\s+(?=\S)")
_PASSWORD: Final = re.compile(r"(?<=://)([^/?#\s@]*:)([^/?#\s@]+)(?=@)")
_PARAMETER: Final = re.compile(r"(?<=[?&])([^=&#]+=)([^&#]+)")
_SECRET_HEADERS: Final = ("cookie", "authorization")


@dataclass(frozen=True, slots=True)
class ClearSecret:
    """Where a secret is in clear text, and the variable that can replace it. Its value is not stored."""

    where: str
    variable: str


def with_variables(label: str, place: ServerAddress) -> tuple[ServerAddress, tuple[ClearSecret, ...]]:
    """A server's place with `${NAME}` in place of what looks like a secret in clear, and what that was.

    A bearer token becomes `token_env`. What holds a variable already stays as it is.
    """
    found: list[ClearSecret] = []

    def variable(where: str, name: str) -> str:
        given = _variable(name) if where.startswith("the variable") else _variable(label, name)
        taken = {one.variable for one in found}
        number = 1
        wanted = given
        while wanted in taken:
            number += 1
            wanted = f"{given}_{number}"
        found.append(ClearSecret(where, wanted))
        return wanted

    token_env = place.token_env
    if place.token and not names_in(place.token):
        token_env = variable("token", "token")
    headers: dict[str, str] = {}
    for name, value in place.headers.items():
        if not value.strip() or names_in(value) or not _is_secret_header(name):
            headers[name] = value
            continue
        where, scheme = f"the header {name}", _SCHEME.match(value)
        if name.lower() == "authorization" and scheme and scheme[1].lower() == "bearer" and not token_env:
            token_env = variable(where, "token")
            continue
        headers[name] = f"{scheme[0] if scheme else ''}${{{variable(where, name)}}}"
    env = {
        name: f"${{{variable(f'the variable {name}', name)}}}"
        if value and is_secret_name(name) and not names_in(value)
        else value
        for name, value in place.env.items()
    }
    changed = replace(
        place,
        url=_bare_url(place.url, lambda: variable("the URL", "url_secret")),
        command=_bare_command(place.command, lambda: variable("an argument", "secret")),
        env=env,
        headers=headers,
        token="" if token_env else place.token,
        token_env=token_env,
    )
    return (changed, tuple(found)) if found else (place, ())


def _is_secret_header(name: str) -> bool:
    return name.lower() in _SECRET_HEADERS or is_secret_name(name)


def _variable(*parts: str) -> str:
    name = _NO_NAME.sub("_", "_".join(parts).upper()).strip("_")
    return name if name[:1].isalpha() else f"SKILLWIRE_{name}".rstrip("_")


def _bare_url(url: str, variable: Callable[[], str]) -> str:
    def password(match: re.Match[str]) -> str:
        return match[0] if names_in(match[2]) else f"{match[1]}${{{variable()}}}"

    def parameter(match: re.Match[str]) -> str:
        is_clear = is_secret_name(match[1]) and not names_in(match[2])
        return f"{match[1]}${{{variable()}}}" if is_clear else match[0]

    return _PARAMETER.sub(parameter, _PASSWORD.sub(password, url))


def _bare_command(command: tuple[str, ...], variable: Callable[[], str]) -> tuple[str, ...]:
    names: Mapping[str, str] = {
        secret: variable()
        for secret in sorted(set(secrets_in_arguments(command)), key=lambda one: (-len(one), one))
        if secret and not names_in(secret) and not secret.startswith("-")
    }
    words = list(command)
    for secret, name in names.items():
        words = [words[0], *(word.replace(secret, f"${{{name}}}") for word in words[1:])]
    return tuple(words)
