"""No secret of a URL, a command or a server's own words reaches a screen, a log or a report."""

from __future__ import annotations

import pytest

from skillwire.text import redact, redact_url, secrets_in_arguments, secrets_in_urls
from steps import count_steps

SECRET = "s3cr3tT0ken99"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://host", "http://host"),
        ("https://host:8443/mcp", "https://host:8443/mcp"),
        ("https://gateway.example/team-a/v1/mcp/", "https://gateway.example/team-a/v1/mcp/"),
        ("https://[::1]:8000/mcp", "https://[::1]:8000/mcp"),
        ("https://müller.example/straße", "https://müller.example/straße"),
        (f"http://host?token={SECRET}", "http://host?…"),
        (f"http://host/?token={SECRET}", "http://host/?…"),
        (f"http://host/mcp?a=1&key={SECRET}#x", "http://host/mcp?…"),
        (f"http://host#{SECRET}", "http://host"),
        (f"http://host/mcp#access_token={SECRET}", "http://host/mcp"),
        (f"http://host#?token={SECRET}", "http://host"),
        (f"https://user:{SECRET}@host/mcp", "https://host/mcp"),
        (f"https://{SECRET}@host/mcp", "https://host/mcp"),
        (f"https://user:p@{SECRET}@host/mcp", "https://host/mcp"),
        (f"https://user:a/{SECRET}@host/mcp", "https://…"),
        (f"https://user:a?{SECRET}@host/mcp", "https://…"),
        (f"https://host\\@{SECRET}/mcp", "https://…"),
        (f"https://host/{SECRET}/mcp", "https://host/…/mcp"),
        ("https://host/s/0e6ff1c2-9c1c-4c5e-8f3a-0a9b8c7d6e5f/mcp", "https://host/s/…/mcp"),
        ("https://host/token/hunter/mcp", "https://host/token/…/mcp"),
        (f"https://host/mcp;jsessionid={SECRET}", "https://host/…"),
        (f"https://host/%73{SECRET}", "https://host/…"),
        (f"postgresql://app:{SECRET}@db.example:5432/shop", "postgresql://db.example:5432/shop"),
        (f"redis://:{SECRET}@cache:6379/0", "redis://cache:6379/0"),
        (f"mongodb+srv://u:{SECRET}@c0.example/db?authSource=admin", "mongodb+srv://c0.example/db?…"),
        (f"http://host:{SECRET}/mcp", "http://…"),
        (f"http://ho st/{SECRET}", "http://…"),
        ("http://", "http://…"),
        (SECRET, "…"),
        (f"{SECRET} http://host", "…"),
        (f"//user:{SECRET}@host", "…"),
        ("", ""),
    ],
)
def test_a_url_is_shown_without_what_may_be_secret(url: str, shown: str) -> None:
    assert redact_url(url) == shown
    assert SECRET not in redact_url(url)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("nothing to hide: see https://host/docs?page=2", "nothing to hide: see https://host/docs?page=2"),
        (
            f"could not connect to postgresql://app:{SECRET}@db/shop: refused",
            "could not connect to postgresql://***@db/shop: refused",
        ),
        (f"GET http://host/x?api_key={SECRET}&n=1", "GET http://host/x?api_key=***&n=1"),
        (f"GET http://host?token={SECRET}", "GET http://host?token=***"),
        (f"Authorization: Bearer {SECRET} was refused", "Authorization: Bearer *** was refused"),
        ("authorization: basic dXNlcjpwYXNz", "authorization: basic ***"),
    ],
)
def test_a_credential_is_recognized_by_its_form(text: str, shown: str) -> None:
    assert redact(text) == shown


def test_what_a_server_was_given_is_starred_wherever_it_repeats_it() -> None:
    text = f"env K={SECRET}, part of {SECRET}-and-more, short abc"
    assert redact(text, [SECRET, f"{SECRET}-and-more", "abc", ""]) == "env K=***, part of ***, short abc"


@pytest.mark.parametrize(
    ("command", "secrets"),
    [
        (["npx", "--token", SECRET], [SECRET]),
        (["npx", f"--api-key={SECRET}"], [SECRET]),
        (["env", f"DB_PASSWORD={SECRET}", "server"], [SECRET]),
        (["npx", "server-postgres", f"postgresql://app:{SECRET}@db/shop"], [SECRET]),
        (["x", f"--dsn=mysql://app:{SECRET}@db/shop"], [SECRET]),
        (["x", "redis://:p%40ssw0rd@cache"], ["p%40ssw0rd", "p@ssw0rd"]),
        (["x", f"https://{SECRET}@host"], [SECRET]),
        (["x", f"https://host/mcp?code={SECRET}"], [SECRET]),
        (["npx", "-y", "@scope/auth-server", "production"], []),
    ],
)
def test_the_secrets_among_the_arguments_of_a_command_are_found(
    command: list[str], secrets: list[str]
) -> None:
    assert secrets_in_arguments(command) == secrets


def test_every_url_in_a_text_is_searched_for_secrets() -> None:
    assert secrets_in_urls(f"a://u:{SECRET}@h and 'b://{SECRET}2@h'") == [SECRET, f"{SECRET}2"]


@pytest.mark.requirement("SEC-9")
@pytest.mark.parametrize(
    "unit", ["x", "?", "?key", "&token", "a://", "a:", "://", "Bearer ", "http://a@", "x.+-", "?sig;", "@"]
)
def test_redacting_a_text_takes_steps_in_proportion_to_its_length(unit: str) -> None:
    def steps(length: int, most: int) -> int:
        text = unit * (length // len(unit))
        return count_steps(lambda: (redact(text, ["s3cr3t"]), secrets_in_urls(text)), most=most)

    steps(800, most=round(2.3 * steps(400, most=10_000_000)))
