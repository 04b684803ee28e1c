"""Where a URL leads: every spelling of an address, and which redirects and targets are followed."""

from __future__ import annotations

import pytest

from skillwire.errors import SourceError
from skillwire.net import check_target
from skillwire.net.addresses import (
    Reachability,
    is_loopback,
    is_same_host,
    parse_address,
    reach_of,
    redirect_target,
)

HERE = [
    "127.0.0.1",
    "127.1",
    "127.0.1",
    "2130706433",
    "0x7f000001",
    "0x7f.1",
    "0177.0.0.1",
    "017700000001",
    "127.0.0.1.",
    "127.255.255.254",
    "0.0.0.0",
    "0",
    "[::1]",
    "[::]",
    "[0:0:0:0:0:0:0:1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::127.0.0.1]",
    "[64:ff9b::127.0.0.1]",
    "[2002:7f00:1::]",
    "[::1%lo]",
    "localhost",
    "LOCALHOST",
    "localhost.",
    "a.localhost",
    "ip6-localhost",
    "%31%32%37.0.0.1",
    "\uff11\uff12\uff17.0.0.1",
    "127\u30020\u30020\uff611",
]
LINK = ["169.254.169.254", "[fe80::1]", "[::ffff:169.254.169.254]", "224.0.0.1", "2852039166"]
PRIVATE = ["10.0.0.1", "10.1", "192.168.1.1", "172.16.0.1", "100.64.0.1", "[fd00::1]", "[::ffff:10.0.0.1]"]
PUBLIC = ["example.org", "93.184.215.14", "8.8.8.8", "[2606:2800::1]", "127.evil.example", "1.2.3.4.5"]
PUBLIC += ["localhost.example.org", "256.1.1.1", "127.0.0.0.1", "1" * 40, "08.1"]


@pytest.mark.parametrize(
    ("host", "reach"),
    [
        *((host, Reachability.MACHINE) for host in HERE),
        *((host, Reachability.LINK) for host in LINK),
        *((host, Reachability.PRIVATE) for host in PRIVATE),
        *((host, Reachability.PUBLIC) for host in PUBLIC),
    ],
)
def test_every_spelling_of_an_address_is_that_address(host: str, reach: Reachability) -> None:
    assert reach_of(host) is reach


def test_a_name_is_no_address() -> None:
    assert parse_address("example.org") is None
    assert str(parse_address("0x7f.1")) == "127.0.0.1"
    assert is_loopback("http://127.1:80/x")
    assert not is_loopback("http://[fe80::1]/x")


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("https://example.org/a", "https://cdn.example.com/b"),
        ("http://example.org/a", "http://cdn.example.com/b"),
        ("http://example.org/a", "https://cdn.example.com/b"),
        ("http://127.0.0.1:1/", "http://localhost:2/"),
        ("https://127.0.0.1:1/", "http://localhost:2/"),
        ("http://127.0.0.1/", "http://10.0.0.1/"),
        ("http://10.0.0.1/", "http://example.org/"),
    ],
)
def test_a_target_that_reaches_as_far_is_followed(url: str, target: str) -> None:
    check_target(url, target)


@pytest.mark.parametrize(
    ("url", "target", "reason"),
    [
        *(("http://example.org/", f"http://{host}/", "an address of this machine") for host in HERE[:20]),
        ("http://example.org/", "http://169.254.169.254/latest", "an address of this machine"),
        ("http://example.org/", "http://10.0.0.1/", "private network"),
        ("http://10.0.0.1/", "http://127.0.0.1/", "an address of this machine"),
        ("http://10.0.0.1/", "http://169.254.169.254/", "an address of this machine"),
        ("https://example.org/", "http://example.org/", "less secure"),
        ("https://example.org/", "file:///etc/passwd", "not the URL of a web site"),
        ("https://example.org/", "https://me:pass@example.org/", "not the URL of a web site"),
        ("https://example.org/", "http://[x", "not a valid URL"),
    ],
)
def test_a_target_that_does_not_is_refused(url: str, target: str, reason: str) -> None:
    with pytest.raises(SourceError, match=reason):
        check_target(url, target)
    with pytest.raises(SourceError, match=reason):
        redirect_target(url, target, is_pinned=True)


@pytest.mark.parametrize(
    ("location", "target"),
    [
        ("/b", "https://example.org/b"),
        ("https://EXAMPLE.org./b", "https://EXAMPLE.org./b"),
        ("https://example.org:443/b", "https://example.org:443/b"),
    ],
)
def test_a_redirect_on_its_host_is_followed(location: str, target: str) -> None:
    assert redirect_target("https://example.org/a", location, is_pinned=False) == target


def test_a_redirect_to_https_is_followed() -> None:
    assert redirect_target("http://example.org/a", "https://example.org/a", is_pinned=False)


@pytest.mark.parametrize(
    "location", ["https://www.example.org/a", "https://example.org:8443/a", "//other.example/a"]
)
def test_a_redirect_to_another_host_is_followed_only_for_pinned_bytes(location: str) -> None:
    with pytest.raises(SourceError, match="another host: name that one"):
        redirect_target("https://example.org/a", location, is_pinned=False)
    assert redirect_target("https://example.org/a", location, is_pinned=True)
    assert not is_same_host("https://example.org/a", f"https:{location.removeprefix('https:')}")
