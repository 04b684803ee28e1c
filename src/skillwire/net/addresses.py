"""Where a URL leads, and which redirects and targets are followed. Pure.

1. A public URL never leads to a private address or to this machine; a private one never to this machine.
   `net.http` checks the same on the address that is connected to; through a proxy and for git, the address
   as it is written counts.
2. A redirect stays on its host. It may go to another public host only if the bytes are pinned by a digest.
3. A target is https, or http as the URL that named it, and has no user name or password.
"""

from __future__ import annotations

import re
import unicodedata
from enum import IntEnum
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final
from urllib.parse import SplitResult, unquote, urljoin, urlsplit

from skillwire.errors import SourceError
from skillwire.text import redact_url

Address = IPv4Address | IPv6Address

# Other dots of domain names, which clients turn into plain ones.
_DOTS: Final = str.maketrans("\u3002\uff0e\uff61", "...")
_PART: Final = re.compile(r"0[xX]([0-9a-fA-F]*)|0([0-7]*)|([1-9][0-9]*)")
_EMBEDDED: Final = (ip_network("64:ff9b::/96"), ip_network("::/96"))
_LOCAL_NAMES: Final = ("localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback")
_PORTS: Final = {"http": 80, "https": 443}


class Reachability(IntEnum):
    """From where an address can be reached; the larger, the more public."""

    MACHINE = 0
    """Only from this machine."""
    LINK = 1
    """Only from the next cable, as the metadata service of a cloud provider."""
    PRIVATE = 2
    """Only from its own network."""
    PUBLIC = 3


def parse_address(host: str) -> Address | None:
    """The IP address that a host is, in any spelling that a connection accepts; `None` for a name.

    `127.1`, `0x7f.0.0.1`, `2130706433`, `[::ffff:127.0.0.1]` and `127.0.0.1.` are all the same address.
    """
    plain = _plain_host(host)
    try:
        return _unmapped(ip_address(plain.partition("%")[0]))
    except ValueError:
        pass
    parts = plain.split(".")
    if not 1 <= len(parts) <= 4:
        return None
    numbers: list[int] = []
    for part in parts:
        match = _PART.fullmatch(part)
        if match is None or len(part) > 16:
            return None
        hexadecimal, octal, decimal = match.groups()
        numbers.append(
            int(hexadecimal or "0", 16)
            if hexadecimal is not None
            else int(octal or "0", 8)
            if octal is not None
            else int(decimal)
        )
    *first, last = numbers
    if any(number > 255 for number in first) or last >= 256 ** (4 - len(first)):
        return None
    value = last
    for place, number in enumerate(first):
        value += number << (8 * (3 - place))
    return IPv4Address(value)


def reach_of(host: str) -> Reachability:
    """How far a host reaches, as it is written. A name counts as public unless it means this machine."""
    address = parse_address(host)
    if address is not None:
        return reach_of_address(address)
    name = _plain_host(host)
    is_here = name in _LOCAL_NAMES or name.endswith(".localhost")
    return Reachability.MACHINE if is_here else Reachability.PUBLIC


def reach_of_address(address: Address) -> Reachability:
    """How far an IP address reaches."""
    address = _unmapped(address)
    if address.is_loopback or address.is_unspecified:
        return Reachability.MACHINE
    if address.is_link_local or address.is_multicast:
        return Reachability.LINK
    return Reachability.PUBLIC if address.is_global else Reachability.PRIVATE


def is_loopback(url: str) -> bool:
    """Whether a URL is one of this machine."""
    return reach_of(_split(url).hostname or "") is Reachability.MACHINE


def check_target(url: str, target: str) -> None:
    """Refuse a target that `url` names, unless it may be fetched from there (rules 1 and 3)."""
    before, after = _split(url), _split(target)
    if not after.hostname or after.scheme not in ("https", "http") or "@" in after.netloc:
        raise _refused(url, target, "which is not the URL of a web site")
    is_here = is_loopback(url) and is_loopback(target)
    if after.scheme != "https" and after.scheme != before.scheme and not is_here:
        raise _refused(url, target, "which is less secure")
    if reach_of(after.hostname) < reach_of(before.hostname or ""):
        raise _refused(url, target, "an address of this machine or of a private network")


def redirect_target(url: str, location: str, *, is_pinned: bool) -> str:
    """Where a redirect leads, or a `SourceError` if it is not followed (rules 1, 2 and 3)."""
    try:
        target = urljoin(url, location)
    except ValueError:
        raise SourceError(f"{redact_url(url)} leads to something that is not a valid URL") from None
    check_target(url, target)
    if not is_pinned and not is_same_host(url, target):
        raise _refused(url, target, "another host: name that one if you trust it")
    return target


def is_same_host(url: str, target: str) -> bool:
    """Whether a target is on the same host and port, or on its port for https."""
    before, after = _split(url), _split(target)
    if _plain_host(before.hostname or "") != _plain_host(after.hostname or ""):
        return False
    ports = [_port(parts) for parts in (before, after)]
    return ports[0] == ports[1] or ports == [80, 443]


def _port(parts: SplitResult) -> int | None:
    try:
        return parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return None


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError:
        raise SourceError("it is not a valid URL: check the part after ://") from None


def _plain_host(host: str) -> str:
    plain = unicodedata.normalize("NFKC", unquote(host).translate(_DOTS)).translate(_DOTS).lower()
    return plain.strip("[]").removesuffix(".")


def _unmapped(address: Address) -> Address:
    """The IPv4 address inside an IPv6 one that stands for it."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address.sixtofour is not None:
            return address.sixtofour
        # `::` and `::1` are addresses of their own.
        if any(address in network for network in _EMBEDDED) and int(address) > 1:
            return IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def _refused(url: str, target: str, why: str) -> SourceError:
    return SourceError(f"{redact_url(url)} leads to {redact_url(target)}, {why}; it is not followed")
