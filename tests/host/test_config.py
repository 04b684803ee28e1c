"""A server's configuration shows where the server is, and nothing that could be secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from skillwire.errors import SourceError
from skillwire.host import ServerConfig
from skillwire.host.config.server import parse_server

SECRET = "s3cr3t"


@pytest.mark.parametrize(
    ("config", "place"),
    [
        (
            ServerConfig(url=f"https://user:{SECRET}@shop.example:8443/{SECRET}/mcp"),
            "https://shop.example:8443/…/mcp",
        ),
        (ServerConfig(url=f"https://shop.example?key={SECRET}"), "https://shop.example?…"),
        (ServerConfig(url=f"https://shop.example#{SECRET}"), "https://shop.example"),
        (ServerConfig(url="http://x\x1b[31m/mcp"), "http://…"),
        (ServerConfig(command=("npx", "-y", f"--key={SECRET}")), "npx"),
        (ServerConfig(instance=object()), "in this process"),
    ],
)
def test_the_place_of_a_server_is_shown_without_what_could_be_secret(
    config: ServerConfig, place: str
) -> None:
    assert config.place == place
    assert SECRET not in repr(config)


def test_the_repr_of_a_server_has_no_token_header_or_variable() -> None:
    http = ServerConfig(url="https://a.example/mcp", token=SECRET, headers={"X-Key": SECRET})
    stdio = ServerConfig(command=("a",), env={"KEY": SECRET})
    assert SECRET not in f"{http!r}{stdio!r}{[http, stdio]}"


@pytest.mark.parametrize(
    ("given", "config"),
    [
        ("https://a.example/mcp", ServerConfig(url="https://a.example/mcp")),
        ("npx -y 'a b'", ServerConfig(command=("npx", "-y", "a b"), directory=str(Path.cwd()))),
        (
            "serve --at http://x",
            ServerConfig(command=("serve", "--at", "http://x"), directory=str(Path.cwd())),
        ),
        (ServerConfig(command=("a",)), ServerConfig(command=("a",))),
    ],
)
def test_a_server_is_given_as_a_url_a_command_or_a_config(
    given: str | ServerConfig, config: ServerConfig
) -> None:
    assert parse_server(given) == config


@pytest.mark.parametrize("given", [f"ftp://{SECRET}", f"npx '{SECRET}", "", "   "])
def test_what_is_no_server_is_refused_without_quoting_it(given: str) -> None:
    with pytest.raises(SourceError) as refused:
        parse_server(given)
    assert SECRET not in str(refused.value)


def test_a_server_has_one_place() -> None:
    with pytest.raises(SourceError, match="exactly one"):
        ServerConfig(url="https://a.example", command=("a",))
