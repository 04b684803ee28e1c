"""Plain text secrets are recognized before they are written to a file, and variables take their place."""

from __future__ import annotations

from typing import Any

import pytest

from skillwire.host import ServerAddress
from skillwire.host.config.text import with_variables

SECRET = "s3cr3t-value"


@pytest.mark.parametrize(
    ("given", "changed", "variables"),
    [
        (
            {"headers": {"Authorization": f"Bearer {SECRET}"}},
            {"token_env": "MY_DOCS_TOKEN"},
            ["MY_DOCS_TOKEN"],
        ),
        (
            {"headers": {"Authorization": f"Basic {SECRET}"}},
            {"headers": {"Authorization": "Basic ${MY_DOCS_AUTHORIZATION}"}},
            ["MY_DOCS_AUTHORIZATION"],
        ),
        (
            {"headers": {"X-Api-Key": SECRET, "X-Team": "blue"}},
            {"headers": {"X-Api-Key": "${MY_DOCS_X_API_KEY}", "X-Team": "blue"}},
            ["MY_DOCS_X_API_KEY"],
        ),
        ({"headers": {"Cookie": SECRET}}, {"headers": {"Cookie": "${MY_DOCS_COOKIE}"}}, ["MY_DOCS_COOKIE"]),
        (
            {"headers": {"Authorization": f"Bearer {SECRET}"}, "token_env": "GIVEN"},
            {"headers": {"Authorization": "Bearer ${MY_DOCS_AUTHORIZATION}"}, "token_env": "GIVEN"},
            ["MY_DOCS_AUTHORIZATION"],
        ),
        ({"token": SECRET}, {"token_env": "MY_DOCS_TOKEN"}, ["MY_DOCS_TOKEN"]),
        (
            {"url": f"https://ada:{SECRET}@docs.example/mcp?api_key={SECRET}&page=2"},
            {
                "url": "https://ada:${MY_DOCS_URL_SECRET}@docs.example/mcp"
                "?api_key=${MY_DOCS_URL_SECRET_2}&page=2"
            },
            ["MY_DOCS_URL_SECRET", "MY_DOCS_URL_SECRET_2"],
        ),
        (
            {"url": "", "command": ("run",), "env": {"API_KEY": SECRET, "MODE": "fast"}},
            {"env": {"API_KEY": "${API_KEY}", "MODE": "fast"}},
            ["API_KEY"],
        ),
        (
            {"url": "", "command": ("run", "--token", SECRET, f"--api-key={SECRET}x", "--fast")},
            {"command": ("run", "--token", "${MY_DOCS_SECRET_2}", "--api-key=${MY_DOCS_SECRET}", "--fast")},
            ["MY_DOCS_SECRET", "MY_DOCS_SECRET_2"],
        ),
    ],
)
def test_a_variable_takes_the_place_of_a_secret(
    given: dict[str, Any], changed: dict[str, Any], variables: list[str]
) -> None:
    place = ServerAddress(**{"url": "https://docs.example/mcp", **given})
    result, found = with_variables("my-docs", place)
    expected = {**given, **({"headers": {}} if "headers" in given else {}), **changed}
    expected.pop("token", None)
    assert result == ServerAddress(**{"url": "https://docs.example/mcp", **expected})
    assert [one.variable for one in found] == variables
    text = str([result.url, result.command, dict(result.env), dict(result.headers), result.token])
    assert SECRET not in text
    assert SECRET not in str(found)


@pytest.mark.parametrize(
    "given",
    [
        {"headers": {"Authorization": "Bearer ${TOKEN}", "X-Team": "blue", "X-Key": ""}},
        {"token": "${TOKEN}"},
        {"token_env": "TOKEN"},
        {"url": "https://docs.example/mcp?page=2&key=${KEY}"},
        {"url": "", "command": ("npx", "-y", "@example/tools", "--verbose"), "env": {"KEY": "${KEY}"}},
    ],
)
def test_what_holds_no_secret_stays_as_it_is(given: dict[str, Any]) -> None:
    place = ServerAddress(**{"url": "https://docs.example/mcp", **given})
    assert with_variables("docs", place) == (place, ())


@pytest.mark.parametrize("label", ["docs", "my.docs", "größe", "2docs", "-"])
def test_the_name_of_a_variable_is_one_that_every_shell_takes(label: str) -> None:
    [secret] = with_variables(label, ServerAddress(url="https://d.example", token=SECRET))[1]
    assert secret.variable.isascii()
    assert secret.variable.isidentifier()
    assert secret.variable == secret.variable.upper()
